package aws

import (
	"context"
	"slices"
	"sync"
	"time"
)

// probeLimit is how many instances of one offering have to be refused alone until the others that
// wait are taken for refused too: the zone is out of the type, and a probe for
// each of them would use up the rate of everybody else.
const probeLimit = 2

// mostDenied bounds the refusals for missing permission by which one search finds the instances
// that a policy does not cover. After that the permission itself is taken for missing.
const mostDenied = 16

// nothing is what a call that changes an instance returns in addition to its error.
type nothing struct{}

// many makes one call for several instances; where EC2 refuses it for one of them, and so for all,
// it finds out which.
type many struct {
	call func(ctx context.Context, ids []string) error
	// offering is the zone and type of an instance, "" where it is not known.
	offering func(id string) string
	// refused words what one instance was refused for. It may ask the cloud for the instance's state.
	refused func(ctx context.Context, id string, err error) error
	// failed words what a whole call failed with.
	failed func(err error) error
	// lone are the refusals of single instances that all calls share.
	lone *loneRefusals
}

// loneRefusalsKept is how long single instances' refusals hold for others of their offering: as
// long as those wait that were asked for before anybody knew of them.
const loneRefusalsKept = 5 * time.Second

// loneRefusals counts the refusals of single instances by offering, of all searches: calls of
// several are refused together, and each would find out by itself that a zone is out of a type.
type loneRefusals struct {
	// turn lets one search at a time look for what is out: the next one finds what it has found.
	turn chan struct{}

	mu sync.Mutex
	of map[string]loneRefusal
}

type loneRefusal struct {
	count int
	last  time.Time
	err   error
}

func newLoneRefusals() *loneRefusals {
	return &loneRefusals{of: map[string]loneRefusal{}, turn: make(chan struct{}, 1)}
}

func (l *loneRefusals) add(offering string, err error, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of[offering]
	if now.Sub(r.last) > loneRefusalsKept {
		r.count = 0
	}
	l.of[offering] = loneRefusal{count: r.count + 1, last: now, err: err}
}

// isSuspect reports whether an instance of the offering was refused alone lately.
func (l *loneRefusals) isSuspect(offering string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, isKnown := l.of[offering]
	return isKnown && now.Sub(r.last) <= loneRefusalsKept
}

// forget is for an offering of which an instance was accepted.
func (l *loneRefusals) forget(offering string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, offering)
}

// out is the refusal of an offering of which enough instances were refused alone; nil for others.
func (l *loneRefusals) out(offering string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.of[offering]; r.count >= probeLimit && now.Sub(r.last) <= loneRefusalsKept {
		return r.err
	}
	return nil
}

// send implements the send of a batcher.
func (m many) send(ctx context.Context, ids []string, report func(string, nothing, error)) (func(), error) {
	s := &search{many: m, report: func(id string, err error) { report(id, nothing{}, err) }, probed: map[string]bool{}}
	if ids = s.leaveOut(ctx, ids); len(ids) == 0 {
		return nil, nil
	}
	err := m.call(ctx, ids)
	switch {
	case err == nil:
		s.accepted(ids)
		return nil, nil
	case !aboutOne(err):
		return nil, m.failed(err)
	}
	return func() { s.run(ctx, ids, err) }, nil
}

// search is the way from a refused call to the instances that it was refused for.
type search struct {
	many
	report func(id string, err error)
	// untried are instances that nothing is known of yet: they wait until the refused one is found,
	// and then go together.
	untried []string
	// denied counts the refusals for missing permission.
	denied int
	// probed are the offerings that were out for several instances, and of which single ones were
	// tried.
	probed map[string]bool
}

func (s *search) run(ctx context.Context, ids []string, err error) {
	select {
	case s.lone.turn <- struct{}{}:
		defer func() { <-s.lone.turn }()
	case <-ctx.Done():
		return // no caller waits for the instances any more
	}
	s.bisect(ctx, ids, err)
	for len(s.untried) > 0 {
		ids := s.leaveOut(ctx, s.untried)
		s.untried = nil
		if len(ids) == 0 {
			return
		}
		if err := s.try(ctx, ids); err != nil {
			s.bisect(ctx, ids, err)
		}
	}
}

// leaveOut reports the instances whose offering is known to be out, and returns the others.
func (s *search) leaveOut(ctx context.Context, ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		err := s.lone.out(s.offering(id), time.Now())
		if err != nil {
			s.report(id, s.refused(ctx, id, err))
		}
		return err != nil
	})
}

func (s *search) accepted(ids []string) {
	for _, id := range ids {
		s.lone.forget(s.offering(id))
	}
}

// try makes a call; where it is accepted, all of its instances are. Instances whose offering has
// turned out meanwhile to be out are refused without one.
func (s *search) try(ctx context.Context, ids []string) error {
	if err := s.lone.out(s.offering(ids[0]), time.Now()); err != nil && !s.mixed(ids) {
		return err
	}
	err := s.call(ctx, ids)
	if err == nil {
		s.accepted(ids)
		for _, id := range ids {
			s.report(id, nil)
		}
	}
	return err
}

