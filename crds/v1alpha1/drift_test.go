package v1alpha1

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func template() *NodeTemplate {
	return &NodeTemplate{
		NodeClassRef: NodeClassRef{Kind: "AWSNodeClass", Name: "class"}, Labels: map[string]LabelValue{"team": "a"},
		Taints: []Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule},
			{Key: "a", Effect: corev1.TaintEffectNoExecute}},
		StartupTaints: []Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}},
	}
}

func TestHashOfATemplate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*NodeTemplate)
		same   bool
	}{
		"nothing":              {func(*NodeTemplate) {}, true},
		"the pool's own label": {func(n *NodeTemplate) { n.Labels[LabelPool] = "p" }, true},
		"taints in another order": {func(n *NodeTemplate) { n.Taints[0], n.Taints[1] = n.Taints[1], n.Taints[0] },
			true},
		"who removes startup taints": {func(n *NodeTemplate) { n.StartupTaintRemoval = RemoveExternal }, true},
		"another label":              {func(n *NodeTemplate) { n.Labels["x"] = "" }, false},
		"another value of a label":   {func(n *NodeTemplate) { n.Labels["team"] = "b" }, false},
		"a label less":               {func(n *NodeTemplate) { n.Labels = nil }, false},
		"another value of a taint":   {func(n *NodeTemplate) { n.Taints[0].Value = "x" }, false},
		"a taint less":               {func(n *NodeTemplate) { n.Taints = n.Taints[:1] }, false},
		"a startup taint less":       {func(n *NodeTemplate) { n.StartupTaints = nil }, false},
		"a startup taint made a taint": {func(n *NodeTemplate) {
			n.Taints,
				n.StartupTaints = append(n.Taints, n.StartupTaints...), nil
		}, false},
		"another class":                 {func(n *NodeTemplate) { n.NodeClassRef.Name = "other" }, false},
		"a class of another kind":       {func(n *NodeTemplate) { n.NodeClassRef.Kind = "Other" }, false},
		"an empty list in place of nil": {func(n *NodeTemplate) { n.Taints = append([]Taint{}, n.Taints...) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			changed := template()
			c.change(changed)
			before := changed.DeepCopy()
			if same := changed.Hash() == template().Hash(); same != c.same {
				t.Errorf("same hash: %t, want %t", same, c.same)
			}
			if len(before.Taints) > 0 && before.Taints[0] != changed.Taints[0] {
				t.Error("Hash sorted the taints of its receiver")
			}
		})
	}
}

func TestHashOfAClass(t *testing.T) {
	class := func() *AWSNodeClassSpec {
		return &AWSNodeClassSpec{
			Region: "us-east-1", InstanceType: "m5.large", AMI: "ami-1", UserData: "#!/bin/sh\n",
			Tags:                map[string]TagValue{"a": "b"},
			BlockDeviceMappings: []BlockDeviceMapping{{DeviceName: "/dev/xvda"}},
		}
	}
	for name, c := range map[string]struct {
		change func(*AWSNodeClassSpec)
		same   bool
	}{
		"nothing":              {func(*AWSNodeClassSpec) {}, true},
		"defaults written out": {func(s *AWSNodeClassSpec) { s.SetDefaults() }, true},
		"fallback types":       {func(s *AWSNodeClassSpec) { s.FallbackInstanceTypes = []string{"m5a.large"} }, true},
		"a reservation": {func(s *AWSNodeClassSpec) { s.CapacityReservation = &CapacityReservation{ID: "cr-1"} },
			true},
		"another image":       {func(s *AWSNodeClassSpec) { s.AMI = "ami-2" }, false},
		"the cluster's image": {func(s *AWSNodeClassSpec) { s.AMI, s.NodeImage = "", &NodeImage{FromCluster: true} }, false},
		"other user data":     {func(s *AWSNodeClassSpec) { s.UserData = "" }, false},
		"another tag":         {func(s *AWSNodeClassSpec) { s.Tags["a"] = "c" }, false},
		"another volume type": {func(s *AWSNodeClassSpec) { s.BlockDeviceMappings[0].VolumeType = "io2" },
			false},
		"tokens that are only recommended": {func(s *AWSNodeClassSpec) { s.MetadataOptions.HTTPTokens = "optional" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := class()
			c.change(changed)
			if same := changed.Hash() == class().Hash(); same != c.same {
				t.Errorf("same hash: %t, want %t", same, c.same)
			}
		})
	}
}

