package exactstarts

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestClaimsAreMadeAhead: no scheduler runs, so that nothing but one question, or one pod that is
// called unschedulable, can be why each pod of its shape gets its claim.
func TestClaimsAreMadeAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t, framework.Options{NoStratos: true, NoScheduler: true}, corev1.PreemptNever)
	s, err := r.StartStratos(t.Context(), "stratos")
	if err != nil {
		t.Fatal(err)
	}
	warm(t, r, []pool{{four, 12, 10}, {eight, 7, 10}, {few, 22, 10}})
	assert.SetTimes(t, r, fake.Times{Boot: time.Hour}) // a node that runs names no claims any more
	t.Run("replicas to come", func(t *testing.T) { replicasToCome(t, r, s) })
	for name, row := range map[string]struct {
		pool      string
		scheduler string
		begin     func(*testing.T, *corev1.Pod)
		need      int
	}{
		"one question": {four, v1alpha1.SchedulerName, func(t *testing.T, p *corev1.Pod) {
			awaitSeen(t, r)
			var candidates []string
			for node := range assert.PoolNodes(t, r, four) {
				candidates = append(candidates, node)
			}
			if _, err := framework.AskFilter(t.Context(), s.Extender, p, candidates...); err != nil {
				t.Fatal(err)
			}
		}, 10},
		"one pod that is called unschedulable": {eight, corev1.DefaultSchedulerName, func(t *testing.T, p *corev1.Pod) {
			callUnschedulable(t, r, p)
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			burst := each(named(row.pool, pods(40, "cpu", "1")), only(row.pool), func(p *corev1.Pod) {
				p.Spec.SchedulerName = row.scheduler
				p.Labels["batch.kubernetes.io/job-name"] = p.Name // a label that nothing reads
			})
			create(t, r, assert.Objects(burst)...)
			row.begin(t, burst[0])
			nodes := assert.AwaitNodes(t, r, row.pool, "each pod has a claim on one", func(nodes map[string]*corev1.Node) bool {
				return len(claimed(nodes)) == len(burst)
			})
			starting := 0
			for _, n := range nodes {
				if assert.StateOf(n) == v1alpha1.StateStarting {
					starting++
				}
			}
			if starting != row.need {
				t.Errorf("%d nodes start, want %d", starting, row.need)
			}
		})
	}
}

func callUnschedulable(t *testing.T, r *framework.Rig, p *corev1.Pod) {
	t.Helper()
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "0/19 nodes are available"}}
	if err := r.Client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// awaitSeen waits until Stratos has seen all pods that there are. Its watch shows them in their
// order, so that is when one that comes last, and is called unschedulable, has its claim.
func awaitSeen(t *testing.T, r *framework.Rig) {
	t.Helper()
	last := each(named("last", pods(1, "cpu", "10m")), only(few), func(p *corev1.Pod) {
		p.Spec.SchedulerName = corev1.DefaultSchedulerName
	})[0]
	create(t, r, last)
	callUnschedulable(t, r, last)
	assert.AwaitNodes(t, r, few, "the last pod has a claim", func(nodes map[string]*corev1.Node) bool {
		return claimed(nodes)[string(last.UID)]
	})
}

// replicasToCome asks about the first pod of a ReplicaSet until claims are made for all those that
// do not exist yet: kube-controller-manager hangs until then. Each takes its claim when it comes,
// and no node starts that the others do not fill.
func replicasToCome(t *testing.T, r *framework.Rig, s framework.Running) {
	t.Helper()
	const replicas, need = 100, 20 // 5 pods to a node
	signal(t, r, syscall.SIGSTOP)
	t.Cleanup(func() { signal(t, r, syscall.SIGCONT) })
	set := replicaSet("replicas", replicas)
	create(t, r, set)
	first := podOf(set)
	create(t, r, first)
	var candidates []string
	for node := range assert.PoolNodes(t, r, few) {
		candidates = append(candidates, node)
	}
	assert.Await(t, "claims for replicas to come", func(ctx context.Context) (bool, error) {
		if _, err := framework.AskFilter(ctx, s.Extender, first, candidates...); err != nil {
			return false, err
		}
		claims, err := replicaClaims(ctx, s)
		return claims["claimed"] == replicas-1, err
	})
	signal(t, r, syscall.SIGCONT)
	assert.Eventually(t, "each replica has taken its claim", func(ctx context.Context) (map[string]float64, error) {
		return replicaClaims(ctx, s)
	}, func(claims map[string]float64) bool { return claims["used"] == claims["claimed"] })
	nodes := assert.AwaitNodes(t, r, few, "a claim for each replica", func(nodes map[string]*corev1.Node) bool {
		return len(claimed(nodes)) == replicas
	})
	starting := 0
	for _, n := range nodes {
		if assert.StateOf(n) == v1alpha1.StateStarting {
			starting++
		}
	}
	claims, err := replicaClaims(t.Context(), s)
	if err != nil || starting != need || claims["released"] > 0 {
		t.Errorf("%d nodes start, want %d; claims %v, want none released; %v", starting, need, claims, err)
	}
}

// signal goes to kube-controller-manager.
func signal(t *testing.T, r *framework.Rig, s syscall.Signal) {
	t.Helper()
	if err := r.ControlPlane.ControllerManager().Signal(s); err != nil {
		t.Fatal(err)
	}
}

// podOf is a pod as the ReplicaSet's controller makes it.
func podOf(set *appsv1.ReplicaSet) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, GenerateName: set.Name + "-", Labels: set.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}, Spec: *set.Spec.Template.Spec.DeepCopy()}
}

// replicaClaims is stratos_replica_claims_total by result.
func replicaClaims(ctx context.Context, s framework.Running) (map[string]float64, error) {
	out := map[string]float64{}
	for _, result := range []string{"claimed", "used", "released"} {
		n, err := framework.Metric(ctx, s.Metrics, "stratos_replica_claims_total", `result="`+result+`"`)
		if err != nil {
			return nil, err
		}
		out[result] = n
	}
	return out, nil
}

// replicaSet wants so many small pods on the pool of few pods to a node.
func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	pod := framework.OnPool(framework.Pod(name, "cpu", "10m"), few)
	pod.Spec.SchedulerName, pod.Spec.RestartPolicy = v1alpha1.SchedulerName, corev1.RestartPolicyAlways
	labels := map[string]string{"app": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}
}

// claimed are the pods that the nodes name as those with claims.
func claimed(nodes map[string]*corev1.Node) map[string]bool {
	pods := map[string]bool{}
	for _, n := range nodes {
		for uid := range strings.SplitSeq(n.Annotations[v1alpha1.AnnotationClaims], ",") {
			if uid != "" {
				pods[uid] = true
			}
		}
	}
	return pods
}
