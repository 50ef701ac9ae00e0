package stratosdown

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

const (
	poolName = "pool"
	// team is a namespace that has opted in.
	team        = "team"
	certManager = "cert-manager"
)

// site is a cluster with the chart of one set of values and two replicas of Stratos.
type site struct {
	*framework.Rig
	chart         *assert.Chart
	identity      string
	first, second *assert.Replica
}

// newSite applies the chart; the replicas do not run yet. A careless user has opted in the very
// namespaces that must not depend on Stratos.
func newSite(t *testing.T, set string) *site {
	t.Helper()
	s := &site{chart: assert.ReadChart(t, set)}
	s.Rig = assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{DefaultScheduler: true}, Cloud: assert.FastCloud(), NoStratos: true,
		NoScheduler: true,
	})
	assert.Join(t, s.Rig, assert.Ordinary("ordinary-1", 8), assert.Ordinary("ordinary-2", 8))
	s.first, s.second = s.chart.Replica(t, s.Rig, "stratos-1"), s.chart.Replica(t, s.Rig, "stratos-2")
	s.chart.AnswerAt(t, s.second.Webhook, assert.CA(t, s.Rig))
	if !slices.ContainsFunc(s.chart.Objects,
		func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" }) {
		if err := crds.Install(t.Context(), s.Client); err != nil { // as docs/install.md has it for this set
			t.Fatal(err)
		}
	}
	s.chart.Apply(t, s.Rig, "Certificate", "Issuer")
	for _, name := range []string{team, certManager, assert.ReleaseNamespace, metav1.NamespaceSystem} {
		assert.OptIn(t, s.Rig, name)
	}
	s.identity = s.chart.Identity(t, s.Rig)
	return s
}

func (s *site) start(t *testing.T) {
	t.Helper()
	s.first.Start(t, s.Rig, s.identity)
	s.second.Start(t, s.Rig, s.identity)
}

// warm makes the pool, through the webhooks.
func (s *site) warm(t *testing.T, size int32) {
	t.Helper()
	assert.Warm(t, s.Rig, framework.Pool(poolName, size), framework.Class(poolName, "m5.xlarge"))
}

// poolPod takes a node of the pool for itself.
func poolPod(name, scheduler string) *corev1.Pod {
	pod := framework.PoolPod(name, poolName, "cpu", "3")
	pod.Spec.SchedulerName = scheduler
	return pod
}

// plain is a pod that names no scheduler and fits on a node without Stratos.
func plain(name, namespace string) *corev1.Pod {
	pod := framework.Pod(name, "cpu", "100m")
	pod.Namespace, pod.Spec.SchedulerName = namespace, ""
	return pod
}

// awaitPods waits until the Deployment has its pods and all are bound to nodes without Stratos.
// None is one of the UIDs.
func (s *site) awaitPods(t *testing.T, d *appsv1.Deployment, but map[string]bool) map[string]bool {
	t.Helper()
	uids := map[string]bool{}
	assert.Await(t, "pods of "+d.Name, func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := s.Client.List(ctx, list, client.InNamespace(d.Namespace),
			client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
			return false, err
		}
		clear(uids)
		for i := range list.Items {
			p := &list.Items[i]
			if but[string(p.UID)] {
				continue
			}
			if !strings.HasPrefix(p.Spec.NodeName, "ordinary-") || p.Spec.SchedulerName != corev1.DefaultSchedulerName {
				return false, fmt.Errorf("pod %s of scheduler %s is on node %q: %s", p.Name, p.Spec.SchedulerName, p.Spec.NodeName,
					framework.WhyPending(p))
			}
			uids[string(p.UID)] = true
		}
		if want := int(*d.Spec.Replicas); len(uids) != want {
			return false, fmt.Errorf("%d pods, want %d", len(uids), want)
		}
		return true, nil
	})
	return uids
}

// certManagers stands for cert-manager: pods without a word on scheduling, in the namespace that
// the chart leaves out.
func certManagers() *appsv1.Deployment {
	one, of := int32(1), framework.DaemonSet(certManager, plain("", "").Spec).Spec
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: certManager, Name: certManager}}
	d.Spec.Replicas, d.Spec.Selector, d.Spec.Template = &one, of.Selector, of.Template
	return d
}

// lose deletes the Deployment's pods as the loss of their node does.
func (s *site) lose(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	err := s.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(d.Namespace),
		client.MatchingLabels(d.Spec.Selector.MatchLabels), client.GracePeriodSeconds(0))
	if err != nil {
		t.Fatal(err)
	}
}
