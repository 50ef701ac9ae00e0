package start

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// denied is the answer of an admission policy: one that names no reason answers 422, as a failed
// test of a patch does.
func denied(code int32) error {
	reason := metav1.StatusReasonForbidden
	if code == http.StatusUnprocessableEntity {
		reason = metav1.StatusReasonInvalid
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "denied by policy no-starts",
	}}
}

// errUnreachable is no answer of the API server.
var errUnreachable = errors.New("connection refused")

// runWithUpkeep has the Starter and the Placer work while f runs. As the extender's upkeep does, it
// asks again for starts that are late.
func (r *placerRig) runWithUpkeep(f func()) {
	ctx, stop := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			for _, node := range r.view.Late(time.Now()) {
				r.starter.StartNode(node)
			}
			<-time.After(time.Second)
		}
	}()
	r.runBoth(f)
	stop()
	<-ended
}

// claimOf is the node on which the pod has a claim, "" for none.
func (r *placerRig) claimOf(pod types.UID) v1alpha1.NodeName {
	c, _ := r.view.ClaimOf(pod)
	return c.Node
}

// warnings are the events about the pod x's start that is not written.
func (r *placerRig) warnings() []string {
	return slices.DeleteFunc(r.said(), func(e string) bool { return !strings.HasPrefix(e, "Warning") })
}

// TestAnIntentThatIsRefusedHasADeadline: the claim moves 30 s after it was made, with the API
// server's words.
func TestAnIntentThatIsRefusedHasADeadline(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		err  error
	}{
		"a start, 403":           {ofOneCPU("a"), denied(http.StatusForbidden)},
		"a start, 422":           {ofOneCPU("a"), denied(http.StatusUnprocessableEntity)},
		"a cancelled drain, 403": {drainingOne("a"), denied(http.StatusForbidden)},
		"a cancelled drain, 422": {drainingOne("a"), denied(http.StatusUnprocessableEntity)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPlacerRig(t, c.node, ofOneCPU("b"))
				r.view.SetPod(waiter("x"))
				r.denying = func(node string) error {
					if node == "a" {
						return c.err
					}
					return nil
				}
				r.runWithUpkeep(func() {
					r.placer.Place(waiter("x"))
					<-time.After(29 * time.Second)
					if on, said := r.claimOf("x"), r.warnings(); on != "a" || len(said) > 0 {
						t.Errorf("before the deadline: claim on %q, events %q", on, said)
					}
					<-time.After(1100 * time.Millisecond)
					if on := r.claimOf("x"); on != "b" {
						t.Errorf("after the deadline: claim on %q, want b", on)
					}
					said := r.warnings()
					words := "StartFailed node a of pool p is not started: denied by policy no-starts"
					if len(said) != 1 || !strings.Contains(said[0], words) {
						t.Errorf("events %q, want one with the API server's words", said)
					}
					r.view.SetPod(waiter("y"))
					if d := r.placer.Place(waiter("y")); d.Claim != nil {
						t.Errorf("another pod is promised room on %s, which backs off", d.Claim.Node)
					}
				})
				if !slices.Contains(r.log, "start i-b") || slices.Contains(r.log, "start i-a") {
					t.Errorf("what happened: %q", r.log)
				}
			})
		})
	}
}

// drainingOne is ofOneCPU that is drained because it is empty.
func drainingOne(name string) *corev1.Node {
	n := ofOneCPU(name)
	d := draining()
	n.Labels, n.Annotations = d.Labels, d.Annotations
	n.Spec.Unschedulable, n.Spec.Taints = d.Spec.Unschedulable, d.Spec.Taints
	return n
}

// TestClaimsStayWhileTheAPIServerIsGone: another node would not help, and an intent whose answer
// was lost may have been written.
func TestClaimsStayWhileTheAPIServerIsGone(t *testing.T) {
	for name, err := range map[string]error{
		"no connection": errUnreachable,
		"overloaded":    apierrors.NewTooManyRequestsError("busy"),
		"no etcd":       apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
		"unavailable":   apierrors.NewServiceUnavailable("starting up"),
		"token expired": apierrors.NewUnauthorized("token has expired"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPlacerRig(t, ofOneCPU("a"), ofOneCPU("b"))
				r.view.SetPod(waiter("x"))
				var down atomic.Bool
				down.Store(true)
				r.denying = func(string) error {
					if down.Load() {
						return err
					}
					return nil
				}
				r.runWithUpkeep(func() {
					r.placer.Place(waiter("x"))
					<-time.After(5 * time.Minute)
					if on, said := r.claimOf("x"), r.warnings(); on != "a" || len(said) > 0 {
						t.Errorf("claim on %q, events %q; want it kept", on, said)
					}
					down.Store(false)
					<-time.After(time.Minute)
				})
				r.want("patch a starting claims x", "start i-a")
			})
		})
	}
}

