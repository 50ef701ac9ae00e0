package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// kind is a kind of object that the world knows.
type kind string

const (
	kindNode       kind = "Node"
	kindPod        kind = "Pod"
	kindPool       kind = "NodePool"
	kindClass      kind = "AWSNodeClass"
	kindReplicaSet kind = "ReplicaSet"
	kindQuota      kind = "ResourceQuota"
)

// kinds are in the order in which lists bring them.
func kinds() []kind {
	return []kind{kindClass, kindPool, kindQuota, kindReplicaSet, kindNode, kindPod}
}

type key = types.NamespacedName

type objects map[kind]map[key]client.Object

func newObjects() objects {
	o := objects{}
	for _, k := range kinds() {
		o[k] = map[key]client.Object{}
	}
	return o
}

// sorted lists the objects of a kind by key. They are not to be changed.
func sorted[T client.Object](o objects, k kind) []T {
	out := make([]T, 0, len(o[k]))
	for _, object := range o[k] {
		if object, ok := object.(T); ok {
			out = append(out, object)
		}
	}
	sortByKey(out)
	return out
}

func sortByKey[T client.Object](list []T) {
	slices.SortFunc(list, func(a, b T) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
}

// server plays the API server: objects that are never changed in place, a resource version for each
// write, and watches that lag.
type server struct {
	w        *World
	objects  objects
	version  int64
	uids     int
	watchers []*watcher
}

func newServer(w *World) *server { return &server{w: w, objects: newObjects()} }

// watcher is a cache that is fed by watches: one for each kind, in order within it, each with its
// own lag.
type watcher struct {
	objects objects
	// on is called for each change: before is nil for a new object, after for one that is gone.
	on   func(k kind, before, after client.Object)
	last map[kind]time.Time
	gone bool
	// deaf: its watches are broken off; cuts counts how often they were.
	deaf bool
	cuts int
	// slow: it may lag by trouble.watch.
	slow bool
}

// newWatcher returns a cache that has seen nothing yet.
func newWatcher(slow bool, on func(k kind, before, after client.Object)) *watcher {
	return &watcher{objects: newObjects(), on: on, last: map[kind]time.Time{}, slow: slow}
}

// watch begins with what is there now.
func (s *server) watch(o *watcher) {
	for _, k := range kinds() {
		for _, object := range sorted[client.Object](s.objects, k) {
			o.objects[k][client.ObjectKeyFromObject(object)] = object
			o.on(k, nil, object)
		}
	}
	s.watchers = append(s.watchers, o)
}

func (s *server) forget(o *watcher) {
	o.gone = true
	s.watchers = slices.DeleteFunc(s.watchers, func(other *watcher) bool { return other == o })
}

// tell has the watchers hear of a change, each after a while.
func (s *server) tell(k kind, at key, after client.Object) {
	w := s.w
	for _, o := range s.watchers {
		lag := w.between(time.Millisecond, 20*time.Millisecond)
		if o.slow && w.now.Before(w.trouble.watchUntil) {
			lag += w.between(0, w.trouble.watch)
		}
		due := w.now.Add(lag)
		if due.Before(o.last[k]) {
			due = o.last[k]
		}
		o.last[k] = due
		cuts := o.cuts
		w.after(due.Sub(w.now), func() {
			if o.cuts == cuts { // else a list has brought it, or something newer
				o.take(k, at, after)
			}
		})
	}
}

func (o *watcher) take(k kind, at key, after client.Object) {
	if o.gone || o.deaf {
		return
	}
	before := o.objects[k][at]
	if after == nil {
		if before == nil {
			return
		}
		delete(o.objects[k], at)
		o.on(k, before, nil)
		return
	}
	o.objects[k][at] = after
	o.on(k, before, after)
}

// put stores an object as it is after a write. It must not be changed afterwards.
func (s *server) put(k kind, object client.Object) {
	at := client.ObjectKeyFromObject(object)
	before := s.objects[k][at]
	if before == nil && object.GetUID() == "" {
		s.uids++
		object.SetUID(types.UID(string(k) + "-" + strconv.Itoa(s.uids)))
		object.SetCreationTimestamp(metav1.NewTime(s.w.now.Truncate(time.Second)))
	}
	s.version++
	object.SetResourceVersion(strconv.FormatInt(s.version, 10))
	if object.GetDeletionTimestamp() != nil && k == kindPool && len(object.GetFinalizers()) == 0 {
		s.drop(k, at)
		return
	}
	s.objects[k][at] = object
	s.tell(k, at, object)
	s.w.changed(k, before, object)
}

// drop removes an object from the store.
func (s *server) drop(k kind, at key) {
	before := s.objects[k][at]
	if before == nil {
		return
	}
	s.version++
	delete(s.objects[k], at)
	s.tell(k, at, nil)
	s.w.changed(k, before, nil)
}

// remove is a DELETE: pods on a node and pools with finalizers go when their kubelet or controller
// lets them go.
func (s *server) remove(k kind, at key) {
	switch object := s.objects[k][at].(type) {
	case *corev1.Pod:
		if object.Spec.NodeName != "" && object.DeletionTimestamp == nil && s.node(object.Spec.NodeName) != nil {
			p := object.DeepCopy()
			grace := int64(5)
			p.DeletionGracePeriodSeconds = &grace
			// As the API server stamps it: the end of the grace.
			end := metav1.NewTime(s.w.now.Add(5 * time.Second).Truncate(time.Second))
			p.DeletionTimestamp = &end
			s.put(k, p)
			return
		}
		if object.DeletionTimestamp != nil {
			return
		}
	case *v1alpha1.NodePool:
		if len(object.Finalizers) > 0 {
			if object.DeletionTimestamp == nil {
				p := object.DeepCopy()
				begun := metav1.NewTime(s.w.now.Truncate(time.Second))
				p.DeletionTimestamp = &begun
				p.Generation++ // as the API server does, for controllers that watch generations only
				s.put(k, p)
			}
			return
		}
	}
	s.drop(k, at)
}

func (s *server) node(name string) *corev1.Node {
	n, _ := s.objects[kindNode][key{Name: name}].(*corev1.Node)
	return n
}

func (s *server) pod(at key) *corev1.Pod {
	p, _ := s.objects[kindPod][at].(*corev1.Pod)
	return p
}

func (s *server) pool(name string) *v1alpha1.NodePool {
	p, _ := s.objects[kindPool][key{Name: name}].(*v1alpha1.NodePool)
	return p
}

func (s *server) replicaSet(at key) *appsv1.ReplicaSet {
	set, _ := s.objects[kindReplicaSet][at].(*appsv1.ReplicaSet)
	return set
}

func (s *server) quota() *corev1.ResourceQuota {
	q, _ := s.objects[kindQuota][quotaKey()].(*corev1.ResourceQuota)
	return q
}

func (s *server) replicaSets() []*appsv1.ReplicaSet {
	return sorted[*appsv1.ReplicaSet](s.objects, kindReplicaSet)
}

func (s *server) nodes() []*corev1.Node       { return sorted[*corev1.Node](s.objects, kindNode) }
func (s *server) pods() []*corev1.Pod         { return sorted[*corev1.Pod](s.objects, kindPod) }
func (s *server) pools() []*v1alpha1.NodePool { return sorted[*v1alpha1.NodePool](s.objects, kindPool) }

// on lists the pods that are bound to the node.
func (s *server) on(node string) []*corev1.Pod {
	return slices.DeleteFunc(s.pods(), func(p *corev1.Pod) bool { return p.Spec.NodeName != node })
}

// editNode and editPod change what is there now, as controllers do that read and write in one
// moment.
func (s *server) editNode(name string, change func(*corev1.Node)) {
	if n := s.node(name); n != nil {
		n = n.DeepCopy()
		change(n)
		s.put(kindNode, n)
	}
}

func (s *server) editPod(at key, change func(*corev1.Pod)) {
	if p := s.pod(at); p != nil {
		p = p.DeepCopy()
		change(p)
		s.put(kindPod, p)
	}
}

// changed has the parts hear of a write that belong to the server's side of the world: they are not
// what is tested, so they do not lag on purpose.
func (w *World) changed(k kind, before, after client.Object) {
	w.rules.changed(k, before, after)
	switch k {
	case kindNode:
		w.nodeChanged(before, after)
	case kindPod:
		w.podChanged(before, after)
	case kindReplicaSet:
		w.replicaSetChanged(before, after)
	case kindPool, kindClass, kindQuota:
	}
}
