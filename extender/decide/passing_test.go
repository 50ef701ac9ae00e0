package decide

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestAPodThatIsBoundElsewhereKeepsNoRoom: a pod whose claimed node still starts passes to a free
// node. Until the bind is seen its claim stands, for the case that it fails. A pod that comes
// meanwhile takes that room: a node that started for it would be one too many.
func TestAPodThatIsBoundElsewhereKeepsNoRoom(t *testing.T) {
	one, other, late := pod("one", asking("cpu", "2")), pod("other", asking("cpu", "2")), pod("late", asking("cpu", "2"))
	for name, c := range map[string]struct {
		then func(*Claims)
		want Kind
	}{
		"while it passes":                  {then: func(*Claims) {}, want: Joined},
		"once its scheduler asks again":    {then: func(l *Claims) { l.RecordQuestion("one") }, want: Started},
		"while the claimed node runs, too": {want: PassClaimed},
	} {
		t.Run(name, func(t *testing.T) {
			l, claimed := NewClaims(), standby("c")
			claimedInTurn(t, l, claimed, one, other)
			if d := l.Decide(ask(one, running("free"), claimed), epoch()); d.Kind != Pass {
				t.Fatalf("set-up: verdict %s", d.Kind)
			}
			l.RecordPass("one", epoch())
			if c.then != nil {
				c.then(l)
			} else {
				claimed = running("c")
				l.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
			}
			d := l.Decide(ask(late, claimed, standby("d")), epoch())
			if d.Kind != c.want {
				t.Fatalf("verdict %s (%q), want %s", d.Kind, d.Refused, c.want)
			}
			if d.Kind == PassClaimed {
				wantDiff(t, "released", l.ReleaseOverflow(claimed, epoch()), []Claim(nil))
				l.RecordQuestion("one")
				wantDiff(t, "released once its scheduler asks again", podsOf(l.ReleaseOverflow(claimed, epoch())),
					[]types.UID{"other"})
			}
		})
	}
}
