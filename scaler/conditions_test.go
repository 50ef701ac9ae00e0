package scaler

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/provider"
)

// useUpBudget has a pod wait for the pool's start budget of one.
func (r *rig) useUpBudget() {
	for _, name := range []string{"first", "second"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		n := &decide.Node{Node: fit.Node{Name: v1alpha1.NodeName(name), Allocatable: fit.Resources{Pods: 1}}, Pool: "p",
			State: v1alpha1.StateStandby, StartBudget: 1}
		r.ledger.Decide(decide.Ask{Pod: p, Nodes: []*decide.Node{n}}, r.now)
	}
}

// class writes the pool's class with the Ready condition that its provider found.
func (r *rig) class(ready metav1.ConditionStatus, words string) {
	r.t.Helper()
	class := &v1alpha1.AWSNodeClass{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Name: "class"}, class); err != nil {
		class.Name = "class"
		if err := r.api.Create(r.t.Context(), class); err != nil {
			r.t.Fatal(err)
		}
	}
	meta.SetStatusCondition(&class.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: ready,
		Reason: "x", Message: words})
	if err := r.api.Status().Update(r.t.Context(), class); err != nil {
		r.t.Fatal(err)
	}
}

// wantImage has the pool want the image, none where it is empty, and the node say why it cannot be
// pulled.
func (r *rig) wantImage(image, failure string) {
	r.t.Helper()
	pool, n := r.pool(), r.node("c")
	pool.Spec.PreWarm.ImagesToPull = nil
	if image != "" {
		pool.Spec.PreWarm.ImagesToPull = []string{image}
	}
	n.Annotations = map[string]string{v1alpha1.AnnotationImagePullFailed: failure}
	for _, o := range []client.Object{pool, n} {
		if err := r.api.Update(r.t.Context(), o); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestEveryConditionGoesBothWays takes each condition of a NodePool there and back again, with the
// words that a person needs.
func TestEveryConditionGoesBothWays(t *testing.T) {
	failing := &provider.InvalidConfigError{Field: "credentials", Reason: "expired"}
	table := map[string]struct {
		// there and back change the world; want and words are the condition between them.
		there, back func(*rig)
		want        metav1.ConditionStatus
		words       string
	}{
		v1alpha1.ConditionReady: {
			there: func(r *rig) { r.class(metav1.ConditionFalse, "no AMI matches") },
			back:  func(r *rig) { r.class(metav1.ConditionTrue, "") },
			want:  metav1.ConditionFalse, words: "no AMI matches",
		},
		v1alpha1.ConditionDegraded: {
			there: func(r *rig) {
				r.sweep(instance(provider.InstanceTerminated))
				r.launching = func(int) error { return failing }
			},
			back: func(r *rig) { r.launching, r.now = nil, r.now.Add(launchRetry) }, want: metav1.ConditionTrue,
			words: "expired",
		},
		v1alpha1.ConditionNodeClassReady: {
			there: func(r *rig) { r.class(metav1.ConditionFalse, "no AMI matches") },
			back:  func(r *rig) { r.class(metav1.ConditionTrue, "") },
			want:  metav1.ConditionFalse, words: "no AMI matches",
		},
		v1alpha1.ConditionImagesPulled: {
			there: func(r *rig) { r.wantImage("a:1", "2026-03-01T12:00:00Z a:1: no such manifest") },
			back:  func(r *rig) { r.wantImage("", "") },
			want:  metav1.ConditionFalse, words: "a:1: no such manifest",
		},
		v1alpha1.ConditionPaused: {
			there: func(r *rig) { r.pause(true) }, back: func(r *rig) { r.pause(false) },
			want: metav1.ConditionTrue, words: v1alpha1.AnnotationPaused,
		},
		v1alpha1.ConditionStartsLimited: {
			there: (*rig).useUpBudget, back: func(r *rig) { r.now = r.now.Add(decide.BudgetWindow + time.Second) },
			want: metav1.ConditionTrue, words: "nodes were started within",
		},
	}
	begin := func(t *testing.T) *rig {
		r := newRig(t, nodePool(5, 1), nodeIn(v1alpha1.StateStandby))
		r.class(metav1.ConditionTrue, "")
		r.sweep(instance(provider.InstanceStopped))
		r.reconcilePool()
		return r
	}
	for kind, c := range table {
		t.Run(kind, func(t *testing.T) {
			r := begin(t)
			at := func(when string, want metav1.ConditionStatus) *metav1.Condition {
				t.Helper()
				got := meta.FindStatusCondition(r.pool().Status.Conditions, kind)
				if got == nil || got.Status != want {
					t.Fatalf("%s: %+v, want %s", when, got, want)
				}
				return got
			}
			healthy := metav1.ConditionTrue
			if c.want == metav1.ConditionTrue {
				healthy = metav1.ConditionFalse
			}
			at("at first", healthy)
			r.now = r.now.Add(time.Minute) // what was launched and is missing is gone by now
			c.there(r)
			r.reconcilePool()
			if got := at("there", c.want); !strings.Contains(got.Message, c.words) || got.Reason == "" {
				t.Errorf("%+v, want %q in its message", got, c.words)
			}
			c.back(r)
			r.reconcilePool()
			at("and back", healthy)
		})
	}
	var set []string
	for _, c := range begin(t).pool().Status.Conditions {
		set = append(set, c.Type)
	}
	slices.Sort(set)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(table)), set); diff != "" {
		t.Errorf("conditions of a pool that no row takes both ways (-rows +set):\n%s", diff)
	}
}
