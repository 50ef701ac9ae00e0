package model

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Operation is one thing that happens, a while after the one before. Args mean what the
// operation says; one that names an object counts through those that are there.
type Operation struct {
	Wait time.Duration
	Name string
	Args [4]int
}

// kindOfOperation is an operation, how often it is drawn, and the bounds of its arguments.
type kindOfOperation struct {
	weight int
	most   [4]int
	do     func(w *World, a [4]int)
}

// operations are all that can happen, by name.
func operations() map[string]kindOfOperation {
	all := map[string]kindOfOperation{}
	maps.Copy(all, userOperations())
	maps.Copy(all, cloudOperations())
	maps.Copy(all, processOperations())
	maps.Copy(all, claimOperations())
	maps.Copy(all, togetherOperations())
	maps.Copy(all, ownerOperations())
	maps.Copy(all, nominationOperations())
	maps.Copy(all, pauseOperations())
	maps.Copy(all, typeOperations())
	maps.Copy(all, reservationOperations())
	return all
}

func userOperations() map[string]kindOfOperation {
	return map[string]kindOfOperation{
		"pods":    {30, [4]int{4, 4, 3, 10}, func(w *World, a [4]int) { w.createPods(a, ourScheduler) }},
		"foreign": {3, [4]int{2, 4, 3, 10}, func(w *World, a [4]int) { w.createPods(a, plainScheduler) }},
		"pinned":  {3, [4]int{50, 2}, (*World).createPinned},
		"unpod":   {16, [4]int{50, 4}, (*World).deletePods},
		"finish":  {4, [4]int{50}, (*World).finishPod},
		"guard":   {3, [4]int{50}, (*World).guardPod},
		"newpool": {2, [4]int{1, 4, 4, 255}, (*World).createPool},
		"delpool": {1, [4]int{1}, func(w *World, a [4]int) { w.api.remove(kindPool, key{Name: poolNamed(a[0])}) }},
		"resize":  {4, [4]int{1, 4, 4}, (*World).resizePool},
		"drift":   {2, [4]int{1, 3}, (*World).driftPool},
		"cordon":  {3, [4]int{50}, (*World).cordon},
		"taint":   {2, [4]int{50}, (*World).taint},
		"relent":  {3, [4]int{}, func(w *World, _ [4]int) { w.relent() }},
		"delnode": {2, [4]int{50}, (*World).deleteNode},
		"open":    {2, [4]int{50, 2}, (*World).tamper},
	}
}

func poolNamed(k int) string { return []string{"a", "b"}[k%2] }

func (w *World) createPods(a [4]int, scheduler string) {
	for range a[0] + 1 {
		p := w.newPod(a, scheduler)
		if a[3] == 0 {
			p.Annotations[annotationSlow] = "true"
		}
		w.api.put(kindPod, p)
	}
}

// newPod has the cores and the pool that the second and the third number say.
func (w *World) newPod(a [4]int, scheduler string) *corev1.Pod {
	w.serial++
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", w.serial),
		Annotations: map[string]string{}}}
	p.Spec.SchedulerName = scheduler
	p.Spec.Containers = []corev1.Container{{Name: "c",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			"cpu": *resource.NewQuantity(int64(a[1]+1), resource.DecimalSI),
		}}}}
	if scheduler == plainScheduler && w.nominations.never(w.serial) {
		never := corev1.PreemptNever
		p.Spec.PreemptionPolicy = &never
	}
	if a[2] < 2 {
		p.Spec.NodeSelector = map[string]string{"pool": poolNamed(a[2])}
	}
	return p
}

// createPinned makes a pod that names its node itself: a stopped one is to start for it.
func (w *World) createPinned(a [4]int) {
	if n := pick(w.poolNodes(), a[0]); n != nil && w.used((*n).Name, &corev1.Pod{}) == 0 {
		w.serial++
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pinned-%d", w.serial)}}
		p.Spec.NodeName = (*n).Name
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
		w.api.put(kindPod, p)
	}
}

// pick counts through a list.
func pick[T any](list []T, k int) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[k%len(list)]
}

