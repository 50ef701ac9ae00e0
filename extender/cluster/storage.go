package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/extender/fit"
)

// storage is what decides where the volumes of pods can be used. kube-scheduler has checked that
// before it asks the extender; where it does not ask, or was not asked, we have to.
type storage struct {
	claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	// byClass are the volumes by class, then by name: a claim that waits for its first consumer looks
	// through all of its class.
	byClass map[string]map[string]*corev1.PersistentVolume
}

func newStorage() storage {
	return storage{
		claims:  map[types.NamespacedName]*corev1.PersistentVolumeClaim{},
		volumes: map[string]*corev1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{},
		byClass: map[string]map[string]*corev1.PersistentVolume{},
	}
}

// of resolves the pod's volumes; nil for a pod without volume claims.
func (s *storage) constraintsOf(pod *corev1.Pod) []fit.VolumeConstraint {
	return fit.VolumesOf(pod, fit.Storage{
		Claim: func(namespace, name string) *corev1.PersistentVolumeClaim {
			return s.claims[types.NamespacedName{Namespace: namespace, Name: name}]
		},
		Volume:  func(name string) *corev1.PersistentVolume { return s.volumes[name] },
		Class:   func(name string) *storagev1.StorageClass { return s.classes[name] },
		Volumes: func(class string) []*corev1.PersistentVolume { return slices.Collect(maps.Values(s.byClass[class])) },
	})
}

func (s *storage) setVolume(pv *corev1.PersistentVolume) {
	s.deleteVolume(pv.Name)
	class := fit.ClassOf(pv)
	if s.byClass[class] == nil {
		s.byClass[class] = map[string]*corev1.PersistentVolume{}
	}
	s.volumes[pv.Name], s.byClass[class][pv.Name] = pv, pv
}

func (s *storage) deleteVolume(name string) {
	old := s.volumes[name]
	if old == nil {
		return
	}
	class := fit.ClassOf(old)
	delete(s.volumes, name)
	delete(s.byClass[class], name)
	if len(s.byClass[class]) == 0 {
		delete(s.byClass, class)
	}
}

// SetClaim takes in an added or changed PersistentVolumeClaim.
func (s *State) SetClaim(c *corev1.PersistentVolumeClaim) {
	s.changeStorage(func(s *storage) { s.claims[keyOf(c)] = c }, using(keyOf(c)))
}

// DeleteClaim takes in that a PersistentVolumeClaim is gone.
func (s *State) DeleteClaim(c *corev1.PersistentVolumeClaim) {
	s.changeStorage(func(s *storage) { delete(s.claims, keyOf(c)) }, using(keyOf(c)))
}

// SetVolume takes in an added or changed PersistentVolume.
func (s *State) SetVolume(pv *corev1.PersistentVolume) {
	s.changeStorage(func(s *storage) { s.setVolume(pv) }, mayUse(pv))
}

// DeleteVolume takes in that a PersistentVolume is gone.
func (s *State) DeleteVolume(pv *corev1.PersistentVolume) {
	s.changeStorage(func(s *storage) { s.deleteVolume(pv.Name) }, mayUse(pv))
}

// SetClass takes in an added or changed StorageClass.
func (s *State) SetClass(c *storagev1.StorageClass) {
	s.changeStorage(func(s *storage) { s.classes[c.Name] = c }, withClaims)
}

// DeleteClass takes in that a StorageClass is gone.
func (s *State) DeleteClass(c *storagev1.StorageClass) {
	s.changeStorage(func(s *storage) { delete(s.classes, c.Name) }, withClaims)
}

// changeStorage makes the change and tells the listeners which pending pods may fit differently
// now.
func (s *State) changeStorage(change func(*storage), concerns func(*corev1.Pod) bool) {
	s.mu.Lock()
	defer s.unlock()
	change(&s.storage)
	s.tellMayFit(func(p *corev1.Pod) bool { return len(p.Spec.Volumes) > 0 && concerns(p) })
}

func keyOf(c *corev1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// using picks the pods that use the claim.
func using(claim types.NamespacedName) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		return p.Namespace == claim.Namespace && slices.Contains(fit.ClaimNames(p), claim.Name)
	}
}

// mayUse picks the pods whose claim the volume is bound to. One that is bound to none may suit any.
func mayUse(pv *corev1.PersistentVolume) func(*corev1.Pod) bool {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return withClaims
	}
	return using(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
}

func withClaims(p *corev1.Pod) bool { return len(fit.ClaimNames(p)) > 0 }
