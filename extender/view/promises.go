package view

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
)

// read reads something of the ledger.
func read[T any](v *View, what func(*claim.Ledger) T) T {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return what(v.ledger)
}

// change changes something of the ledger.
func change[T any](v *View, what func(*claim.Ledger) T) T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return what(v.ledger)
}

// ClaimsOn returns the claims on a node, sorted by pod.
func (v *View) ClaimsOn(node v1alpha1.NodeName) []claim.Claim {
	return read(v, func(l *claim.Ledger) []claim.Claim { return l.On(node) })
}

// ClaimOf returns the pod's claim; false where it has none.
func (v *View) ClaimOf(pod types.UID) (claim.Claim, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.ledger.Of(pod)
}

// Claims returns how many claims there are.
func (v *View) Claims() int { return read(v, (*claim.Ledger).Len) }

// OnTheWay returns how many claims stand on nodes that do not run yet, per pool.
func (v *View) OnTheWay() map[v1alpha1.PoolName]int { return read(v, (*claim.Ledger).Waiting) }

// StartFailed ends all claims on a node because it will not run, has their pods placed anew, and
// returns them sorted.
func (v *View) StartFailed(node v1alpha1.NodeName) []claim.Claim {
	now := v.now()
	v.mu.Lock()
	defer v.unlock()
	claims := v.ledger.Failed(node)
	v.ended(claims, now)
	return claims
}

// Rest keeps a node whose start failed from being promised before the given time.
func (v *View) Rest(node v1alpha1.NodeName, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ledger.Rest(node, until)
}

// Scarce is Ledger.Scarce.
func (v *View) Scarce(o claim.Offering, now time.Time) time.Time {
	return change(v, func(l *claim.Ledger) time.Time { return l.Scarce(o, now) })
}

// Plenty is Ledger.Plenty.
func (v *View) Plenty(o claim.Offering) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ledger.Plenty(o)
}

// ScarceUntil is Ledger.ScarceUntil.
func (v *View) ScarceUntil(o claim.Offering, now time.Time) time.Time {
	return read(v, func(l *claim.Ledger) time.Time { return l.ScarceUntil(o, now) })
}

// UsedUp is Ledger.UsedUp.
func (v *View) UsedUp(n *claim.Node, now time.Time) (why string, until time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.ledger.UsedUp(n, now)
}

// HeldBack is Ledger.HeldBack.
func (v *View) HeldBack(pod *corev1.Pod, now time.Time) (why string, until time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.ledger.HeldBack(pod, now)
}

// Limited is Ledger.Limited.
func (v *View) Limited(pool v1alpha1.PoolName, now time.Time) (time.Time, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.ledger.Limited(pool, now)
}

// SetReadyIn is Ledger.SetReadyIn.
func (v *View) SetReadyIn(pool v1alpha1.PoolName, d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ledger.SetReadyIn(pool, d)
}

// Expired is Ledger.Expired.
func (v *View) Expired(now time.Time) bool {
	return change(v, func(l *claim.Ledger) bool { return l.Expired(now) })
}

// Missed reports whether a pod was refused shortly before some node became more open than it was,
// and not asked about since; and when that node did.
func (v *View) Missed() (bool, time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.ledger.Missed(v.opened), v.opened
}

// Unasked is Ledger.Unasked.
func (v *View) Unasked(now time.Time, wait time.Duration) []v1alpha1.NodeName {
	return read(v, func(l *claim.Ledger) []v1alpha1.NodeName { return l.Unasked(now, wait) })
}

// Late is Ledger.Late without the nodes that show a start.
func (v *View) Late(now time.Time) []v1alpha1.NodeName {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var late []v1alpha1.NodeName
	for _, name := range v.ledger.Late(now) {
		if n := v.nodeOf(name); n != nil && (n.State == v1alpha1.StateStandby || n.State == v1alpha1.StateStopping) {
			late = append(late, name)
		}
	}
	return late
}

// Overdue is Ledger.Overdue.
func (v *View) Overdue(now time.Time) []claim.Claim {
	return change(v, func(l *claim.Ledger) []claim.Claim { return l.Overdue(now) })
}

// Forget forgets the pods that went, and those that were last refused, before the given time.
func (v *View) Forget(before time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ledger.ForgetRefused(before)
	maps.DeleteFunc(v.gone, func(_ types.UID, at time.Time) bool { return at.Before(before) })
}
