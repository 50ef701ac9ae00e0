package pending

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// standbyNodes answers every list of Nodes with standby nodes, and counts the lists.
type standbyNodes struct {
	client.Reader
	nodes []corev1.Node
	lists int
}

func (s *standbyNodes) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.lists++
	list.(*corev1.NodeList).Items = s.nodes
	return nil
}

// TestStandbyNodesAreListedForAWarningOnly: each event of each pending pod asks, and the list is of
// all Nodes.
func TestStandbyNodesAreListedForAWarningOnly(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a"}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 1},
	}
	now, reader, recorder := scalertest.Epoch(), &standbyNodes{}, events.NewFakeRecorder(100)
	c := New(&Reconciler{Reader: reader, Events: recorder, Now: func() time.Time { return now }})
	warn := func(when string, wantLists, wantEvents int) {
		t.Helper()
		reader.lists = 0
		for range 10 {
			if err := c.warnSpread(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		if reader.lists != wantLists || len(recorder.Events) != wantEvents {
			t.Errorf("%s: %d lists and %d events, want %d and %d", when, reader.lists, len(recorder.Events), wantLists,
				wantEvents)
		}
		for len(recorder.Events) > 0 {
			<-recorder.Events
		}
	}
	warn("while no node stands by", 10, 0)
	reader.nodes = []corev1.Node{*scalertest.NodeIn(v1alpha1.StateStandby)}
	warn("when one does", 1, 1)
	warn("within the hour", 0, 0)
	now = now.Add(warnAgain)
	warn("an hour later", 1, 1)
}
