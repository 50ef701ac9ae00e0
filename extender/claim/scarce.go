package claim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Offering is what a cloud runs out of: instances of one type in one zone.
type Offering struct{ Zone, Type string }

// OfferingOf reads the offering off a Node's labels; the zero Offering where one of them is
// missing: about that nothing is remembered, and the refused node rests alone.
func OfferingOf(labels map[string]string) Offering {
	o := Offering{Zone: labels[corev1.LabelTopologyZone], Type: labels[corev1.LabelInstanceTypeStable]}
	if o.Zone == "" || o.Type == "" {
		return Offering{}
	}
	return o
}

const (
	// scarceFirst and scarceMost bound how long an offering of which the cloud had none is left alone.
	scarceFirst = 3 * time.Minute
	scarceMost  = 30 * time.Minute
	// RestAfterRefusal is how long one node is left alone whose start the cloud refused for a reason
	// of its own that passes.
	RestAfterRefusal = 10 * time.Second
)

// Scarce tells the ledger that the cloud had no instance of the offering: its nodes are promised to
// nobody for 3 min, doubling to 30. Refusals of calls that were under way together are one. It
// returns until when the refused node itself is to rest: only until every view shows what became of
// it, so that one success brings it back with the others.
func (l *Ledger) Scarce(o Offering, now time.Time) time.Time {
	if o == (Offering{}) {
		return now.Add(scarceFirst)
	}
	l.scarce.fail(o, now)
	return now.Add(RestAfterRefusal)
}

// Plenty tells the ledger that the cloud had an instance of the offering.
func (l *Ledger) Plenty(o Offering) {
	l.scarce.finish(o) // Expired tells of it: pods that the back-off kept waiting are to be tried again
}

// ScarceUntil is when the node's offering may be tried again; zero where it may be now.
func (l *Ledger) ScarceUntil(o Offering, now time.Time) time.Time {
	return l.scarce.until(o, now)
}

// rested reports whether the rest of a node has ended since the last call.
func (l *Ledger) rested(now time.Time) bool {
	ended := false
	for node, until := range l.resting {
		if !now.Before(until) {
			delete(l.resting, node)
			ended = true
		}
	}
	return ended
}

// scarcity words why no node of the offering is started, "" where one may be.
func (j *judgement) scarcity(n *Node) string {
	if len(j.scarce.byKey) == 0 {
		return ""
	}
	o := OfferingOf(n.Labels)
	if n.State != v1alpha1.StateStandby || j.asked[n.Name] || j.scarce.until(o, j.now).IsZero() {
		return ""
	}
	return "the cloud has no capacity for " + o.Type + " in " + o.Zone + " now"
}
