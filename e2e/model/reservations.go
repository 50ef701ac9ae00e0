package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Classes that name capacity reservations: those of the cloud fill up, have room again and end, and
// stopped instances are set to them.

// reservationPlay is how a world plays reservations.
type reservationPlay struct {
	// played: the classes say which reservations their instances use, or did.
	played bool
	// held are those of the account, up to two for each class.
	held []*reservation
}

// reservation is capacity of one type in one zone that is reserved.
type reservation struct {
	id, zone, kind string
	seats          int
	// targeted: only instances use it that are set to it. ended: it reserves nothing any more.
	targeted, ended bool
}

// reservationClasses are the classes, in the order of the pools.
func reservationClasses() []string { return []string{classOf(poolNamed(0)), classOf(poolNamed(1))} }

// namedReservations are what a class may say. One that names a reservation is drawn more often than
// the others.
func namedReservations(id string) []*v1alpha1.CapacityReservation {
	named := &v1alpha1.CapacityReservation{ID: id}
	only := &v1alpha1.CapacityReservation{ID: id, Preference: v1alpha1.ReservationOnly}
	return []*v1alpha1.CapacityReservation{named, only, {Preference: v1alpha1.ReservationOpen},
		{Preference: v1alpha1.ReservationNone}, {Preference: v1alpha1.ReservationOnly}, nil, named, only, named}
}

var errNoSeat = errors.New("the reservation has no room")

func reservationOperations() map[string]kindOfOperation {
	return map[string]kindOfOperation{ // drawn by withReservations
		"reserve": {0, [4]int{8, 3, 3, 3}, (*World).reserve},
		"crowd":   {0, [4]int{3, 900}, (*World).crowd},
		"expire":  {0, [4]int{3, 290}, (*World).expire},
		"bar":     {0, [4]int{600}, func(w *World, a [4]int) { w.trouble.barred = w.now.Add(secondsOf(a[0])) }},
		"reset":   {0, [4]int{50, 5, 1}, (*World).resetByHand},
	}
}

// withReservations has the classes of a fifth of the traces say which reservations their instances
// use. Dice of its own leave the others as they were.
func withReservations(t Trace) Trace {
	if t.Seed%5 != 2 {
		return t
	}
	dice, all := rand.New(rand.NewPCG(t.Seed, 0xc2b2ae35)), operations() //nolint:gosec // dice, not secrets
	put := func(name string) {
		at := 2 + dice.IntN(len(t.Operations)-1)
		t.Operations = slices.Insert(t.Operations, at, drawn(dice, all, name, someWait(dice)))
	}
	for range 1 + dice.IntN(4) {
		put("crowd")
	}
	for range 2 + dice.IntN(3) {
		put("pods") // for which nodes start meanwhile
	}
	for _, name := range []string{"expire", "reserve", "bar", "reset"} {
		if dice.IntN(3) == 0 {
			put(name)
		}
	}
	t.Operations = slices.Insert(t.Operations, 0, drawn(dice, all, "reserve", 0))
	if dice.IntN(2) == 0 {
		t.Operations = append(t.Operations, crowded(dice, all)...)
	}
	return t
}

// crowded has pods come in waves to pools whose reservations have room for few, while others take
// that, or it ends, or the classes come to say otherwise.
func crowded(dice *rand.Rand, all map[string]kindOfOperation) []Operation {
	reserve := drawn(dice, all, "reserve", 5*time.Minute)
	reserve.Args[1] = dice.IntN(3) // the seats
	out := []Operation{{Name: "newpool", Args: [4]int{dice.IntN(2), 3, 3, 11}}, reserve}
	meanwhile := []string{"crowd", "crowd", "expire", "reserve", "bar", "crash", "crash", "lose", "unpod", "dry", "pinned"}
	for range 2 + dice.IntN(3) {
		pods := drawn(dice, all, "pods", time.Duration(1+dice.IntN(120))*time.Second)
		pods.Args[0], pods.Args[2] = dice.IntN(2), 2 // one or two, in whichever pool
		with := drawn(dice, all, meanwhile[dice.IntN(len(meanwhile))], time.Duration(dice.IntN(20000))*time.Millisecond)
		if with.Name == "crash" {
			with.Args[0] = dice.IntN(7) // at one of the calls of a start
		}
		if dice.IntN(2) == 0 {
			with.Wait, pods.Wait = pods.Wait, (with.Wait / 10).Truncate(time.Millisecond)
			out = append(out, with, pods)
		} else {
			out = append(out, pods, with)
		}
		if dice.IntN(3) == 0 { // those of the wave go, and their nodes stop
			out = append(out, Operation{Wait: time.Minute, Name: "unpod", Args: [4]int{0, 4}},
				Operation{Wait: 2 * time.Minute, Name: "unpod", Args: [4]int{0, 4}})
		}
	}
	return out
}

