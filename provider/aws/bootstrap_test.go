package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
	"github.com/stratos-sh/stratos/provider/userdata"
)

// bootstrapped is a class whose user data Stratos writes, not resolved yet.
func bootstrapped(change ...func(*v1alpha1.AWSNodeClass)) *v1alpha1.AWSNodeClass {
	c := class()
	c.Spec.Bootstrap = &v1alpha1.Bootstrap{Family: v1alpha1.FamilyAL2023}
	c.Status, c.Generation = v1alpha1.AWSNodeClassStatus{}, 1
	for _, f := range change {
		f(c)
	}
	return c
}

// e2eCluster is what EKS says of the test server's cluster e2e.
func e2eCluster() v1alpha1.BootstrapCluster {
	return v1alpha1.BootstrapCluster{Name: "e2e", Endpoint: simcloud.ClusterEndpoint,
		CertificateAuthority: simcloud.ClusterCA(), ServiceCIDR: simcloud.ClusterServiceCIDR}
}

func TestWhatAClassLeavesOutOfTheClusterComesFromEKS(t *testing.T) {
	own := v1alpha1.BootstrapCluster{Name: "own", Endpoint: "https://10.0.0.1:6443",
		CertificateAuthority: simcloud.ClusterCA(), ServiceCIDR: "10.96.0.0/12"}
	in := func(cluster v1alpha1.BootstrapCluster) func(*v1alpha1.AWSNodeClass) {
		return func(c *v1alpha1.AWSNodeClass) { c.Spec.Bootstrap.Cluster = cluster }
	}
	six := e2eCluster()
	six.Name, six.ServiceCIDR = "six", "fd12:3456:789a::/108"
	mixed := e2eCluster()
	mixed.Endpoint = own.Endpoint
	for name, c := range map[string]struct {
		change func(*v1alpha1.AWSNodeClass)
		want   v1alpha1.BootstrapCluster
		calls  int
		err    string
	}{
		"everything":                           {change: in(v1alpha1.BootstrapCluster{}), want: e2eCluster(), calls: 1},
		"a cluster with another name, of IPv6": {change: in(v1alpha1.BootstrapCluster{Name: "six"}), want: six, calls: 1},
		"all but an endpoint":                  {change: in(v1alpha1.BootstrapCluster{Endpoint: own.Endpoint}), want: mixed, calls: 1},
		"nothing":                              {change: in(own), want: own},
		"the class is of another region": {change: func(c *v1alpha1.AWSNodeClass) {
			c.Spec.Region, c.Spec.SubnetIDs = "eu-west-1", []string{"subnet-12345681"}
			c.Spec.SecurityGroupIDs = []string{"sg-12345679"}
		}, want: e2eCluster(), calls: 1},
		"a cluster that is not there": {change: in(v1alpha1.BootstrapCluster{Name: "none"}), calls: 1,
			err: `spec.bootstrap.cluster.name: EKS has no cluster "none" in us-east-1`},
		"a cluster of another region": {change: in(v1alpha1.BootstrapCluster{Name: "elsewhere"}), calls: 1,
			err: `spec.bootstrap.cluster.name: EKS has no cluster "elsewhere" in us-east-1`},
		"a cluster that is being created": {change: in(v1alpha1.BootstrapCluster{Name: "new"}), calls: 1,
			err: `EKS does not say all of cluster "new", which is CREATING`},
		"an endpoint without https": {change: in(v1alpha1.BootstrapCluster{Endpoint: "http://10.0.0.1"}), calls: 1,
			err: "spec.bootstrap.cluster.endpoint: "},
		"a certificate that is none": {change: in(v1alpha1.BootstrapCluster{CertificateAuthority: "bm90aGluZw=="}), calls: 1,
			err: "spec.bootstrap.cluster.certificateAuthority: "},
		"a range that is none": {change: in(v1alpha1.BootstrapCluster{ServiceCIDR: "10.0.0.0/99"}), calls: 1,
			err: "spec.bootstrap.cluster.serviceCIDR: "},
		"no family": {change: func(c *v1alpha1.AWSNodeClass) { c.Spec.Bootstrap.Family = "" },
			err: "spec.bootstrap.family: must be set"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				r.server.SetCluster(ec2test.Cluster{Name: "new", Region: "us-east-1", Status: "CREATING"})
				found, err := r.cloud(t).ResolveNodeClass(t.Context(), bootstrapped(c.change))
				if calls := len(r.requests(ec2test.DescribeCluster)); calls != c.calls {
					t.Errorf("%d calls of EKS, want %d", calls, c.calls)
				}
				if c.err != "" {
					if err == nil || !strings.Contains(err.Error(), c.err) || !provider.IsInvalidConfig(err) {
						t.Errorf("error %v, want an InvalidConfigError with %q", err, c.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyAL2023, Cluster: c.want}
				if diff := cmp.Diff(want, found.Bootstrap); diff != "" {
					t.Errorf("status.bootstrap (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAClusterOfKubeadmIsReadFromTheCluster: what kubeadm has published is read for what a class
// leaves out, and EKS is not asked. One reading serves all classes.
func TestAClusterOfKubeadmIsReadFromTheCluster(t *testing.T) {
	published := v1alpha1.BootstrapCluster{Endpoint: "https://10.0.0.1:6443", CertificateAuthority: simcloud.ClusterCA()}
	of := func(endpoint string) v1alpha1.BootstrapCluster {
		return v1alpha1.BootstrapCluster{Name: "e2e", Endpoint: endpoint, CertificateAuthority: simcloud.ClusterCA()}
	}
	before := &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyKubeadm, Cluster: of("https://10.0.0.2:6443")}
	ofEKS := &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyAL2023, Cluster: e2eCluster()}
	forbidden := errors.New("configmaps is forbidden")
	for name, c := range map[string]struct {
		cluster  v1alpha1.BootstrapCluster
		before   *v1alpha1.BootstrapStatus
		says     v1alpha1.BootstrapCluster
		fails    error
		want     v1alpha1.BootstrapCluster
		readings int
		err      string
	}{
		"nothing is set":   {says: published, want: of("https://10.0.0.1:6443"), readings: 1},
		"another endpoint": {cluster: v1alpha1.BootstrapCluster{Endpoint: "https://a:6443"}, says: published, want: of("https://a:6443"), readings: 1},
		"what a node needs": {cluster: v1alpha1.BootstrapCluster{Endpoint: "https://a:6443", CertificateAuthority: simcloud.ClusterCA()},
			fails: forbidden, want: of("https://a:6443")},
		"it cannot be read":     {fails: forbidden, err: "bootstrapTokens.enabled of the chart): configmaps is forbidden", readings: 1},
		"it could be read once": {fails: forbidden, before: before, want: before.Cluster, readings: 1},
		"it was one of EKS":     {fails: forbidden, before: ofEKS, err: "set endpoint and certificateAuthority", readings: 1},
		"it lacks something": {says: v1alpha1.BootstrapCluster{Endpoint: "https://10.0.0.1:6443"}, readings: 1,
			err: "endpoint or certificate authority is missing in it"},
		"it has no https": {says: v1alpha1.BootstrapCluster{Endpoint: "http://10.0.0.1", CertificateAuthority: simcloud.ClusterCA()},
			err: "spec.bootstrap.cluster.endpoint: ", readings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, readings := newRig(t, simcloud.Options{}), 0
				cloud := r.cloud(t, func(o *Options) {
					o.ClusterInfo = func(context.Context) (v1alpha1.BootstrapCluster, error) {
						readings++
						return c.says, c.fails
					}
				})
				class := bootstrapped(func(class *v1alpha1.AWSNodeClass) {
					class.Spec.Bootstrap.Family, class.Spec.Bootstrap.Cluster = v1alpha1.FamilyKubeadm, c.cluster
					class.Status.Bootstrap = c.before
				})
				for range 2 {
					found, err := cloud.ResolveNodeClass(t.Context(), class)
					if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && err != nil {
						t.Fatalf("error %v, want %q", err, c.err)
					}
					if c.err != "" {
						continue
					}
					want := &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyKubeadm, Cluster: c.want}
					if diff := cmp.Diff(want, found.Bootstrap); diff != "" {
						t.Errorf("status.bootstrap (-want +got):\n%s", diff)
					}
				}
				if calls := r.requests(ec2test.DescribeCluster); len(calls) > 0 || readings != c.readings {
					t.Errorf("EKS was asked %v, and %d readings, want %d", calls, readings, c.readings)
				}
			})
		})
	}
}

func TestAClassWithoutBootstrapAsksEKSNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		found, err := r.cloud(t).ResolveNodeClass(t.Context(), class())
		if err != nil || found.Bootstrap != nil || len(r.requests(ec2test.DescribeCluster)) > 0 {
			t.Errorf("bootstrap %v, %v, %v", found.Bootstrap, err, r.requests(ec2test.DescribeCluster))
		}
	})
}

