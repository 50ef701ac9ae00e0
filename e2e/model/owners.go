package model

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReplicaSets and their controller, which creates pods in batches of 1, 2, 4 and so on, and the
// quota of the namespace. Not every ReplicaSet gets the pods that it asks for.

// annotationWay says what becomes of a ReplicaSet's pods.
const annotationWay = "model/way"

// way is how a ReplicaSet comes to its pods.
type way string

// The ways.
const (
	// prompt: as its spec says.
	prompt way = "prompt"
	// late: the first at once, the others only after a while: its controller is busy.
	late way = "late"
	// never: the first, then none, and nothing says why.
	never way = "never"
	// refused: a webhook refuses all but the first, which its status says.
	refused way = "refused"
	// otherShape: a webhook gives each pod after the first one core more.
	otherShape way = "otherShape"
	// flapping: an autoscaler that cannot decide.
	flapping way = "flapping"
)

func ways() []way { return []way{prompt, late, never, refused, otherShape, flapping} }

// ownerOperations are drawn by GenerateBurst alone.
func ownerOperations() map[string]kindOfOperation {
	return map[string]kindOfOperation{
		"replicas": {0, [4]int{7, 3, 2, 5}, (*World).createReplicaSet},
		"scale":    {0, [4]int{20, 7}, (*World).scaleReplicaSet},
		"unowner":  {0, [4]int{20}, (*World).deleteReplicaSet},
		"quota":    {0, [4]int{9}, (*World).setQuota},
	}
}

// createReplicaSet makes a ReplicaSet: how many replicas, their cores, the pool that they name, and
// how it comes to its pods.
func (w *World) createReplicaSet(a [4]int) {
	w.serial++
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("set-%d", w.serial),
		Annotations: map[string]string{annotationWay: string(ways()[a[3]])}}}
	replicas := int32(a[0]) + 1 //nolint:gosec // small
	set.Spec.Replicas = &replicas
	set.Spec.Template.Spec = w.newPod(a, w.nominations.scheduler()).Spec
	w.api.put(kindReplicaSet, set)
	if ways()[a[3]] == flapping {
		w.flap(client.ObjectKeyFromObject(set), int(replicas), 5)
	}
}

// flap has the replicas of a ReplicaSet go to none and back, so many times.
func (w *World) flap(at key, replicas, times int) {
	w.after(w.between(100*time.Millisecond, 20*time.Second), func() {
		set := w.api.replicaSet(at)
		if set == nil || times == 0 || wayOf(set) != flapping {
			return
		}
		w.setReplicas(at, replicas*(times%2))
		w.flap(at, replicas, times-1)
	})
}

func (w *World) setReplicas(at key, replicas int) {
	w.note("%s is to have %d replicas", at.Name, replicas)
	w.editReplicaSet(at, func(s *appsv1.ReplicaSet) {
		n := int32(replicas) //nolint:gosec // small
		s.Spec.Replicas = &n
	})
}

func (w *World) editReplicaSet(at key, change func(*appsv1.ReplicaSet)) {
	if set := w.api.replicaSet(at); set != nil {
		set = set.DeepCopy()
		change(set)
		w.api.put(kindReplicaSet, set)
	}
}

func (w *World) scaleReplicaSet(a [4]int) {
	if set := pick(w.api.replicaSets(), a[0]); set != nil {
		w.setReplicas(client.ObjectKeyFromObject(*set), a[1])
	}
}

func (w *World) deleteReplicaSet(a [4]int) {
	if set := pick(w.api.replicaSets(), a[0]); set != nil {
		w.dropReplicaSet(*set)
	}
}

// dropReplicaSet deletes a ReplicaSet, and in a moment its pods.
func (w *World) dropReplicaSet(set *appsv1.ReplicaSet) {
	w.api.drop(kindReplicaSet, client.ObjectKeyFromObject(set))
	w.after(w.between(10*time.Millisecond, time.Second), func() {
		for _, p := range w.podsOf(set) {
			w.api.remove(kindPod, client.ObjectKeyFromObject(p))
		}
	})
}

// setQuota limits the cores of the namespace; the highest number takes the limit away.
func (w *World) setQuota(a [4]int) {
	if a[0] == 9 {
		w.api.drop(kindQuota, quotaKey())
		return
	}
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: quotaKey().Name}}
	if old := w.api.quota(); old != nil {
		q = old.DeepCopy()
	}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: *resource.NewQuantity(int64(3*a[0]),
		resource.DecimalSI)}
	w.api.put(kindQuota, q)
	w.countQuota()
}

func quotaKey() key { return key{Namespace: "default", Name: "quota"} }

