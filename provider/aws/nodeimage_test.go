package aws

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// Values of the label, and their images in the default account.
const (
	nodeImage1 = "ubuntu-24.04-1.36.3-v1"
	nodeImage2 = "ubuntu-24.04-1.36.3-v2"
	nodeImage3 = "ubuntu-24.04-1.37.2-v1"

	nodeAMI1      = "ami-0123456789abcdfa0"
	nodeAMI2      = "ami-0123456789abcdfa1"
	nodeAMI2ARM   = "ami-0123456789abcdfa2"
	nodeAMI2Other = "ami-0123456789abcdfa3"
	nodeAMI3      = "ami-0123456789abcdfa4"
)

func TestNodeImageThatTheControlPlaneNames(t *testing.T) {
	all := func(value string) map[string]string {
		return map[string]string{"cp-1": value, "cp-2": value, "cp-3": value}
	}
	for name, c := range map[string]struct {
		labels map[string]string
		minor  string
		want   string
		reason v1alpha1.Reason
		words  []string
	}{
		"all agree":      {labels: all(nodeImage1), minor: "1.36", want: nodeImage1},
		"there is one":   {labels: map[string]string{"cp-1": nodeImage1}, minor: "1.36", want: nodeImage1},
		"an older minor": {labels: all("debian-12-1.9.11-v3"), minor: "1.36", want: "debian-12-1.9.11-v3"},
		"a release of csctl's mode hash": {labels: all("ubuntu-24.04-1.36.3-v0-sha.1a2b3c4"), minor: "1.36",
			want: "ubuntu-24.04-1.36.3-v0-sha.1a2b3c4"},
		"one has another value": {map[string]string{"cp-1": nodeImage1, "cp-2": nodeImage2, "cp-3": nodeImage1}, "1.36", "",
			v1alpha1.ReasonNodeImageLabelsDiffer, []string{"cp-1 has " + nodeImage1, "cp-2 has " + nodeImage2}},
		"one has none": {map[string]string{"cp-1": nodeImage1, "cp-2": nodeImage1, "cp-3": ""}, "1.36", "",
			v1alpha1.ReasonNodeImageLabelsDiffer, []string{"cp-3 has none"}},
		"none has the label": {all(""), "1.36", "", v1alpha1.ReasonNodeImageLabelMissing,
			[]string{"no control-plane Node has the label node.cluster.x-k8s.io/stratos-node-image"}},
		"no control-plane Node, as on EKS": {nil, "1.36", "", v1alpha1.ReasonNodeImageLabelMissing,
			[]string{"no Node has the label node-role.kubernetes.io/control-plane"}},
		"no version of the image": {all("ubuntu-24.04-1.36.3"), "1.36", "", v1alpha1.ReasonNodeImageLabelInvalid,
			[]string{"ubuntu-24.04-1.36.3 of", "must be <base>-<kubernetes>-<version>"}},
		"no patch of Kubernetes": {all("ubuntu-24.04-1.36-v1"), "1.36", "", v1alpha1.ReasonNodeImageLabelInvalid, nil},
		"no base":                {all("1.36.3-v1"), "1.36", "", v1alpha1.ReasonNodeImageLabelInvalid, nil},
		"with its architecture":  {all(nodeImage1 + "-amd64"), "1.36", "", v1alpha1.ReasonNodeImageLabelInvalid, nil},
		"a newer minor": {all(nodeImage3), "1.36", "", v1alpha1.ReasonNodeImageTooNew,
			[]string{nodeImage3 + " is for Kubernetes 1.37", "the API server is 1.36"}},
		"a newer minor of two digits": {all("debian-12-1.10.0-v3"), "1.9", "", v1alpha1.ReasonNodeImageTooNew, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := agreedNodeImage(c.labels, c.minor)
			if got != c.want || (err == nil) != (c.reason == "") {
				t.Fatalf("%q, %v; want %q", got, err, c.want)
			}
			if err == nil {
				return
			}
			if !provider.IsInvalidConfig(err) || provider.ConditionReason(err) != c.reason {
				t.Errorf("reason %s of %v, want %s", provider.ConditionReason(err), err, c.reason)
			}
			for _, word := range append(c.words, "spec.nodeImage:") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v: want %q in it", err, word)
				}
			}
		})
	}
}

// controlPlane is a cluster whose Nodes and API server say what the test has last set.
type controlPlane struct {
	labels map[string]string
	minor  string
	err    error
}

func (p *controlPlane) options(o *Options) {
	o.Minor = func(context.Context) (string, error) { return p.minor, nil }
	o.NodeImages = func(context.Context) (map[string]string, error) { return p.labels, p.err }
}

