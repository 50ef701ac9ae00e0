package suite

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestInstalledByHelm: what kind.sh installed as the README says works as a whole.
func TestInstalledByHelm(t *testing.T) {
	l := cluster.New(t)
	t.Run("certificates are Ready", func(t *testing.T) { certificatesAreReady(t, l) })
	t.Run("admission answers", func(t *testing.T) { admissionAnswers(t, l) })
	t.Run("the dedicated scheduler asks the extender", func(t *testing.T) { schedulerAsks(t, l) })
	t.Run("helm test finds nothing wrong", func(t *testing.T) { helmTest(t, l) })
}

// helmTest: stratos check as Stratos, with the chart's permissions. They go when it has ended.
func helmTest(t *testing.T, l *cluster.Cluster) {
	l.AwaitRelease(t)
	out, err := l.RunHelm(t.Context(), "test", cluster.Release, "--namespace", cluster.ReleaseNamespace,
		"--timeout=10m")
	if err != nil {
		t.Errorf("helm test: %v\n%s", err, out)
	}
	out, err = kubectl(t.Context(), "--namespace", cluster.ReleaseNamespace, "logs", cluster.Release+"-check")
	if t.Log(out); err != nil {
		t.Fatalf("kubectl logs: %v", err)
	}
	for _, check := range []string{
		"identity", "kubernetes", "crds", "admission", "leases", "scheduler", "classes", "pools",
	} {
		if !regexp.MustCompile(`(?m)^ok +` + check + ` `).MatchString(out) {
			t.Errorf("%s is not ok", check)
		}
	}
	if !strings.Contains(out, "system:serviceaccount:"+cluster.ReleaseNamespace+":stratos") {
		t.Error("it is not run as Stratos")
	}
	for _, kind := range []string{"clusterrole", "clusterrolebinding"} {
		name := cluster.ReleaseNamespace + ":" + cluster.Release + "-check"
		if out, err := kubectl(t.Context(), "get", kind, name); err == nil || !strings.Contains(out, "NotFound") {
			t.Errorf("the permissions of the test are left: %v: %s", err, out)
		}
	}
}

func certificatesAreReady(t *testing.T, l *cluster.Cluster) {
	certificates := &unstructured.UnstructuredList{}
	certificates.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1",
		Kind: "CertificateList"})
	cluster.Await(t, "certificates", func(ctx context.Context) (bool, error) {
		if err := l.Client.List(ctx, certificates, client.InNamespace(cluster.ReleaseNamespace)); err != nil {
			return false, err
		}
		for _, c := range certificates.Items {
			if !isReady(c) {
				return false, fmt.Errorf("certificate %s is not Ready", c.GetName())
			}
		}
		return len(certificates.Items) > 0, nil
	})
}

func isReady(object unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Ready" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// admissionAnswers: the defaults are written by the webhook, and a pool of a class that does not
// exist is taken with its warning or refused by it; what no rule of the CRD can know is found by
// the webhook alone.
func admissionAnswers(t *testing.T, l *cluster.Cluster) {
	l.Namespace(t, "opted-in")
	l.Create(t, cluster.Workload{Name: "defaulted", Namespace: "opted-in", Pool: "none", Image: "none", CPU: "10m",
		Replicas: 1}.Deployment())
	cluster.Await(t, "a pod of the opted-in namespace", func(ctx context.Context) (bool, error) {
		pods, err := l.Pods(ctx, "opted-in", "defaulted")
		if err != nil || len(pods) == 0 {
			return false, err
		}
		if got := pods[0].Spec.SchedulerName; got != "stratos-scheduler" {
			t.Fatalf("the webhook for pods did not answer: schedulerName is %q", got)
		}
		return true, nil
	})
	faulty := poolOf("faulty", 1, 1, "not an image")
	err := l.Client.Create(t.Context(), faulty)
	if err == nil {
		_ = l.Client.Delete(t.Context(), faulty)
		t.Fatal("a pool with a faulty image name was taken")
	}
	if !strings.Contains(err.Error(), "imagesToPull") {
		t.Errorf("the refusal does not name the field: %v", err)
	}
}

// schedulerAsks: a pod that in-tree filters let onto the control plane alone is asked about, and it
// is the extender that refuses, by the node's taint.
func schedulerAsks(t *testing.T, l *cluster.Cluster) {
	asked := func() float64 { return l.Metric(t, "stratos_extender_requests_total", `verb="filter"`) }
	before := asked()
	l.Namespace(t, "asked")
	w := cluster.Workload{Name: "untolerated", Namespace: "asked", Image: "none", CPU: "10m", Replicas: 1,
		Selector: map[string]string{"node-role.kubernetes.io/control-plane": ""}}
	l.Create(t, w.Deployment())
	cluster.Await(t, "a call of /filter", func(context.Context) (bool, error) { return asked() > before, nil })
	cluster.Await(t, "the extender's refusal on the pod", func(ctx context.Context) (bool, error) {
		pods, err := l.Pods(ctx, "asked", "untolerated")
		if err != nil || len(pods) == 0 {
			return false, err
		}
		for _, c := range pods[0].Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "untolerated taint") {
				return true, nil
			}
		}
		return false, fmt.Errorf("conditions: %v", pods[0].Status.Conditions)
	})
}
