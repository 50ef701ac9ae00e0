package ec2test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func tagSet(tags map[string]string) []tag {
	var set []tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		set = append(set, tag{key, tags[key]})
	}
	return set
}

type reservation struct {
	ID        string     `xml:"reservationId"`
	Owner     string     `xml:"ownerId"`
	Instances []instance `xml:"instancesSet>item"`
}

type groupRef struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

type instance struct {
	ID             string             `xml:"instanceId"`
	Image          string             `xml:"imageId"`
	State          state              `xml:"instanceState"`
	PrivateDNSName string             `xml:"privateDnsName"`
	Reason         string             `xml:"reason"`
	KeyName        string             `xml:"keyName,omitempty"`
	LaunchIndex    int                `xml:"amiLaunchIndex"`
	Type           string             `xml:"instanceType"`
	LaunchTime     string             `xml:"launchTime"`
	Zone           string             `xml:"placement>availabilityZone"`
	Tenancy        string             `xml:"placement>tenancy"`
	Subnet         string             `xml:"subnetId,omitempty"`
	VPC            string             `xml:"vpcId,omitempty"`
	Address        string             `xml:"privateIpAddress,omitempty"`
	Architecture   string             `xml:"architecture"`
	RootType       string             `xml:"rootDeviceType"`
	RootName       string             `xml:"rootDeviceName"`
	Devices        []attachedDevice   `xml:"blockDeviceMapping>item"`
	ClientToken    string             `xml:"clientToken"`
	Tags           []tag              `xml:"tagSet>item"`
	Groups         []groupRef         `xml:"groupSet>item"`
	Interfaces     []networkInterface `xml:"networkInterfaceSet>item"`
	Profile        *profile           `xml:"iamInstanceProfile"`
	EBSOptimized   bool               `xml:"ebsOptimized"`
	Hibernation    bool               `xml:"hibernationOptions>configured"`
	Metadata       *metadataOptions   `xml:"metadataOptions"`
	StateReason    *stateReason       `xml:"stateReason"`
	Reserving      reservingInfo      `xml:"capacityReservationSpecification"`
	RunsIn         string             `xml:"capacityReservationId,omitempty"`
}

type attachedDevice struct {
	Name    string `xml:"deviceName"`
	Volume  string `xml:"ebs>volumeId"`
	Status  string `xml:"ebs>status"`
	At      string `xml:"ebs>attachTime"`
	Deletes bool   `xml:"ebs>deleteOnTermination"`
}

type networkInterface struct {
	ID      string     `xml:"networkInterfaceId"`
	Subnet  string     `xml:"subnetId"`
	VPC     string     `xml:"vpcId"`
	Status  string     `xml:"status"`
	Address string     `xml:"privateIpAddress"`
	Groups  []groupRef `xml:"groupSet>item"`
	Index   int        `xml:"attachment>deviceIndex"`
	At      string     `xml:"attachment>attachTime"`
	Attach  string     `xml:"attachment>status"`
}

type profile struct {
	ARN string `xml:"arn"`
	ID  string `xml:"id"`
}

type stateReason struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// describe is EC2's view of the instance as reads see it. A terminated one has lost its network.
func (s *Server) describe(inst *simcloud.Instance, seen *provider.Instance) instance {
	d := s.details[inst.ID]
	i := instance{
		ID: string(seen.ID), Image: d.image, Type: seen.Type, Zone: seen.Zone, Tenancy: "default", KeyName: d.key,
		State:      stateOf(seen.State),
		LaunchTime: stamp(inst.StartedAt), Architecture: s.architecture(seen.Type), RootType: "ebs", RootName: rootDevice,
		ClientToken: d.token, Tags: tagSet(seen.Tags), EBSOptimized: d.ebsOptimized, Hibernation: d.hibernation,
		Reserving: d.reserving.info(),
	}
	if inst.Powered() {
		i.RunsIn = d.runsIn
	}
	if seen.StateReason != "" {
		code, _, _ := strings.Cut(seen.StateReason, ": ")
		i.StateReason = &stateReason{Code: code, Message: seen.StateReason}
		i.Reason = code
	}
	if d.profile != "" {
		i.Profile = &profile{ARN: d.profile, ID: "AIPA" + strings.ToUpper(string(seen.ID[2:]))}
	}
	if seen.State != provider.InstanceTerminated {
		s.attach(&i, inst, seen, d)
	}
	return i
}

