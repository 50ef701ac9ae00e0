package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func offered(name, zone, kind string) *Node {
	n := standby(name)
	n.Labels = map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: kind}
	return n
}

func TestScarceOfferingsAreLeftAlone(t *testing.T) {
	here := Offering{Zone: "a", Type: "m5.large"}
	for name, c := range map[string]struct {
		node  *Node
		after time.Duration
		with  func(*Claims)
		want  Kind
	}{
		"another node of that zone and type": {node: offered("n", "a", "m5.large"), want: Unavailable},
		"of another zone":                    {node: offered("n", "b", "m5.large"), want: Started},
		"of another type":                    {node: offered("n", "a", "c5.large"), want: Started},
		"of no zone and type that it says":   {node: standby("n"), want: Started},
		"a moment before the back-off ends": {node: offered("n", "a", "m5.large"), after: 3*time.Minute - time.Second,
			want: Unavailable},
		"once the back-off has ended": {node: offered("n", "a", "m5.large"), after: 3 * time.Minute,
			want: Started},
		"refusals under way together do not add up": {node: offered("n", "a", "m5.large"), after: 3 * time.Minute,
			with: func(l *Claims) { l.MarkOfferingUnavailable(here, epoch().Add(time.Second)) }, want: Started},
		"the cloud had one in between": {node: offered("n", "a", "m5.large"),
			with: func(l *Claims) { l.MarkOfferingAvailable(here) }, want: Started},
		"one of another zone says nothing": {node: offered("n", "a", "m5.large"),
			with: func(l *Claims) { l.MarkOfferingAvailable(Offering{Zone: "b", Type: "m5.large"}) }, want: Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			l.MarkOfferingUnavailable(here, epoch())
			if c.with != nil {
				c.with(l)
			}
			d := l.Decide(Ask{Pod: pod("x"), Nodes: []*Node{c.node}}, epoch().Add(c.after))
			if d.Kind != c.want {
				t.Fatalf("%s (%q), want %s", d.Kind, d.Refused, c.want)
			}
			if c.want == Unavailable && !strings.Contains(fmt.Sprint(d.Refused), "no capacity for m5.large in a") {
				t.Errorf("refused %q does not say what is missing where", d.Refused)
			}
		})
	}
}

// TestScarceNodesThatStartGoOn: their calls are answered for themselves.
func TestScarceNodesThatStartGoOn(t *testing.T) {
	l := NewClaims()
	l.MarkOfferingUnavailable(Offering{Zone: "a", Type: "m5.large"}, epoch())
	n := offered("n", "a", "m5.large")
	n.State = v1alpha1.StateStarting
	if d := l.Decide(Ask{Pod: pod("x"), Nodes: []*Node{n}}, epoch()); d.Kind != Joined {
		t.Errorf("%s (%q), want a claim on the starting node", d.Kind, d.Refused)
	}
}

func TestScarcityDoublesAndIsForgotten(t *testing.T) {
	o := Offering{Zone: "a", Type: "m5.large"}
	l, now := NewClaims(), epoch()
	for _, minutes := range []int{3, 6, 12, 24, 30, 30} {
		l.MarkOfferingUnavailable(o, now)
		end := now.Add(time.Duration(minutes) * time.Minute)
		if got := l.OfferingUnavailableUntil(o, now); !got.Equal(end) {
			t.Fatalf("until %s, want %s", got, end)
		}
		if l.ExpireBackoffs(end.Add(-time.Second)) {
			t.Fatal("told of an end before it came")
		}
		if !l.ExpireBackoffs(end) || l.ExpireBackoffs(end) {
			t.Fatal("the end of the back-off is told once")
		}
		now = end
	}
	l.MarkOfferingAvailable(o)
	l.MarkOfferingUnavailable(o, now)
	if got, want := l.OfferingUnavailableUntil(o, now), now.Add(3*time.Minute); !got.Equal(want) {
		t.Errorf("after a success until %s, want %s", got, want)
	}
	l.MarkOfferingAvailable(o)
	if !l.ExpireBackoffs(now) || l.ExpireBackoffs(now) {
		t.Error("a success ends the back-off, which is told once: pods wait for it")
	}
}
