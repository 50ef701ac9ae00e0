package aws

import (
	"context"
	"slices"
)

// probeLimit is how many instances of one offering have to be refused alone until the others that
// wait in the same call are taken for refused too: the zone is out of the type, and a probe for
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
}

// send implements the send of a batcher.
func (m many) send(ctx context.Context, ids []string, report func(string, nothing, error)) (func(), error) {
	err := m.call(ctx, ids)
	switch {
	case err == nil:
		return nil, nil
	case !aboutOne(err):
		return nil, m.failed(err)
	}
	s := &search{many: m, report: func(id string, err error) { report(id, nothing{}, err) }, alone: map[string]int{}}
	return func() { s.run(ctx, ids, err) }, nil
}

// search is the way from a refused call to the instances that it was refused for.
type search struct {
	many
	report func(id string, err error)
	// untried are instances that nothing is known of yet: they wait until the refused one is found,
	// and then go together.
	untried []string
	// alone counts the refusals of single instances by offering.
	alone map[string]int
	// denied counts the refusals for missing permission.
	denied int
}

func (s *search) run(ctx context.Context, ids []string, err error) {
	s.bisect(ctx, ids, err)
	for len(s.untried) > 0 {
		ids := s.untried
		s.untried = nil
		if err := s.try(ctx, ids); err != nil {
			s.bisect(ctx, ids, err)
		}
	}
}

// try makes a call; where it is accepted, all of its instances are.
func (s *search) try(ctx context.Context, ids []string) error {
	err := s.call(ctx, ids)
	if err == nil {
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
	case s.mixed(ids):
		s.byOffering(ctx, ids, err)
	default:
		s.byHalves(ctx, ids, err)
	}
}

// markFailed reports an instance that was refused alone, and with the last of several those of its
// offering that was not tried.
func (s *search) markFailed(ctx context.Context, id string, err error) {
	s.report(id, s.refused(ctx, id, err))
	o := s.offering(id)
	s.alone[o]++
	if o == "" || s.alone[o] < probeLimit || !runsOut(err) {
		return
	}
	s.untried = slices.DeleteFunc(s.untried, func(other string) bool {
		if s.offering(other) != o {
			return false
		}
		s.report(other, s.refused(ctx, other, err))
		return true
	})
}

// runsOut reports whether the refusal is one that others of the offering share.
func runsOut(err error) bool {
	m := classify(err).means
	return m == meansCapacity || m == meansReservation || m == meansQuota
}

func (s *search) mixed(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return s.offering(id) != s.offering(ids[0]) })
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
