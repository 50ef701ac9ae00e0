package scaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// classIn is a class with a subnet in each of the zones.
func classIn(zones ...string) *v1alpha1.AWSNodeClass {
	c := awsClass()
	for _, zone := range zones {
		c.Status.Subnets = append(c.Status.Subnets, v1alpha1.ResolvedSubnet{ID: "subnet-" + zone, Zone: zone})
	}
	return c
}

// located puts a Node into a zone, as a kubelet and the EBS driver label it.
func located(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels[corev1.LabelTopologyZone], n.Labels["topology.ebs.csi.aws.com/zone"] = zone, zone
	}
}

func selecting(zone string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone} }
}

// mounting is a pod whose volume can be used in one zone.
func mounting(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
}

func volumeIn(zone string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data",
		UID: "uid-data"}}
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	claim.Spec.VolumeName, claim.Status.Phase = "pv", corev1.ClaimBound
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "uid-data"}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
		Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "topology.ebs.csi.aws.com/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone},
			}},
		}}},
	}
	return claim, volume
}

// TestLaunchesGoWhereThePodIsBound: what counts are the zones of the class, not those in which the
// pool has nodes.
func TestLaunchesGoWhereThePodIsBound(t *testing.T) {
	inUse := func(zone string) *corev1.Node { return nodeIn(v1alpha1.StateRunning, located(zone)) }
	for name, c := range map[string]struct {
		class *v1alpha1.AWSNodeClass
		node  *corev1.Node
		pod   *corev1.Pod
		// volume is the zone of the pod's volume.
		volume string
		want   []string // the zones of the launches
	}{
		"a pod of no zone": {class: classIn("a", "b"), node: inUse("a"),
			pod: unschedulable(needing("1")), want: []string{""}},
		"a selector, no node is there": {class: classIn("a", "b"), node: inUse("a"),
			pod: unschedulable(needing("1"), selecting("b")), want: []string{"b"}},
		"a selector, no node at all": {class: classIn("a", "b"), pod: unschedulable(needing("1"), selecting("b")),
			want: []string{"b"}},
		"a selector of a zone without a subnet": {class: classIn("a", "b"), node: inUse("a"),
			pod: unschedulable(needing("1"), selecting("c"))},
		"a volume": {
			class: classIn("a", "b"), node: inUse("a"), pod: unschedulable(needing("1"), mounting), volume: "b",
			want: []string{"b"},
		},
		"a volume where the pool's node is": {
			class: classIn("a", "b"), node: inUse("a"), pod: unschedulable(needing("1"), mounting), volume: "a",
			want: []string{"a"},
		},
		"a volume, no node at all": {class: classIn("a", "b"), pod: unschedulable(needing("1"), mounting), volume: "b",
			want: []string{"b"}},
		"a volume of another zone": {class: classIn("a", "b"), node: inUse("a"), pod: unschedulable(needing("1"), mounting),
			volume: "c"},
		"a standby node elsewhere is no help": {
			class: classIn("a", "b"), node: nodeIn(v1alpha1.StateStandby, located("a")),
			pod:  unschedulable(needing("1"), selecting("b")),
			want: []string{"b"},
		},
		"a class with one zone": {class: classIn("a"), node: inUse("a"),
			pod: unschedulable(needing("1"), selecting("a")), want: []string{""}},
		"a host that no new node is": {class: classIn("a", "b"),
			node: nodeIn(v1alpha1.StateRunning, located("a"), hostname), pod: unschedulable(onHost)},
		"a class that has not been resolved yet": {class: classIn(), node: inUse("a"), pod: unschedulable(needing("1")),
			want: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			count := int32(0)
			objects := []client.Object{c.class, c.pod}
			if c.node != nil {
				objects, count = append(objects, c.node), 1
			}
			r := newRig(t, append(objects, nodePool(3, 0, counting(count)))...)
			if c.node != nil {
				state := map[string]provider.InstanceState{"standby": provider.InstanceStopped, "running": provider.InstanceRunning}
				r.sweep(instance(state[c.node.Labels[v1alpha1.LabelState]], inZone("a")))
			} else {
				r.sweep()
			}
			r.now = epoch().Add(time.Minute)
			looks := r.looksAfter()
			if c.volume != "" {
				claim, volume := volumeIn(c.volume)
				looks.State.SetClaim(claim)
				looks.State.SetVolume(volume)
			}
			r.look(looks)
			r.reconcilePool()
			if diff := cmp.Diff(c.want, r.zones(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("zones of the launches (-want +got):\n%s", diff)
			}
			if said := strings.Join(r.said(), "\n"); len(c.want) > 0 != strings.Contains(said, "ColdLaunch") {
				t.Errorf("events %q", said)
			}
			before := r.zones()
			r.launches = nil
			r.reconcilePool() // what is on its way serves the pod
			if len(r.launches) > 0 {
				t.Errorf("launched again in %q after %q", r.zones(), before)
			}
		})
	}
}

// TestALaunchKeepsItsZone: a process that did not see the answer asks again in the zone that stands
// beside the number.
func TestALaunchKeepsItsZone(t *testing.T) {
	pool := nodePool(3, 0, func(p *v1alpha1.NodePool) {
		p.Annotations = map[string]string{v1alpha1.AnnotationLaunches: `{"next":7,"pending":[5,6],"zones":{"6":"b"}}`}
	})
	r := newRig(t, pool, classIn("a", "b"))
	r.sweep()
	r.reconcilePool()
	if got := r.zones(); !slices.Equal(got, []string{"", "b"}) {
		t.Errorf("launches in %q, want the second in b", got)
	}
}

func inZone(zone string) func(*provider.Instance) {
	return func(i *provider.Instance) { i.Zone = zone }
}

func hostname(n *corev1.Node) { n.Labels[corev1.LabelHostname] = n.Name }

func onHost(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "c"} }

// zones are those of the launches that were asked for, in the order of their numbers.
func (r *rig) zones() []string {
	launches := slices.Clone(r.launches)
	slices.SortFunc(launches, func(a, b provider.LaunchRequest) int { return int(a.Number - b.Number) })
	var out []string
	for _, l := range launches {
		out = append(out, l.Zone)
	}
	return out
}
