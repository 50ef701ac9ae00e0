package ec2test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	// maxUserData is the limit on user data before it is encoded.
	maxUserData = 16 << 10
	maxToken    = 64
)

// launch is what a client token stood for. One without ids was refused: EC2 keeps the parameters
// all the same.
type launch struct {
	params      [sha256.Size]byte
	reservation string
	ids         []v1alpha1.InstanceID
}

// details are what only EC2's view of an instance has.
type details struct {
	reservation, image, token, profile, key string
	groups                                  []SecurityGroup
	hibernation, ebsOptimized               bool
	metadata                                metadataOptions
	devices                                 []device
	// interfaces is how many network interfaces are attached beside the first.
	interfaces int
	launched   time.Time
}

// device is a block device as a launch asks for it.
type device struct {
	name   string
	keeps  bool
	volume string
}

// runRequest is RunInstances, read.
type runRequest struct {
	least, most    int
	kind, imageID  string
	subnet, zone   string
	groups         []string
	userData       string
	tags           map[string]map[string]string
	token          string
	params         [sha256.Size]byte
	endsBySelfStop bool
	encryptedRoot  bool
	details        details
}

func (s *Server) parseRun(p *params, c *call) {
	r := &runRequest{least: 1, most: 1}
	if n := p.number("MinCount", 1, maxIDs); n != nil {
		r.least = *n
	} else {
		p.refuse(fail(codeMissing, "The request must contain the parameter MinCount"))
	}
	if n := p.number("MaxCount", 1, maxIDs); n != nil {
		r.most = *n
	} else {
		p.refuse(fail(codeMissing, "The request must contain the parameter MaxCount"))
	}
	if r.least > r.most {
		p.refuse(fail(codeInvalid, "MinCount %d is more than MaxCount %d", r.least, r.most))
	}
	r.params = fingerprint(p)
	r.token = p.text("ClientToken")
	if len(r.token) > maxToken {
		p.refuse(fail(codeInvalid, "The client token has %d characters, more than %d", len(r.token), maxToken))
	}
	r.kind, r.imageID = p.text("InstanceType"), p.text("ImageId")
	r.endsBySelfStop = p.oneOf("InstanceInitiatedShutdownBehavior", "stop", "terminate") == "terminate"
	r.details.key, r.details.token, r.details.image = p.text("KeyName"), r.token, r.imageID
	r.details.ebsOptimized = p.flag("EbsOptimized")
	r.details.hibernation = p.flag("HibernationOptions.Configured")
	p.flag("Monitoring.Enabled")
	r.zone = p.text("Placement.AvailabilityZone")
	p.oneOf("Placement.Tenancy", "default", "dedicated")
	r.parseNetwork(p)
	r.parseProfile(p)
	r.parseUserData(p)
	r.parseMetadata(p)
	r.parseDevices(p)
	r.parseTagSpecifications(p)
	c.op, c.resources, c.tags = simcloud.OpLaunch, r.most, r.tags["instance"]
	region := c.region
	c.run = func(b *simcloud.Book) (answer, error) { return s.launchOnce(b, region, r) }
	c.refused = func() { s.keepToken(region, r) }
}

// keepToken binds a token to the parameters of a launch that was refused. An earlier launch under
// it stands.
func (s *Server) keepToken(region string, r *runRequest) {
	token := region + "/" + r.token
	if _, known := s.launches[token]; !known && r.token != "" {
		s.launches[token] = launch{params: r.params}
	}
}

