package parity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Of each kind of storage object there are so many, numbered from 0.
const (
	classes = 2
	volumes = 5
	claims  = 5
)

func (d dice) volume(name string) corev1.Volume {
	volume := corev1.Volume{Name: name}
	if d.oneIn(12) { // its claim is called <pod>-<volume>, and the controller has not made it yet
		volume.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}
		return volume
	}
	claim := fmt.Sprintf("c%d", d.IntN(claims))
	if d.oneIn(20) {
		claim = "no-such-claim"
	}
	volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
	return volume
}

func (d dice) storage(world *World) {
	for i := range classes {
		world.Classes = append(world.Classes, d.class(i))
	}
	for i := range volumes {
		world.Volumes = append(world.Volumes, d.persistentVolume(i))
	}
	for i := range claims {
		world.Claims = append(world.Claims, d.claim(i))
	}
	if d.oneIn(3) { // a volume made for a claim
		last := world.Volumes[volumes-1]
		last.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: fmt.Sprintf("c%d", claims-1)}
	}
}

func (d dice) class(i int) *storagev1.StorageClass {
	mode := pick(d, storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingWaitForFirstConsumer,
		storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate)
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i)},
		Provisioner: pick(d, "p", "kubernetes.io/no-provisioner"), VolumeBindingMode: &mode,
	}
	for range d.IntN(3) {
		term := corev1.TopologySelectorTerm{}
		for range d.IntN(3) {
			term.MatchLabelExpressions = append(term.MatchLabelExpressions, corev1.TopologySelectorLabelRequirement{
				Key: pick(d, "zone", "rack"), Values: []string{pick(d, "z1", "r1"), pick(d, "z2", "z3", "bad value")},
			})
		}
		class.AllowedTopologies = append(class.AllowedTopologies, term)
	}
	return class
}

// persistentVolume: no two are of one size, because among equals the scheduler takes any, and so
// the answers would.
func (d dice) persistentVolume(i int) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pv%d", i), Labels: map[string]string{}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: pick(d, "s0", "s1"),
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: gibibytes(1+d.IntN(5), i)},
			AccessModes: []corev1.PersistentVolumeAccessMode{pick(d, corev1.ReadWriteOnce, corev1.ReadWriteOnce,
				corev1.ReadOnlyMany)},
		},
		Status: corev1.PersistentVolumeStatus{
			Phase: pick(d, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeBound),
		},
	}
	if d.oneIn(2) {
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{d.nodeTerm()}},
		}
	}
	if d.oneIn(3) {
		key := pick(d, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone)
		volume.Labels[key] = pick(d, "z1", "z1__z2", "z1__", "z2")
	}
	if d.oneIn(2) {
		volume.Labels["app"] = pick(d, "a", "b", "c")
	}
	if d.oneIn(6) {
		block := corev1.PersistentVolumeBlock
		volume.Spec.VolumeMode = &block
	}
	return volume
}

// claim: no two are of one size either.
func (d dice) claim(i int) *corev1.PersistentVolumeClaim {
	name := fmt.Sprintf("c%d", i)
	class := pick(d, "s0", "s1", "s0", "s1", "s0", "s1", "missing", "")
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name),
			Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: gibibytes(1+d.IntN(3), -i),
			}},
		},
	}
	if d.oneIn(8) {
		block := corev1.PersistentVolumeBlock
		claim.Spec.VolumeMode = &block
	}
	if d.oneIn(8) {
		claim.Spec.Selector = d.selector()
	}
	if d.oneIn(20) {
		claim.DeletionTimestamp = &metav1.Time{Time: someTime()}
	}
	d.bind(claim)
	return claim
}

// bind decides how far the claim has come.
func (d dice) bind(claim *corev1.PersistentVolumeClaim) {
	switch {
	case d.oneIn(2):
		claim.Spec.VolumeName = pick(d, "pv0", "pv1", "pv2", "pv3")
		if d.oneIn(12) {
			claim.Spec.VolumeName = "no-such-volume"
		}
		if !d.oneIn(6) {
			claim.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
		}
	case d.oneIn(4):
		claim.Annotations["volume.kubernetes.io/selected-node"] = pick(d, "n0", "n1")
	case d.oneIn(10):
		claim.Status.Phase = corev1.ClaimLost
	}
}

func gibibytes(whole, more int) resource.Quantity {
	return *resource.NewQuantity(int64(whole)<<30+int64(more), resource.BinarySI)
}
