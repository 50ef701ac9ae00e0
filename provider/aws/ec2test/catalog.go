package ec2test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

var (
	imageID  = regexp.MustCompile(`^ami-([0-9a-f]{8}|[0-9a-f]{17})$`)
	typeName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
)

func (s *Server) parseTypes(p *params, c *call) {
	names, filters := p.list("InstanceType"), p.filters("instance-type", "processor-info.supported-architecture",
		"current-generation")
	p.flag("IncludeUnsupportedInRegion")
	if len(names) > 100 {
		p.refuse(fail(codeInvalid, "At most 100 instance types can be named, not %d", len(names)))
	}
	pg := p.page(5, 100)
	c.op, c.unpaged = simcloud.OpResolve, len(names) == 0 && (len(filters) == 0 || pg.size == 0)
	c.run = func(*simcloud.Book) (answer, error) {
		var unknown []string
		for _, name := range names {
			if _, ok := s.sim.InstanceType(name); !ok || !typeName.MatchString(name) {
				unknown = append(unknown, name)
			}
		}
		if len(unknown) > 0 {
			return answer{}, fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]",
				strings.Join(unknown, ", "))
		}
		return s.types(names, filters, pg), nil
	}
}

func (s *Server) types(names []string, filters []filter, pg page) answer {
	if len(names) == 0 {
		names = s.sim.TypeNames()
	}
	var found []typeInfo
	for _, name := range slices.Sorted(slices.Values(names)) {
		t, _ := s.sim.InstanceType(name)
		i := s.info(t)
		if match(filters, attributes{values: map[string]string{
			"instance-type": name, "processor-info.supported-architecture": i.Architectures[0], "current-generation": "true",
		}}) {
			found = append(found, i)
		}
	}
	var out struct {
		Items []typeInfo `xml:"instanceTypeSet>item"`
		Next  string     `xml:"nextToken,omitempty"`
	}
	out.Items, out.Next = cut(pg, found, func(i typeInfo) string { return i.Name })
	return answer{content: out}
}

type imageInfo struct {
	ID           string        `xml:"imageId"`
	Location     string        `xml:"imageLocation"`
	State        string        `xml:"imageState"`
	Owner        string        `xml:"imageOwnerId"`
	Alias        string        `xml:"imageOwnerAlias,omitempty"`
	Public       bool          `xml:"isPublic"`
	Architecture string        `xml:"architecture"`
	Kind         string        `xml:"imageType"`
	Name         string        `xml:"name"`
	Created      string        `xml:"creationDate"`
	RootType     string        `xml:"rootDeviceType"`
	RootName     string        `xml:"rootDeviceName"`
	Devices      []imageDevice `xml:"blockDeviceMapping>item"`
	Tags         []tag         `xml:"tagSet>item"`
	Virtual      string        `xml:"virtualizationType"`
	BootMode     string        `xml:"bootMode,omitempty"`
	Platform     string        `xml:"platformDetails"`
	ENA          bool          `xml:"enaSupport"`
}

type imageDevice struct {
	Name     string `xml:"deviceName"`
	Size     int    `xml:"ebs>volumeSize"`
	Snapshot string `xml:"ebs>snapshotId"`
	Kind     string `xml:"ebs>volumeType"`
}

func (s *Server) parseImages(p *params, c *call) {
	ids, owners := p.list("ImageId"), p.list("Owner")
	p.list("ExecutableBy")
	filters := p.filters("name", "state", "architecture", "owner-alias", "owner-id", "image-id", "image-type", "is-public",
		"root-device-type",
		"virtualization-type")
	deprecated := p.flag("IncludeDeprecated")
	p.flag("IncludeDisabled")
	for _, id := range ids {
		if !imageID.MatchString(id) {
			p.refuse(fail("InvalidAMIID.Malformed", "Invalid id: %q (expecting \"ami-...\")", id))
		}
	}
	pg := p.page(1, 1000)
	c.op, c.unpaged = simcloud.OpResolve, len(ids) == 0 && (len(filters) == 0 && len(owners) == 0 || pg.size == 0)
	c.run = func(*simcloud.Book) (answer, error) {
		for _, id := range ids {
			if s.account.image(id) == nil {
				return answer{}, fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
			}
		}
		return s.images(ids, owners, filters, deprecated, pg), nil
	}
}

