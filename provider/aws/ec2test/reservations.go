package ec2test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// CapacityReservation is reserved capacity of the account. Its region is that of its zone.
type CapacityReservation struct {
	ID, Type, Zone string
	Count          int
	// Platform is Linux/UNIX where it is empty, State active.
	Platform, State string
	// Targeted: only instances use it that name it, or a group of it.
	Targeted bool
	// Dedicated: its tenancy. Block: it is a Capacity Block.
	Dedicated, Block bool
	// Groups are the ARNs of the resource groups that it is in.
	Groups []string
}

// Reserve adds the reservation, or changes the one with the id.
func (s *Server) Reserve(r CapacityReservation) {
	s.sim.Write(func(*simcloud.Book) { s.capacity[r.ID] = r })
}

// ForgetReservation has EC2 not know the reservation any more.
func (s *Server) ForgetReservation(id string) {
	s.sim.Write(func(*simcloud.Book) { delete(s.capacity, id) })
}

// The values of reservations that more than one place compares.
const (
	platformLinux  = "Linux/UNIX"
	prefersOpen    = "open"
	prefersNone    = "none"
	prefersOnly    = "capacity-reservations-only"
	reservedActive = "active"
)

func (r *CapacityReservation) platform() string { return orElse(r.Platform, platformLinux) }
func (r *CapacityReservation) state() string    { return orElse(r.State, reservedActive) }

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// reservationID is the form of a reservation's id.
var reservationID = regexp.MustCompile(`^cr-([0-9a-f]{8}|[0-9a-f]{17})$`)

// reserving is which reservations an instance is to use.
type reserving struct {
	preference string
	id, group  string
}

// parseReserving reads a CapacityReservationSpecification; ok is false where there is none.
func (s *Server) parseReserving(p *params, c *call) (r reserving, ok bool) {
	const prefix = "CapacityReservationSpecification."
	const target = prefix + "CapacityReservationTarget."
	r.preference = p.oneOf(prefix+"CapacityReservationPreference", prefersOpen, prefersNone, prefersOnly)
	r.id, r.group = p.text(target+"CapacityReservationId"), p.text(target+"CapacityReservationResourceGroupArn")
	if r.id != "" {
		c.also = append(c.also, fmt.Sprintf("arn:aws:ec2:%s:%s:capacity-reservation/%s", c.region, s.account.ID, r.id))
	}
	if r.group != "" {
		c.also = append(c.also, r.group)
	}
	switch {
	case r.id != "" && r.group != "":
		p.refuse(fail(codeCombination, "CapacityReservationId and CapacityReservationResourceGroupArn may not be specified "+
			"on the same request"))
	case (r.id != "" || r.group != "") && (r.preference == prefersOpen || r.preference == prefersNone):
		p.refuse(fail(codeCombination, "CapacityReservationPreference %s may not be used with CapacityReservationTarget",
			r.preference))
	case r.id != "" && !reservationID.MatchString(r.id):
		p.refuse(fail("InvalidCapacityReservationId.Malformed", "Invalid id: %q (expecting \"cr-...\")", r.id))
	}
	return r, r != reserving{}
}

// unknownTarget is the refusal of a target that does not exist; nil where it does.
func (s *Server) unknownTarget(region string, r reserving) error {
	if r.id == "" {
		return nil
	}
	if found, ok := s.capacity[r.id]; !ok || found.region() != region {
		return fail(codeNoReserved, "The capacity reservation '%s' does not exist", r.id)
	}
	return nil
}

func (r *CapacityReservation) region() string { return r.Zone[:len(r.Zone)-1] }

// seat is where an instance asks for power.
type seat struct{ kind, zone, platform string }

// takes reports whether instances of the seat may use the reservation.
func (r *CapacityReservation) takes(at seat) bool {
	return r.state() == reservedActive && !r.Dedicated && !r.Block &&
		r.Type == at.kind && r.Zone == at.zone && r.platform() == at.platform
}

// placed is the reservation that one more instance runs in, "" for On-Demand capacity. more counts
// those that the same call has placed so far. The error is what EC2 says where the instance may not
// use On-Demand capacity. For a target that has ended AWS documents that the instance does not
// start, and no code: this is the one for a reservation without room.
func (s *Server) placed(b *simcloud.Book, r reserving, at seat, more map[string]int) (string, error) {
	if r.preference == prefersNone {
		return "", nil
	}
	for _, id := range slices.Sorted(maps.Keys(s.capacity)) {
		one := s.capacity[id]
		open := r.id == "" && r.group == "" && !one.Targeted
		wanted := open || r.id == id || slices.Contains(one.Groups, r.group)
		if wanted && one.takes(at) && s.usedOf(b, id)+more[id] < one.Count {
			more[id]++
			return id, nil
		}
	}
	if r.id != "" || r.preference == prefersOnly {
		return "", fail(codeReserved,
			"The requested reservation does not have sufficient compatible and available capacity for this request.")
	}
	return "", nil
}

// usedOf counts the instances that run in the reservation.
func (s *Server) usedOf(b *simcloud.Book, id string) int {
	n := 0
	for instanceID, d := range s.details {
		if d.runsIn != id {
			continue
		}
		if inst, err := b.Find(instanceID); err == nil && inst.Powered() {
			n++
		}
	}
	return n
}

// runIn notes where the instance gets its power at this start.
func (s *Server) runIn(inst *simcloud.Instance, reservation string) {
	d := s.details[inst.ID]
	d.runsIn = reservation
	s.details[inst.ID] = d
	inst.Reserved = reservation != ""
}