func (w *World) poolNodes() []*corev1.Node {
	return slices.DeleteFunc(w.api.nodes(), func(n *corev1.Node) bool { return poolNameOf(n) == "" })
}

func (w *World) userPods() []*corev1.Pod {
	return slices.DeleteFunc(w.api.pods(), func(p *corev1.Pod) bool { return !counts(p) || p.DeletionTimestamp != nil })
}

func (w *World) deletePods(a [4]int) {
	for range a[1] + 1 {
		if p := pick(w.userPods(), a[0]); p != nil {
			w.api.remove(kindPod, client.ObjectKeyFromObject(*p))
		}
	}
}

func (w *World) finishPod(a [4]int) {
	if p := pick(w.userPods(), a[0]); p != nil && (*p).Status.Phase == corev1.PodRunning {
		w.api.editPod(client.ObjectKeyFromObject(*p), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	}
}

// guardPod has evictions of a pod refused, in one of the ways in which API servers do.
func (w *World) guardPod(a [4]int) {
	if p := pick(w.userPods(), a[0]); p != nil {
		w.api.editPod(client.ObjectKeyFromObject(*p), func(p *corev1.Pod) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, annotationGuarded, []string{guardBudget, guardBudgets,
				guardWebhook}[a[0]%3])
		})
	}
}

// bitAhead is the bit of a pool whose nodes start for replicas to come.
const bitAhead = 128

// createPool makes a pool: size, minStandby, and a bit for each way in which pools differ.
func (w *World) createPool(a [4]int) {
	name, bits := poolNamed(a[0]), a[3]
	if w.api.pool(name) != nil {
		return
	}
	p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	s := &p.Spec
	s.PoolSize = int32(a[1]%4) + 1              //nolint:gosec // small
	s.MinStandby = min(s.PoolSize, int32(a[2])) //nolint:gosec // small
	s.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: "AWSNodeClass", Name: classOf(name)}
	s.Template.Labels = map[string]string{"pool": name}
	if bits&1 != 0 {
		s.PreWarm.CompletionMode = v1alpha1.ControllerStop
	}
	if bits&2 != 0 {
		s.PreWarm.TimeoutAction = v1alpha1.TimeoutTerminate
	}
	s.PreWarm.Timeout = seconds(240)
	s.ScaleUp.ReadyTimeout = seconds(90)
	s.ScaleDown.EmptyNodeTTL, s.ScaleDown.DrainTimeout, s.ScaleDown.StandbySurplusTTL = seconds(30), seconds(60),
		seconds(600)
	if bits&4 != 0 && w.network.shows() { // without any sign the last resort would come after readyTimeout
		s.Template.StartupTaints = []corev1.Taint{{Key: "network", Effect: corev1.TaintEffectNoSchedule}}
	}
	if bits&8 != 0 {
		s.ScaleDown.StandbySurplusTTL = seconds(0)
	}
	if bits&16 != 0 {
		s.Disruption.TerminationGracePeriod = seconds(90)
	}
	if bits&(32|64) == 32|64 {
		limit := intstr.FromString("300s")
		s.MaxNodeRuntime = &limit
	}
	if bits&bitAhead != 0 {
		w.rules.ahead = true
	} else {
		s.ScaleUp.Anticipate = v1alpha1.AnticipatePods
	}
	p.UID = ""
	w.api.put(kindPool, p)
}

func seconds(n int) *metav1.Duration { return &metav1.Duration{Duration: secondsOf(n)} }

func (w *World) editPool(k int, change func(*v1alpha1.NodePool)) {
	if p := w.api.pool(poolNamed(k)); p != nil && p.DeletionTimestamp == nil {
		p = p.DeepCopy()
		p.Generation++
		change(p)
		w.api.put(kindPool, p)
	}
}

func (w *World) resizePool(a [4]int) {
	w.editPool(a[0], func(p *v1alpha1.NodePool) {
		p.Spec.PoolSize = int32(a[1]%4) + 1                   //nolint:gosec // small
		p.Spec.MinStandby = min(p.Spec.PoolSize, int32(a[2])) //nolint:gosec // small
	})
}

