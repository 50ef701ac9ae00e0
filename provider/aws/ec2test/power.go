package ec2test

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// maxIDs is how many instances one call may name.
const maxIDs = 1000

// instanceID is the form of an instance's id.
var instanceID = regexp.MustCompile(`^i-([0-9a-f]{8}|[0-9a-f]{17})$`)

// ids reads InstanceId.N. Without any the call is refused if they are required.
func (p *params) ids(required bool) []v1alpha1.InstanceID {
	var ids []v1alpha1.InstanceID
	given := map[string]bool{}
	for _, text := range p.list("InstanceId") {
		if !instanceID.MatchString(text) {
			p.refuse(fail(codeMalformed, "Invalid id: %q", text))
		}
		if !given[text] {
			given[text] = true
			ids = append(ids, v1alpha1.InstanceID(text))
		}
	}
	if required && len(ids) == 0 {
		p.refuse(fail(codeMissing, "The request must contain the parameter InstanceId"))
	}
	if len(ids) > maxIDs {
		p.refuse(fail(codeInvalid, "The request names %d instances, more than %d", len(ids), maxIDs))
	}
	return ids
}

func (p *params) named(c *call, op simcloud.Op) {
	c.op, c.ids = op, p.ids(true)
	c.resources = len(c.ids)
}

func (s *Server) parseStart(p *params, c *call) {
	p.named(c, simcloud.OpStart)
	p.text("AdditionalInfo") // reserved; EC2 reads nothing out of it
	region, ids := c.region, c.ids
	c.run = func(b *simcloud.Book) (answer, error) { return s.start(b, region, ids) }
}

// start starts all of the instances or, where one cannot be, none.
func (s *Server) start(b *simcloud.Book, region string, ids []v1alpha1.InstanceID) (answer, error) {
	instances, err := exists(b, region, ids)
	if err != nil {
		return answer{}, err
	}
	more, reserved := map[[2]string]int{}, map[string]int{}
	places := map[v1alpha1.InstanceID]string{}
	for _, inst := range instances {
		if err := simcloud.Startable(inst); err != nil {
			return answer{}, err
		}
		if inst.State != provider.InstanceStopped {
			continue
		}
		if err := s.startRefusal(inst); err != nil {
			return answer{}, err
		}
		d := s.details[inst.ID]
		place, err := s.placed(b, d.reserving, seat{inst.Type, inst.Zone, s.platformOf(d.image)}, reserved)
		if err != nil {
			return answer{}, err
		}
		if places[inst.ID] = place; place != "" {
			continue
		}
		offering := [2]string{inst.Zone, inst.Type}
		more[offering]++
		if !b.HasRoom(inst.Zone, inst.Type, more[offering]) {
			return answer{}, simcloud.NoCapacity(inst.Zone, inst.Type)
		}
	}
	return s.changeAll(instances, func(inst *simcloud.Instance) error {
		if place, starts := places[inst.ID]; starts {
			s.runIn(inst, place)
		}
		return b.Start(inst)
	})
}

func (s *Server) parseStop(p *params, c *call) {
	p.named(c, simcloud.OpStop)
	c.force = p.flag("Force")
	hibernate, skip := p.flag("Hibernate"), p.flag("SkipOsShutdown")
	region, ids, force := c.region, c.ids, c.force || skip
	c.run = func(b *simcloud.Book) (answer, error) { return s.stop(b, region, ids, force, hibernate) }
}

func (s *Server) stop(b *simcloud.Book, region string, ids []v1alpha1.InstanceID, force, hibernate bool) (answer,
	error) {
	instances, err := exists(b, region, ids)
	if err != nil {
		return answer{}, err
	}
	for _, inst := range instances {
		if err := simcloud.Stoppable(inst); err != nil {
			return answer{}, err
		}
		if err := s.stopRefusal(inst.ID); err != nil && inst.State == provider.InstanceRunning {
			return answer{}, err
		}
		if hibernate && !s.details[inst.ID].hibernation {
			return answer{}, fail("UnsupportedHibernationConfiguration", "The instance '%s' is not configured for hibernation",
				inst.ID)
		}
	}
	return s.changeAll(instances, func(inst *simcloud.Instance) error { return b.Stop(inst, force) })
}