func (s *Server) parseReserve(p *params, c *call) {
	c.op = simcloud.OpSetReservation
	id := p.text("InstanceId")
	want, given := s.parseReserving(p, c)
	switch {
	case id == "":
		p.refuse(fail(codeMissing, "The request must contain the parameter InstanceId"))
	case !instanceID.MatchString(id):
		p.refuse(fail(codeMalformed, "Invalid id: %q", id))
	case !given:
		p.refuse(fail(codeMissing, "The request must contain the parameter CapacityReservationSpecification"))
	}
	c.ids = []v1alpha1.InstanceID{v1alpha1.InstanceID(id)}
	region, ids := c.region, c.ids
	c.run = func(b *simcloud.Book) (answer, error) {
		instances, err := exists(b, region, ids)
		if err != nil {
			return answer{}, err
		}
		inst := instances[0]
		if inst.State != provider.InstanceStopped {
			return answer{}, fail(codeState, "The instance '%s' is not in the 'stopped' state.", inst.ID)
		}
		if err := s.unknownTarget(region, want); err != nil {
			return answer{}, err
		}
		if one, ok := s.capacity[want.id]; ok && one.state() != reservedActive {
			return answer{}, fail(codeInvalid, "The capacity reservation '%s' is %s", one.ID, one.state())
		}
		d := s.details[inst.ID]
		d.reserving = want
		s.details[inst.ID] = d
		return answer{content: done{Return: true}}, nil
	}
}

// reservingInfo is what EC2 shows of an instance: its preference or its target.
type reservingInfo struct {
	Preference string `xml:"capacityReservationPreference,omitempty"`
	ID         string `xml:"capacityReservationTarget>capacityReservationId,omitempty"`
	Group      string `xml:"capacityReservationTarget>capacityReservationResourceGroupArn,omitempty"`
}

func (r reserving) info() reservingInfo {
	if r == (reserving{}) {
		r.preference = prefersOpen
	}
	return reservingInfo{Preference: r.preference, ID: r.id, Group: r.group}
}

type reservationInfo struct {
	ID        string `xml:"capacityReservationId"`
	Owner     string `xml:"ownerId"`
	Type      string `xml:"instanceType"`
	Platform  string `xml:"instancePlatform"`
	Zone      string `xml:"availabilityZone"`
	Tenancy   string `xml:"tenancy"`
	Total     int    `xml:"totalInstanceCount"`
	Available int    `xml:"availableInstanceCount"`
	State     string `xml:"state"`
	Criteria  string `xml:"instanceMatchCriteria"`
	EndType   string `xml:"endDateType"`
	Kind      string `xml:"reservationType"`
}

func (s *Server) parseReservations(p *params, c *call) {
	ids, filters := p.list("CapacityReservationId"), p.filters("instance-type", "availability-zone", "state", "tenancy",
		"instance-platform")
	for _, id := range ids {
		if !reservationID.MatchString(id) {
			p.refuse(fail("InvalidCapacityReservationId.Malformed", "Invalid id: %q (expecting \"cr-...\")", id))
		}
	}
	pg := p.page(1, 1000)
	c.op, c.unpaged = simcloud.OpResolve, len(ids) == 0 && (len(filters) == 0 || pg.size == 0)
	region := c.region
	c.run = func(b *simcloud.Book) (answer, error) {
		for _, id := range ids {
			if err := s.unknownTarget(region, reserving{id: id}); err != nil {
				return answer{}, err
			}
		}
		return s.reservations(b, region, ids, filters, pg), nil
	}
}

func (s *Server) reservations(b *simcloud.Book, region string, ids []string, filters []filter, pg page) answer {
	var found []reservationInfo
	for _, id := range slices.Sorted(maps.Keys(s.capacity)) {
		one := s.capacity[id]
		if one.region() != region || len(ids) > 0 && !slices.Contains(ids, id) {
			continue
		}
		i := one.info(s.account.ID, s.usedOf(b, id))
		if match(filters, attributes{values: map[string]string{"instance-type": i.Type, "availability-zone": i.Zone,
			"state": i.State, "tenancy": i.Tenancy, "instance-platform": i.Platform}}) {
			found = append(found, i)
		}
	}
	var out struct {
		Items []reservationInfo `xml:"capacityReservationSet>item"`
		Next  string            `xml:"nextToken,omitempty"`
	}
	out.Items, out.Next = cut(pg, found, func(i reservationInfo) string { return i.ID })
	return answer{content: out}
}

func (r *CapacityReservation) info(owner string, used int) reservationInfo {
	i := reservationInfo{ID: r.ID, Owner: owner, Type: r.Type, Platform: r.platform(), Zone: r.Zone, Tenancy: "default",
		Total: r.Count, State: r.state(), Criteria: prefersOpen, EndType: "unlimited", Kind: "default"}
	if r.Targeted {
		i.Criteria = "targeted"
	}
	if r.Dedicated {
		i.Tenancy = "dedicated"
	}
	if r.Block {
		i.Kind = "capacity-block"
	}
	if r.state() == reservedActive {
		i.Available = max(0, r.Count-used)
	}
	return i
}

// platformOf is EC2's word for the platform of instances of the image.
func (s *Server) platformOf(image string) string {
	if found := s.account.image(image); found != nil {
		return orElse(found.Platform, platformLinux)
	}
	return platformLinux
}
