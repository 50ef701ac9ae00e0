package cluster

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

func mounting(claims ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
}

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
}

// dataClaim is the claim "data" of a class, bound to the volume where it names one.
func dataClaim(class, volume string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			VolumeName:       volume,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
	if volume != "" {
		c.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
	}
	return c
}

// volumeIn is a free volume of the class that only nodes of the zone reach.
func volumeIn(name, class, zone string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class,
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone,
						Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
				}}},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func classOf(name string, mode storagev1.VolumeBindingMode, zones ...string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disks",
		VolumeBindingMode: &mode}
	if len(zones) > 0 {
		c.AllowedTopologies = []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: zones}},
		}}
	}
	return c
}

// TestFittingHonoursVolumes: a standby node in each of three zones, and what remains of them for a
// pod with the claim "data".
func TestFittingHonoursVolumes(t *testing.T) {
	const first, immediate = storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	nowhere := []v1alpha1.NodeName(nil)
	for name, c := range map[string]struct {
		events func(*State)
		want   []v1alpha1.NodeName
	}{
		"the claim does not exist": {func(*State) {}, nowhere},
		"bound to a volume in a zone": {func(v *State) {
			v.SetClaim(dataClaim("", "v"))
			v.SetVolume(volumeIn("v", "",
				"b"))
		}, []v1alpha1.NodeName{"node-b"}},
		"the volume came before": {func(v *State) {
			v.SetVolume(volumeIn("v", "", "b"))
			v.SetClaim(dataClaim("",
				"v"))
		}, []v1alpha1.NodeName{"node-b"}},
		"the volume is not known (yet)": {func(v *State) { v.SetClaim(dataClaim("", "v")) }, nowhere},
		"the volume is gone": {func(v *State) {
			v.SetClaim(dataClaim("", "v"))
			v.SetVolume(volumeIn("v", "", "b"))
			v.DeleteVolume(volumeIn("v", "", "b"))
		}, nowhere},
		"the claim is gone": {func(v *State) {
			v.SetClaim(dataClaim("", "v"))
			v.SetVolume(volumeIn("v", "", "b"))
			v.DeleteClaim(dataClaim("", "v"))
		}, nowhere},
		"unbound, of an immediate class": {func(v *State) {
			v.SetClass(classOf("fast",
				immediate))
			v.SetClaim(dataClaim("fast", ""))
		}, nowhere},
		"made where the class allows it": {func(v *State) {
			v.SetClass(classOf("fast", first,
				"c"))
			v.SetClaim(dataClaim("fast", ""))
		}, []v1alpha1.NodeName{"node-c"}},
		"made anywhere": {func(v *State) {
			v.SetClass(classOf("fast", first))
			v.SetClaim(dataClaim("fast",
				""))
		}, []v1alpha1.NodeName{"node-a", "node-b", "node-c"}},
		"of a class that is gone": {func(v *State) {
			v.SetClass(classOf("fast", first))
			v.DeleteClass(classOf("fast", first))
			v.SetClaim(dataClaim("fast", ""))
		}, nowhere},
		"an existing volume of the class": {func(v *State) {
			v.SetClass(classOf("fast", first, "c"))
			v.SetVolume(volumeIn("v", "fast", "a"))
			v.SetClaim(dataClaim("fast", ""))
		}, []v1alpha1.NodeName{"node-a", "node-c"}},
		"one that changed its class": {func(v *State) {
			v.SetClass(classOf("fast", first, "c"))
			v.SetVolume(volumeIn("v", "fast", "a"))
			v.SetVolume(volumeIn("v", "slow", "a"))
			v.SetClaim(dataClaim("fast", ""))
		}, []v1alpha1.NodeName{"node-c"}},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := newTestView()
			for _, zone := range []string{"a", "b", "c"} {
				v.SetNode(poolNode("node-"+zone, v1alpha1.StateStandby, inZone(zone)))
			}
			c.events(v)
			var got []v1alpha1.NodeName
			for _, n := range v.Fitting(testPod("x", mounting("data"))) {
				got = append(got, n.Name)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("fitting (-want +got):\n%s", diff)
			}
			if all := v.Fitting(testPod("y")); len(all) != 3 {
				t.Errorf("%d nodes fit a pod without volumes, want all", len(all))
			}
		})
	}
}

func TestJudgeSaysWhyAVolumeCannotBeUsed(t *testing.T) {
	v, _ := newTestView()
	v.SetNode(poolNode("a", v1alpha1.StateStandby, inZone("a")))
	v.SetClaim(dataClaim("", "v"))
	v.SetVolume(volumeIn("v", "", "b"))
	refusal := v.PodFit(testPod("x", mounting("data"))).Refusal(lookUp(v, "a")[0])
	if refusal == nil || refusal.Reason != fit.ReasonVolume || refusal.Subject != "data" {
		t.Errorf("refusal %+v, want one about the claim", refusal)
	}
}

// TestViewTellsOfStorage: which pending pods are to be checked anew.
func TestViewTellsOfStorage(t *testing.T) {
	const first = storagev1.VolumeBindingWaitForFirstConsumer
	bound := volumeIn("v", "", "b")
	bound.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data"}
	other := dataClaim("", "")
	other.Namespace = "elsewhere"
	for name, c := range map[string]struct {
		event func(*State)
		want  []string
	}{
		"the claim":                    {func(v *State) { v.SetClaim(dataClaim("", "")) }, []string{"data"}},
		"the claim is gone":            {func(v *State) { v.DeleteClaim(dataClaim("", "")) }, []string{"data"}},
		"one of another namespace":     {func(v *State) { v.SetClaim(other) }, nil},
		"the claim's volume":           {func(v *State) { v.SetVolume(bound) }, []string{"data"}},
		"a volume that anyone may get": {func(v *State) { v.SetVolume(volumeIn("v", "", "b")) }, []string{"data", "logs"}},
		"a volume is gone":             {func(v *State) { v.DeleteVolume(bound) }, []string{"data"}},
		"a class":                      {func(v *State) { v.SetClass(classOf("fast", first)) }, []string{"data", "logs"}},
		"a class is gone":              {func(v *State) { v.DeleteClass(classOf("fast", first)) }, []string{"data", "logs"}},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := newTestView()
			var told []string
			v.Listen(Listener{MayFit: func(pod types.NamespacedName) { told = append(told, pod.Name) }})
			v.SetNode(poolNode("a", v1alpha1.StateRunning))
			v.SetPod(testPod("data", mounting("data")))
			v.SetPod(testPod("logs", mounting("logs")))
			v.SetPod(testPod("none"))
			v.SetPod(testPod("bound", mounting("data"), func(p *corev1.Pod) { p.Spec.NodeName = "a" }))
			c.event(v)
			slices.Sort(told)
			if diff := cmp.Diff(c.want, told); diff != "" {
				t.Errorf("told of (-want +got):\n%s", diff)
			}
		})
	}
}