// following is a class that was never resolved.
func following() *v1alpha1.AWSNodeClass {
	c := class()
	c.Spec.AMI, c.Spec.NodeImage, c.Status = "", &v1alpha1.NodeImage{FromCluster: true}, v1alpha1.AWSNodeClassStatus{}
	c.Generation = 1
	return c
}

func TestImageOfTheClustersNodeImage(t *testing.T) {
	for name, c := range map[string]struct {
		value, instanceType, owner string
		want                       string
		reason                     v1alpha1.Reason
		words                      []string
	}{
		"ours, not a newer one of a stranger": {nodeImage2, "m5.large", "", nodeAMI2, "", nil},
		"for another processor":               {nodeImage2, "m7g.large", "self", nodeAMI2ARM, "", nil},
		"of an account that is named":         {nodeImage2, "m5.large", "999988887777", nodeAMI2Other, "", nil},
		"no such image": {"ubuntu-24.04-1.36.3-v9", "m5.large", "", "", v1alpha1.ReasonNodeImageNotFound,
			[]string{"self has no image named stratos-node-ubuntu-24.04-1.36.3-v9-amd64 in us-east-1"}},
		"not for this processor": {nodeImage1, "m7g.large", "", "", v1alpha1.ReasonNodeImageNotFound,
			[]string{"stratos-node-ubuntu-24.04-1.36.3-v1-arm64"}},
		"not available yet": {"ubuntu-24.04-1.37.2-v3", "m5.large", "", "", v1alpha1.ReasonNodeImageNotFound,
			[]string{"pending, not available"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plane := &controlPlane{labels: map[string]string{"cp-1": c.value}, minor: "1.37"}
				cloud := newRig(t, simcloud.Options{}).cloud(t, plane.options)
				follows := following()
				follows.Spec.InstanceType, follows.Spec.NodeImage.Owner = c.instanceType, c.owner
				got, err := cloud.ResolveNodeClass(t.Context(), follows)
				if got.AMI != c.want || (err == nil) != (c.reason == "") {
					t.Fatalf("image %q, %v; want %q", got.AMI, err, c.want)
				}
				if err == nil {
					if got.NodeImage != c.value {
						t.Errorf("status.nodeImage %q, want %q", got.NodeImage, c.value)
					}
					return
				}
				if provider.ConditionReason(err) != c.reason {
					t.Errorf("reason %s of %v, want %s", provider.ConditionReason(err), err, c.reason)
				}
				for _, word := range c.words {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%v: want %q in it", err, word)
					}
				}
			})
		})
	}
}

// TestLastNodeImageLaunches: while the cluster's node image cannot be followed, launches take the
// last one of the class, also for a spec that has changed in another field. Without a last image
// nothing is launched.
func TestLastNodeImageLaunches(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*controlPlane)
		// change is what becomes of the class that was resolved.
		change func(*v1alpha1.AWSNodeClass)
		want   string
		reason v1alpha1.Reason
	}{
		"the labels differ":             {fail: func(p *controlPlane) { p.labels["cp-2"] = nodeImage2 }, want: nodeAMI1},
		"the label is gone":             {fail: func(p *controlPlane) { p.labels["cp-1"] = "" }, want: nodeAMI1},
		"no control-plane Node is left": {fail: func(p *controlPlane) { p.labels = nil }, want: nodeAMI1},
		"a malformed label":             {fail: func(p *controlPlane) { p.labels = map[string]string{"cp-1": "v2"} }, want: nodeAMI1},
		"a newer minor":                 {fail: func(p *controlPlane) { p.labels = map[string]string{"cp-1": nodeImage3} }, want: nodeAMI1},
		"no such image": {fail: func(p *controlPlane) { p.labels = map[string]string{"cp-1": "ubuntu-24.04-1.36.3-v9"} },
			want: nodeAMI1},
		"the Nodes cannot be read": {fail: func(p *controlPlane) { p.err = errors.New("connection refused") }, want: nodeAMI1},
		"the image does not boot the new type": {fail: func(p *controlPlane) { p.labels["cp-2"] = nodeImage2 },
			change: func(c *v1alpha1.AWSNodeClass) { c.Spec.InstanceType = "m7g.large" },
			reason: v1alpha1.ReasonNodeImageLabelsDiffer},
		"the image is not the new owner's": {fail: func(p *controlPlane) { p.labels["cp-2"] = nodeImage2 },
			change: func(c *v1alpha1.AWSNodeClass) { c.Spec.NodeImage.Owner = "999988887777" },
			reason: v1alpha1.ReasonNodeImageLabelsDiffer},
		"there is no last image": {fail: func(p *controlPlane) { p.labels["cp-2"] = nodeImage2 },
			change: func(c *v1alpha1.AWSNodeClass) { c.Status = v1alpha1.AWSNodeClassStatus{} },
			reason: v1alpha1.ReasonNodeImageLabelsDiffer},
		"the last image was that of spec.ami": {fail: func(p *controlPlane) { p.labels["cp-2"] = nodeImage2 },
			change: func(c *v1alpha1.AWSNodeClass) { c.Status.NodeImage = "" },
			reason: v1alpha1.ReasonNodeImageLabelsDiffer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				plane := &controlPlane{labels: map[string]string{"cp-1": nodeImage1}, minor: "1.36"}
				cloud, follows := r.cloud(t, plane.options), following()
				status, err := cloud.ResolveNodeClass(t.Context(), follows)
				if err != nil || status.AMI != nodeAMI1 {
					t.Fatalf("image %q, %v", status.AMI, err)
				}
				follows.Status, follows.Status.ObservedGeneration = status, follows.Generation
				follows.Generation++
				c.fail(plane)
				if c.change != nil {
					c.change(follows)
				}
				if found, err := cloud.ResolveNodeClass(t.Context(), follows); err == nil {
					t.Errorf("resolved to %q, want an error, so that the status stays", found.AMI)
				}
				_, err = cloud.LaunchInstance(t.Context(), follows, provider.LaunchRequest{ClientToken: "a", Tags: ours("p")})
				launches := r.requests(ec2test.RunInstances)
				if c.reason != "" {
					if provider.ConditionReason(err) != c.reason || !provider.LaunchedNothing(err) || len(launches) > 0 {
						t.Errorf("%d launches, %v; want none because of %s", len(launches), err, c.reason)
					}
					return
				}
				if err != nil || len(launches) != 1 || launches[0].Params["ImageId"] != c.want {
					t.Errorf("%v, launches %v, want one of %s", err, launches, c.want)
				}
			})
		})
	}
}