// TestOneCallServesAllClasses: within 5 minutes, of all regions; a refusal serves them for 30
// seconds.
func TestOneCallServesAllClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		cloud := r.cloud(t)
		resolve := func(classes int) (failed error) {
			ids := make([]string, classes)
			for i := range ids {
				ids[i] = string(rune('a' + i))
			}
			for _, err := range atOnce(ids, func(string) error {
				_, err := cloud.ResolveNodeClass(t.Context(), bootstrapped())
				return err
			}) {
				if err != nil {
					failed = err
				}
			}
			return failed
		}
		r.server.Script(ec2test.Failure{Action: ec2test.DescribeCluster, Error: accessDenied()})
		if err := resolve(4); err == nil || len(r.requests(ec2test.DescribeCluster)) != 1 {
			t.Fatalf("%v, %d calls, want a refusal by one", err, len(r.requests(ec2test.DescribeCluster)))
		}
		r.server.Unscript()
		pass(clusterRetry)
		for _, wait := range []time.Duration{0, 4 * time.Minute} {
			pass(wait)
			if err := resolve(4); err != nil || len(r.requests(ec2test.DescribeCluster)) != 2 {
				t.Fatalf("%v, %d calls, want 2", err, len(r.requests(ec2test.DescribeCluster)))
			}
		}
		pass(time.Minute)
		if err := resolve(4); err != nil || len(r.requests(ec2test.DescribeCluster)) != 3 {
			t.Fatalf("%v, %d calls, want 3", err, len(r.requests(ec2test.DescribeCluster)))
		}
	})
}

