package check

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

const poolName = "web"

// site is a sound installation: the chart's objects with its container's and scheduler's processes,
// a warm pool on EC2, and a network agent that keeps off standby nodes.
type site struct {
	*framework.Rig
	chart   *assert.Chart
	replica *assert.Replica
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{chart: assert.ReadChart(t, "default")}
	s.Rig = assert.NewRig(t, framework.Options{Provider: framework.ProviderAWS, Cloud: assert.FastCloud(), NoStratos: true,
		NoScheduler: true})
	s.replica = s.chart.Replica(t, s.Rig, "stratos")
	s.chart.AnswerAt(t, s.replica.Webhook, assert.CA(t, s.Rig))
	s.chart.Apply(t, s.Rig, "Certificate", "Issuer")
	s.replica.Start(t, s.Rig, s.chart.Identity(t, s.Rig))
	assert.Create(t, s.Rig, daemonSet("agent", framework.NotOnStandby()))
	pool, class := framework.Pool(poolName, 1), framework.BootstrapClass(poolName, "m5.large")
	class.Spec.FallbackInstanceTypes = []string{"m6i.large"} // so that the permission to change types is needed
	assert.Warm(t, s.Rig, pool, class)
	assert.AwaitCondition(t, s.Rig, poolName, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPoolReady, "")
	return s
}

// daemonSet tolerates everything and mounts a folder of the CNI.
func daemonSet(name string, affinity *corev1.Affinity) *appsv1.DaemonSet {
	spec := framework.Pod(name).Spec // its scheduler is the only one of this rig
	spec.Tolerations, spec.Affinity = framework.TolerateAll(), affinity
	spec.Volumes = []corev1.Volume{{Name: "cni", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cni/net.d"}}}}
	return framework.DaemonSet(name, spec)
}

// lines runs the command and returns its lines by the check's name, without their spaces.
func (s *site) lines(t *testing.T) (map[string]string, int) {
	t.Helper()
	out, code, err := s.Check(t.Context(), "--cluster-name="+ec2test.ClusterName)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(out) {
		fields := slices.DeleteFunc(strings.Split(strings.TrimSpace(line), "   "), func(f string) bool {
			return strings.TrimSpace(f) == ""
		})
		if len(fields) < 3 {
			t.Fatalf("odd line %q of\n%s", line, out)
		}
		lines[strings.TrimSpace(fields[1])] = fields[0] + ": " + strings.TrimSpace(strings.Join(fields[2:], " "))
	}
	return lines, code
}

// fault is planted, named by the line that has the words, and repaired.
type fault struct {
	line, words   string
	plant, repair func(t *testing.T, s *site)
}

// TestFaultsAreNamed: thirteen faults, each named by its line, while no other line changes. With
// none of them nothing is wrong.
func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	sound, code := s.lines(t)
	for name, line := range sound {
		if t.Logf("%-24s %s", name, line); !strings.HasPrefix(line, "ok: ") {
			t.Errorf("%s is %q before any fault", name, line)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d before any fault", code)
	}
	for _, group := range []map[string]fault{clusterFaults(), cloudFaults()} {
		for name, f := range group {
			t.Run(name, func(t *testing.T) {
				f.plant(t, s)
				s.mustName(t, sound, f)
				f.repair(t, s)
				s.awaitSound(t, sound)
			})
		}
	}
}

// mustName waits until the command names the fault, and fails the test where another line changes.
func (s *site) mustName(t *testing.T, sound map[string]string, f fault) {
	t.Helper()
	assert.Await(t, "the line "+f.line, func(context.Context) (bool, error) {
		now, code := s.lines(t)
		if line := now[f.line]; !strings.HasPrefix(line, "wrong: ") || !strings.Contains(line, f.words) {
			return false, fmt.Errorf("%s is %q", f.line, line)
		}
		t.Log(now[f.line])
		if code != 1 {
			t.Errorf("exit code %d", code)
		}
		for name, line := range now {
			if name != f.line && line != sound[name] {
				t.Errorf("%s: %q has become %q", name, sound[name], line)
			}
		}
		if len(now) != len(sound) {
			t.Errorf("%d lines, %d before the fault", len(now), len(sound))
		}
		return true, nil
	})
}

func (s *site) awaitSound(t *testing.T, sound map[string]string) {
	t.Helper()
	assert.Await(t, "nothing is wrong again", func(context.Context) (bool, error) {
		now, code := s.lines(t)
		for name, line := range now {
			if line != sound[name] {
				return false, fmt.Errorf("%s is %q", name, line)
			}
		}
		if code != 0 {
			return false, fmt.Errorf("exit code %d", code)
		}
		return true, nil
	})
}

// clusterFaults are six in the cluster.
func clusterFaults() map[string]fault {
	return map[string]fault{
		"the webhook is not reached":      {"admission", "connection refused", hideWebhook, applyChart},
		"the scheduler has ended":         {"leases", "stratos-scheduler", stopScheduler, restart},
		"a definition of an older chart":  {"crds", "awsnodeclasses.stratos.sh has another schema", oldDefinition, applyChart},
		"the scheduler's image is old":    {"scheduler", "the scheduler is v1.30.0", oldScheduler, applyChart},
		"a DaemonSet without affinity":    {"daemonsets", "default/everywhere", addDaemonSet, removeDaemonSet},
		"Cluster Autoscaler is not apart": {"cluster autoscaler", "pool web has no taint", addAutoscaler, removeAutoscaler},
	}
}

// applyChart undoes what a fault did to objects of the chart.
func applyChart(t *testing.T, s *site) { apply(t, s, s.chart.Objects) }

// apply applies the objects though another client has changed their fields.
func apply(t *testing.T, s *site, objects []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GetKind() == "Certificate" || o.GetKind() == "Issuer" {
			continue
		}
		if err := s.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()),
			client.FieldOwner("helm"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
}

// hideWebhook has the API server ask where nothing listens.
func hideWebhook(t *testing.T, s *site) {
	elsewhere := assert.ReadWebhooks(t)
	for _, o := range elsewhere.Objects {
		o.SetName(nameOf(t, s, o.GetKind()))
	}
	elsewhere.AnswerAt(t, assert.FreeAddress(t), assert.CA(t, s.Rig))
	apply(t, s, elsewhere.Objects)
}

// nameOf is the name of the chart's only object of the kind.
func nameOf(t *testing.T, s *site, kind string) string {
	for _, o := range s.chart.Objects {
		if o.GetKind() == kind {
			return o.GetName()
		}
	}
	t.Fatalf("the chart has no %s", kind)
	return ""
}

func stopScheduler(t *testing.T, s *site) {
	if err := s.replica.Scheduler.Stop(); err != nil {
		t.Fatal(err)
	}
}

func restart(t *testing.T, s *site) { s.replica.Restart(t) }

// oldDefinition takes a field out of a definition, as one of an older chart.
func oldDefinition(t *testing.T, s *site) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"})
	crd.SetName("awsnodeclasses." + v1alpha1.GroupVersion().Group)
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	first, _ := versions[0].(map[string]any)
	unstructured.RemoveNestedField(first, "schema", "openAPIV3Schema", "properties", "spec", "properties", "tags")
	crd.Object["spec"].(map[string]any)["versions"] = versions
	if err := s.Client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
}

// oldScheduler is what a cluster's upgrades leave of an installation that was not upgraded.
func oldScheduler(t *testing.T, s *site) {
	assert.Change(t, s.Rig, s.chart.Deployment(t), func(d *appsv1.Deployment) {
		for i := range d.Spec.Template.Spec.Containers {
			if c := &d.Spec.Template.Spec.Containers[i]; c.Name == assert.SchedulerContainer {
				c.Image = "registry.k8s.io/kube-scheduler:v1.30.0"
			}
		}
	})
}

// everywhere is a DaemonSet that tolerates everything and is no network agent.
func everywhere() *appsv1.DaemonSet {
	set := daemonSet("everywhere", nil)
	set.Spec.Template.Spec.Volumes = nil
	return set
}

func addDaemonSet(t *testing.T, s *site)    { assert.Create(t, s.Rig, everywhere()) }
func removeDaemonSet(t *testing.T, s *site) { assert.Remove(t, s.Rig, everywhere()) }

// autoscaler is Cluster Autoscaler with a limit that standby nodes do not pass.
func autoscaler() *appsv1.Deployment {
	labels, none := map[string]string{"app": "cluster-autoscaler"}, int32(0)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "cluster-autoscaler"}}
	d.Spec.Replicas, d.Spec.Selector = &none, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "ca", Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0"}},
	}}
	return d
}

