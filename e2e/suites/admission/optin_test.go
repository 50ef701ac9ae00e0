package admission

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// seen is what the webhook may change of a pod.
type seen struct {
	Scheduler   string
	Tolerations []corev1.Toleration
}

// created returns what the API server makes of the pod, without what its own admission adds to
// every pod.
func (g *site) created(ctx context.Context, pod *corev1.Pod) (seen, error) {
	if err := g.client.Create(ctx, pod, client.DryRunAll); err != nil {
		return seen{}, err
	}
	s := seen{Scheduler: pod.Spec.SchedulerName}
	for _, toleration := range pod.Spec.Tolerations {
		if toleration.Key != corev1.TaintNodeNotReady && toleration.Key != corev1.TaintNodeUnreachable {
			s.Tolerations = append(s.Tolerations, toleration)
		}
	}
	return s, nil
}

func TestNamespaceOptIn(t *testing.T) {
	t.Parallel()
	g := newSite(t)
	for _, name := range []string{"opted-in", "kube-system", "cert-manager", "stratos-system"} {
		assert.OptIn(t, g.Rig, name)
	}
	assert.Namespace(t, g.Rig, "plain", nil)
	assert.Namespace(t, g.Rig, "declined", map[string]string{v1alpha1.LabelScheduler: "disabled"})
	assert.Await(t, "the webhook of pods asked", func(ctx context.Context) (bool, error) {
		s, err := g.created(ctx, podIn("opted-in", nil))
		return s.Scheduler == v1alpha1.SchedulerName, err
	})
	dedicated := corev1.Toleration{Key: v1alpha1.TaintDedicated, Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoSchedule}
	other := corev1.Toleration{Key: "team", Operator: corev1.TolerationOpExists}
	untouched := seen{Scheduler: corev1.DefaultSchedulerName}
	given := seen{Scheduler: v1alpha1.SchedulerName, Tolerations: []corev1.Toleration{dedicated}}
	for name, c := range map[string]struct {
		namespace string
		change    func(*corev1.Pod)
		want      seen
	}{
		"an opted-in namespace":   {"opted-in", nil, given},
		"a namespace without it":  {"plain", nil, untouched},
		"another value":           {"declined", nil, untouched},
		"kube-system, labelled":   {"kube-system", nil, untouched},
		"cert-manager, labelled":  {"cert-manager", nil, untouched},
		"Stratos's own, labelled": {"stratos-system", nil, untouched},
		"a toleration of its own": {
			"opted-in", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{other} },
			seen{v1alpha1.SchedulerName, []corev1.Toleration{other, dedicated}},
		},
		"the toleration already": {
			"opted-in", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{dedicated} }, given,
		},
		"our scheduler by name": {
			"opted-in", func(p *corev1.Pod) { p.Spec.SchedulerName = v1alpha1.SchedulerName }, given,
		},
		"another scheduler": {
			"opted-in", func(p *corev1.Pod) { p.Spec.SchedulerName = "batch" }, seen{Scheduler: "batch"},
		},
		"a pod to be ignored": {
			"opted-in", func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationIgnore: "true"} }, untouched,
		},
		"a pod of a DaemonSet": {"opted-in", func(p *corev1.Pod) {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "1",
				Controller: &yes}}
		}, untouched},
		"a pod with its node by name": {"opted-in", func(p *corev1.Pod) { p.Spec.NodeName = "node" }, untouched},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := g.created(t.Context(), podIn(c.namespace, c.change))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("scheduler and tolerations (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a node of a dedicated pool starts", g.testDedicatedPool)
}

// testDedicatedPool: nothing in the pod's own YAML knows of Stratos.
func (g *site) testDedicatedPool(t *testing.T) {
	pool := framework.Pool("dedicated", 1)
	pool.Spec.Template.Taints = []corev1.Taint{{Key: v1alpha1.TaintDedicated, Value: "team-a",
		Effect: corev1.TaintEffectNoSchedule}}
	assert.Warm(t, g.Rig, pool, framework.Class("dedicated", "m5.large"))
	pod := podIn("opted-in", nil)
	assert.Create(t, g.Rig, pod)
	assert.AwaitBound(t, g.Rig, pod)
}

// podIn is a pod as people write it, without a scheduler.
func podIn(namespace string, change func(*corev1.Pod)) *corev1.Pod {
	pod := framework.Pod("main", "cpu", "1")
	pod.Namespace, pod.Spec.SchedulerName = namespace, ""
	if change != nil {
		change(pod)
	}
	return pod
}