func accessDenied() ec2test.Error {
	return ec2test.Error{Code: "AccessDeniedException", Status: 403,
		Message: "User: arn:aws:sts::123456789012:assumed-role/stratos is not authorized to perform: eks:DescribeCluster"}
}

// TestWhatEKSSaidOutlivesItsFailures: the class's status stands while EKS is not to be asked, of
// the same cluster and of no other.
func TestWhatEKSSaidOutlivesItsFailures(t *testing.T) {
	before := &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyAL2023, Cluster: e2eCluster()}
	other := &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyAL2023, Cluster: e2eCluster()}
	other.Cluster.Name = "other"
	for name, c := range map[string]struct {
		failure ec2test.Failure
		before  *v1alpha1.BootstrapStatus
		err     string
	}{
		"not permitted": {ec2test.Failure{Error: accessDenied()}, before, ""},
		"down": {ec2test.Failure{Error: ec2test.Error{Code: "ServerException", Status: 500, Message: "try again"}}, before,
			""},
		"no answer":           {ec2test.Failure{Hangs: true}, before, ""},
		"the cluster is gone": {ec2test.Failure{Error: ec2test.Error{Code: "ResourceNotFoundException", Status: 404}}, before, ""},
		"not permitted from the start": {ec2test.Failure{Error: accessDenied()}, nil, "permit eks:DescribeCluster, or set endpoint, " +
			"certificateAuthority and serviceCIDR: AccessDeniedException: User: arn:aws:sts"},
		"what was said of another cluster": {ec2test.Failure{Error: accessDenied()}, other, "permit eks:DescribeCluster"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				c.failure.Action = ec2test.DescribeCluster
				r.server.Script(c.failure)
				class := bootstrapped(func(class *v1alpha1.AWSNodeClass) { class.Status.Bootstrap = c.before })
				found, err := r.cloud(t).ResolveNodeClass(t.Context(), class)
				if c.err == "" {
					if diff := cmp.Diff(c.before, found.Bootstrap); diff != "" || err != nil {
						t.Errorf("error %v, status.bootstrap (-want +got):\n%s", err, diff)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				_, err = r.cloud(t).LaunchInstance(t.Context(), class, provider.LaunchRequest{ClientToken: "a"})
				if err == nil || len(r.requests(ec2test.RunInstances)) > 0 {
					t.Errorf("launched without a cluster to join: %v", err)
				}
			})
		})
	}
}

