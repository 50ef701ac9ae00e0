package cluster

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// read reads something of the claims.
func read[T any](v *State, what func(*decide.Claims) T) T {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return what(v.claims)
}

// change changes something of the claims.
func change[T any](v *State, what func(*decide.Claims) T) T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return what(v.claims)
}

// ClaimsOn returns the claims on a node, sorted by pod.
func (v *State) ClaimsOn(node v1alpha1.NodeName) []decide.Claim {
	return read(v, func(l *decide.Claims) []decide.Claim { return l.On(node) })
}

// ClaimOf returns the pod's claim; false where it has none.
func (v *State) ClaimOf(pod types.UID) (decide.Claim, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.claims.Of(pod)
}

// ClaimCount returns how many claims there are.
func (v *State) ClaimCount() int { return read(v, (*decide.Claims).Count) }

// PendingClaims returns how many claims stand on nodes that do not run yet, per pool.
func (v *State) PendingClaims() map[v1alpha1.PoolName]int {
	return read(v, (*decide.Claims).PendingPerPool)
}

// StartFailed ends all claims on a node because it will not run, has their pods placed anew, and
// returns them sorted.
func (v *State) StartFailed(node v1alpha1.NodeName) []decide.Claim {
	now := v.now()
	v.mu.Lock()
	defer v.unlock()
	claims := v.claims.ReleaseNode(node)
	v.claimsEnded(claims, now)
	return claims
}

// BackOffNode keeps a node whose start failed from being promised before the given time.
func (v *State) BackOffNode(node v1alpha1.NodeName, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.claims.BackOffNode(node, until)
}

// MarkOfferingUnavailable is Claims.MarkOfferingUnavailable.
func (v *State) MarkOfferingUnavailable(o decide.Offering, now time.Time) time.Time {
	return change(v, func(l *decide.Claims) time.Time { return l.MarkOfferingUnavailable(o, now) })
}

// MarkOfferingAvailable is Claims.MarkOfferingAvailable.
func (v *State) MarkOfferingAvailable(o decide.Offering) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.claims.MarkOfferingAvailable(o)
}

// OfferingUnavailableUntil is Claims.OfferingUnavailableUntil.
func (v *State) OfferingUnavailableUntil(o decide.Offering, now time.Time) time.Time {
	return read(v, func(l *decide.Claims) time.Time { return l.OfferingUnavailableUntil(o, now) })
}

// BudgetExhausted is Claims.BudgetExhausted.
func (v *State) BudgetExhausted(n *decide.Node, now time.Time) (why string, until time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.claims.BudgetExhausted(n, now)
}

// OwnerBackoff is Claims.OwnerBackoff.
func (v *State) OwnerBackoff(pod *corev1.Pod, now time.Time) (why string, until time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.claims.OwnerBackoff(pod, now)
}

// StartsLimited is Claims.StartsLimited.
func (v *State) StartsLimited(pool v1alpha1.PoolName, now time.Time) (time.Time, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.claims.StartsLimited(pool, now)
}

// SetReadyIn is Ledger.SetReadyIn.
func (v *State) SetReadyIn(pool v1alpha1.PoolName, d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.claims.SetReadyIn(pool, d)
}

// ExpireBackoffs is Claims.ExpireBackoffs.
func (v *State) ExpireBackoffs(now time.Time) bool {
	return change(v, func(l *decide.Claims) bool { return l.ExpireBackoffs(now) })
}

// Missed reports whether a pod was refused shortly before some node became more open than it was,
// and not asked about since; and when that node did.
func (v *State) Missed() (bool, time.Time) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.claims.Missed(v.opened), v.opened
}

// Unasked is Ledger.Unasked.
func (v *State) Unasked(now time.Time, wait time.Duration) []v1alpha1.NodeName {
	return read(v, func(l *decide.Claims) []v1alpha1.NodeName { return l.Unasked(now, wait) })
}

// Late is Ledger.Late without the nodes that show a start.
func (v *State) Late(now time.Time) []v1alpha1.NodeName {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var late []v1alpha1.NodeName
	for _, name := range v.claims.Late(now) {
		if n := v.nodeOf(name); n != nil && (n.State == v1alpha1.StateStandby || n.State == v1alpha1.StateStopping) {
			late = append(late, name)
		}
	}
	return late
}

// Overdue is Ledger.Overdue.
func (v *State) Overdue(now time.Time) []decide.Claim {
	return change(v, func(l *decide.Claims) []decide.Claim { return l.Overdue(now) })
}

// Forget forgets the pods that went, and those that were last refused, before the given time.
func (v *State) Forget(before time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.claims.ForgetRefused(before)
	maps.DeleteFunc(v.gone, func(_ types.UID, at time.Time) bool { return at.Before(before) })
}
