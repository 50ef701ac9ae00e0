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

// ClaimsOn returns the claims on a node, sorted by pod.
func (s *State) ClaimsOn(node v1alpha1.NodeName) []decide.Claim {
	return read(s, func(l *decide.Claims) []decide.Claim { return l.On(node) })
}

// ClaimOf returns the pod's claim; false where it has none.
func (s *State) ClaimOf(pod types.UID) (decide.Claim, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.claims.Of(pod)
}

// ClaimCount returns how many claims there are.
func (s *State) ClaimCount() int { return read(s, (*decide.Claims).Count) }

// PendingClaims returns how many claims stand on nodes that do not run yet, per pool.
func (s *State) PendingClaims() map[v1alpha1.PoolName]int {
	return read(s, (*decide.Claims).PendingPerPool)
}

// StartFailed ends all claims on a node because it will not run, has their pods placed anew, and
// returns them sorted.
func (s *State) StartFailed(node v1alpha1.NodeName) []decide.Claim {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	claims := s.claims.ReleaseNode(node)
	s.claimsEnded(claims, now)
	return claims
}

// BackOffNode lets no claim be made before the given time on a node whose start failed.
func (s *State) BackOffNode(node v1alpha1.NodeName, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims.BackOffNode(node, until)
}

// MarkOfferingUnavailable is Claims.MarkOfferingUnavailable. Standby nodes of the offering are to
// start as another type from now on.
func (s *State) MarkOfferingUnavailable(o decide.Offering, now time.Time) time.Time {
	s.mu.Lock()
	defer s.unlock()
	until := s.claims.MarkOfferingUnavailable(o, now)
	s.retype(now)
	return until
}

// MarkOfferingAvailable is Claims.MarkOfferingAvailable.
func (s *State) MarkOfferingAvailable(o decide.Offering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims.MarkOfferingAvailable(o)
}

// OfferingUnavailableUntil is Claims.OfferingUnavailableUntil.
func (s *State) OfferingUnavailableUntil(o decide.Offering, now time.Time) time.Time {
	return read(s, func(l *decide.Claims) time.Time { return l.OfferingUnavailableUntil(o, now) })
}

// BudgetExhausted is Claims.BudgetExhausted.
func (s *State) BudgetExhausted(n *decide.Node, now time.Time) (why string, until time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.claims.BudgetExhausted(n, now)
}

// OwnerBackoff is Claims.OwnerBackoff.
func (s *State) OwnerBackoff(pod *corev1.Pod, now time.Time) (why string, until time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.claims.OwnerBackoff(pod, now)
}

// StartsLimited is Claims.StartsLimited.
func (s *State) StartsLimited(pool v1alpha1.PoolName, now time.Time) (time.Time, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.claims.StartsLimited(pool, now)
}

// ExpireBackoffs is Claims.ExpireBackoffs. Where one of an offering has ended, its nodes start as
// what they are again.
func (s *State) ExpireBackoffs(now time.Time) bool {
	s.mu.Lock()
	defer s.unlock()
	ended := s.claims.ExpireBackoffs(now)
	if held := s.types.heldUntil; !held.IsZero() && !now.Before(held) {
		s.types.heldUntil, ended = time.Time{}, true
	}
	if ended {
		s.retype(now)
	}
	return ended
}

// Missed reports whether a pod was refused shortly before some node became more open than it was,
// and not asked about since; and when that node did.
func (s *State) Missed() (bool, time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.claims.Missed(s.opened), s.opened
}

// Unasked is Ledger.Unasked.
func (s *State) Unasked(now time.Time, wait time.Duration) []v1alpha1.NodeName {
	return read(s, func(l *decide.Claims) []v1alpha1.NodeName { return l.Unasked(now, wait) })
}

// Late is Ledger.Late without the nodes that show a start.
func (s *State) Late(now time.Time) []v1alpha1.NodeName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var late []v1alpha1.NodeName
	for _, name := range s.claims.Late(now) {
		if n := s.nodeOf(name); n != nil && (n.State == v1alpha1.StateStandby || n.State == v1alpha1.StateStopping) {
			late = append(late, name)
		}
	}
	return late
}

// Overdue is Claims.Overdue, and tells the listeners.
func (s *State) Overdue(now time.Time) []decide.Claim {
	s.mu.Lock()
	defer s.unlock()
	over := s.claims.Overdue(now)
	for _, l := range s.listeners {
		if l.ClaimsOverdue != nil && len(over) > 0 {
			s.notifications.add(func() { l.ClaimsOverdue(over) })
		}
	}
	return over
}

// RecordNomination is Claims.RecordNomination.
func (s *State) RecordNomination(pod types.UID, node v1alpha1.NodeName) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims.RecordNomination(pod, node, now)
}

// Forget forgets the pods that went, and those that were last refused or passed, before the given
// time.
func (s *State) Forget(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims.ForgetAnswers(before)
	maps.DeleteFunc(s.gone, func(_ types.UID, at time.Time) bool { return at.Before(before) })
}