// bisect narrows down for which of the ids the call was refused: for those that the refusal names,
// else by offering, else by halves.
func (s *search) bisect(ctx context.Context, ids []string, err error) {
	if isUnauthorized(err) {
		s.denied++
	}
	if rest := s.leaveOut(ctx, ids); len(rest) < len(ids) {
		s.untried = append(s.untried, rest...) // the refusal may have been about those that are left out
		return
	}
	guilty := named(err)
	inside := func(id string) bool { return slices.Contains(guilty, id) }
	switch {
	case !aboutOne(err), s.denied > mostDenied:
		for _, id := range ids {
			s.report(id, s.failed(err))
		}
	case slices.ContainsFunc(ids, inside):
		for _, id := range ids {
			if inside(id) {
				s.report(id, s.refused(ctx, id, err))
			} else {
				s.untried = append(s.untried, id)
			}
		}
	case len(ids) == 1:
		s.markFailed(ctx, ids[0], err)
	case s.mixed(ids) && slices.ContainsFunc(ids, s.isSuspect):
		s.bySuspects(ctx, ids)
	case s.mixed(ids):
		s.byOffering(ctx, ids, err)
	case runsOut(err) && !s.probed[s.offering(ids[0])]:
		s.byProbes(ctx, ids, err)
	default:
		s.byHalves(ctx, ids, err)
	}
}

// markFailed reports an instance that was refused alone, and with the last of several those of its
// offering that were not tried.
func (s *search) markFailed(ctx context.Context, id string, err error) {
	s.report(id, s.refused(ctx, id, err))
	if o := s.offering(id); o != "" && runsOut(err) {
		s.lone.add(o, err, time.Now())
		s.untried = s.leaveOut(ctx, s.untried)
	}
}

// runsOut reports whether the refusal is one that others of the offering share.
func runsOut(err error) bool {
	m := classify(err).means
	return m == meansCapacity || m == meansReservation || m == meansQuota
}

func (s *search) mixed(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return s.offering(id) != s.offering(ids[0]) })
}

// isSuspect reports whether the instance's offering is to be probed before others are tried.
func (s *search) isSuspect(id string) bool {
	o := s.offering(id)
	return !s.probed[o] && s.lone.isSuspect(o, time.Now())
}

// bySuspects tries a single instance of each offering that another was refused alone of lately: as
// a rule they are what the refusal was about, and all others start by one call.
func (s *search) bySuspects(ctx context.Context, ids []string) {
	for _, id := range ids {
		if !s.isSuspect(id) {
			s.untried = append(s.untried, id)
			continue
		}
		s.probed[s.offering(id)] = true
		if refusal := s.try(ctx, []string{id}); refusal != nil {
			s.bisect(ctx, []string{id}, refusal)
		}
	}
}

// byOffering tries each zone and type by itself: as a rule one of them is out, and the others start
// at once.
func (s *search) byOffering(ctx context.Context, ids []string, err error) {
	var order []string
	groups := map[string][]string{}
	for _, id := range ids {
		o := s.offering(id)
		if groups[o] == nil {
			order = append(order, o)
		}
		groups[o] = append(groups[o], id)
	}
	refusals := map[string]error{}
	for n, o := range order {
		if n == len(order)-1 && len(refusals) == 0 {
			refusals[o] = err // all others were accepted, so the refusal was about this one
			break
		}
		if err := s.try(ctx, groups[o]); err != nil {
			refusals[o] = err
		}
	}
	for _, o := range order {
		if err := refusals[o]; err != nil {
			s.bisect(ctx, groups[o], err)
		}
	}
}

// byHalves tries the first half. Where it is accepted, the refusal was about the second, which need
// not be tried as a whole; where it is not, the second waits until the refused one is found.
func (s *search) byHalves(ctx context.Context, ids []string, err error) {
	first, second := ids[:len(ids)/2], ids[len(ids)/2:]
	if refusal := s.try(ctx, first); refusal != nil {
		s.untried = append(s.untried, second...)
		s.bisect(ctx, first, refusal)
		return
	}
	s.bisect(ctx, second, err)
}

// byProbes tries single instances of an offering that has no room for all, or none for one of them:
// as a rule it has none at all, and after a few refusals the others need no call.
func (s *search) byProbes(ctx context.Context, ids []string, err error) {
	s.probed[s.offering(ids[0])] = true
	refusal := s.try(ctx, ids[:1])
	if refusal == nil {
		s.bisect(ctx, ids[1:], err)
		return
	}
	for refusal != nil {
		s.bisect(ctx, ids[:1], refusal)
		if ids = s.leaveOut(ctx, ids[1:]); len(ids) == 0 {
			return
		}
		refusal = s.try(ctx, ids[:1])
	}
	s.untried = append(s.untried, ids[1:]...) // the refusal was about those that were refused alone
}
