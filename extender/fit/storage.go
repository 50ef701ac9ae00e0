package fit

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/component-helpers/storage/ephemeral"
)

// The annotations of kube-controller-manager's and kube-scheduler's volume binding. They are
// written out here because the package that names them, component-helpers/storage/volume, brings
// client-go along.
const (
	annotationBindCompleted = "pv.kubernetes.io/bind-completed"
	annotationSelectedNode  = "volume.kubernetes.io/selected-node"
	provisionerNone         = "kubernetes.io/no-provisioner"
)

// Storage looks up storage objects in caches; each function returns nil for what does not exist.
// What it returns is only read.
type Storage struct {
	Claim  func(namespace, name string) *corev1.PersistentVolumeClaim
	Volume func(name string) *corev1.PersistentVolume
	Class  func(name string) *storagev1.StorageClass
	// Volumes lists the PersistentVolumes of a class.
	Volumes func(class string) []*corev1.PersistentVolume
}

// VolumesOf resolves the pod's volume claims, generic ephemeral volumes included, into constraints:
// unbound claims last, the smallest first. Of a pod with a claim that cannot be used at all only
// that claim is returned, because it is what the scheduler looks for, and reports, before
// everything else. The result holds as long as none of the objects changes.
func VolumesOf(pod *corev1.Pod, storage Storage) []VolumeConstraint {
	var bound []VolumeConstraint
	var waiting []waitingClaim
	for i := range pod.Spec.Volumes {
		name, used := claimName(pod, &pod.Spec.Volumes[i])
		if !used {
			continue
		}
		claim := storage.Claim(pod.Namespace, name)
		if why := unusable(pod, &pod.Spec.Volumes[i], name, claim); why != "" {
			return []VolumeConstraint{{Claim: name, Blocked: why}}
		}
		constraint := resolve(claim, storage)
		if constraint.unbound == nil {
			bound = append(bound, constraint)
			continue
		}
		waiting = append(waiting, waitingClaim{constraint, claim})
	}
	slices.SortStableFunc(waiting, func(a, b waitingClaim) int {
		return cmpStorage(a.claim.Spec.Resources.Requests, b.claim.Spec.Resources.Requests)
	})
	for _, w := range waiting {
		bound = append(bound, w.constraint)
	}
	return bound
}

type waitingClaim struct {
	constraint VolumeConstraint
	claim      *corev1.PersistentVolumeClaim
}

func claimName(pod *corev1.Pod, volume *corev1.Volume) (name string, used bool) {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName, true
	case volume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, volume), true
	default:
		return "", false
	}
}

// ClaimNames are the names of the pod's volume claims, generic ephemeral volumes included.
func ClaimNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if name, used := claimName(pod, &pod.Spec.Volumes[i]); used {
			names = append(names, name)
		}
	}
	return names
}

// unusable is why the pod cannot use the claim anywhere, whatever the claim's volume; "" if it can.
func unusable(pod *corev1.Pod, volume *corev1.Volume, name string, claim *corev1.PersistentVolumeClaim) string {
	switch {
	case claim == nil && volume.Ephemeral != nil:
		return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
	case claim == nil:
		return fmt.Sprintf("persistentvolumeclaim %q not found", name)
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
	}
	if volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return err.Error()
		}
	}
	return ""
}

// resolve tells bound claims from those that wait for a consumer; the rest waits for the volume
// controller.
func resolve(claim *corev1.PersistentVolumeClaim, storage Storage) VolumeConstraint {
	if claim.Spec.VolumeName != "" {
		return boundTo(claim, storage)
	}
	className := classOf(claim.Annotations, claim.Spec.StorageClassName)
	var class *storagev1.StorageClass
	if className != "" {
		class = storage.Class(className)
	}
	switch {
	case class != nil && class.VolumeBindingMode == nil:
		return VolumeConstraint{Claim: claim.Name, Blocked: fmt.Sprintf("VolumeBindingMode not set for StorageClass %q",
			className)}
	case class == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return unboundImmediate(claim)
	}
	return VolumeConstraint{Claim: claim.Name, unbound: waitsFor(claim, class, storage.Volumes(className))}
}

// boundTo: a claim that names its volume but is not bound to it yet is as unusable as one that has
// none.
func boundTo(claim *corev1.PersistentVolumeClaim, storage Storage) VolumeConstraint {
	if _, done := claim.Annotations[annotationBindCompleted]; !done {
		return unboundImmediate(claim)
	}
	pv := storage.Volume(claim.Spec.VolumeName)
	if pv == nil {
		return VolumeConstraint{Claim: claim.Name, lost: true, Blocked: fmt.Sprintf("persistentvolume %q not found",
			claim.Spec.VolumeName)}
	}
	return VolumeConstraint{Claim: claim.Name, reach: reachOf(pv), zones: zonesOf(pv)}
}