func (s *Server) parseTerminate(p *params, c *call) {
	p.named(c, simcloud.OpTerminate)
	c.force = p.flag("Force")
	p.flag("SkipOsShutdown")
	region, ids := c.region, c.ids
	c.run = func(b *simcloud.Book) (answer, error) { return s.terminate(b, region, ids) }
}

// changeAll changes the instances and answers what became of each. Nothing is left that could
// refuse one.
func (s *Server) changeAll(instances []*simcloud.Instance, change func(*simcloud.Instance) error) (answer, error) {
	var changes struct {
		Items []stateChange `xml:"instancesSet>item"`
	}
	for _, inst := range instances {
		was := stateOf(inst.State)
		if err := change(inst); err != nil {
			return answer{}, fmt.Errorf("after all were checked: %w", err)
		}
		now := stateOf(inst.State)
		changes.Items = append(changes.Items, stateChange{InstanceID: string(inst.ID), Current: now, Previous: was})
	}
	return answer{content: changes}, nil
}

type stateChange struct {
	InstanceID string `xml:"instanceId"`
	Current    state  `xml:"currentState"`
	Previous   state  `xml:"previousState"`
}

// stateTerminated is EC2's word for an instance that has ended.
const stateTerminated = "terminated"

// state is an instance's state with EC2's number for it.
type state struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

func stateOf(of provider.InstanceState) state {
	switch of {
	case provider.InstanceShuttingDown:
		return state{32, "shutting-down"}
	case provider.InstancePending:
		return state{0, "pending"}
	case provider.InstanceRunning:
		return state{16, "running"}
	case provider.InstanceTerminated:
		return state{48, stateTerminated}
	case provider.InstanceStopping:
		return state{64, "stopping"}
	default:
		return state{80, "stopped"}
	}
}

// maxTags is how many tags a resource may have.
const maxTags = 50

func (s *Server) parseTags(p *params, c *call) {
	c.op = simcloud.OpUpdateTags
	for _, id := range p.list("ResourceId") {
		if !instanceID.MatchString(id) {
			p.refuse(fail("InvalidID", "The ID '%s' is not valid", id)) // the server keeps tags of instances only
		}
		c.ids = append(c.ids, v1alpha1.InstanceID(id))
	}
	tags := p.tags("Tag")
	if len(c.ids) == 0 || len(tags) == 0 {
		p.refuse(fail(codeMissing, "The request must contain the parameters ResourceId and Tag"))
	}
	region, ids := c.region, c.ids
	c.tags = tags
	c.run = func(b *simcloud.Book) (answer, error) {
		instances, err := exists(b, region, ids)
		if err != nil {
			return answer{}, err
		}
		for _, inst := range instances {
			if s.showsTags(s.details[inst.ID].metadata) {
				if err := refuseMetadataTags(tags); err != nil {
					return answer{}, err
				}
			}
			if union(inst.Tags, tags) > maxTags {
				return answer{}, fail("TagLimitExceeded", "The maximum number of %d tags for resource %s has been reached", maxTags,
					inst.ID)
			}
		}
		for _, inst := range instances {
			b.SetTags(inst, tags)
		}
		return answer{content: done{Return: true}}, nil
	}
}

type done struct {
	Return bool `xml:"return"`
}

func union(have, more map[string]string) int {
	n := len(have)
	for key := range more {
		if _, ok := have[key]; !ok {
			n++
		}
	}
	return n
}

// tags reads key.N.Key and key.N.Value.
func (p *params) tags(key string) map[string]string {
	tags := map[string]string{}
	for _, prefix := range p.items(key) {
		name, value := p.text(prefix+".Key"), p.text(prefix+".Value")
		_, twice := tags[name]
		switch {
		case name == "" || len([]rune(name)) > 127 || len([]rune(value)) > 256:
			p.refuse(fail(codeInvalid, "Tag keys have 1 to 127 characters and values at most 256: %q=%q", name, value))
		case strings.HasPrefix(name, "aws:"):
			p.refuse(fail(codeInvalid, "Tag keys starting with 'aws:' are reserved for internal use"))
		case twice:
			p.refuse(fail(codeInvalid, "Duplicate tag key '%s' specified.", name))
		}
		tags[name] = value
	}
	return tags
}