func TestCapacityOfAClassWithBootstrap(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*v1alpha1.AWSNodeClass)
		pods, storage string
	}{
		"as the type has it": {func(*v1alpha1.AWSNodeClass) {}, "29", "20Gi"},
		"fewer pods":         {func(c *v1alpha1.AWSNodeClass) { c.Spec.Bootstrap.MaxPods = new(int32(17)) }, "17", "20Gi"},
		"more pods":          {func(c *v1alpha1.AWSNodeClass) { c.Spec.Bootstrap.MaxPods = new(int32(250)) }, "250", "20Gi"},
		"a larger root volume": {func(c *v1alpha1.AWSNodeClass) {
			c.Spec.BlockDeviceMappings = []v1alpha1.BlockDeviceMapping{{DeviceName: "/dev/xvda", VolumeSize: new(int32(50))}}
		}, "29", "50Gi"},
		"the data volume of Bottlerocket": {func(c *v1alpha1.AWSNodeClass) {
			c.Spec.Bootstrap.Family = v1alpha1.FamilyBottlerocket
			c.Spec.BlockDeviceMappings = []v1alpha1.BlockDeviceMapping{{DeviceName: "/dev/xvda", VolumeSize: new(int32(4))},
				{DeviceName: "/dev/xvdb", VolumeSize: new(int32(80))}}
		}, "29", "80Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found, err := newRig(t, simcloud.Options{}).cloud(t).ResolveNodeClass(t.Context(), bootstrapped(c.change))
				if err != nil {
					t.Fatal(err)
				}
				pods, storage := found.Capacity[corev1.ResourcePods], found.Capacity[corev1.ResourceEphemeralStorage]
				if pods.String() != c.pods || storage.String() != c.storage {
					t.Errorf("pods %s, storage %s, want %s and %s", pods.String(), storage.String(), c.pods, c.storage)
				}
			})
		})
	}
}

// registration is what a pool's Nodes register with, with a label that a kubelet may not set and
// the pool's own.
func registration() provider.Registration {
	return provider.Registration{
		Labels: map[string]string{"team": "a", "node-role.kubernetes.io/worker": "", v1alpha1.LabelPool: "p"},
		Taints: []v1alpha1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule},
			{Key: "gpu", Effect: corev1.TaintEffectNoExecute}},
		StartupTaints: []v1alpha1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}},
	}
}