// reserve has both classes say what reservations their instances use, and gives each class a
// reservation of so many seats, of the first type or of the last one that the class has. The
// class's loop finds out a while later.
func (w *World) reserve(a [4]int) {
	w.reservations.played = true
	for n, name := range reservationClasses() {
		class := w.api.class(name).DeepCopy()
		id := reservationID(n, a[2]%2)
		r := w.reservation(id)
		if r == nil {
			kinds := class.Spec.NamedTypes()
			r = &reservation{id: id, zone: zoneNames(class.Spec.Region)[a[3]%2], kind: kinds[0], targeted: a[3] > 1}
			if a[2] > 1 {
				r.kind = kinds[len(kinds)-1]
			}
			w.reservations.held = append(w.reservations.held, r)
		}
		r.seats = a[1]
		class.Spec.CapacityReservation = namedReservations(id)[a[0]].DeepCopy()
		class.Generation++
		w.api.put(kindClass, class)
		w.after(w.between(0, 20*time.Second), func() { w.resolveReservation(name) })
	}
}

// reservationID names a reservation of a class.
func reservationID(class, number int) string { return fmt.Sprintf("cr-%d", class+1+2*number) }

// resolveReservation is the loop of the class, which writes what the cloud says of its reservation.
func (w *World) resolveReservation(name string) {
	class := w.api.class(name).DeepCopy()
	class.Status.ObservedGeneration, class.Status.CapacityReservation = class.Generation, nil
	if s := class.Spec.CapacityReservation; s != nil && s.ID != "" {
		r := w.reservation(s.ID)
		class.Status.CapacityReservation = &v1alpha1.CapacityReservationStatus{ID: r.id, InstanceType: r.kind, Zone: r.zone,
			Ended: r.ended}
	}
	w.api.put(kindClass, class)
}

// crowd has others fill a reservation for some seconds.
func (w *World) crowd(a [4]int) {
	if r := pick(w.reservations.held, a[0]); r != nil {
		w.trouble.full[(*r).id] = w.now.Add(secondsOf(a[1]))
	}
}

// expire ends a reservation. What runs in it goes on. The class's loop finds out a while later.
func (w *World) expire(a [4]int) {
	r := pick(w.reservations.held, a[0])
	if r == nil {
		return
	}
	w.note("reservation %s ends", (*r).id)
	(*r).ended = true
	for _, name := range reservationClasses() {
		w.after(secondsOf(a[1]), func() { w.resolveReservation(name) })
	}
}

// resetByHand is a person who sets what reservations a stopped instance uses.
func (w *World) resetByHand(a [4]int) {
	mine := slices.DeleteFunc(slices.Clone(w.cloud.instances), func(i *instance) bool {
		return i.token == "" || i.state() != provider.InstanceStopped
	})
	if i := pick(mine, a[0]); i != nil {
		(*i).meddled = w.now
		to := namedReservations(reservationID(slices.Index(regionNames(), regionOr((*i).region)), a[2]))[a[1]]
		if to == nil || to.ID != "" && w.reservation(to.ID) == nil {
			to = &v1alpha1.CapacityReservation{}
		}
		w.cloud.alter(*i, func(m *moment) { m.uses = plain(*to) })
	}
}

// plain leaves the default out, as the cloud shows it.
func plain(r v1alpha1.CapacityReservation) v1alpha1.CapacityReservation {
	if r.Preference == v1alpha1.ReservationOpen {
		r.Preference = ""
	}
	return r
}

func (w *World) reservation(id string) *reservation {
	for _, r := range w.reservations.held {
		if r.id == id {
			return r
		}
	}
	return nil
}

// seatsLeft are those of the reservation that no instance uses.
func (w *World) seatsLeft(r *reservation) int {
	if w.now.Before(w.trouble.full[r.id]) {
		return 0
	}
	left := r.seats
	for _, i := range w.cloud.instances {
		if s := i.state(); i.runsIn == r.id && s != provider.InstanceStopped && !i.ending() {
			left--
		}
	}
	return left
}

// seatFor is the reservation with room in which the instance runs, nil where it runs On-Demand. The
// error says that it may not.
func (w *World) seatFor(uses v1alpha1.CapacityReservation, zone, kind string) (*reservation, error) {
	if uses.Preference == v1alpha1.ReservationNone {
		return nil, nil //nolint:nilnil // On-Demand
	}
	for _, r := range w.reservations.held {
		isWanted := uses.ID == r.id || uses.ID == "" && !r.targeted
		if isWanted && !r.ended && r.zone == zone && r.kind == kind && w.seatsLeft(r) > 0 {
			return r, nil
		}
	}
	if bindingOf(uses) != "" {
		return nil, &provider.InsufficientCapacityError{Zone: zone, Type: kind, Reservation: true, Err: errNoSeat}
	}
	return nil, nil //nolint:nilnil // On-Demand
}