func (w *World) driftPool(a [4]int) {
	w.editPool(a[0], func(p *v1alpha1.NodePool) {
		p.Spec.Template.Labels = maps.Clone(p.Spec.Template.Labels)
		p.Spec.Template.Labels["version"] = fmt.Sprint(a[1])
	})
}

// cordon is a person's: the node keeps it until the person removes it.
func (w *World) cordon(a [4]int) {
	if n := pick(w.poolNodes(), a[0]); n != nil && !(*n).Spec.Unschedulable {
		w.api.editNode((*n).Name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	}
}

func (w *World) taint(a [4]int) {
	if n := pick(w.poolNodes(), a[0]); n != nil {
		w.api.editNode((*n).Name, func(n *corev1.Node) {
			if !slices.ContainsFunc(n.Spec.Taints, isPersons) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "person", Effect: corev1.TaintEffectNoSchedule})
			}
		})
	}
}

func isPersons(t corev1.Taint) bool { return t.Key == "person" }

// relent takes all cordons and taints of persons away, and what guards pods.
func (w *World) relent() {
	w.rules.relenting = true
	defer func() { w.rules.relenting = false }()
	for _, n := range w.api.nodes() { // those too whose pool's label was removed
		cordoned := n.Spec.Unschedulable && n.Annotations[v1alpha1.AnnotationCordoned] == ""
		if !cordoned && !slices.ContainsFunc(n.Spec.Taints, isPersons) {
			continue
		}
		w.api.editNode(n.Name, func(n *corev1.Node) {
			if cordoned {
				n.Spec.Unschedulable = false
			}
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isPersons)
		})
	}
	for _, p := range w.api.pods() {
		if p.Annotations[annotationGuarded] != "" {
			w.api.editPod(client.ObjectKeyFromObject(p), func(p *corev1.Pod) { delete(p.Annotations, annotationGuarded) })
		}
	}
}

func (w *World) deleteNode(a [4]int) {
	if n := pick(w.poolNodes(), a[0]); n != nil {
		if i := w.machineOf(*n); i != nil {
			i.meddled, i.unseenUntil = w.now, time.Time{}
		}
		w.api.drop(kindNode, key{Name: (*n).Name})
	}
}

// tamper takes something of ours from a Node that does not run.
func (w *World) tamper(a [4]int) {
	n := pick(w.poolNodes(), a[0])
	if n == nil || stateOf(*n) == v1alpha1.StateRunning {
		return
	}
	w.api.editNode((*n).Name, func(n *corev1.Node) {
		switch a[1] {
		case 0:
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintStandby })
		case 1:
			delete(n.Labels, v1alpha1.LabelPool)
		case 2:
			delete(n.Labels, v1alpha1.LabelExcludeDisruption)
		}
	})
}

