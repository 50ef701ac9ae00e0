package v1alpha1

import (
	"strings"
)

// BootstrapFamily is a family of images whose user data Stratos writes.
type BootstrapFamily string

// The families.
const (
	// FamilyAL2023 is Amazon Linux 2023 for EKS, whose nodes join by nodeadm.
	FamilyAL2023 BootstrapFamily = "AL2023"
	// FamilyBottlerocket is Bottlerocket for Kubernetes, which reads settings and has no shell.
	FamilyBottlerocket BootstrapFamily = "Bottlerocket"
	// FamilyKubeadm is an image with containerd, kubelet and kubeadm, whose nodes join by kubeadm.
	FamilyKubeadm BootstrapFamily = "Kubeadm"
)

// Bootstrap makes Stratos write the user data by which instances join the cluster. The kubelet
// registers its Node with the labels, taints and startup taints of the pool, and with the taint
// stratos.sh/standby:NoSchedule, so that no pod lands before Stratos has seen the Node.
type Bootstrap struct {
	// Family of the image: AL2023, Bottlerocket, or Kubeadm (an image with containerd, kubelet and
	// kubeadm). Unset: as the alias in amiSelector says, such as al2023@latest or bottlerocket@latest.
	// Required where amiSelector has no such alias. An alias of another family is refused; Kubeadm has
	// none.
	// +kubebuilder:validation:Enum=AL2023;Bottlerocket;Kubeadm
	// +optional
	Family BootstrapFamily `json:"family,omitempty"`
	// Cluster is the cluster that instances join. Stratos asks EKS (eks:DescribeCluster, in the region
	// of Stratos's own AWS configuration) for each value that is not set. For the family Kubeadm it
	// reads the ConfigMap kube-public/cluster-info, and endpoint and certificateAuthority are enough.
	// +optional
	Cluster BootstrapCluster `json:"cluster,omitempty"`
	// MaxPods is the largest number of pods on a node, in place of the number that the image computes.
	// 1 to 1000. It also counts in status.capacity.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`
	// KubeletExtraArgs are more flags of the kubelet, such as --v=4. At most 50, each at most 1024
	// characters. Refused are flags that Stratos sets itself, and all flags for Bottlerocket, which
	// has none.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	KubeletExtraArgs []string `json:"kubeletExtraArgs,omitempty"`
}

// BootstrapCluster is what an instance needs to know of the cluster that it joins.
type BootstrapCluster struct {
	// Name of the cluster, as EKS knows it. At most 100 letters, digits, '-' and '_'. Unset: the name
	// that Stratos runs with (--cluster-name).
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z][0-9A-Za-z_-]*$`
	// +optional
	Name string `json:"name,omitempty"`
	// Endpoint of the API server, such as https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com. At
	// most 512 characters. Unset: as EKS says.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https://`
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// CertificateAuthority of the API server: certificates as PEM, encoded with base64. At most 16384
	// characters. Unset: as EKS says.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	CertificateAuthority string `json:"certificateAuthority,omitempty"`
	// ServiceCIDR is the range of the addresses of Services, such as 10.100.0.0/16. At most 64
	// characters. Unset: as EKS says, of the IP family of the cluster.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
}

// BootstrapStatus is what new instances are told to join the cluster.
type BootstrapStatus struct {
	// Family of the image.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Family BootstrapFamily `json:"family,omitempty"`
	// Cluster that new instances join. A later failure to ask EKS does not empty it.
	// +optional
	Cluster BootstrapCluster `json:"cluster,omitempty"`
}

// IsComplete reports whether all that a node of the family needs to know is there. Of no status it
// is false.
func (s *BootstrapStatus) IsComplete() bool {
	return s != nil && len(s.Cluster.Missing(s.Family)) == 0
}

// Missing names the values without which no node of the family joins, by their fields. A node that
// joins by kubeadm needs no name of the cluster and reads the range of Services from it.
func (c BootstrapCluster) Missing(family BootstrapFamily) []string {
	var names []string
	for _, value := range []struct {
		name, is      string
		unlessKubeadm bool
	}{
		{"name", c.Name, true}, {"endpoint", c.Endpoint, false},
		{"certificateAuthority", c.CertificateAuthority, false}, {"serviceCIDR", c.ServiceCIDR, true},
	} {
		if value.is == "" && !(value.unlessKubeadm && family == FamilyKubeadm) {
			names = append(names, value.name)
		}
	}
	return names
}

// Or returns the cluster with each value that is not set taken from the other.
func (c BootstrapCluster) Or(other BootstrapCluster) BootstrapCluster {
	return BootstrapCluster{
		Name: textOr(c.Name, other.Name), Endpoint: textOr(c.Endpoint, other.Endpoint),
		CertificateAuthority: textOr(c.CertificateAuthority, other.CertificateAuthority),
		ServiceCIDR:          textOr(c.ServiceCIDR, other.ServiceCIDR),
	}
}

// Changes names the values in which the other cluster differs, by their fields.
func (c BootstrapCluster) Changes(other BootstrapCluster) []string {
	var names []string
	for _, value := range []struct{ name, was, is string }{
		{"name", c.Name, other.Name}, {"endpoint", c.Endpoint, other.Endpoint},
		{"certificateAuthority", c.CertificateAuthority, other.CertificateAuthority},
		{"serviceCIDR", c.ServiceCIDR, other.ServiceCIDR},
	} {
		if value.was != value.is {
			names = append(names, value.name)
		}
	}
	return names
}

// BootstrapFamily returns the family of the class's image: bootstrap.family, else the one that the
// aliases in amiSelector imply. It is empty where bootstrap is not set or nothing implies one.
func (s *AWSNodeClassSpec) BootstrapFamily() BootstrapFamily {
	switch {
	case s.Bootstrap == nil:
		return ""
	case s.Bootstrap.Family != "":
		return s.Bootstrap.Family
	}
	for _, term := range s.AMISelector {
		if family := familyOfAlias(term.Alias); family != "" {
			return family
		}
	}
	return ""
}

func familyOfAlias(alias string) BootstrapFamily {
	name, _, _ := strings.Cut(alias, "@")
	switch name {
	case "al2023":
		return FamilyAL2023
	case "bottlerocket":
		return FamilyBottlerocket
	}
	return ""
}

// NeedsBootstrapToken reports whether an instance of the class joins by a bootstrap token.
func (c *AWSNodeClass) NeedsBootstrapToken() bool {
	return c.Spec.BootstrapFamily() == FamilyKubeadm
}

// MaxPods returns bootstrap.maxPods, 0 where it is not set.
func (s *AWSNodeClassSpec) MaxPods() int32 {
	if s.Bootstrap == nil {
		return 0
	}
	return valueOr(s.Bootstrap.MaxPods, 0)
}