func addAutoscaler(t *testing.T, s *site)    { assert.Create(t, s.Rig, autoscaler()) }
func removeAutoscaler(t *testing.T, s *site) { assert.Remove(t, s.Rig, autoscaler()) }

// cloudFaults are seven in the account.
func cloudFaults() map[string]fault {
	return map[string]fault{
		"launches are denied":     denied("RunInstances "+poolName, ec2test.RunInstances),
		"starts are denied":       denied("StartInstances", ec2test.StartInstances),
		"stops are denied":        denied("StopInstances", ec2test.StopInstances),
		"terminations are denied": denied("TerminateInstances", ec2test.TerminateInstances),
		"tags are denied":         denied("CreateTags", ec2test.CreateTags),
		"changes of type are denied": withWords(denied("ModifyInstanceAttribute", ec2test.ModifyInstanceAttribute),
			"the statement ChangeTypeOfStoppedInstances of the policy allows it"),
		"the role may not join": {"node role", ec2test.NodeRole + " may not join " + ec2test.ClusterName, withEntries(nil),
			withEntries(map[string]string{ec2test.NodeRole: "EC2_LINUX"})},
	}
}

// denied answers calls of the action as EC2 does where a policy does not allow them.
func denied(line string, action ec2test.Action) fault {
	refusal := ec2test.Failure{Action: action, Error: ec2test.Error{Code: "UnauthorizedOperation",
		Status: http.StatusForbidden, Message: "You are not authorized to perform: ec2:" + string(action)}}
	return fault{
		line, "You are not authorized to perform: ec2:" + string(action),
		func(t *testing.T, s *site) {
			if err := s.Script(t.Context(), refusal); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, s *site) {
			if err := s.Unscript(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// withWords is a fault whose line says more.
func withWords(f fault, more string) fault {
	f.words += "; " + more
	return f
}

// withEntries gives the cluster of EKS these access entries.
func withEntries(entries map[string]string) func(*testing.T, *site) {
	return func(t *testing.T, s *site) {
		if err := s.SetCluster(t.Context(), ec2test.Cluster{Name: ec2test.ClusterName, Region: simcloud.DefaultRegion,
			Endpoint: simcloud.ClusterEndpoint, CertificateAuthority: simcloud.ClusterCA(),
			ServiceIPv4: simcloud.ClusterServiceCIDR, AccessEntries: entries}); err != nil {
			t.Fatal(err)
		}
	}
}
