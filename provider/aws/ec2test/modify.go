package ec2test

import (
	"slices"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// attributeType is the attribute of an instance that is its type, as policies name it.
const attributeType = "InstanceType"

func (s *Server) parseModify(p *params, c *call) {
	c.op, c.attribute = simcloud.OpChangeType, attributeType
	id, kind := p.text("InstanceId"), p.text("InstanceType.Value")
	switch {
	case id == "":
		p.refuse(fail(codeMissing, "The request must contain the parameter InstanceId"))
	case !instanceID.MatchString(id):
		p.refuse(fail(codeMalformed, "Invalid id: %q", id))
	case kind == "":
		p.refuse(fail(codeCombination, "No attributes specified."))
	}
	c.ids = []v1alpha1.InstanceID{v1alpha1.InstanceID(id)}
	region, ids := c.region, c.ids
	c.run = func(b *simcloud.Book) (answer, error) {
		instances, err := exists(b, region, ids)
		if err != nil {
			return answer{}, err
		}
		if err := s.changeRefusal(instances[0], kind); err != nil {
			return answer{}, err
		}
		return answer{content: done{Return: true}}, b.ChangeType(instances[0], kind)
	}
}

// changeRefusal is why the instance cannot become the type; nil where it can. What the image lacks
// is told by the start (startRefusal). The code for types that are not valid is the one that the
// API reference names, the words for those that the instance cannot become are those that users
// quote (pulumi/pulumi-aws#4291), and those for too many network interfaces are those of launches
// (chef/knife-ec2#375). The user guide says that the type is not changed where
// hibernation is enabled, but not with which code.
func (s *Server) changeRefusal(inst *simcloud.Instance, kind string) error {
	size, known := s.sim.InstanceType(kind)
	was, _ := s.sim.InstanceType(inst.Type)
	switch {
	case inst.State != provider.InstanceStopped:
		return fail(codeState, "The instance '%s' is not in the 'stopped' state.", inst.ID)
	case !known:
		return fail(codeAttribute, "Invalid value '%s' for InstanceType.", kind)
	case inst.Type == kind:
		return nil
	case s.details[inst.ID].hibernation:
		return fail(codeUnsupported, "The instance type of '%s' cannot be changed because hibernation is enabled.", inst.ID)
	case !sharesOne(s.properties(was).Architectures, s.properties(size).Architectures):
		return fail(codeAttribute, "Modifying the instance type from %s to %s is not allowed.", inst.Type, kind)
	case s.details[inst.ID].interfaces+1 > s.properties(size).Interfaces:
		return fail(codeAttachments, "Interface count %d exceeds the limit for %s", s.details[inst.ID].interfaces+1, kind)
	}
	return nil
}

// startRefusal is why an instance that has become another type does not start; nil where it does.
// For a boot mode EC2 has no words of its own that users quote: these are those for configurations
// that it does not have (seek-oss/aec#228).
func (s *Server) startRefusal(inst *simcloud.Instance) error {
	size, _ := s.sim.InstanceType(inst.Type)
	image := s.account.image(s.details[inst.ID].image)
	if image == nil {
		return nil // an image may be gone, its instances start
	}
	p := s.properties(size)
	switch {
	case image.NoENA && p.ENA == enaRequired:
		return fail(codeCombination, "Enhanced networking with the Elastic Network Adapter (ENA) is required for the '%s' "+
			"instance type. Ensure that your instance '%s' is enabled for ENA.", inst.Type, inst.ID)
	case image.BootMode == bootUEFI && !slices.Contains(p.BootModes, bootUEFI),
		image.BootMode == bootBIOS && !slices.Contains(p.BootModes, bootBIOS):
		return fail(codeNoOffering, "The requested configuration is currently not supported. "+
			"Please check the documentation for supported configurations.")
	}
	return zoneRefusal(p, inst.Type, inst.Zone)
}

func sharesOne(a, b []string) bool {
	return slices.ContainsFunc(a, func(item string) bool { return slices.Contains(b, item) })
}
