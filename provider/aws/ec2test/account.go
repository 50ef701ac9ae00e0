package ec2test

import (
	"fmt"
	"strings"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// Account is what there is apart from instances.
type Account struct {
	// ID is the owner of everything that names no other.
	ID             string
	Subnets        []Subnet
	Images         []Image
	SecurityGroups []SecurityGroup
	// Clusters are those of EKS.
	Clusters []Cluster
	// Profiles are the instance profiles: the ARN of the role by the profile's name.
	Profiles map[string]string
	// MetadataTags: instances show their tags in their metadata unless a launch says otherwise. Tag
	// keys with other characters than those of a path segment are refused then.
	MetadataTags bool
}

// Subnet is a subnet. Its region is that of its zone.
type Subnet struct {
	ID, VPC, Zone, CIDR string
	// Addresses it has for instances; stopped ones keep theirs.
	Addresses int
	Tags      map[string]string
}

// Image is an AMI, the same in every region.
type Image struct {
	ID, Name string
	// Owner is an account's id; Alias is amazon or aws-marketplace, empty for accounts without one.
	Owner, Alias string
	// Architecture is x86_64 or arm64; State is available where it is empty.
	Architecture, State string
	// BootMode is legacy-bios, uefi or uefi-preferred; empty: the type's own.
	BootMode string
	// Platform is that of its instances: Linux/UNIX where it is empty.
	Platform string
	// NoENA: the image has no driver for enhanced networking.
	NoENA bool
	// Created is an RFC 3339 time with milliseconds, as EC2 writes it.
	Created string
	// RootDevice is the root volume's device name, RootGiB its size.
	RootDevice string
	RootGiB    int
	Deprecated bool
	// Public images of other accounts; those with an Alias are public too.
	Public bool
	Tags   map[string]string
}

// SecurityGroup is a security group.
type SecurityGroup struct {
	ID, Name, VPC, Region string
	Tags                  map[string]string
}

// The account's own id, and Amazon's for EKS images, as they stand in ARNs and owners.
const (
	defaultAccountID = "123456789012"
	amazonEKS        = "602401143452"
	stranger         = "999988887777"
	clusterTag       = "kubernetes.io/cluster/e2e"
	// What Cluster API's provider for AWS puts on the resources of a cluster.
	capaClusterTag = "sigs.k8s.io/cluster-api-provider-aws/cluster/e2e"
	capaRoleTag    = "sigs.k8s.io/cluster-api-provider-aws/role"
)

// NodeRole is the role of the instance profile node-role of DefaultAccount. It may join the
// clusters.
const NodeRole = "arn:aws:iam::" + defaultAccountID + ":role/stratos-node"

// DefaultAccount has two regions with three and two zones, subnets and security groups with tags,
// EKS clusters of both IP families, and images of several kinds, among them node images of a
// cluster stack, and public ones of a stranger with the names of Amazon's and ours. Its instances
// show their tags in their metadata.
func DefaultAccount() *Account {
	a := &Account{ID: defaultAccountID, MetadataTags: true, Profiles: map[string]string{"node-role": NodeRole}}
	for i, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c", "eu-west-1a", "eu-west-1b"} {
		id := fmt.Sprintf("subnet-%08d", 12345678+i)
		a.Subnets = append(a.Subnets, Subnet{
			ID: id, VPC: vpcOf(zone[:len(zone)-1]), Zone: zone, CIDR: fmt.Sprintf("10.0.%d.0/20", 16*i), Addresses: 4091,
			Tags: map[string]string{"Name": "private-" + zone, clusterTag: "shared", "tier": "private",
				capaClusterTag: "owned", capaRoleTag: "private"},
		})
	}
	for i, region := range []string{simcloud.DefaultRegion, "eu-west-1"} {
		a.SecurityGroups = append(a.SecurityGroups, SecurityGroup{
			ID: fmt.Sprintf("sg-%08d", 12345678+i), Name: "nodes", VPC: vpcOf(region), Region: region,
			Tags: map[string]string{"Name": "nodes", clusterTag: "owned", capaClusterTag: "owned", capaRoleTag: "node"},
		}, SecurityGroup{
			ID: fmt.Sprintf("sg-%08d", 22345678+i), Name: "load-balancers", VPC: vpcOf(region), Region: region,
			Tags: map[string]string{"Name": "load-balancers", capaClusterTag: "owned", capaRoleTag: "lb"},
		})
	}
	a.Images = defaultImages(a.ID)
	a.Clusters = defaultClusters()
	return a
}

func vpcOf(region string) string {
	return map[string]string{simcloud.DefaultRegion: "vpc-11111111", "eu-west-1": "vpc-22222222"}[region]
}