func cloudOperations() map[string]kindOfOperation {
	meddle := func(do func(w *World, i *instance)) func(*World, [4]int) {
		return func(w *World, a [4]int) {
			var mine []*instance
			for _, i := range w.cloud.instances {
				if i.token != "" && !i.gone() {
					mine = append(mine, i)
				}
			}
			if i := pick(mine, a[0]); i != nil {
				w.note("somebody touches %s", (*i).id)
				w.forgets(*i)
				(*i).meddled, (*i).unseenUntil = w.now, time.Time{}
				do(w, *i)
				w.rules.forsaken()
			}
		}
	}
	return map[string]kindOfOperation{
		"terminate": {3, [4]int{50}, meddle(func(w *World, i *instance) { w.cloud.end(i) })},
		"stop":      {3, [4]int{50}, meddle(func(w *World, i *instance) { w.powerOff(i, false) })},
		"start": {3, [4]int{50}, meddle(func(w *World, i *instance) {
			if runsIn, starts := w.startsByHand(i); starts && i.state() == provider.InstanceStopped {
				i.runsIn = runsIn
				w.powerOn(i)
			}
		})},
		"untag": {2, [4]int{50}, meddle(func(w *World, i *instance) {
			w.cloud.retag(i, func(m map[string]string) { delete(m, v1alpha1.LabelPool) })
		})},
		"unmark": {2, [4]int{50}, meddle(func(w *World, i *instance) {
			w.cloud.retag(i, func(m map[string]string) { delete(m, v1alpha1.TagClusterUID) })
		})},
		"disown": {1, [4]int{50}, meddle(func(w *World, i *instance) {
			w.cloud.retag(i, func(m map[string]string) { delete(m, v1alpha1.TagManagedBy) })
		})},
		"scarce": {4, [4]int{1, 300}, func(w *World, a [4]int) {
			for _, region := range regionNames() {
				w.trouble.scarce[zoneNames(region)[a[0]]] = w.now.Add(secondsOf(a[1]))
			}
		}},
		"region": {2, [4]int{1, 300}, func(w *World, a [4]int) {
			w.trouble.regions[regionNames()[a[0]]] = w.now.Add(secondsOf(a[1]))
		}},
		"outage": {2, [4]int{300}, func(w *World, a [4]int) { w.trouble.outage = w.now.Add(secondsOf(a[0])) }},
		"lag":    {3, [4]int{8}, func(w *World, a [4]int) { w.trouble.lag = secondsOf(a[0]) }},
		"throttle": {3, [4]int{90, 60}, func(w *World, a [4]int) {
			w.trouble.throttled, w.trouble.throttledUntil = a[0], w.now.Add(secondsOf(a[1]))
		}},
		"fallback": {3, [4]int{3}, func(w *World, a [4]int) { w.trouble.fallbacks = a[0] }},
		"mute":     {4, [4]int{3}, func(w *World, a [4]int) { w.trouble.mutes = a[0] }},
		"short":    {2, [4]int{2}, func(w *World, a [4]int) { w.trouble.shorts = a[0] }},
		"hang":     {3, [4]int{2}, func(w *World, a [4]int) { w.trouble.hangs = a[0] }},
		"lose":     {4, [4]int{3}, func(w *World, a [4]int) { w.trouble.lost = a[0] }},
	}
}

func processOperations() map[string]kindOfOperation {
	return map[string]kindOfOperation{
		"crash":   {12, [4]int{12, 1, 20}, (*World).crashSoon},
		"kill":    {4, [4]int{30}, (*World).kill},
		"rival":   {4, [4]int{20, 1}, (*World).rival},
		"apidown": {2, [4]int{60}, func(w *World, a [4]int) { w.trouble.apiDown = w.now.Add(secondsOf(a[0])) }},
		"slowwatch": {4, [4]int{2500, 60}, func(w *World, a [4]int) {
			w.trouble.watch, w.trouble.watchUntil = time.Duration(a[0])*time.Millisecond, w.now.Add(secondsOf(a[1]))
		}},
		"rest": {8, [4]int{300}, func(w *World, a [4]int) { w.runUntil(w.now.Add(secondsOf(a[0]))) }},
	}
}

func secondsOf(n int) time.Duration { return time.Duration(n) * time.Second }

// crashSoon has the process end at one of its next writes, before it or after it, and another begin
// a while later.
func (w *World) crashSoon(a [4]int) {
	if p := w.asked(); p != nil {
		p.crashIn, p.crashAfter = a[0]+1, a[1] == 1
		w.reviveWhenDead(p, secondsOf(a[2]))
	}
}

// reviveWhenDead has a process begin some time after this one has ended, where no other is there.
func (w *World) reviveWhenDead(p *process, pause time.Duration) {
	w.after(time.Second, func() {
		switch {
		case !p.dead && p.crashIn > 0:
			w.reviveWhenDead(p, pause)
		case p.dead:
			w.after(pause, w.revive)
		}
	})
}

func (w *World) revive() {
	if len(w.processes) == 0 {
		w.begin(true)
	}
}

func (w *World) kill(a [4]int) {
	for _, p := range slices.Clone(w.processes) {
		p.end()
	}
	w.after(secondsOf(a[0]), w.revive)
}

// rival has a second process lead for a while beside the first; then one of the two ends.
func (w *World) rival(a [4]int) {
	if len(w.processes) != 1 {
		return
	}
	first := w.processes[0]
	second := w.begin(true)
	w.after(secondsOf(a[0]), func() {
		if a[1] == 0 {
			first.end()
		} else {
			second.end()
		}
		w.revive()
	})
}
