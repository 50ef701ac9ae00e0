package extender

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

// replica is what one process of Stratos knows.
type replica struct {
	view     *cluster.State
	extender *Extender
	upkeep   *Upkeep
	starts   recordedStarter
}

// naming is a change of a Node: it names the pod as one that has a claim on it.
func naming(p *corev1.Pod) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationClaims] = string(p.UID) }
}

// TestAFutileStartIsOneEventAndOneStrike, whatever the number of replicas. Each of them holds the
// owner back, whichever the scheduler asks, and the next strike doubles the backoff once.
func TestAFutileStartIsOneEventAndOneStrike(t *testing.T) {
	for name, c := range map[string]struct {
		// cpu is what the nodes have once they run; the pod asks for 3950m.
		cpu    string
		starts int
	}{
		"the pod is not bound":       {"4", 1},
		"it is pushed off two nodes": {"3900m", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				names := []string{"node-0", "node-1", "node-2", "node-3"}
				recorder := events.NewFakeRecorder(100)
				var replicas [2]*replica
				for i := range replicas {
					r := &replica{}
					r.view, _ = newTestView(time.Now)
					parts := Parts{
						State: r.view, Starter: &r.starts, Events: recorder, Now: time.Now, Log: logr.Discard(),
						Client: fake.NewClientBuilder().WithObjects(poolNode(names[0], v1alpha1.StateStandby)).Build(),
					}
					r.extender, r.upkeep, replicas[i] = New(parts), NewUpkeep(parts), r
				}
				show := func(n *corev1.Node) {
					for _, r := range replicas {
						r.view.SetNode(n)
					}
				}
				p := cpuPod("x", "", milli(3950))
				for _, r := range replicas {
					r.view.SetPod(p)
				}
				for _, node := range names {
					show(poolNode(node, v1alpha1.StateStandby))
				}
				// ask has the scheduler ask the replica, and each node that starts for it run at once.
				ask := func(r *replica) {
					before := len(r.starts)
					r.extender.Filter(p, candidates(r.view, p, names))
					for _, node := range r.starts[before:] {
						show(poolNode(string(node), v1alpha1.StateStarting, naming(p)))
						show(poolNode(string(node), v1alpha1.StateRunning, func(n *corev1.Node) {
							n.Status.Allocatable["cpu"] = resource.MustParse(c.cpu)
							// The scheduler does not bind it.
							n.Spec.Taints = []corev1.Taint{{Key: "full", Effect: corev1.TaintEffectNoSchedule}}
						}))
					}
				}
				upkeep := func() (futile int) {
					for _, r := range replicas {
						r.upkeep.Once(t.Context())
					}
					for len(recorder.Events) > 0 {
						if strings.Contains(<-recorder.Events, string(v1alpha1.ReasonFutileStart)) {
							futile++
						}
					}
					return futile
				}
				for range c.starts {
					ask(replicas[0])
				}
				<-time.After(31 * time.Second)
				if n := upkeep(); n != 1 {
					t.Errorf("%d events FutileStart, want 1", n)
				}
				for i, r := range replicas {
					if why, until := r.view.OwnerBackoff(p, time.Now()); why == "" || time.Until(until) > time.Minute {
						t.Errorf("replica %d holds the pod back until %s (%q), want for a minute at most", i, until, why)
					}
				}
				<-time.After(time.Minute)
				if len(replicas[1].starts) > 0 {
					t.Fatal("set-up: the other replica has started a node")
				}
				ask(replicas[1])
				<-time.After(31 * time.Second)
				if n := upkeep(); n != 1 {
					t.Errorf("%d events FutileStart of the second start, want 1", n)
				}
				for i, r := range replicas {
					if why, _ := r.view.OwnerBackoff(p, time.Now()); !strings.HasSuffix(why, "for 2m0s") {
						t.Errorf("replica %d holds the pod back %q, want for 2 minutes after the second strike", i, why)
					}
				}
			})
		})
	}
}

// TestAnotherReplicasPodThatGivesWayIsLeftToIt: the replica that displaces a claim publishes that
// it is gone.
func TestAnotherReplicasPodThatGivesWayIsLeftToIt(t *testing.T) {
	v, l := newTestView(time.Now)
	placed := 0
	v.Listen(cluster.Listener{ClaimsLost: func(claims []decide.Claim) { placed += len(claims) }})
	starts := recordedStarter{}
	recorder := events.NewFakeRecorder(10)
	e := New(Parts{State: v, Starter: &starts, Events: recorder, Now: time.Now, Log: logr.Discard()})
	low, high := cpuPod("low", "", milli(3000)), cpuPod("high", "", milli(3000))
	high.Spec.Priority = new(int32(1))
	v.SetPod(low)
	v.SetNode(poolNode("a", v1alpha1.StateStarting, naming(low)))
	if c, _ := l.Of(low.UID); !c.Adopted {
		t.Fatal("set-up: the claim is not another replica's")
	}
	e.Filter(high, candidates(v, high, []string{"a"}))
	if !l.HasClaim(high.UID) || l.HasClaim(low.UID) || placed > 0 {
		t.Errorf("high has a claim: %v, low: %v, %d pods placed anew here; want true, false, 0",
			l.HasClaim(high.UID), l.HasClaim(low.UID), placed)
	}
}