// TestNodeImageFollowsANewMinorSlowly: its label changes before the control plane is upgraded,
// whose servers then answer with the old and the new version in turn.
func TestNodeImageFollowsANewMinorSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		plane := &controlPlane{labels: map[string]string{"cp-1": nodeImage2}, minor: "1.36"}
		cloud, follows := r.cloud(t, plane.options), following()
		resolve := func(c *Cloud, when, want string) {
			t.Helper()
			status, err := c.ResolveNodeClass(t.Context(), follows)
			if err == nil {
				follows.Status = status
			} else if provider.ConditionReason(err) != v1alpha1.ReasonNodeImageTooNew {
				t.Fatalf("%s: %v", when, err)
			}
			if follows.Status.AMI != want {
				t.Fatalf("%s: image %s, want %s", when, follows.Status.AMI, want)
			}
		}
		resolve(cloud, "at first", nodeAMI2)
		plane.labels["cp-1"] = nodeImage3
		for n := range 20 {
			pass(5 * time.Minute)
			plane.minor = []string{"1.37", "1.36"}[n%2]
			resolve(cloud, "while the answers alternate", nodeAMI2)
		}
		plane.minor = "1.37"
		for range 6 {
			pass(5 * time.Minute)
			resolve(cloud, "answered for less than 30 minutes", nodeAMI2)
		}
		again := r.cloud(t, plane.options)
		resolve(again, "a new process, whose class has the old image", nodeAMI2)
		pass(29 * time.Minute)
		resolve(again, "the new process, 29 minutes later", nodeAMI2)
		pass(time.Minute)
		resolve(again, "answered for 30 minutes", nodeAMI3)
	})
}

// TestOldNodeImageHoldsUpNoAlias: a node image may be older than the API server, and aliases follow
// the API server all the same.
func TestOldNodeImageHoldsUpNoAlias(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, upgrading)
		plane := &controlPlane{labels: map[string]string{"cp-1": nodeImage2}, minor: "1.38"}
		cloud, follows, aliased := r.cloud(t, plane.options), following(), class()
		follows.Status = v1alpha1.AWSNodeClassStatus{AMI: nodeAMI1, NodeImage: nodeImage1}
		if got, err := cloud.ResolveNodeClass(t.Context(), follows); err != nil || got.AMI != nodeAMI2 {
			t.Errorf("node image %s, %v, want %s", got.AMI, err, nodeAMI2)
		}
		byAMI(v1alpha1.SelectorTerm{Alias: "al2023@latest"})(&aliased.Spec)
		aliased.Status = v1alpha1.AWSNodeClassStatus{AMI: image138}
		if got, err := cloud.ResolveNodeClass(t.Context(), aliased); err != nil || got.AMI != image138 {
			t.Errorf("alias %s, %v, want %s", got.AMI, err, image138)
		}
	})
}