// bindingOf is what an instance does not start without, "" where it starts On-Demand too.
func bindingOf(uses v1alpha1.CapacityReservation) string {
	if uses.Preference == v1alpha1.ReservationOnly {
		return cmp.Or(uses.ID, "any")
	}
	return uses.ID
}

// placed is the reservation in which an instance has power, "" for On-Demand capacity, or why the
// cloud has none. A zone that has no capacity at all gives none of what is reserved either.
func (w *World) placed(uses v1alpha1.CapacityReservation, zone, kind string) (string, error) {
	r, err := w.seatFor(uses, zone, kind)
	switch {
	case err != nil:
		return "", err
	case r == nil, w.now.Before(w.trouble.scarce[zone]):
		return "", w.noneOf(zone, kind)
	}
	return r.id, nil
}

// startsByHand is where a person's start of the instance has power, whatever the cloud is short of.
func (w *World) startsByHand(i *instance) (runsIn string, starts bool) {
	r, err := w.seatFor(i.uses(), i.zone, i.kind())
	if r != nil {
		runsIn = r.id
	}
	return runsIn, err == nil
}

// launchOffer is as what an instance is launched, and where.
type launchOffer struct {
	zone, kind, runsIn string
	uses               v1alpha1.CapacityReservation
}

// launchOffer is the first that the cloud has: of the usable types of the class in their order, in
// the reservation that it names before On-Demand.
func (w *World) launchOffer(class *v1alpha1.AWSNodeClass) (launchOffer, error) {
	var first error
	for _, o := range w.launchOffers(class) {
		runsIn, err := w.placed(o.uses, o.zone, o.kind)
		if err == nil {
			o.runsIn = runsIn
			return o, nil
		}
		if first == nil {
			first = err
		}
	}
	return launchOffer{}, first
}

// launchOffers go to the zone of the reservation that the class names, and where it uses no
// On-Demand capacity to each zone.
func (w *World) launchOffers(class *v1alpha1.AWSNodeClass) []launchOffer {
	next, inRegion := len(w.cloud.instances)%2, zoneNames(class.Spec.Region)
	zones := []string{inRegion[next]}
	named, status := class.Spec.CapacityReservation, class.Status.CapacityReservation
	isOnly := named != nil && named.Preference == v1alpha1.ReservationOnly
	switch {
	case named == nil:
	case named.ID != "" && status != nil && !status.Ended:
		zones = []string{status.Zone}
	case isOnly:
		zones = append(zones, inRegion[1-next])
	}
	var out []launchOffer
	for _, kind := range class.UsableTypes() {
		for _, zone := range zones {
			uses := wanted(class, zone, kind)
			out = append(out, launchOffer{zone: zone, kind: kind, uses: uses})
			if uses.ID != "" && !isOnly {
				out = append(out, launchOffer{zone: zone, kind: kind})
			}
		}
	}
	return out
}

// wanted is what reservations instances of the class are to use, in that zone and of that type, as
// far as its status tells.
func wanted(class *v1alpha1.AWSNodeClass, zone, kind string) v1alpha1.CapacityReservation {
	named, status := class.Spec.CapacityReservation, class.Status.CapacityReservation
	switch {
	case named == nil:
		return v1alpha1.CapacityReservation{}
	case named.ID == "" || named.Preference == v1alpha1.ReservationOnly:
		return plain(*named)
	case status == nil || status.Ended || status.InstanceType != kind || status.Zone != zone:
		return v1alpha1.CapacityReservation{}
	}
	return *named
}

var _ provider.Reserver = (*cloudClient)(nil)

// SetReservation implements provider.Reserver.
func (c *cloudClient) SetReservation(_ context.Context, id string, want v1alpha1.CapacityReservation) error {
	return c.p.cloudWrite(fmt.Sprintf("set %s to reservation %q", id, bindingOf(want)), func() error {
		i, err := c.instance(id)
		if err != nil {
			return err
		}
		c.p.w.rules.setsReservation(c.p, i, want)
		err = c.p.w.setReservation(i, want)
		c.p.w.rules.answeredReservation(c.p, i, want, err)
		return err
	})
}

func (w *World) setReservation(i *instance, want v1alpha1.CapacityReservation) error {
	r := w.reservation(want.ID)
	switch {
	case w.now.Before(w.trouble.barred):
		return &provider.UnauthorizedError{Operation: "ModifyInstanceCapacityReservationAttributes", Reason: "denied"}
	case i.uses() == plain(want):
		return nil
	case i.state() != provider.InstanceStopped:
		return &provider.IncorrectStateError{ID: string(i.id), State: i.state(), Op: "set the reservation of"}
	case want.ID != "" && (r == nil || r.ended):
		return &provider.InvalidConfigError{Field: "instance " + string(i.id), Reason: want.ID + " has ended"}
	}
	w.cloud.alter(i, func(m *moment) { m.uses = plain(want) })
	return nil
}
