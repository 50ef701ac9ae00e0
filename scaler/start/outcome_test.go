package start

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestARefusedStartIsWrittenAtLast: the cloud has refused the start, and the API server does not
// take what is to be written of it for a while. It is written as soon as it can be, the cloud is
// not asked again, and the refusal is said and counted once.
func TestARefusedStartIsWrittenAtLast(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "c", errors.New("others write too"))
	for name, c := range map[string]struct {
		refusal error
		counted Refusal
		strikes string
		notNow  error
		times   int
	}{
		"no capacity, the API server is away": {refusal: &provider.InsufficientCapacityError{}, counted: RefusedCapacity,
			notNow: errUnreachable, times: 5},
		"no capacity, others write too": {refusal: &provider.InsufficientCapacityError{}, counted: RefusedCapacity,
			notNow: conflict, times: 2},
		"no capacity, the Node changes all the time": {refusal: &provider.InsufficientCapacityError{},
			counted: RefusedCapacity, notNow: denied(http.StatusUnprocessableEntity), times: 2 * giveUpTries},
		"not startable, the API server is away": {refusal: &provider.InvalidConfigError{Field: "x"},
			counted: RefusedOther, strikes: "1", notNow: errUnreachable, times: 5},
		"not startable, the Node changes all the time": {refusal: &provider.InvalidConfigError{Field: "x"},
			counted: RefusedOther, strikes: "1", notNow: denied(http.StatusUnprocessableEntity), times: 2 * giveUpTries},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateStandby))
				r.promise("x")
				left := c.times
				r.answer = func(int) error {
					r.patching = func() error {
						if left--; left >= 0 {
							return c.notNow
						}
						return nil
					}
					return c.refusal
				}
				r.run(func() {
					r.starter.StartNode("c")
					<-time.After(time.Minute)
				})
				r.want("patch c starting claims x", "start i-c", "patch c standby claims ")
				if got := r.node().Annotations[v1alpha1.AnnotationStartFailures]; got != c.strikes {
					t.Errorf("%q strikes, want %q", got, c.strikes)
				}
				if got := r.said(); len(got) != 1 || !strings.Contains(got[0], c.refusal.Error()) {
					t.Errorf("events %q, want one with the cloud's words", got)
				}
				if want := []string{"p refused " + string(c.counted)}; !slices.Equal(r.counted, want) {
					t.Errorf("counted %q, want %q", r.counted, want)
				}
			})
		})
	}
}

// TestARefusalEndsItsOwnStartAlone: before the refusal could be written, others have ended the
// start and begun another one.
func TestARefusalEndsItsOwnStartAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby))
		r.promise("x")
		const another = "2026-01-01T00:00:00Z"
		r.answer = func(int) error {
			r.patching = func() error {
				r.patching = func() error { return nil }
				n := r.node()
				n.Annotations[v1alpha1.AnnotationScaleUpStarted] = another
				if err := r.api.Update(t.Context(), n); err != nil {
					t.Error(err)
				}
				return errUnreachable
			}
			return &provider.InsufficientCapacityError{}
		}
		r.run(func() {
			r.starter.StartNode("c")
			<-time.After(time.Minute)
		})
		r.want("patch c starting claims x", "start i-c")
		if n := r.node(); n.Labels[v1alpha1.LabelState] != string(v1alpha1.StateStarting) ||
			n.Annotations[v1alpha1.AnnotationScaleUpStarted] != another {
			t.Errorf("the other start was ended: %v %v", n.Labels, n.Annotations)
		}
	})
}