// attach adds what an instance has until it ends.
func (s *Server) attach(i *instance, inst *simcloud.Instance, seen *provider.Instance, d details) {
	i.PrivateDNSName, i.Address, i.Subnet, i.VPC = seen.PrivateDNSName, inst.Address, inst.Subnet, vpcOf(inst.Region)
	for _, g := range d.groups {
		i.Groups = append(i.Groups, groupRef{g.ID, g.Name})
	}
	first := stamp(seen.LaunchTime)
	for _, v := range d.devices {
		i.Devices = append(i.Devices, attachedDevice{Name: v.name, Volume: v.volume, Status: "attached", At: first,
			Deletes: !v.keeps})
	}
	i.Interfaces = []networkInterface{{
		ID: "eni-" + string(seen.ID[2:]), Subnet: inst.Subnet, VPC: i.VPC, Status: "in-use", Address: inst.Address,
		Groups: i.Groups,
		At:     first, Attach: "attached",
	}}
	if d.metadata.State != "" {
		i.Metadata = &d.metadata
	}
}

// instanceFilters are the filters of DescribeInstances that the server knows.
func instanceFilters() []string {
	return []string{"instance-id", "instance-type", "instance-state-name", "instance-state-code", "availability-zone",
		"subnet-id", "vpc-id",
		"image-id", "client-token", "private-dns-name", "private-ip-address", "architecture"}
}

func (i instance) attributes() attributes {
	tags := map[string]string{}
	for _, t := range i.Tags {
		tags[t.Key] = t.Value
	}
	return attributes{tags: tags, values: map[string]string{
		"instance-id": i.ID, "instance-type": i.Type, "instance-state-name": i.State.Name,
		"instance-state-code": strconv.Itoa(i.State.Code),
		"availability-zone":   i.Zone, "subnet-id": i.Subnet, "vpc-id": i.VPC, "image-id": i.Image,
		"client-token":     i.ClientToken,
		"private-dns-name": i.PrivateDNSName, "private-ip-address": i.Address, "architecture": i.Architecture,
	}}
}

func (s *Server) parseDescribe(p *params, c *call) {
	ids, filters := p.ids(false), p.filters(instanceFilters()...)
	p.flag("IncludeManagedResources")
	if len(ids) > 0 && p.has("MaxResults") {
		p.refuse(fail(codeCombination, "The parameter instancesSet cannot be used with the parameter maxResults"))
	}
	pg := p.page(5, 1000)
	// Faults of reads by id and of lists differ in the played cloud.
	c.op, c.unpaged = simcloud.OpList, len(ids) == 0 && (len(filters) == 0 || pg.size == 0)
	if len(ids) > 0 {
		c.op, c.ids = simcloud.OpGet, ids
	}
	region := c.region
	c.run = func(b *simcloud.Book) (answer, error) { return s.list(b, region, ids, filters, pg) }
}

type reservations struct {
	Items []reservation `xml:"reservationSet>item"`
	Next  string        `xml:"nextToken,omitempty"`
}

func (s *Server) list(b *simcloud.Book, region string, ids []v1alpha1.InstanceID, filters []filter, pg page) (answer,
	error) {
	wanted := ids
	if len(ids) == 0 {
		wanted = b.IDs()
	}
	var found []instance
	var unknown []v1alpha1.InstanceID
	for _, id := range wanted {
		inst, seen, _ := b.Look(id)
		if seen == nil || inst.Region != region {
			unknown = append(unknown, id)
			continue
		}
		if i := s.describe(inst, seen); match(filters, i.attributes()) {
			found = append(found, i)
		}
	}
	if len(ids) > 0 && len(unknown) > 0 {
		return answer{}, unknownIDs(unknown)
	}
	slices.SortFunc(found, func(x, y instance) int { return strings.Compare(x.ID, y.ID) })
	var out reservations
	found, out.Next = cut(pg, found, func(i instance) string { return i.ID })
	for _, i := range found {
		id := s.details[v1alpha1.InstanceID(i.ID)].reservation
		out.Items = append(out.Items, reservation{ID: id, Owner: s.account.ID, Instances: []instance{i}})
	}
	return answer{content: out}, nil
}
