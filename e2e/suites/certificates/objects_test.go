package certificates

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// Names in the documents.
const (
	namespace       = assert.ReleaseNamespace
	rootSecret      = "stratos-ca"
	servingSecret   = "stratos-serving"
	schedulerSecret = "stratos-scheduler-client"
	webhookName     = "stratos-webhook." + namespace + ".svc"
	extenderName    = "stratos-extender." + namespace + ".svc"
)

// install applies the chart whose extender is exposed and waits until every Certificate among them
// is Ready. The Deployment is left out: no kubelet here runs pods, and the process that a test
// starts stands for its container.
func install(t *testing.T, r *framework.Rig) installation {
	t.Helper()
	i := installation{chart: assert.ReadChart(t, "exposed")}
	i.chart.Apply(t, r, "Deployment")
	for _, o := range i.chart.Objects {
		if o.GetKind() == "Certificate" {
			i.certificates = append(i.certificates, o)
		}
	}
	for _, c := range i.certificates {
		awaitIssued(t, r, c, 1)
	}
	return i
}

// certificateFlags are the flags of the Deployment's container that name certificates, with the
// folder of the test in place of the one that the serving Secret is mounted at.
func (i installation) certificateFlags(t *testing.T, dir string) []string {
	t.Helper()
	pod := i.chart.Deployment(t).Spec.Template.Spec
	mounted := mountOf(t, pod, servingSecret)
	var flags []string
	for _, flag := range pod.Containers[0].Args {
		if strings.HasPrefix(flag, "--cert-dir=") || strings.HasPrefix(flag, "--client-ca=") {
			flags = append(flags, strings.Replace(flag, mounted, dir, 1))
		}
	}
	if want := []string{"--cert-dir=" + dir, "--client-ca=" + filepath.Join(dir, "ca.crt")}; !slices.Equal(flags, want) {
		t.Fatalf("the container is given %v, want %v", flags, want)
	}
	return flags
}

// mountOf is where the first container finds the Secret.
func mountOf(t *testing.T, pod corev1.PodSpec, secret string) string {
	t.Helper()
	for _, v := range pod.Volumes {
		for _, m := range pod.Containers[0].VolumeMounts {
			if v.Secret != nil && v.Secret.SecretName == secret && m.Name == v.Name {
				return m.MountPath
			}
		}
	}
	t.Fatalf("Secret %s is not mounted", secret)
	return ""
}

// awaitIssued waits until the Certificate is Ready with at least that revision, and nothing is
// being issued any more.
func awaitIssued(t *testing.T, r *framework.Rig, c *unstructured.Unstructured, revision int64) {
	t.Helper()
	assert.AwaitObject(t, r, c, fmt.Sprintf("issued with revision %d", revision), func(c *unstructured.Unstructured) bool {
		got, _, _ := unstructured.NestedInt64(c.Object, "status", "revision")
		return got >= revision && framework.ConditionOf(c, "Ready") == "True" && framework.ConditionOf(c, "Issuing") != "True"
	})
}

// renew has cert-manager issue the Certificate anew, in the way of `cmctl renew`, and waits until
// it has.
func renew(t *testing.T, r *framework.Rig, certificates ...*unstructured.Unstructured) {
	t.Helper()
	for _, c := range certificates {
		revision := triggerRenewal(t, r, c)
		awaitIssued(t, r, c, revision+1)
	}
}

// triggerRenewal returns the revision that is to be surpassed. A controller may write the status at
// any time, so it tries until its own write counts.
func triggerRenewal(t *testing.T, r *framework.Rig, c *unstructured.Unstructured) (revision int64) {
	t.Helper()
	assert.Await(t, "renewal of certificate "+c.GetName(), func(ctx context.Context) (bool, error) {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return false, err
		}
		var err error
		if revision, _, err = unstructured.NestedInt64(c.Object, "status", "revision"); err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(c.Object, "status", "conditions")
		if err != nil {
			return false, err
		}
		conditions = append(conditions, map[string]any{"type": "Issuing", "status": "True", "reason": "ManuallyTriggered",
			"message": "renewed by a test"})
		if err := unstructured.SetNestedSlice(c.Object, conditions, "status", "conditions"); err != nil {
			return false, err
		}
		err = r.Client.Status().Update(ctx, c)
		return err == nil, err
	})
	return revision
}

// leaves are the Certificates that are no CA.
func leaves(certificates []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(certificates), isCA)
}

func isCA(c *unstructured.Unstructured) bool {
	is, _, _ := unstructured.NestedBool(c.Object, "spec", "isCA")
	return is
}

func root(t *testing.T, certificates []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	at := slices.IndexFunc(certificates, isCA)
	if at < 0 {
		t.Fatal("no certificate is a CA")
	}
	return certificates[at]
}