func (s *Server) images(ids, owners []string, filters []filter, deprecated bool, pg page) answer {
	var found []imageInfo
	for _, image := range s.account.Images {
		if (len(ids) > 0 && !slices.Contains(ids, image.ID)) ||
			(len(owners) > 0 && !s.isOwned(image, owners)) ||
			(image.Deprecated && !deprecated && len(ids) == 0 && image.Owner != s.account.ID) {
			continue
		}
		i := imageInfoOf(image)
		if match(filters, attributes{tags: image.Tags, values: map[string]string{
			"name": i.Name, "state": i.State, "architecture": i.Architecture, "owner-alias": i.Alias, "owner-id": i.Owner,
			"image-id":   i.ID,
			"image-type": i.Kind, "is-public": boolText(i.Public), "root-device-type": i.RootType,
			"virtualization-type": i.Virtual,
		}}) {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(x, y imageInfo) int { return strings.Compare(x.ID, y.ID) })
	var out struct {
		Items []imageInfo `xml:"imagesSet>item"`
		Next  string      `xml:"nextToken,omitempty"`
	}
	out.Items, out.Next = cut(pg, found, func(i imageInfo) string { return i.ID })
	return answer{content: out}
}

// isOwned reports whether one of the owners has the image: an account, an alias, or "self".
func (s *Server) isOwned(image Image, owners []string) bool {
	return image.Owner == s.account.ID && slices.Contains(owners, "self") ||
		slices.Contains(owners, image.Owner) ||
		image.Alias != "" && slices.Contains(owners, image.Alias)
}

func imageInfoOf(image Image) imageInfo {
	return imageInfo{
		ID: image.ID, Location: image.Owner + "/" + image.Name, State: image.state(), Owner: image.Owner, Alias: image.Alias,
		Public: image.Public || image.Alias != "", Architecture: image.Architecture, Kind: "machine", Name: image.Name,
		Created:  image.Created,
		RootType: "ebs", RootName: image.RootDevice, Tags: tagSet(image.Tags), Virtual: "hvm",
		BootMode: image.BootMode, ENA: !image.NoENA, Platform: orElse(image.Platform, platformLinux),
		Devices: []imageDevice{{Name: image.RootDevice, Size: image.RootGiB, Snapshot: "snap-" + image.ID[len("ami-"):],
			Kind: "gp3"}},
	}
}

type subnetInfo struct {
	ID    string `xml:"subnetId"`
	ARN   string `xml:"subnetArn"`
	State string `xml:"state"`
	VPC   string `xml:"vpcId"`
	CIDR  string `xml:"cidrBlock"`
	Free  int    `xml:"availableIpAddressCount"`
	Zone  string `xml:"availabilityZone"`
	Owner string `xml:"ownerId"`
	Tags  []tag  `xml:"tagSet>item"`
}

func (s *Server) parseSubnets(p *params, c *call) {
	ids, filters := p.list("SubnetId"), p.filters("subnet-id", "vpc-id", "availability-zone", "state", "cidr-block",
		"default-for-az", "owner-id")
	pg := p.page(5, 1000)
	c.op, c.unpaged = simcloud.OpResolve, len(ids) == 0 && (len(filters) == 0 || pg.size == 0)
	region := c.region
	c.run = func(b *simcloud.Book) (answer, error) {
		for _, id := range ids {
			if s.account.subnet(region, id) == nil {
				return answer{}, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
			}
		}
		return s.subnets(b, region, ids, filters, pg), nil
	}
}

func (s *Server) subnets(b *simcloud.Book, region string, ids []string, filters []filter, pg page) answer {
	var found []subnetInfo
	for _, subnet := range s.account.Subnets {
		i := subnetInfo{
			ID: subnet.ID, ARN: fmt.Sprintf("arn:aws:ec2:%s:%s:subnet/%s", region, s.account.ID, subnet.ID), State: "available",
			VPC:  subnet.VPC,
			CIDR: subnet.CIDR, Free: max(0, subnet.Addresses-b.InSubnet(subnet.ID)), Zone: subnet.Zone, Owner: s.account.ID,
			Tags: tagSet(subnet.Tags),
		}
		if subnet.region() != region || (len(ids) > 0 && !slices.Contains(ids, subnet.ID)) {
			continue
		}
		if match(filters, attributes{tags: subnet.Tags, values: map[string]string{
			"subnet-id": i.ID, "vpc-id": i.VPC, "availability-zone": i.Zone, "state": i.State, "cidr-block": i.CIDR,
			"default-for-az": "false",
			"owner-id":       i.Owner,
		}}) {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(x, y subnetInfo) int { return strings.Compare(x.ID, y.ID) })
	var out struct {
		Items []subnetInfo `xml:"subnetSet>item"`
		Next  string       `xml:"nextToken,omitempty"`
	}
	out.Items, out.Next = cut(pg, found, func(i subnetInfo) string { return i.ID })
	return answer{content: out}
}

type groupInfo struct {
	ID    string `xml:"groupId"`
	Name  string `xml:"groupName"`
	About string `xml:"groupDescription"`
	VPC   string `xml:"vpcId"`
	Owner string `xml:"ownerId"`
	Tags  []tag  `xml:"tagSet>item"`
}

func (s *Server) parseGroups(p *params, c *call) {
	ids, filters := p.list("GroupId"), p.filters("group-id", "group-name", "vpc-id", "owner-id")
	pg := p.page(5, 1000)
	c.op, c.unpaged = simcloud.OpResolve, len(ids) == 0 && (len(filters) == 0 || pg.size == 0)
	region := c.region
	c.run = func(*simcloud.Book) (answer, error) {
		for _, id := range ids {
			if s.account.group(region, id) == nil {
				return answer{}, fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
			}
		}
		return s.groups(region, ids, filters, pg), nil
	}
}

func (s *Server) groups(region string, ids []string, filters []filter, pg page) answer {
	var found []groupInfo
	for _, g := range s.account.SecurityGroups {
		i := groupInfo{ID: g.ID, Name: g.Name, About: g.Name, VPC: g.VPC, Owner: s.account.ID, Tags: tagSet(g.Tags)}
		if g.Region != region || (len(ids) > 0 && !slices.Contains(ids, g.ID)) {
			continue
		}
		if match(filters, attributes{tags: g.Tags, values: map[string]string{
			"group-id": i.ID, "group-name": i.Name, "vpc-id": i.VPC, "owner-id": i.Owner,
		}}) {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(x, y groupInfo) int { return strings.Compare(x.ID, y.ID) })
	var out struct {
		Items []groupInfo `xml:"securityGroupInfo>item"`
		Next  string      `xml:"nextToken,omitempty"`
	}
	out.Items, out.Next = cut(pg, found, func(i groupInfo) string { return i.ID })
	return answer{content: out}
}
