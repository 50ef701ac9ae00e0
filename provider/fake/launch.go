package fake

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
	"github.com/stratos-sh/stratos/provider/userdata"
)

// launched remembers what a client token stood for.
type launched struct {
	params [sha256.Size]byte
	result *provider.Instance
}

// LaunchInstance implements API.
func (c *Cloud) LaunchInstance(ctx context.Context, class *v1alpha1.AWSNodeClass,
	req provider.LaunchRequest) (*provider.Instance, error) {
	var result *provider.Instance
	var id v1alpha1.InstanceID
	logged := Call{Op: OpLaunch, At: time.Now()}
	t := targetOf(logged)
	if class != nil { // no instance says it yet
		t.Type = class.Spec.InstanceType
	}
	err := c.Latency(ctx, t)
	c.Write(func(b *simcloud.Book) {
		if err == nil {
			err = c.answer(b, t, func() error {
				inst, failed := c.launchOnce(b, class, req)
				if failed == nil {
					result, id = inst, inst.ID
				}
				return failed
			})
		}
		logged.Instance = id
		b.Record(logged, err)
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// launchOnce launches, or returns what the token launched before, as it is now.
func (c *Cloud) launchOnce(b *simcloud.Book, class *v1alpha1.AWSNodeClass,
	req provider.LaunchRequest) (*provider.Instance, error) {
	data, err := c.userDataOf(class, req)
	if err != nil {
		return nil, err
	}
	params, err := fingerprint(class, req, data)
	if err != nil {
		return nil, err
	}
	if before, ok := c.tokens[req.ClientToken]; ok && req.ClientToken != "" {
		if before.params != params {
			return nil, &provider.InvalidConfigError{Field: "clientToken",
				Reason: "IdempotentParameterMismatch: the token was used for another launch"}
		}
		if inst, err := b.Find(before.result.ID); err == nil {
			return simcloud.CopyOf(&inst.Instance), nil
		}
		gone := simcloud.CopyOf(before.result)
		gone.State = provider.InstanceTerminated
		return gone, nil
	}
	inst, err := c.launch(b, class, req, data)
	if err != nil {
		return nil, err
	}
	if req.ClientToken != "" {
		c.tokens[req.ClientToken] = launched{params: params, result: simcloud.CopyOf(&inst.Instance)}
	}
	return simcloud.CopyOf(&inst.Instance), nil
}

// userDataOf is the user data of the instance that the class is launched as.
func (c *Cloud) userDataOf(class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) (string, error) {
	if class == nil {
		return "", &provider.InvalidConfigError{Field: "class", Reason: "is missing"}
	}
	if err := refuseNodeImage(class); err != nil {
		return "", err
	}
	joins, err := c.bootstrapOf(class)
	if err != nil {
		return "", err
	}
	return userdata.OfLaunch(&class.Spec, joins, req.Registration)
}

// refuseNodeImage: the fake cloud has no images of an account, and reads no Nodes.
func refuseNodeImage(class *v1alpha1.AWSNodeClass) error {
	if class.Spec.NodeImage == nil {
		return nil
	}
	return &provider.InvalidConfigError{Field: "spec.nodeImage",
		Reason: "the fake cloud does not read the control-plane Nodes; use ami or amiSelector"}
}

// bootstrapOf is what the cloud says of the cluster that nodes of the class join; nil for a class
// without bootstrap. There is one cluster: with another name in the class no machine joins.
func (c *Cloud) bootstrapOf(class *v1alpha1.AWSNodeClass) (*v1alpha1.BootstrapStatus, error) {
	if class.Spec.Bootstrap == nil {
		return nil, nil
	}
	cluster := class.Spec.Bootstrap.Cluster.Or(c.Cluster())
	for _, problem := range userdata.CheckCluster(userdata.Cluster(cluster)) {
		return nil, &provider.InvalidConfigError{Field: "spec." + problem.Field, Reason: problem.Reason}
	}
	return &v1alpha1.BootstrapStatus{Family: class.Spec.BootstrapFamily(), Cluster: cluster}, nil
}

// fingerprint identifies the parameters of a launch. The fallback types are none of them: which of
// them it takes is not the caller's.
func fingerprint(class *v1alpha1.AWSNodeClass, req provider.LaunchRequest, data string) ([sha256.Size]byte, error) {
	spec := class.Spec
	spec.FallbackInstanceTypes = nil
	text, err := json.Marshal(struct {
		Spec     v1alpha1.AWSNodeClassSpec
		UserData string
		Zone     string
		Tags     map[string]string
	}{spec, data, req.Zone, req.Tags})
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("launch parameters: %w", err)
	}
	return sha256.Sum256(text), nil
}

func (c *Cloud) launch(b *simcloud.Book, class *v1alpha1.AWSNodeClass, req provider.LaunchRequest,
	data string) (*simcloud.Instance, error) {
	if _, ok := c.InstanceType(class.Spec.InstanceType); !ok {
		return nil, &provider.InvalidConfigError{Field: "instanceType",
			Reason: fmt.Sprintf("unknown instance type %q", class.Spec.InstanceType)}
	}
	kind, subnet, err := c.pickOffer(b, class, req)
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	maps.Copy(tags, class.Spec.Tags)
	maps.Copy(tags, req.Tags)
	return b.Launch(simcloud.LaunchSpec{
		Type: kind, Region: c.regionOf(class), Zone: subnet.Zone, Subnet: subnet.ID,
		UserData: data, Tags: tags,
	}), nil
}

func (c *Cloud) regionOf(class *v1alpha1.AWSNodeClass) string {
	if class.Spec.Region != "" {
		return class.Spec.Region
	}
	return c.region
}

// pickOffer goes round the class's subnets, from the one of the request's number on, with the first
// type and then with each other usable one. It takes the first subnet with an address and capacity
// for the type in its zone. What other pools launch has no part in it. The error is the one of the
// last subnet that was tried with the first type.
func (c *Cloud) pickOffer(b *simcloud.Book, class *v1alpha1.AWSNodeClass,
	req provider.LaunchRequest) (string, v1alpha1.ResolvedSubnet, error) {
	subnets := c.subnetsOf(class)
	if req.Zone != "" {
		subnets = slices.DeleteFunc(subnets, func(s v1alpha1.ResolvedSubnet) bool { return s.Zone != req.Zone })
	}
	if len(subnets) == 0 {
		return "", v1alpha1.ResolvedSubnet{}, &provider.InvalidConfigError{Field: "zone",
			Reason: fmt.Sprintf("no subnet of the class is in zone %q", req.Zone)}
	}
	first := int(max(req.Number, 0) % int64(len(subnets)))
	var last error
	for _, kind := range c.usableTypes(class) {
		for i := range subnets {
			subnet := subnets[(first+i)%len(subnets)]
			err := c.subnetRefusal(b, kind, subnet)
			if err == nil {
				return kind, subnet, nil
			}
			if kind == class.Spec.InstanceType {
				last = err
			}
		}
	}
	return "", v1alpha1.ResolvedSubnet{}, last
}

func (c *Cloud) subnetRefusal(b *simcloud.Book, kind string, subnet v1alpha1.ResolvedSubnet) error {
	addresses, bounded := c.addresses[subnet.ID]
	if !bounded {
		addresses = -1
	}
	return b.LaunchRefusal(kind, subnet.Zone, subnet.ID, addresses)
}

// subnetsOf returns the class's subnets: those it names, else those of its selector terms, else one
// per zone.
func (c *Cloud) subnetsOf(class *v1alpha1.AWSNodeClass) []v1alpha1.ResolvedSubnet {
	region := c.regionOf(class)
	zones := c.zoneNames(region)
	names := slices.Clone(class.Spec.SubnetIDs)
	for _, term := range class.Spec.SubnetSelector {
		if term.ID != "" && len(class.Spec.SubnetIDs) == 0 {
			names = append(names, term.ID)
		}
	}
	var subnets []v1alpha1.ResolvedSubnet
	if len(names) == 0 {
		for _, zone := range zones {
			subnets = append(subnets, v1alpha1.ResolvedSubnet{ID: "subnet-" + zone, Zone: zone})
		}
		return subnets
	}
	for _, name := range names {
		subnets = append(subnets, v1alpha1.ResolvedSubnet{ID: name, Zone: c.zoneOf(region, zones, name)})
	}
	return subnets
}

// zoneOf maps subnets to zones round robin in the order in which the cloud first sees them.
func (c *Cloud) zoneOf(region string, zones []string, subnet string) string {
	key := region + "/" + subnet
	if zone, ok := c.subnets[key]; ok {
		return zone
	}
	zone := zones[c.subnetSeq[region]%len(zones)]
	c.subnetSeq[region]++
	c.subnets[key] = zone
	return zone
}

// ResolveNodeClass implements API.
func (c *Cloud) ResolveNodeClass(ctx context.Context, class *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus,
	error) {
	var status v1alpha1.AWSNodeClassStatus
	err := c.call(ctx, Call{Op: OpResolve}, func(*simcloud.Book) error {
		if class == nil {
			return &provider.InvalidConfigError{Field: "class", Reason: "is missing"}
		}
		size, ok := c.InstanceType(class.Spec.InstanceType)
		if !ok {
			return &provider.InvalidConfigError{Field: "instanceType",
				Reason: fmt.Sprintf("unknown instance type %q", class.Spec.InstanceType)}
		}
		if err := refuseNodeImage(class); err != nil {
			return err
		}
		status.AMI = class.Spec.AMI
		if status.AMI == "" {
			status.AMI = "ami-fake"
		}
		status.Subnets = c.subnetsOf(class)
		status.SecurityGroups = slices.Clone(class.Spec.SecurityGroupIDs)
		if len(status.SecurityGroups) == 0 {
			status.SecurityGroups = []string{"sg-fake"}
		}
		status.InstanceTypes = c.instanceTypes(&class.Spec)
		status.Capacity = size.Capacity.DeepCopy()
		if pods := class.Spec.MaxPods(); pods > 0 {
			status.Capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(pods), resource.DecimalSI)
		}
		var err error
		status.Bootstrap, err = c.bootstrapOf(class)
		return err
	})
	return status, err
}