// countQuota writes what the pods of the namespace use, as the quota's controller does.
func (w *World) countQuota() {
	old := w.api.quota()
	if old == nil {
		return
	}
	used := *resource.NewQuantity(w.usedOfQuota(), resource.DecimalSI)
	if had := old.Status.Used[corev1.ResourceRequestsCPU]; had.Cmp(used) == 0 && old.Status.Used != nil {
		return
	}
	q := old.DeepCopy()
	q.Status.Used = corev1.ResourceList{corev1.ResourceRequestsCPU: used}
	w.api.put(kindQuota, q)
}

func (w *World) usedOfQuota() int64 {
	sum := int64(0)
	for _, p := range w.api.pods() {
		if p.Namespace == quotaKey().Namespace && !finished(p) {
			sum += cpuOf(p)
		}
	}
	return sum
}

// admits reports whether the quota has room for the pod.
func (w *World) admits(p *corev1.Pod) bool {
	q := w.api.quota()
	if q == nil {
		return true
	}
	hard := q.Spec.Hard[corev1.ResourceRequestsCPU]
	return w.usedOfQuota()+cpuOf(p) <= hard.Value()
}

func wayOf(set *appsv1.ReplicaSet) way { return way(set.Annotations[annotationWay]) }

// podsOf are the pods of the ReplicaSet, those that end too.
func (w *World) podsOf(set *appsv1.ReplicaSet) []*corev1.Pod {
	return slices.DeleteFunc(w.api.pods(), func(p *corev1.Pod) bool { return !metav1.IsControlledBy(p, set) })
}

func isActive(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && !finished(p) }

func (w *World) activeOf(set *appsv1.ReplicaSet) []*corev1.Pod {
	return slices.DeleteFunc(w.podsOf(set), func(p *corev1.Pod) bool { return !isActive(p) })
}

// controlReplicas has the controller look at a ReplicaSet in a moment. batch is how many pods it
// creates at once.
func (w *World) controlReplicas(at key, batch int) {
	if w.controlled[at] {
		return
	}
	w.controlled[at] = true
	w.after(w.between(time.Millisecond, 50*time.Millisecond), func() {
		delete(w.controlled, at)
		set := w.api.replicaSet(at)
		if set == nil {
			return
		}
		active := w.activeOf(set)
		switch more := int(*set.Spec.Replicas) - len(active); {
		case more > 0:
			w.createReplicas(set, min(more, batch), batch)
		case more < 0:
			w.deleteReplicas(active, -more)
		}
		w.tellReplicas(at)
	})
}

// createReplicas creates a batch of pods as far as the way of the ReplicaSet and the quota allow.
func (w *World) createReplicas(set *appsv1.ReplicaSet, count, batch int) {
	at := client.ObjectKeyFromObject(set)
	for range count {
		first := len(w.podsOf(set)) == 0
		switch way := wayOf(set); {
		case first:
		case way == never:
			return
		case way == late && w.now.Sub(set.CreationTimestamp.Time) < lateness(set):
			w.after(time.Second, func() { w.controlReplicas(at, batch) })
			return
		case way == refused:
			w.refuseReplicas(at, true)
			return
		}
		p := w.newReplica(set, first)
		if !w.admits(p) {
			w.refuseReplicas(at, true)
			w.after(w.between(time.Second, 20*time.Second), func() { w.controlReplicas(at, 1) })
			return
		}
		w.api.put(kindPod, p)
		w.countQuota()
	}
	w.refuseReplicas(at, false)
	w.controlReplicas(at, 2*batch)
}

// lateness is how long a late controller creates nothing, by the name of the ReplicaSet: at times
// longer than claims for its replicas stand.
func lateness(set *appsv1.ReplicaSet) time.Duration {
	number, err := strconv.Atoi(set.Name[len("set-"):])
	if err != nil {
		panic(err) // createReplicaSet names them
	}
	return secondsOf(5 + 7*(number%16))
}

func (w *World) newReplica(set *appsv1.ReplicaSet, first bool) *corev1.Pod {
	w.serial++
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace,
		Name: fmt.Sprintf("%s-%d", set.Name, w.serial), Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: &yes},
		}}}
	p.Spec = *set.Spec.Template.Spec.DeepCopy()
	if wayOf(set) == otherShape && !first && cpuOf(p) < nodeCPU {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewQuantity(cpuOf(p)+1, resource.DecimalSI)
	}
	return p
}