func TestHashOfAClassWithTheClustersNodeImage(t *testing.T) {
	hash := func(owner string) string {
		return (&AWSNodeClassSpec{NodeImage: &NodeImage{FromCluster: true, Owner: owner}}).Hash()
	}
	if hash("") != hash("self") || hash("") == hash("123456789012") {
		t.Errorf("owner unset %s, self %s, an account %s: want the first two equal and no other", hash(""), hash("self"),
			hash("123456789012"))
	}
}

func TestHashOfAClassWithBootstrap(t *testing.T) {
	class := func() *AWSNodeClass {
		return &AWSNodeClass{Spec: AWSNodeClassSpec{
			InstanceType: "m5.large", AMISelector: []SelectorTerm{{Alias: "al2023@latest"}},
			Bootstrap: &Bootstrap{Cluster: BootstrapCluster{Name: "one"}, KubeletExtraArgs: []string{"--v=2", "--v=4"}},
		}}
	}
	for name, c := range map[string]struct {
		change func(*AWSNodeClass)
		same   bool
	}{
		"nothing": {func(*AWSNodeClass) {}, true},
		"the family that the alias implies is written out": {func(c *AWSNodeClass) {
			c.Spec.Bootstrap.Family = FamilyAL2023
		}, true},
		"what EKS said": {func(c *AWSNodeClass) {
			c.Status.Bootstrap = &BootstrapStatus{Family: FamilyAL2023, Cluster: BootstrapCluster{Endpoint: "https://x"}}
		}, true},
		"no bootstrap":         {func(c *AWSNodeClass) { c.Spec.Bootstrap = nil }, false},
		"an empty bootstrap":   {func(c *AWSNodeClass) { c.Spec.Bootstrap = &Bootstrap{} }, false},
		"another family":       {func(c *AWSNodeClass) { c.Spec.Bootstrap.Family = FamilyBottlerocket }, false},
		"another cluster":      {func(c *AWSNodeClass) { c.Spec.Bootstrap.Cluster.Name = "two" }, false},
		"an endpoint":          {func(c *AWSNodeClass) { c.Spec.Bootstrap.Cluster.Endpoint = "https://x" }, false},
		"a number of pods":     {func(c *AWSNodeClass) { c.Spec.Bootstrap.MaxPods = new(int32(20)) }, false},
		"flags of the kubelet": {func(c *AWSNodeClass) { c.Spec.Bootstrap.KubeletExtraArgs = []string{"--v=2"} }, false},
		"additional user data": {func(c *AWSNodeClass) { c.Spec.UserData = "#!/bin/sh\n" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := class()
			c.change(changed)
			if same := changed.SpecHash() == class().SpecHash(); same != c.same {
				t.Errorf("same hash: %t, want %t", same, c.same)
			}
		})
	}
}

// The hashes stand on instances that live longer than a release. If this fails, hashVersion has to
// be raised, else an upgrade of Stratos replaces every node of every user.
func TestHashesStayWhatTheyAre(t *testing.T) {
	class := &AWSNodeClassSpec{Region: "us-east-1", InstanceType: "m5.large", AMI: "ami-1"}
	for want, got := range map[string]string{
		"v1.80e47652ed55950f": template().Hash(),
		"v1.92a86e70fe763fb2": class.Hash(),
	} {
		if got != want || !IsHash(got) {
			t.Errorf("hash %s, want %s", got, want)
		}
	}
	if IsHash("") || IsHash("v0.0123456789abcdef") {
		t.Error("a hash of another version passes for one of this")
	}
}
