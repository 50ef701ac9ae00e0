package model

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// What puts claims to the test: caches that list anew, pods that are made anew under their names,
// clocks that differ, and pods of a DaemonSet that come with a start.

const (
	loggerSet = "logger"
	// loggerCPU is what a pod of the DaemonSet logger asks for, in cores.
	loggerCPU = 1
)

func claimOperations() map[string]kindOfOperation {
	return map[string]kindOfOperation{
		"relist": {4, [4]int{2500, 2, 50}, (*World).relist},
		"clock":  {2, [4]int{3, 1, 20}, (*World).setClock},
		"logger": {1, [4]int{}, func(w *World, _ [4]int) { w.rollOutLogger() }},
	}
}

// relist breaks off the watches of every process for some milliseconds, and makes pods anew
// meanwhile.
func (w *World) relist(a [4]int) {
	pause := time.Duration(a[0]) * time.Millisecond
	w.trouble.watch, w.trouble.watchUntil = max(w.trouble.watch, pause), later(w.trouble.watchUntil, w.now.Add(pause))
	for _, p := range w.processes {
		w.api.cut(p.cache, pause)
	}
	for k := range a[1] + 1 {
		w.recreate(a[2] + k)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// recreate deletes a pod without grace and makes another of its name, as the controller of a
// StatefulSet does.
func (w *World) recreate(k int) {
	picked := pick(w.userPods(), k)
	if picked == nil {
		return
	}
	old := *picked
	w.api.drop(kindPod, client.ObjectKeyFromObject(old))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name, Labels: old.Labels,
		Annotations: map[string]string{}}}
	p.Spec = *old.Spec.DeepCopy()
	if p.Spec.SchedulerName != "" { // else it names its node itself
		p.Spec.NodeName = ""
	}
	w.api.put(kindPod, p)
}

// cut breaks off a cache's watches. What happens until they are back reaches it as the difference
// between two lists.
func (s *server) cut(o *watcher, pause time.Duration) {
	o.cuts++
	cut := o.cuts
	o.deaf = true
	s.w.after(pause, func() {
		if !o.gone && o.cuts == cut {
			o.deaf = false
			o.cuts++
			s.list(o)
		}
	})
}

// list gives a cache what differs from what it knows: an object that was made anew under its name
// arrives as one update.
func (s *server) list(o *watcher) {
	for _, k := range kinds() {
		for _, object := range sorted[client.Object](s.objects, k) {
			at := client.ObjectKeyFromObject(object)
			if known := o.objects[k][at]; known == nil || known.GetResourceVersion() != object.GetResourceVersion() {
				o.take(k, at, object)
			}
		}
		for _, object := range sorted[client.Object](o.objects, k) {
			if at := client.ObjectKeyFromObject(object); s.objects[k][at] == nil {
				o.take(k, at, nil)
			}
		}
	}
}

// setClock has the next process run on a machine whose clock is off. Within a process Go measures
// by a clock that is never set.
func (w *World) setClock(a [4]int) {
	w.skew = []time.Duration{-time.Hour, -time.Minute, time.Minute, time.Hour}[a[0]]
	w.note("the next process's clock is off by %s", w.skew)
	if a[1] == 0 {
		w.kill([4]int{a[2]})
	}
}

// rollOutLogger makes a DaemonSet whose pods keep off standby nodes, so that they come with the
// start.
func (w *World) rollOutLogger() {
	if w.logger {
		return
	}
	w.logger, w.loggerAt = true, w.now
	for _, p := range w.processes {
		for _, set := range w.daemonSets() {
			p.state.SetDaemonSet(&set)
		}
	}
	for _, n := range w.api.nodes() {
		w.logs(n.Name)
	}
}

func loggerDaemonSet() appsv1.DaemonSet {
	set := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: loggerSet, UID: loggerSet}}
	set.Spec.Template.Spec = loggerSpec()
	return set
}

// loggerSpec tolerates everything and has the affinity of docs/operate.md.
func loggerSpec() corev1.PodSpec {
	keepOff := corev1.NodeSelectorRequirement{
		Key: v1alpha1.LabelState, Operator: corev1.NodeSelectorOpNotIn, Values: []string{string(v1alpha1.StateStandby)},
	}
	return corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(loggerCPU, resource.DecimalSI),
		}}}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{keepOff}}},
			}},
		},
	}
}

// logs has the controller of the DaemonSet look at a node in a while: its pod comes where there is
// room and goes where the node is standby.
func (w *World) logs(node string) {
	if !w.logger {
		return
	}
	w.after(w.between(50*time.Millisecond, 2*time.Second), func() {
		n, at := w.api.node(node), key{Namespace: "kube-system", Name: loggerSet + "-" + node}
		if n == nil {
			return
		}
		p, belongs := w.api.pod(at), stateOf(n) != v1alpha1.StateStandby
		switch {
		case p != nil && !belongs:
			w.api.drop(kindPod, at)
		case p == nil && belongs && w.promised(node)+loggerCPU <= w.coresOn(n):
			p := w.newLogger(at, node)
			w.api.put(kindPod, p)
			for _, s := range w.schedulers { // one of them has bound it, so it knows
				s.cache.take(kindPod, at, p)
			}
		}
	})
}

func (w *World) newLogger(at key, node string) *corev1.Pod {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name,
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: loggerSet, UID: types.UID(loggerSet), Controller: &yes},
		}}}
	p.Spec = loggerSpec()
	p.Spec.NodeName = node
	return p
}

// promised are the cores that pods have on the node, or that a scheduler has given them there.
func (w *World) promised(node string) int64 {
	var sum int64
	for _, p := range w.api.pods() {
		given := slices.ContainsFunc(w.schedulers, func(s *scheduler) bool { return s.assumed[p.UID] == node })
		if (p.Spec.NodeName == node || given) && !finished(p) {
			sum += cpuOf(p)
		}
	}
	return sum
}

// beside are the cores that a DaemonSet takes on every node.
func (w *World) beside() int64 {
	if w.logger {
		return loggerCPU
	}
	return 0
}