// deleteReplicas deletes those that are not bound first, then the youngest.
func (w *World) deleteReplicas(active []*corev1.Pod, count int) {
	slices.SortStableFunc(active, func(a, b *corev1.Pod) int {
		switch {
		case a.Spec.NodeName == "" && b.Spec.NodeName != "":
			return -1
		case a.Spec.NodeName != "" && b.Spec.NodeName == "":
			return 1
		}
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	for _, p := range active[:count] {
		w.api.remove(kindPod, client.ObjectKeyFromObject(p))
	}
}

func (w *World) refuseReplicas(at key, is bool) {
	set := w.api.replicaSet(at)
	if set == nil || is == (len(set.Status.Conditions) > 0) {
		return
	}
	w.editReplicaSet(at, func(s *appsv1.ReplicaSet) {
		s.Status.Conditions = nil
		if is {
			s.Status.Conditions = []appsv1.ReplicaSetCondition{
				{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"},
			}
		}
	})
}

// tellReplicas writes the status.
func (w *World) tellReplicas(at key) {
	set := w.api.replicaSet(at)
	if set == nil {
		return
	}
	if n := int32(len(w.activeOf(set))); set.Status.Replicas != n { //nolint:gosec // small
		w.editReplicaSet(at, func(s *appsv1.ReplicaSet) { s.Status.Replicas = n })
	}
}

// replicaSetChanged and replicaChanged wake the controller.
func (w *World) replicaSetChanged(before, after client.Object) {
	set, _ := after.(*appsv1.ReplicaSet)
	old, _ := before.(*appsv1.ReplicaSet)
	if set != nil && (old == nil || *old.Spec.Replicas != *set.Spec.Replicas) {
		w.controlReplicas(client.ObjectKeyFromObject(set), 1)
	}
}

func (w *World) replicaChanged(old, p *corev1.Pod) {
	if old == nil || p != nil && p.UID == old.UID && isActive(p) == isActive(old) {
		return
	}
	if owner := metav1.GetControllerOf(old); owner != nil && owner.Kind == "ReplicaSet" {
		w.controlReplicas(key{Namespace: old.Namespace, Name: owner.Name}, 1)
	}
	if w.api.quota() != nil {
		w.after(w.between(10*time.Millisecond, 5*time.Second), w.countQuota)
	}
}

// honor ends what keeps ReplicaSets from their pods.
func (w *World) honor() {
	w.api.drop(kindQuota, quotaKey())
	for _, set := range w.api.replicaSets() {
		at := client.ObjectKeyFromObject(set)
		w.editReplicaSet(at, func(s *appsv1.ReplicaSet) { s.Annotations = map[string]string{annotationWay: string(prompt)} })
		w.controlReplicas(at, 1)
	}
}

// hope is what a ReplicaSet asked for at some time.
type hope struct {
	at       time.Time
	replicas int
}

// ownerRules watch what nodes start for replicas that are still to come.
type ownerRules struct {
	// hopes are what ReplicaSets have asked for lately, by their UIDs; the last of each stands.
	hopes map[string][]hope
	// templates are their pods.
	templates map[string]*corev1.Pod
	// ahead: there is a pool, or was one, whose nodes start for replicas to come.
	ahead bool
}

func newOwnerRules() ownerRules {
	return ownerRules{hopes: map[string][]hope{}, templates: map[string]*corev1.Pod{}}
}

func (r *rules) ownerChanged(before, after client.Object) {
	set, _ := after.(*appsv1.ReplicaSet)
	replicas, object := 0, after
	if set != nil {
		replicas = int(*set.Spec.Replicas)
		r.templates[string(set.UID)] = &corev1.Pod{Spec: set.Spec.Template.Spec}
	} else {
		object = before
	}
	uid := string(object.GetUID())
	r.hopes[uid] = append(r.hopes[uid], hope{at: r.w.now, replicas: replicas})
}

// toCome is, by the UID of its ReplicaSet, how many replicas nodes may be starting for that do not
// exist: as many as it asked for lately, less those that there are.
func (r *rules) toCome() map[string]int {
	const lately = 2 * time.Minute
	out := map[string]int{}
	if !r.ahead {
		return out
	}
	exist := map[string]int{}
	for _, p := range r.w.api.pods() {
		if owner := metav1.GetControllerOf(p); owner != nil && isActive(p) {
			exist[string(owner.UID)]++
		}
	}
	for uid, hopes := range r.hopes {
		most := 0
		for i, h := range hopes {
			if i+1 == len(hopes) || r.w.now.Sub(hopes[i+1].at) <= lately {
				most = max(most, h.replicas)
			}
		}
		if n := most - exist[uid]; n > 0 {
			out[uid] = n
		}
	}
	return out
}