func unboundImmediate(claim *corev1.PersistentVolumeClaim) VolumeConstraint {
	return VolumeConstraint{Claim: claim.Name, Blocked: "pod has unbound immediate PersistentVolumeClaims"}
}

func waitsFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
	volumes []*corev1.PersistentVolume) *unbound {
	return &unbound{
		selectedNode: claim.Annotations[annotationSelectedNode],
		existing:     candidates(claim, class.Name, volumes),
		provisioned:  class.Provisioner != "" && class.Provisioner != provisionerNone,
		anywhere:     len(class.AllowedTopologies) == 0,
		allowed:      topologies(class.AllowedTopologies),
	}
}

// topologies parses allowed topologies. A term that is empty or does not parse allows no node.
func topologies(terms []corev1.TopologySelectorTerm) []labels.Selector {
	var out []labels.Selector
	for i := range terms {
		selector, ok := labels.NewSelector(), len(terms[i].MatchLabelExpressions) > 0
		for _, e := range terms[i].MatchLabelExpressions {
			requirement, err := labels.NewRequirement(e.Key, selection.In, e.Values)
			if err != nil {
				ok = false
				break
			}
			selector = selector.Add(*requirement)
		}
		if ok {
			out = append(out, selector)
		}
	}
	return out
}

// candidates are the existing volumes that the claim could take, wherever they are: those that name
// the claim first, then from the smallest, ties by name.
func candidates(claim *corev1.PersistentVolumeClaim, class string, volumes []*corev1.PersistentVolume) []candidate {
	usable := slices.DeleteFunc(slices.Clone(volumes), func(pv *corev1.PersistentVolume) bool {
		return !suits(claim, pv) || !(names(pv, claim) || free(claim, class, pv))
	})
	slices.SortFunc(usable, func(a, b *corev1.PersistentVolume) int {
		switch {
		case names(a, claim) && !names(b, claim):
			return -1
		case names(b, claim) && !names(a, claim):
			return 1
		}
		return cmp.Or(cmpStorage(a.Spec.Capacity, b.Spec.Capacity), cmp.Compare(a.Name, b.Name))
	})
	out := make([]candidate, 0, len(usable))
	for _, pv := range usable {
		out = append(out, candidate{name: pv.Name, own: names(pv, claim), reach: reachOf(pv)})
	}
	return out
}

// suits is what is asked of every volume, also of one made for the claim.
func suits(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	return (pv.Spec.ClaimRef == nil || names(pv, claim)) &&
		cmpStorage(pv.Spec.Capacity, claim.Spec.Resources.Requests) >= 0 &&
		orDefault(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) ==
			orDefault(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) &&
		orDefault(claim.Spec.VolumeAttributesClassName, "") == orDefault(pv.Spec.VolumeAttributesClassName, "") &&
		pv.DeletionTimestamp == nil
}

// free is what is asked of a volume that was not made for the claim.
func free(claim *corev1.PersistentVolumeClaim, class string, pv *corev1.PersistentVolume) bool {
	if pv.Status.Phase != corev1.VolumeAvailable || ClassOf(pv) != class {
		return false
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, mode) {
			return false
		}
	}
	if claim.Spec.Selector == nil {
		return true
	}
	// A selector that does not parse is an error in the scheduler: the pod gets no volume.
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pv.Labels))
}

// names reports whether the volume refers to the claim: by name, and by UID where it says one.
func names(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Name == claim.Name && ref.Namespace == claim.Namespace &&
		(ref.UID == "" || ref.UID == claim.UID)
}

// ClassOf is the name of the volume's class.
func ClassOf(pv *corev1.PersistentVolume) string {
	return classOf(pv.Annotations, &pv.Spec.StorageClassName)
}

// classOf: the beta annotation still wins over the field.
func classOf(annotations map[string]string, field *string) string {
	if class, set := annotations[corev1.BetaStorageClassAnnotation]; set {
		return class
	}
	return orDefault(field, "")
}

func cmpStorage(a, b corev1.ResourceList) int {
	x, y := a[corev1.ResourceStorage], b[corev1.ResourceStorage]
	return x.Cmp(y)
}

func orDefault[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
