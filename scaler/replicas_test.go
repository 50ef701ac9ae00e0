package scaler

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// loops are the scaler's over the rig's API server and cloud, with a view of what the server holds
// now.
func (r *rig) loops() *Loops {
	r.t.Helper()
	return r.loopsWith(prometheus.NewRegistry())
}

// loopsWith are loops that register their metrics there.
func (r *rig) loopsWith(registry prometheus.Registerer) *Loops {
	r.t.Helper()
	clock := func() time.Time { return r.now }
	l, err := NewLoops(Parts{
		Setup:  Setup{Cloud: r, Cluster: "here", ClusterUID: "uid-here", State: r.view()},
		Client: r.api, Live: r.api, Events: r.events, Metrics: registry, Log: logr.Discard(),
		Now: clock, Elapsed: func() time.Duration { return r.now.Sub(epoch()) }, Ready: func() error { return nil },
		CallQueue: r.starts, LaunchesAtOnce: 1,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

// TestTheOthersLeaveThePodOfALostClaim: of two replicas that see a start fail, the one that made
// the claim places the pod anew, whatever ended the claim and whichever of them carried the start
// out.
func TestTheOthersLeaveThePodOfALostClaim(t *testing.T) {
	failing := func(err error) func(context.Context, *rig, *Loops) error {
		return func(ctx context.Context, r *rig, l *Loops) error {
			r.starting = err
			l.Starter.Resume("c", "pending", r.now)
			l.Starter.StepCall(ctx)
			return nil
		}
	}
	step := func(resume bool) func(context.Context, *rig, *Loops) error {
		return func(ctx context.Context, r *rig, l *Loops) error {
			if err := r.api.Delete(ctx, r.node("c")); err != nil {
				return err
			}
			if resume {
				l.Starter.Resume("c", "pending", r.now)
				l.Starter.StepCall(ctx)
				return nil
			}
			l.Starter.StartNode("c")
			l.Starter.Step(ctx)
			return nil
		}
	}
	for name, lose := range map[string]func(context.Context, *rig, *Loops) error{
		"the start is given up": func(ctx context.Context, _ *rig, l *Loops) error {
			return l.Starter.Fail(ctx, "c", true, "late")
		},
		"the start is declined": func(ctx context.Context, _ *rig, l *Loops) error {
			return l.Starter.Decline(ctx, "c", "refused")
		},
		"the zone has none":          failing(&provider.InsufficientCapacityError{Type: "m5.large", Zone: "a"}),
		"the instance is gone":       failing(&provider.InstanceNotFoundError{ID: "i-c"}),
		"the Node is gone":           step(false),
		"the Node of a call is gone": step(true),
		"a pod of higher priority takes its room": func(_ context.Context, r *rig, l *Loops) error {
			l.Placer.Place(unschedulable(needing("4"), func(p *corev1.Pod) {
				p.Name, p.UID, p.Spec.Priority = "high", "high", new(int32(1))
			}))
			return nil
		},
	} {
		for by, adopted := range map[string]bool{"our own": false, "another replica's": true} {
			t.Run(name+", "+by, func(t *testing.T) {
				node := nodeIn(v1alpha1.StateStarting, func(n *corev1.Node) {
					n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("10")
				})
				if adopted {
					annotated(v1alpha1.AnnotationClaims, "a")(node)
				}
				r := newRig(t, unschedulable(needing("1")), nodePool(2, 0), node)
				l := r.loops()
				if !adopted {
					l.Placer.Place(unschedulable(needing("1")))
				}
				if c, ok := r.ledger.Of("a"); !ok || c.Node != "c" || c.Adopted != adopted {
					t.Fatalf("set-up: claim %+v, there: %v", c, ok)
				}
				if err := lose(t.Context(), r, l); err != nil {
					t.Fatal(err)
				}
				if r.ledger.HasClaim("a") {
					t.Error("the claim stands")
				}
				if got := l.Placer.Len(); got != 1 && !adopted || got != 0 && adopted {
					t.Errorf("%d pods are placed anew here", got)
				}
			})
		}
	}
}

// TestUnknownPodsStayPublished: another replica has seen a pod that we have not, and has made a
// claim for it here. Ours waits until the pod is known, because there may be no room for both, but
// for a second at most.
func TestUnknownPodsStayPublished(t *testing.T) {
	node := nodeIn(v1alpha1.StateStarting, annotated(v1alpha1.AnnotationClaims, "bound,gone,unseen"))
	r := newRig(t, unschedulable(needing("1")), nodePool(2, 0), node, boundPod("bound"))
	l := r.loops()
	gone := boundPod("gone", func(p *corev1.Pod) { p.Spec.NodeName = "" })
	l.pending.State.SetPod(gone)
	l.pending.State.DeletePod(gone)
	l.Placer.Place(unschedulable(needing("1")))
	l.Starter.Step(t.Context())
	if got := r.node("c").Annotations[v1alpha1.AnnotationClaims]; got != "bound,gone,unseen" {
		t.Errorf("%q are published before the cluster state knows the pods", got)
	}
	r.now = r.now.Add(time.Second)
	l.Starter.Step(t.Context())
	if got := r.node("c").Annotations[v1alpha1.AnnotationClaims]; got != "a,unseen" {
		t.Errorf("%q are published, want our pod and the one that we have not seen", got)
	}
}