// TestAMissedTransitionEndsTheClaims: the leader gave the start up while our watch was interrupted.
// What the watch shows afterwards is a standby node, as before.
func TestAMissedTransitionEndsTheClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPlacerRig(t, ofOneCPU("a"), ofOneCPU("b"))
		r.view.SetPod(waiter("x"))
		r.runWithUpkeep(func() {
			r.placer.Place(waiter("x"))
			<-time.After(10 * time.Second)
			given := &corev1.Node{}
			r.read("a", given)
			given.Labels[v1alpha1.LabelState] = string(v1alpha1.StateStandby)
			given.Annotations[v1alpha1.AnnotationUnavailableUntil] = time.Now().Add(3 * time.Minute).UTC().Format(time.RFC3339)
			if err := r.api.Update(t.Context(), given); err != nil {
				t.Fatal(err)
			}
			r.view.SetNode(given)
			<-time.After(19 * time.Second)
			if on := r.claimOf("x"); on != "a" {
				t.Errorf("before the deadline: claim on %q", on)
			}
			<-time.After(1100 * time.Millisecond)
			if on, said := r.claimOf("x"), r.warnings(); on != "b" || len(said) != 1 {
				t.Errorf("after the deadline: claim on %q, events %q; want b and one", on, said)
			}
		})
		r.want("patch a starting claims x", "start i-a", "patch b starting claims x", "start i-b")
	})
}

// TestAWatchThatIsBehindEndsNoClaim: the node starts, and only our cluster state does not show it
// yet.
func TestAWatchThatIsBehindEndsNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPlacerRig(t, ofOneCPU("a"), ofOneCPU("b"))
		r.view.SetPod(waiter("x"))
		r.cached.Store(ofOneCPU("a"))
		r.runWithUpkeep(func() {
			r.placer.Place(waiter("x"))
			<-time.After(5 * time.Minute)
			if on, said := r.claimOf("x"), r.warnings(); on != "a" || len(said) > 0 {
				t.Errorf("claim on %q, events %q; want it kept", on, said)
			}
		})
		if n := r.starts("i-a"); n != 1 {
			t.Errorf("%d starts, want one: %q", n, r.log)
		}
	})
}

// TestNotReadyWhileNoIntentCanBeWritten: the scheduler is to turn to another replica, whose way to
// the API server may be open.
func TestNotReadyWhileNoIntentCanBeWritten(t *testing.T) {
	gone := func(d time.Duration) func(time.Duration, string) error {
		return func(since time.Duration, _ string) error {
			if since < d {
				return errUnreachable
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		denying func(since time.Duration, node string) error
		// The replica is not ready from the first until the second time, and ready after the third. 0 is
		// never.
		from, until, ready time.Duration
	}{
		"all is well": {denying: func(time.Duration, string) error { return nil }},
		"the API server is gone for five minutes": {
			denying: gone(5 * time.Minute), from: 2 * time.Minute, until: 5 * time.Minute, ready: 5*time.Minute + retryMost,
		},
		"it hangs for five minutes": {denying: func(since time.Duration, node string) error {
			<-time.After(5*time.Minute - since)
			return gone(5*time.Minute)(since, node)
		}, from: 2 * time.Minute, until: 5 * time.Minute, ready: 5*time.Minute + retryMost},
		"it is gone for a minute": {denying: gone(time.Minute)},
		"a policy refuses one node": {denying: func(_ time.Duration, node string) error {
			if node == "a" {
				return denied(http.StatusForbidden)
			}
			return nil
		}},
		"a policy refuses all four nodes, one after the other": {
			denying: func(time.Duration, string) error { return denied(http.StatusForbidden) },
			from:    2 * time.Minute, until: 2*time.Minute + dueGap/2, ready: 2*time.Minute + 2*dueGap,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPlacerRig(t, ofOneCPU("a"), ofOneCPU("b"), ofOneCPU("d"), ofOneCPU("e"))
				r.view.SetPod(waiter("x"))
				zero := time.Now()
				r.denying = func(node string) error { return c.denying(time.Since(zero), node) }
				r.runWithUpkeep(func() {
					r.placer.Place(waiter("x"))
					for range 600 {
						<-time.After(time.Second)
						at := time.Since(zero)
						err := r.starter.Ready()
						switch {
						case (c.from == 0 || at < c.from) && err != nil:
							t.Errorf("not ready after %s: %v", at, err)
							return
						case at > c.from && at < c.until && err == nil:
							t.Errorf("ready after %s", at)
							return
						case at > c.ready && err != nil:
							t.Errorf("not ready again after %s: %v", at, err)
							return
						}
					}
				})
			})
		})
	}
}

// TestWhichIntentsCount: an attempt each ten seconds that fails as said.
func TestWhichIntentsCount(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration
		fails func(n int) (v1alpha1.NodeName, error)
		late  bool
	}{
		"one node is refused again and again": {10 * time.Second, func(int) (v1alpha1.NodeName, error) {
			return "a", denied(http.StatusForbidden)
		}, false},
		"two nodes are": {10 * time.Second, func(n int) (v1alpha1.NodeName, error) {
			return []v1alpha1.NodeName{"a", "b"}[n%2], denied(http.StatusForbidden)
		}, true},
		"no answer about one node": {10 * time.Second, func(int) (v1alpha1.NodeName, error) {
			return "a", errUnreachable
		}, true},
		"none is due for a while after each": {time.Minute, func(int) (v1alpha1.NodeName, error) {
			return "a", errUnreachable
		}, false},
		"one is written now and then": {10 * time.Second, func(n int) (v1alpha1.NodeName, error) {
			if n%6 == 0 {
				return "b", nil
			}
			return "a", errUnreachable
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := intents{now: time.Now}
				late := false
				for n := range 60 {
					i.begin()
					i.end(c.fails(n))
					late = late || i.overdue() != nil
					<-time.After(c.every)
				}
				if late != c.late {
					t.Errorf("overdue at some time: %t, want %t", late, c.late)
				}
			})
		})
	}
}
