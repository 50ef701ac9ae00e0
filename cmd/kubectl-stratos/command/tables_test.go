package command

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// TestStatusOfAPool: the most important of several things is told.
func TestStatusOfAPool(t *testing.T) {
	is := func(kind string, status metav1.ConditionStatus, reason v1alpha1.Reason) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: string(reason), Message: "words of " + string(reason)}
	}
	healthy := is(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy)
	degraded := is(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonWarmupFailing)
	ready := is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPoolReady)
	warming := is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWarmingUp)
	now := metav1.NewTime(epoch())
	for name, c := range map[string]struct {
		meta       metav1.ObjectMeta
		conditions []metav1.Condition
		want       string
	}{
		"ready":                              {conditions: []metav1.Condition{ready, healthy}, want: "Ready"},
		"warming up":                         {conditions: []metav1.Condition{warming, healthy}, want: "WarmingUp"},
		"degraded, though it is ready":       {conditions: []metav1.Condition{ready, degraded}, want: "WarmupFailing"},
		"no condition yet":                   {want: "Unknown"},
		"paused, though it is degraded":      {meta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationPaused: "true"}}, conditions: []metav1.Condition{ready, degraded}, want: "Paused"},
		"being deleted, though it is paused": {meta: metav1.ObjectMeta{DeletionTimestamp: &now, Annotations: map[string]string{v1alpha1.AnnotationPaused: "true"}}, want: "Deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &v1alpha1.NodePool{ObjectMeta: c.meta, Status: v1alpha1.NodePoolStatus{Conditions: c.conditions}}
			if got, message := statusOf(pool); got != c.want || (message == "") != (got == "Ready") {
				t.Errorf("%q, %q, want %q with a message", got, message, c.want)
			}
		})
	}
}

// TestNoteOfANode: what keeps it from starting, or why it goes; a backoff that is over is nothing.
func TestNoteOfANode(t *testing.T) {
	at := func(d time.Duration) string { return epoch().Add(d).Format(time.RFC3339) }
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"nothing":              {nil, ""},
		"a backoff":            {map[string]string{v1alpha1.AnnotationUnavailableUntil: at(time.Minute), v1alpha1.AnnotationStartFailures: "2"}, "backs off until 2026-03-01T12:01:00Z; failed starts in a row: 2"},
		"a backoff is over":    {map[string]string{v1alpha1.AnnotationUnavailableUntil: at(-time.Minute)}, ""},
		"a stop":               {map[string]string{v1alpha1.AnnotationStopReason: string(v1alpha1.StopEmpty)}, "reason of its stop: empty"},
		"to be replaced":       {map[string]string{v1alpha1.AnnotationReplace: "true"}, "to be replaced"},
		"kept from disruption": {map[string]string{v1alpha1.AnnotationDoNotDisrupt: "true"}, "do not disrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
			if got := noteOf(node, epoch()); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestCellsForEachColumn: a row has as many cells as there are columns.
func TestCellsForEachColumn(t *testing.T) {
	pools := poolTable([]v1alpha1.NodePool{{}}, prices{}, epoch())
	nodes := nodeTable([]metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{v1alpha1.AnnotationClaims: "a,b"}}}}, epoch())
	for name, table := range map[string]*metav1.Table{"pools": pools, "nodes": nodes} {
		if got, want := len(table.Rows[0].Cells), len(table.ColumnDefinitions); got != want {
			t.Errorf("%s: %d cells for %d columns", name, got, want)
		}
	}
	if diff := cmp.Diff(2, nodes.Rows[0].Cells[4]); diff != "" {
		t.Errorf("claims: %s", diff)
	}
}

// TestNodeSelector: those of pools alone, and of one pool if it is named.
func TestNodeSelector(t *testing.T) {
	for _, c := range []struct{ pool, selector, want string }{
		{"", "", "stratos.sh/pool"}, {"p", "", "stratos.sh/pool=p"}, {"p", "a=b", "a=b,stratos.sh/pool=p"},
	} {
		got, err := nodeSelector(c.pool, c.selector)
		if err != nil || got.String() != c.want {
			t.Errorf("pool %q, selector %q: %v, %v, want %s", c.pool, c.selector, got, err, c.want)
		}
	}
}
