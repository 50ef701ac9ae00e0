package ec2

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestKubeadmPool: the machines of a class of the family Kubeadm join by the tokens that Stratos
// makes for their launches, warm up, stop and serve a pod. By then no token is left. A machine with
// a token that Stratos did not make has no Node.
func TestKubeadmPool(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "tls.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("key of the tokens ", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := assert.NewRig(t, framework.Options{
		// As kubeadm sets it.
		ControlPlane: controlplane.Options{APIServerArgs: []string{"--enable-bootstrap-token-auth=true"}},
		Provider:     framework.ProviderAWS, Cloud: assert.FastCloud(),
		Stratos: []string{"--bootstrap-token-key-file=" + key},
	})
	assert.Create(t, r, clusterInfo())
	class := framework.BootstrapClass("kubeadm", "m5.large")
	class.Spec.AMI, class.Spec.AMISelector = framework.Class("kubeadm", "m5.large").Spec.AMI, nil
	class.Spec.Bootstrap.Family = v1alpha1.FamilyKubeadm
	stranger, err := r.Cloud.LaunchInstance(t.Context(), class, provider.LaunchRequest{
		Registration: provider.Registration{BootstrapToken: "abcdef.0123456789abcdef"}})
	if err != nil {
		t.Fatal(err)
	}
	pool := framework.Pool("kubeadm", 2)
	assert.Create(t, r, class, pool)
	assert.AwaitAllStandby(t, r, pool.Name, 2)
	node := assert.Serve(t, r, framework.Pod("served", "cpu", "1"))
	if assert.PoolNodes(t, r, pool.Name)[node] == nil {
		t.Errorf("the pod runs on %s, which is no node of the pool", node)
	}
	if left := bootstrapTokens(t, r); len(left) > 0 {
		t.Errorf("tokens %q are left", left)
	}

	checkHasNoNode(t, r, stranger.ID)
}

// clusterInfo is what kubeadm publishes of the cluster that the played machines join.
func clusterInfo() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data: map[string]string{"kubeconfig": fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster:\n"+
			"    server: %s\n    certificate-authority-data: %s\n", simcloud.ClusterEndpoint, simcloud.ClusterCA())},
	}
}

// bootstrapTokens are the names of the tokens' Secrets.
func bootstrapTokens(t *testing.T, r *framework.Rig) []string {
	t.Helper()
	list := &corev1.SecretList{}
	if err := r.Client.List(t.Context(), list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].Type == corev1.SecretTypeBootstrapToken {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}