// fingerprint identifies the parameters of a launch, all but the token.
func fingerprint(p *params) [sha256.Size]byte {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(p.values)) {
		if key != "ClientToken" {
			fmt.Fprintf(h, "%q=%q\n", key, p.values[key])
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// parseNetwork reads where the instance goes: on the request itself, or on its first network
// interface, never on both.
func (r *runRequest) parseNetwork(p *params) {
	r.subnet, r.groups = p.text("SubnetId"), p.list("SecurityGroupId")
	for i, prefix := range p.items("NetworkInterface") {
		if r.subnet != "" || len(r.groups) > 0 && i == 0 {
			p.refuse(
				fail(
					codeCombination,
					"Network interfaces and an instance-level subnet ID or security groups may not be specified on the same request",
				),
			)
		}
		if index := p.number(prefix+".DeviceIndex", 0, 15); index == nil || *index != i {
			p.refuse(fail(codeInvalid, "Network interfaces are numbered from 0 by DeviceIndex"))
		}
		p.flag(prefix + ".AssociatePublicIpAddress")
		p.flag(prefix + ".DeleteOnTermination")
		p.text(prefix + ".Description")
		r.subnet = p.text(prefix + ".SubnetId")
		r.groups = p.list(prefix + ".SecurityGroupId")
	}
}

func (r *runRequest) parseProfile(p *params) {
	name, arn := p.text("IamInstanceProfile.Name"), p.text("IamInstanceProfile.Arn")
	if name != "" && arn != "" {
		p.refuse(
			fail(
				codeCombination,
				"The parameter 'iamInstanceProfile.name' may not be used in combination with 'iamInstanceProfile.arn'",
			),
		)
	}
	r.details.profile = arn
	if name != "" {
		r.details.profile = "arn:aws:iam::" + defaultAccountID + ":instance-profile/" + name
	}
}

func (r *runRequest) parseUserData(p *params) {
	data, err := base64.StdEncoding.DecodeString(p.text("UserData"))
	if err != nil {
		p.refuse(fail("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data"))
	}
	if len(data) > maxUserData {
		p.refuse(fail(codeInvalid, "User data is limited to %d bytes", maxUserData))
	}
	r.userData = string(data)
}

type metadataOptions struct {
	State    string `xml:"state"`
	Tokens   string `xml:"httpTokens"`
	HopLimit int    `xml:"httpPutResponseHopLimit"`
	Endpoint string `xml:"httpEndpoint"`
	Tags     string `xml:"instanceMetadataTags,omitempty"`
}

func (r *runRequest) parseMetadata(p *params) {
	m := metadataOptions{State: "applied", Tokens: "optional", HopLimit: 1, Endpoint: "enabled"}
	if tokens := p.oneOf("MetadataOptions.HttpTokens", "optional", "required"); tokens != "" {
		m.Tokens = tokens
	}
	if hops := p.number("MetadataOptions.HttpPutResponseHopLimit", 1, 64); hops != nil {
		m.HopLimit = *hops
	}
	if endpoint := p.oneOf("MetadataOptions.HttpEndpoint", "enabled", "disabled"); endpoint != "" {
		m.Endpoint = endpoint
	}
	m.Tags = p.oneOf("MetadataOptions.InstanceMetadataTags", metadataTagsOn, "disabled")
	p.oneOf("MetadataOptions.HttpProtocolIpv6", "enabled", "disabled")
	r.details.metadata = m
}

func (r *runRequest) parseDevices(p *params) {
	names := map[string]bool{}
	for _, prefix := range p.items("BlockDeviceMapping") {
		d := device{name: p.text(prefix + ".DeviceName")}
		if d.name == "" || names[d.name] {
			p.refuse(fail("InvalidBlockDeviceMapping", "Device names are required, each once: %q", d.name))
		}
		names[d.name] = true
		encrypted := d.parseVolume(p, prefix+".Ebs.")
		r.encryptedRoot = r.encryptedRoot || encrypted && d.name == rootDevice
		r.details.devices = append(r.details.devices, d)
	}
}

// rootDevice is the device of the root volume, whose size the image may give.
const rootDevice = "/dev/xvda"

// parseVolume reads the device's volume and returns whether it is encrypted.
func (d *device) parseVolume(p *params, ebs string) bool {
	size := p.number(ebs+"VolumeSize", 1, 65536)
	kind := p.oneOf(ebs+"VolumeType", "standard", "gp2", "gp3", "io1", "io2", "st1", "sc1")
	encrypted, key := p.flag(ebs+"Encrypted"), p.text(ebs+"KmsKeyId")
	iops, throughput := p.number(ebs+"Iops", 100, 256000), p.number(ebs+"Throughput", 125, 2000)
	snapshot := p.text(ebs + "SnapshotId")
	d.keeps = p.has(ebs+"DeleteOnTermination") && !p.flag(ebs+"DeleteOnTermination")
	switch {
	case key != "" && !encrypted:
		p.refuse(fail(codeCombination, "The parameter KmsKeyId requires the parameter Encrypted to be set."))
	case iops != nil && !slices.Contains([]string{"gp3", "io1", "io2"}, kind):
		p.refuse(fail(codeCombination, "The parameter iops is not supported for %s volumes.", kind))
	case throughput != nil && kind != "gp3":
		p.refuse(fail(codeCombination, "The parameter throughput is not supported for %s volumes.", kind))
	case size == nil && snapshot == "" && d.name != rootDevice:
		p.refuse(fail("MissingParameter", "The request must contain the parameter size or snapshotId"))
	}
	return encrypted
}

func (r *runRequest) parseTagSpecifications(p *params) {
	r.tags = map[string]map[string]string{}
	for _, prefix := range p.items("TagSpecification") {
		kind := p.oneOf(prefix+".ResourceType", "instance", "volume", "network-interface", "spot-instances-request",
			"elastic-gpu")
		if kind == "" || r.tags[kind] != nil {
			p.refuse(fail(codeInvalid, "Each resource type may be tagged once: %q", kind))
		}
		r.tags[kind] = p.tags(prefix + ".Tag")
		if len(r.tags[kind]) > maxTags {
			p.refuse(fail("TagLimitExceeded", "The maximum number of %d tags has been reached", maxTags))
		}
	}
}

// launchOnce launches, or answers what the token launched before, as it is now. A refused launch
// may be asked for again with the same parameters only.
func (s *Server) launchOnce(b *simcloud.Book, region string, r *runRequest) (answer, error) {
	token := region + "/" + r.token
	if before, ok := s.launches[token]; ok && r.token != "" {
		switch {
		case before.params != r.params:
			return answer{}, fail(codeMismatch,
				"Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
		case before.ended(b):
			return answer{}, fail(codeEnded, "The client token you have provided is associated with a terminated instance. "+
				"Please use a different client token.")
		case len(before.ids) > 0:
			return answer{content: s.reserved(b, before)}, nil
		}
	}
	spec, err := s.check(b, region, r)
	if err != nil {
		return answer{}, err
	}
	if err := s.launchRefusal(b, r, spec, r.least); err != nil {
		return answer{}, err
	}
	made := launch{params: r.params, reservation: fmt.Sprintf("r-%017x", len(s.details)+1)}
	for range r.most {
		if len(made.ids) >= r.least && s.launchRefusal(b, r, spec, 1) != nil {
			break // as many as there is room for
		}
		made.ids = append(made.ids, s.launchOne(b, r, spec, made.reservation))
	}
	if r.token != "" {
		s.launches[token] = made
	}
	return answer{content: s.reserved(b, made), launched: made.ids}, nil
}

// ended reports whether the launch made instances and all are terminated.
func (l launch) ended(b *simcloud.Book) bool {
	return len(l.ids) > 0 && !slices.ContainsFunc(l.ids, func(id v1alpha1.InstanceID) bool {
		inst, err := b.Find(id)
		return err == nil && inst.State != provider.InstanceTerminated
	})
}

// launchRefusal is why the subnet cannot take n more instances.
func (s *Server) launchRefusal(b *simcloud.Book, r *runRequest, spec simcloud.LaunchSpec, n int) error {
	free := s.account.subnet(spec.Region, spec.Subnet).Addresses - (n - 1)
	if err := b.LaunchRefusal(r.kind, spec.Zone, spec.Subnet, max(0, free)); err != nil {
		return err
	}
	if !b.HasRoom(spec.Zone, r.kind, n) {
		return simcloud.NoCapacity(spec.Zone, r.kind)
	}
	return nil
}

func (s *Server) launchOne(b *simcloud.Book, r *runRequest, spec simcloud.LaunchSpec,
	reservation string) v1alpha1.InstanceID {
	inst := b.Launch(spec)
	d := r.details
	d.reservation, d.launched = reservation, inst.StartedAt
	if d.metadata.Tags == "" && s.account.MetadataTags {
		d.metadata.Tags = metadataTagsOn
	}
	d.devices = slices.Clone(d.devices)
	if !slices.ContainsFunc(d.devices, func(v device) bool { return v.name == "/dev/xvda" }) {
		d.devices = append([]device{{name: "/dev/xvda"}}, d.devices...)
	}
	for i := range d.devices {
		d.devices[i].volume = fmt.Sprintf("vol-%s%x", inst.ID[len("i-"):len(inst.ID)-1], i)
	}
	for _, id := range r.groups {
		d.groups = append(d.groups, *s.account.group(spec.Region, id))
	}
	s.details[inst.ID] = d
	return inst.ID
}

// check is everything that EC2 looks up before it launches.
func (s *Server) check(_ *simcloud.Book, region string, r *runRequest) (simcloud.LaunchSpec, error) {
	var none simcloud.LaunchSpec
	size, known := s.sim.InstanceType(r.kind)
	image := s.account.image(r.imageID)
	subnet := s.account.subnet(region, r.subnet)
	switch {
	case !known:
		return none, fail(codeInvalid, "Invalid value '%s' for InstanceType.", r.kind)
	case image == nil:
		return none, fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", r.imageID)
	case image.state() != "available":
		return none, fail("InvalidAMIID.Unavailable", "The image ID '%s' is not available", r.imageID)
	case subnet == nil:
		return none, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", r.subnet)
	case r.zone != "" && r.zone != subnet.Zone:
		return none, fail(codeInvalid, "The subnet %s is not in the Availability Zone %s", r.subnet, r.zone)
	case r.details.hibernation && !r.encryptedRoot:
		return none, fail("UnsupportedHibernationConfiguration", "Hibernation requires an encrypted root volume")
	}
	if err := s.typeRefusal(size, image, subnet.Zone); err != nil {
		return none, err
	}
	for _, id := range r.groups {
		if s.account.group(region, id) == nil {
			return none, fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	if s.showsTags(r.details.metadata) {
		if err := refuseMetadataTags(r.tags["instance"]); err != nil {
			return none, err
		}
	}
	return simcloud.LaunchSpec{
		Type: r.kind, Region: region, Zone: subnet.Zone, Subnet: subnet.ID, UserData: r.userData, Tags: r.tags["instance"],
		EndsBySelfStop: r.endsBySelfStop,
	}, nil
}

// reserved is the answer to a launch.
func (s *Server) reserved(b *simcloud.Book, made launch) reservation {
	res := reservation{ID: made.reservation, Owner: s.account.ID}
	for _, id := range made.ids {
		if inst, err := b.Find(id); err == nil {
			res.Instances = append(res.Instances, s.describe(inst, &inst.Instance))
			continue
		}
		res.Instances = append(res.Instances, instance{ID: string(id), State: state{48, stateTerminated}})
	}
	return res
}