func defaultImages(own string) []Image {
	images := []Image{
		{ID: "ami-0123456789abcdef0", Name: "amazon-eks-node-al2023-x86_64-standard-1.37-v20261101",
			Created: "2026-11-01T10:00:00.000Z"},
		{ID: "ami-0123456789abcdef1", Name: "amazon-eks-node-al2023-arm64-standard-1.37-v20261101",
			Created: "2026-11-01T10:00:00.000Z"},
		{ID: "ami-0123456789abcdef2", Name: "amazon-eks-node-al2023-x86_64-standard-1.37-v20261001",
			Created: "2026-10-01T10:00:00.000Z"},
		{ID: "ami-0123456789abcdef3", Name: "amazon-eks-node-1.32-v20251101", Created: "2025-11-01T10:00:00.000Z"},
		{ID: "ami-0123456789abcdef4", Name: "bottlerocket-aws-k8s-1.37-x86_64-v1.60.0-aabbccdd",
			Created: "2026-10-20T10:00:00.000Z"},
		{ID: "ami-0123456789abcdef5", Name: "nodes-of-our-own", Owner: own, Created: "2026-09-01T10:00:00.000Z",
			Tags: map[string]string{"team": "platform"}},
		{ID: "ami-0123456789abcdef6", Name: "nodes-not-ready", Owner: own, State: "pending",
			Created: "2026-11-20T10:00:00.000Z", Tags: map[string]string{"team": "platform"}},
		{
			ID: "ami-0123456789abcdef7", Name: "nodes-of-our-own", Owner: stranger, Public: true,
			Created: "2026-11-21T10:00:00.000Z",
		},
		{
			ID: "ami-0123456789abcdef8", Name: "amazon-eks-node-al2023-x86_64-standard-1.37-v20261121", Owner: stranger,
			Public: true, Created: "2026-11-21T10:00:00.000Z",
		},
	}
	images = append(images, nodeImages(own)...)
	for i := range images {
		image := &images[i]
		if image.Owner == "" {
			image.Owner, image.Alias = amazonEKS, "amazon"
		}
		image.Architecture, image.RootDevice, image.RootGiB = archX86, rootDevice, 20
		if strings.Contains(image.Name, archARM) {
			image.Architecture = archARM
		}
		if strings.Contains(image.Name, "al2023") {
			image.BootMode = bootUEFIPreferred
		}
	}
	return images
}

// nodeImages are those of a cluster stack for two minors. A stranger has one of the same name.
func nodeImages(own string) []Image {
	const base = "stratos-node-ubuntu-24.04-"
	return []Image{
		{ID: "ami-0123456789abcdfa0", Name: base + "1.36.3-v1-amd64", Owner: own, Created: "2026-10-01T10:00:00.000Z"},
		{ID: "ami-0123456789abcdfa1", Name: base + "1.36.3-v2-amd64", Owner: own, Created: "2026-11-01T10:00:00.000Z"},
		{ID: "ami-0123456789abcdfa2", Name: base + "1.36.3-v2-arm64", Owner: own, Created: "2026-11-01T10:00:00.000Z"},
		{ID: "ami-0123456789abcdfa3", Name: base + "1.36.3-v2-amd64", Owner: stranger, Public: true,
			Created: "2026-11-21T10:00:00.000Z"},
		{ID: "ami-0123456789abcdfa4", Name: base + "1.37.2-v1-amd64", Owner: own, Created: "2026-10-01T10:00:00.000Z"},
		{ID: "ami-0123456789abcdfa5", Name: base + "1.37.2-v2-amd64", Owner: own, Created: "2026-11-01T10:00:00.000Z"},
		{ID: "ami-0123456789abcdfa6", Name: base + "1.37.2-v3-amd64", Owner: own, State: "pending",
			Created: "2026-11-20T10:00:00.000Z"},
	}
}

// subnet returns the subnet of the region; nil for none.
func (a *Account) subnet(region, id string) *Subnet {
	for i := range a.Subnets {
		if s := &a.Subnets[i]; s.ID == id && s.region() == region {
			return s
		}
	}
	return nil
}

func (s *Subnet) region() string { return s.Zone[:len(s.Zone)-1] }

func (a *Account) image(id string) *Image {
	for i := range a.Images {
		if a.Images[i].ID == id {
			return &a.Images[i]
		}
	}
	return nil
}

func (a *Account) group(region, id string) *SecurityGroup {
	for i := range a.SecurityGroups {
		if g := &a.SecurityGroups[i]; g.ID == id && g.Region == region {
			return g
		}
	}
	return nil
}

func (i *Image) state() string {
	if i.State == "" {
		return "available"
	}
	return i.State
}
