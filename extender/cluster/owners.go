package cluster

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/extender/owners"
)

// replicas are the controllers of pods, by UID, and what limits them.
type replicas struct {
	owners map[types.UID]*owner
	// sets are the ReplicaSets of each Deployment.
	sets   map[types.UID]map[types.UID]*appsv1.ReplicaSet
	quotas map[string]map[string]*corev1.ResourceQuota
}

func newReplicas() replicas {
	return replicas{
		owners: map[types.UID]*owner{}, sets: map[types.UID]map[types.UID]*appsv1.ReplicaSet{},
		quotas: map[string]map[string]*corev1.ResourceQuota{},
	}
}

// owner is a ReplicaSet, a StatefulSet or a Job.
type owner struct {
	uid types.UID
	// object is nil until its own watch shows it: pods may come first.
	object client.Object
	// pods are its pods and what each counts for, count what that sums up to.
	pods  map[types.UID]owners.Phase
	count owners.Pods
	// created is when a pod of it was last seen that had not been seen before; zero for none.
	created time.Time
	// template is what its replicas to come are taken to be like, and shape the shape of that. They
	// are read where such claims stand.
	template *corev1.Pod
	shape    fit.Shape
	// named are the slots that Nodes name.
	named map[types.UID]v1alpha1.NodeName
}

// owner returns what is known of an owner. The caller holds mu.
func (s *State) owner(uid types.UID) *owner {
	o := s.replicas.owners[uid]
	if o == nil {
		o = &owner{uid: uid, pods: map[types.UID]owners.Phase{}, named: map[types.UID]v1alpha1.NodeName{}}
		s.replicas.owners[uid] = o
	}
	return o
}

// forgetOwnerIfBare drops an owner of which nothing is known any more. The caller holds mu.
func (s *State) forgetOwnerIfBare(o *owner) {
	if o.object == nil && len(o.pods) == 0 && len(o.named) == 0 {
		delete(s.replicas.owners, o.uid)
	}
}

// SetOwner takes in an added or changed ReplicaSet, StatefulSet or Job.
func (s *State) SetOwner(object client.Object) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	o := s.owner(object.GetUID())
	o.object = object
	if deployment := owners.DeploymentOf(object); deployment != "" {
		if s.replicas.sets[deployment] == nil {
			s.replicas.sets[deployment] = map[types.UID]*appsv1.ReplicaSet{}
		}
		if set, ok := object.(*appsv1.ReplicaSet); ok {
			s.replicas.sets[deployment][o.uid] = set
		}
	}
	s.adoptSlots(o, now)
	s.limitReplicasNextTo(o, now)
}

// DeleteOwner takes in that a ReplicaSet, StatefulSet or Job is gone.
func (s *State) DeleteOwner(object client.Object) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	o := s.owner(object.GetUID())
	if deployment := owners.DeploymentOf(object); deployment != "" {
		delete(s.replicas.sets[deployment], o.uid)
		if len(s.replicas.sets[deployment]) == 0 {
			delete(s.replicas.sets, deployment)
		}
	}
	o.object = nil
	s.endReplicas(o, s.claims.ReplicasToCome(o.uid), false, now)
	s.limitReplicasNextTo(o, now)
	s.forgetOwnerIfBare(o)
}

// limitReplicasNextTo ends the claims that an owner does not want any more, or another ReplicaSet
// of its Deployment. The caller holds mu.
func (s *State) limitReplicasNextTo(o *owner, now time.Time) {
	s.limitReplicas(o, now)
	if o.object == nil {
		return
	}
	for uid := range s.replicas.sets[owners.DeploymentOf(o.object)] {
		if uid != o.uid {
			s.limitReplicas(s.owner(uid), now)
		}
	}
}

// SetQuota takes in an added or changed ResourceQuota.
func (s *State) SetQuota(q *corev1.ResourceQuota) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	if s.replicas.quotas[q.Namespace] == nil {
		s.replicas.quotas[q.Namespace] = map[string]*corev1.ResourceQuota{}
	}
	s.replicas.quotas[q.Namespace][q.Name] = q
	for _, uid := range slices.Sorted(slices.Values(s.claims.OwnersWithSlots())) {
		if o := s.replicas.owners[uid]; o != nil && o.template != nil && o.template.Namespace == q.Namespace {
			s.limitReplicas(o, now)
		}
	}
}

// DeleteQuota takes in that a ResourceQuota is gone.
func (s *State) DeleteQuota(q *corev1.ResourceQuota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.replicas.quotas[q.Namespace], q.Name)
	if len(s.replicas.quotas[q.Namespace]) == 0 {
		delete(s.replicas.quotas, q.Namespace)
	}
}

// ownPod takes in a pod of an owner: it counts, and if it waits without a claim it takes one of its
// owner's. The caller holds mu, and has taken the pod in.
func (s *State) ownPod(p *corev1.Pod, shape fit.Shape, now time.Time) {
	ref := owners.Of(p)
	if ref == nil {
		return
	}
	o, phase := s.owner(ref.UID), owners.PhaseOf(p)
	was, known := o.pods[p.UID]
	if known {
		o.count[was]--
	} else {
		o.created = now
	}
	o.pods[p.UID] = phase
	o.count[phase]++
	if !known && s.pending[p.UID] != nil && shape != o.shape && s.claims.CountToCome(o.uid) > 0 {
		s.endReplicas(o, s.claims.ReplicasToCome(o.uid), false, now)
	}
	s.takeSlot(o, p, shape, now)
	if !known || was != phase {
		s.limitReplicas(o, now)
	}
}

// disownPod takes in that a pod is gone. The caller holds mu.
func (s *State) disownPod(p *corev1.Pod, now time.Time) {
	ref := owners.Of(p)
	if ref == nil {
		return
	}
	o := s.owner(ref.UID)
	if was, known := o.pods[p.UID]; known {
		o.count[was]--
		delete(o.pods, p.UID)
		s.limitReplicas(o, now)
	}
	s.forgetOwnerIfBare(o)
}

// waiting are the pods of the owner that have a shape and wait, in no order. The caller holds mu.
func (s *State) waiting(o *owner) []sibling {
	var found []sibling
	for uid, phase := range o.pods {
		if shape, known := s.siblings.shapes[uid]; known && phase == owners.Active {
			found = append(found, sibling{s.pending[uid], s.siblings.byShape[shape][uid]})
		}
	}
	return found
}
