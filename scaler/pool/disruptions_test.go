package pool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/plan"
)

func TestTurnsAndDriftAreSaidOnce(t *testing.T) {
	turns := NewDisruptions()
	a, b := plan.Disruption{Node: "a", Reason: v1alpha1.StopDrift}, plan.Disruption{Node: "b", Reason: v1alpha1.StopDrift}
	for _, c := range []struct{ set, fresh []plan.Disruption }{
		{[]plan.Disruption{a}, []plan.Disruption{a}},
		{[]plan.Disruption{a, b}, []plan.Disruption{b}},
		{nil, nil},
		{[]plan.Disruption{a}, []plan.Disruption{a}},
	} {
		if diff := cmp.Diff(c.fresh, turns.Set("p", c.set), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("fresh turns (-want +got):\n%s", diff)
		}
	}
	drifted := []plan.Candidate{{Node: "a", Drift: "x"}, {Node: "b"}, {Node: "c", Drift: "x",
		State: v1alpha1.StateTerminating}}
	if got := turns.noteDrift("p", drifted); len(got) != 1 || got[0].Node != "a" {
		t.Errorf("drifted %+v, want a", got)
	}
	if got := turns.noteDrift("p", drifted); len(got) != 0 {
		t.Errorf("drifted %+v, want nothing new", got)
	}
}
