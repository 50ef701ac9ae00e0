package extender

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

func terminating(p *corev1.Pod) {
	at := metav1.NewTime(epoch())
	p.DeletionTimestamp = &at
}

// TestAPodThatIsGoneGetsNoNode: the scheduler asks about a pod as its own watch shows it, and ours
// may be ahead.
func TestAPodThatIsGoneGetsNoNode(t *testing.T) {
	remove := func(v *cluster.State) { v.DeletePod(cpuPod("x", "")) }
	terminate := func(v *cluster.State) { v.SetPod(cpuPod("x", "", terminating)) }
	for name, c := range map[string]struct {
		asked []func(*corev1.Pod) // the pod as the scheduler sees it
		known bool                // our watch has shown the pod as pending before
		event func(*cluster.State)
		node  v1alpha1.NodeState
		want  decide.Kind
	}{
		"pending": {known: true, event: func(*cluster.State) {}, node: v1alpha1.StateStandby,
			want: decide.Started},
		"not known yet": {event: func(*cluster.State) {}, node: v1alpha1.StateStandby, want: decide.Started},
		"another pod is deleted": {known: true, event: func(v *cluster.State) { v.DeletePod(cpuPod("y", "")) },
			node: v1alpha1.StateStandby, want: decide.Started},
		"deleted":                        {known: true, event: remove, node: v1alpha1.StateStandby, want: decide.NotOurs},
		"deleted, a node starts already": {known: true, event: remove, node: v1alpha1.StateStarting, want: decide.NotOurs},
		"deleted, no node fits":          {known: true, event: remove, node: v1alpha1.StateTerminating, want: decide.NotOurs},
		"terminating":                    {known: true, event: terminate, node: v1alpha1.StateStandby, want: decide.NotOurs},
		"terminating since we know it":   {event: terminate, node: v1alpha1.StateStandby, want: decide.NotOurs},
		"terminating, then deleted": {known: true, event: func(v *cluster.State) { terminate(v); remove(v) },
			node: v1alpha1.StateStandby, want: decide.NotOurs},
		"finished": {known: true, event: func(v *cluster.State) {
			v.SetPod(cpuPod("x", "", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))
		}, node: v1alpha1.StateStandby, want: decide.NotOurs},
		"bound elsewhere, then deleted": {known: true, event: func(v *cluster.State) {
			v.SetPod(cpuPod("x",
				"other"))
			remove(v)
		}, node: v1alpha1.StateStandby, want: decide.NotOurs},
		"the scheduler knows: terminates": {asked: []func(*corev1.Pod){terminating}, event: func(*cluster.State) {},
			node: v1alpha1.StateStandby, want: decide.NotOurs},
	} {
		for when, between := range map[string]bool{"before the ask": false, "while it is answered": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				r := newDecideRig(poolNode("a", c.node))
				if c.known {
					r.state.SetPod(cpuPod("x", ""))
				}
				if between {
					r.now = func() time.Time { c.event(r.state); return epoch() } // the candidates have been looked up
				} else {
					c.event(r.state)
				}
				got := r.Filter(cpuPod("x", "", c.asked...), []string{"a"})
				if got.Decision != string(c.want) {
					t.Errorf("decision %q, want %q", got.Decision, c.want)
				}
				started := c.want == decide.Started
				if r.ledger.HasClaim("uid-of-x") != started || (len(r.starts) > 0) != started {
					t.Errorf("claim %t, starts %v, want a start: %t", r.ledger.HasClaim("uid-of-x"), r.starts, started)
				}
				if !started && r.ledger.Missed(epoch().Add(time.Second)) {
					t.Error("the ledger keeps the refusal of a pod that is gone")
				}
			})
		}
	}
}

// TestPodsThatAreGoneAreForgotten: what the process keeps of pods that are gone has an end, also of
// those that its watch never showed.
func TestPodsThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, l := newTestView(time.Now)
		u := NewUpkeep(Parts{State: v, Events: events.NewFakeRecorder(10), Now: time.Now, Log: logr.Discard()})
		e := &Extender{state: v, now: time.Now, events: events.NewFakeRecorder(10)}
		began := time.Now()
		v.SetNode(poolNode("a", v1alpha1.StateTerminating))
		v.SetPod(cpuPod("seen", ""))
		v.DeletePod(cpuPod("seen", ""))
		ask := func(pod string) string { return e.Filter(cpuPod(pod, ""), NamesOf([]string{"a"})).Decision }
		if got := ask("seen"); got != string(decide.NotOurs) {
			t.Errorf("a pod that is gone: %s", got)
		}
		if got := ask("never seen"); got != string(decide.Unavailable) || !l.Missed(began.Add(time.Second)) {
			t.Errorf("a pod that our watch does not show: %s, known %t", got, l.Missed(began.Add(time.Second)))
		}
		for range 10 {
			<-time.After(time.Minute)
			u.Once(t.Context())
		}
		if l.Missed(began.Add(time.Second)) {
			t.Error("ten minutes later the refusal is still kept")
		}
		if got := ask("seen"); got != string(decide.Unavailable) {
			t.Errorf("ten minutes later the pod that was gone is still known: %s", got)
		}
	})
}