// wantUserData is what the package userdata makes of the registration for the cluster e2e.
func wantUserData(t *testing.T, class *v1alpha1.AWSNodeClass) string {
	t.Helper()
	k := userdata.Kubelet{
		Labels: map[string]string{"team": "a"}, MaxPods: class.Spec.MaxPods(),
		ExtraArgs: class.Spec.Bootstrap.KubeletExtraArgs,
		Taints: []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule},
			{Key: "gpu", Effect: corev1.TaintEffectNoExecute}, {Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule},
			{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}},
	}
	generate := userdata.AL2023
	if class.Spec.Bootstrap.Family == v1alpha1.FamilyBottlerocket {
		generate = userdata.Bottlerocket
	}
	text, err := generate(userdata.Cluster(e2eCluster()), k, class.Spec.UserData)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestStratosWritesTheUserDataOfAClassWithBootstrap(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.AWSNodeClass){
		"AL2023": func(c *v1alpha1.AWSNodeClass) {
			c.Spec.Bootstrap.MaxPods, c.Spec.Bootstrap.KubeletExtraArgs = new(int32(40)), []string{"--v=4"}
		},
		"AL2023 with user data": func(c *v1alpha1.AWSNodeClass) { c.Spec.UserData = "#!/bin/bash\necho more\n" },
		"Bottlerocket":          func(c *v1alpha1.AWSNodeClass) { c.Spec.Bootstrap.Family = v1alpha1.FamilyBottlerocket },
		"resolved before": func(c *v1alpha1.AWSNodeClass) {
			c.Status = class().Status
			c.Status.ObservedGeneration = c.Generation
			c.Status.Bootstrap = &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyAL2023, Cluster: e2eCluster()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				class := bootstrapped(change)
				_, err := r.cloud(t).LaunchInstance(t.Context(), class, provider.LaunchRequest{
					ClientToken: "a", Tags: ours("p"), Registration: registration(),
				})
				if err != nil {
					t.Fatal(err)
				}
				sent, err := base64.StdEncoding.DecodeString(r.requests(ec2test.RunInstances)[0].Params["UserData"])
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(wantUserData(t, class), string(sent)); diff != "" {
					t.Errorf("user data (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestALostAnswerIsAskedForWithTheSameBytes: by the process that lost it and by the next one, in
// whatever order the pool has its taints, and where EKS says something else by now. EC2 refuses a
// client token that comes with other bytes.
func TestALostAnswerIsAskedForWithTheSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		first := r.cloud(t)
		class := bootstrapped()
		found, err := first.ResolveNodeClass(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		class.Status, class.Status.ObservedGeneration = found, class.Generation
		r.server.Script(ec2test.Failure{Action: ec2test.RunInstances, AfterEffect: true, Count: attempts,
			Error: ec2test.Error{Code: "InternalError", Status: 500, Message: "try again"}})
		req := provider.LaunchRequest{ClientToken: "a", Tags: ours("p"), Registration: registration()}
		if _, err := first.LaunchInstance(t.Context(), class, req); err == nil {
			t.Fatal("the answer was to be lost")
		}
		changed := e2eCluster()
		r.server.SetCluster(ec2test.Cluster{Name: "e2e", Region: "us-east-1", Endpoint: "https://moved.example.com",
			CertificateAuthority: changed.CertificateAuthority, ServiceIPv4: changed.ServiceCIDR})
		taints := req.Registration.Taints
		taints[0], taints[1] = taints[1], taints[0]
		for _, cloud := range []*Cloud{first, r.cloud(t)} {
			if _, err := cloud.LaunchInstance(t.Context(), class, req); err != nil {
				t.Fatal(err)
			}
		}
		sent := map[string]bool{}
		for _, q := range r.requests(ec2test.RunInstances) {
			sent[q.Params["UserData"]] = true
			if q.Code == "IdempotentParameterMismatch" {
				t.Error("EC2 was asked for one launch in two ways")
			}
		}
		all, err := first.ListInstances(t.Context(), nil)
		if err != nil || len(all) != 1 || len(sent) != 1 {
			t.Errorf("%d instances by %d user data, %v, want one by one", len(all), len(sent), err)
		}
	})
}

func TestUserDataAboveEC2sLimitIsRefused(t *testing.T) {
	long := strings.Repeat("#", userdata.MaxBytes-10)
	for name, class := range map[string]*v1alpha1.AWSNodeClass{
		"with what Stratos adds": bootstrapped(func(c *v1alpha1.AWSNodeClass) { c.Spec.UserData = "#!/bin/sh\n" + long[10:] }),
		"alone": func() *v1alpha1.AWSNodeClass {
			c := class()
			c.Spec.UserData = long + strings.Repeat("#", 11)
			return c
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				_, err := r.cloud(t).LaunchInstance(t.Context(), class, provider.LaunchRequest{ClientToken: "a"})
				if err == nil || !strings.Contains(err.Error(), "spec.userData: ") || !provider.IsInvalidConfig(err) ||
					len(r.requests(ec2test.RunInstances)) > 0 {
					t.Errorf("error %v, want an InvalidConfigError of spec.userData and no call", err)
				}
			})
		})
	}
}
