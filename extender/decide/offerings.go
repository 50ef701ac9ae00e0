package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Offering is what a cloud runs out of: instances of one type in one zone.
type Offering struct{ Zone, Type string }

// OfferingOf reads the offering off a Node's labels; the zero Offering where one of them is
// missing: about that nothing is remembered, and only the refused node backs off.
func OfferingOf(labels map[string]string) Offering {
	o := Offering{Zone: labels[corev1.LabelTopologyZone], Type: labels[corev1.LabelInstanceTypeStable]}
	if o.Zone == "" || o.Type == "" {
		return Offering{}
	}
	return o
}

const (
	// offeringBackoffFirst and offeringBackoffMax bound how long an offering of which the cloud had
	// none is left alone.
	offeringBackoffFirst = 3 * time.Minute
	offeringBackoffMax   = 30 * time.Minute
	// BackoffAfterRefusal is how long one node is left alone whose start the cloud refused for a
	// reason of its own that passes.
	BackoffAfterRefusal = 10 * time.Second
)

// MarkOfferingUnavailable tells the claims that the cloud had no instance of the offering: its
// nodes get no claims for 3 min, doubling to 30. Refusals of calls that were under way
// together are one. It returns until when the refused node itself is to rest: only until every view
// shows what became of it, so that one success brings it back with the others.
func (l *Claims) MarkOfferingUnavailable(o Offering, now time.Time) time.Time {
	if o == (Offering{}) {
		return now.Add(offeringBackoffFirst)
	}
	l.unavailable.fail(o, now)
	return now.Add(BackoffAfterRefusal)
}

// MarkOfferingAvailable tells the claims that the cloud had an instance of the offering.
func (l *Claims) MarkOfferingAvailable(o Offering) {
	l.unavailable.finish(o) // ExpireBackoffs reports it: pods that the backoff kept waiting are to be tried again
}

// OfferingUnavailableUntil is when the node's offering may be tried again; zero where it may be
// now.
func (l *Claims) OfferingUnavailableUntil(o Offering, now time.Time) time.Time {
	return l.unavailable.until(o, now)
}

// expireNodeBackoffs reports whether the rest of a node has ended since the last call.
func (l *Claims) expireNodeBackoffs(now time.Time) bool {
	ended := false
	for node, until := range l.backingOff {
		if !now.Before(until) {
			delete(l.backingOff, node)
			ended = true
		}
	}
	return ended
}

// offeringReason words why no node of the offering is started, "" where one may be.
func (j *attempt) offeringReason(n *Node) string {
	if len(j.unavailable.byKey) == 0 {
		return ""
	}
	o := OfferingOf(n.Labels)
	if n.State != v1alpha1.StateStandby || j.startRequested[n.Name] || j.unavailable.until(o, j.now).IsZero() {
		return ""
	}
	return "the cloud has no capacity for " + o.Type + " in " + o.Zone + " now"
}
