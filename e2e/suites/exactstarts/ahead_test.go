package exactstarts

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	warm(t, r, []pool{{four, 12, 10}, {eight, 7, 10}})
	assert.SetTimes(t, r, fake.Times{Boot: time.Hour}) // a node that runs names no claims any more
	for name, row := range map[string]struct {
		pool      string
		scheduler string
		begin     func(*testing.T, *corev1.Pod)
		need      int
	}{
		"one question": {four, v1alpha1.SchedulerName, func(t *testing.T, p *corev1.Pod) {
			var candidates []string
			for node := range assert.PoolNodes(t, r, four) {
				candidates = append(candidates, node)
			}
			if _, err := framework.AskFilter(t.Context(), s.Extender, p, candidates...); err != nil {
				t.Fatal(err)
			}
		}, 10},
		"one pod that is called unschedulable": {eight, corev1.DefaultSchedulerName, func(t *testing.T, p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonUnschedulable, Message: "0/19 nodes are available"}}
			if err := r.Client.Status().Update(t.Context(), p); err != nil {
				t.Fatal(err)
			}
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
