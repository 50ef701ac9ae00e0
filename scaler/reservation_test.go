package scaler

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestAPoolWhoseReservationHasEnded says how many nodes cannot start, where they may use nothing
// else.
func TestAPoolWhoseReservationHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		preference v1alpha1.ReservationPreference
		ended      bool
		says       bool
	}{
		"ended, and nothing else": {v1alpha1.ReservationOnly, true, true},
		"ended, or On-Demand":     {"", true, false},
		"it stands":               {v1alpha1.ReservationOnly, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			class := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
			class.Spec.CapacityReservation = &v1alpha1.CapacityReservation{ID: "cr-1", Preference: c.preference}
			class.Status.CapacityReservation = &v1alpha1.CapacityReservationStatus{ID: "cr-1", Ended: c.ended}
			r := newRig(t, nodePool(1, 1), class, nodeIn(v1alpha1.StateStandby))
			r.sweep()
			if _, err := r.pools.Reconcile(t.Context(), named("p")); err != nil {
				t.Fatal(err)
			}
			degraded := meta.FindStatusCondition(r.pool().Status.Conditions, v1alpha1.ConditionDegraded)
			says := degraded != nil && degraded.Reason == string(v1alpha1.ReasonReservationEnded) &&
				strings.Contains(degraded.Message, "standby nodes cannot start")
			if says != c.says {
				t.Errorf("Degraded %+v", degraded)
			}
		})
	}
}
