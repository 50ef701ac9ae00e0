package scaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/node"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

func wanting(images ...string) func(*v1alpha1.NodePool) {
	return func(p *v1alpha1.NodePool) { p.Spec.PreWarm.ImagesToPull = images }
}

func controllerStop(p *v1alpha1.NodePool) {
	p.Spec.PreWarm.CompletionMode = v1alpha1.ControllerStop
}

func bestEffort(p *v1alpha1.NodePool) {
	p.Spec.PreWarm.ImagePullPolicy = v1alpha1.ImagesBestEffort
}

// asked are the images that the pods in Stratos's namespace pull.
func (r *rig) asked() []string {
	r.t.Helper()
	list := &corev1.PodList{}
	if err := r.api.List(r.t.Context(), list, client.InNamespace("stratos")); err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, p := range list.Items {
		for _, c := range p.Spec.Containers {
			out = append(out, c.Image)
		}
	}
	return out
}

// kubelet has it say of each image that it is there, or why not, by the names of the containers and
// in their order. Containers that run a program go on forever.
func (r *rig) kubelet(broken map[string]string) {
	r.t.Helper()
	list := &corev1.PodList{}
	if err := r.api.List(r.t.Context(), list, client.InNamespace("stratos")); err != nil {
		r.t.Fatal(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		p.Status.InitContainerStatuses, p.Status.ContainerStatuses = nil, nil
		for _, c := range p.Spec.InitContainers {
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, statusOf(c, broken[c.Image]))
		}
		for _, c := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, statusOf(c, broken[c.Image]))
		}
		slices.SortFunc(p.Status.ContainerStatuses, func(a, b corev1.ContainerStatus) int {
			return strings.Compare(a.Name,
				b.Name)
		})
		if err := r.api.Status().Update(r.t.Context(), p); err != nil {
			r.t.Fatal(err)
		}
	}
}

// pulling are the names of the pods in Stratos's namespace.
func (r *rig) pulling() []string {
	r.t.Helper()
	list := &corev1.PodList{}
	if err := r.api.List(r.t.Context(), list, client.InNamespace("stratos")); err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

func statusOf(c corev1.Container, failure string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: "what the runtime calls it"}
	switch {
	case failure != "":
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: failure}
	case slices.Equal(c.Command, []string{v1alpha1.NoSuchCommand}):
		s.State.Terminated = &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128}
	default:
		s.State.Running = &corev1.ContainerStateRunning{}
	}
	return s
}

func (r *rig) told(reason v1alpha1.Reason) int {
	n := 0
	for _, s := range r.said() {
		if strings.Contains(s, string(reason)) {
			n++
		}
	}
	return n
}

// justLaunched is an instance whose warm-up has the pool's time before it.
func justLaunched(i *provider.Instance) { i.LaunchTime = epoch() }

func TestWarmupPullsImages(t *testing.T) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Image: "b:1"}}
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, wanting("a:1")), set)
	r.sweep(instance(provider.InstanceRunning, justLaunched))
	r.reconcile()
	r.want()
	if diff := cmp.Diff([]string{"a:1", "b:1"}, r.asked()); diff != "" {
		t.Fatalf("images asked for (-want +got):\n%s", diff)
	}
	r.reconcile() // the kubelet is at it
	r.want("tag i-c warmup")
	r.kubelet(nil)
	pods := r.pulling()
	r.reconcile()
	r.want("patch c warmup", "delete-now "+pods[0], "delete-now "+pods[1])
	r.reconcile()
	r.want("patch c warmup") // warm
	r.reconcile()
	r.want("intent c", "stop i-c")
	if got, want := r.node("c").Annotations[v1alpha1.AnnotationImagesHash],
		plan.HashImages([]string{"a:1", "b:1"}); got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

func TestImageThatCannotBePulled(t *testing.T) {
	broken := map[string]string{"a:1": "manifest unknown"}
	for name, c := range map[string]struct {
		pool     func(*v1alpha1.NodePool)
		standsBy bool
	}{
		"Required":   {func(*v1alpha1.NodePool) {}, false},
		"BestEffort": {bestEffort, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, wanting("a:1", "b:1"), c.pool))
			r.sweep(instance(provider.InstanceRunning, justLaunched))
			r.reconcile()
			r.kubelet(broken)
			for range 4 {
				r.reconcile()
			}
			if got := r.told(v1alpha1.ReasonImagePullFailed); got != 2 {
				t.Errorf("told %d times, want once on the Node and once on the pool", got)
			}
			if got := r.node("c").Annotations[v1alpha1.AnnotationWarmedAt] != ""; got != c.standsBy {
				t.Errorf("warm %v, want %v", got, c.standsBy)
			}
			if got := r.node("c").Annotations[v1alpha1.AnnotationImagePullFailed]; !strings.Contains(got,
				" a:1: ErrImagePull: manifest unknown") {
				t.Errorf("the Node remembers %q", got)
			}
			if c.standsBy {
				return
			}
			r.kubelet(nil) // the registry has it now
			for range 3 {
				r.reconcile()
			}
			if n := r.node("c"); n.Annotations[v1alpha1.AnnotationWarmedAt] == "" ||
				n.Annotations[v1alpha1.AnnotationImagePullFailed] != "" {
				t.Errorf("annotations %v after the image came", n.Annotations)
			}
		})
	}
}

// Each try of a node reports a failure once, and dates it anew: the pool's backoff counts from the
// last.
func TestFailureOfALaterTryIsToldAgain(t *testing.T) {
	again := func(n *corev1.Node) {
		refreshed(n)
		n.Annotations[v1alpha1.AnnotationImagePullFailed] = "2026-03-01T11:00:00Z a:1: ErrImagePull: no"
	}
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp, again), nodePool(5, 0, wanting("a:1")))
	r.sweep(instance(provider.InstanceRunning))
	r.reconcile()
	r.kubelet(map[string]string{"a:1": "still no"})
	for range 3 {
		r.reconcile()
	}
	if got := r.told(v1alpha1.ReasonImagePullFailed); got != 2 {
		t.Errorf("told %d times, want once on the Node and once on the pool", got)
	}
	if got := r.node("c").Annotations[v1alpha1.AnnotationImagePullFailed]; !strings.HasPrefix(got,
		"2026-03-01T12:00:00Z a:1: ") {
		t.Errorf("the Node remembers %q", got)
	}
}

func TestStopLooksAtTheImagesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		broken map[string]string
		hash   string
	}{
		"they are there, or were pulled again": {nil, plan.HashImages([]string{"a:1"})},
		"one has gone and cannot be pulled":    {map[string]string{"a:1": "no such host"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, drained(having("a:1")), nodePool(5, 0, wanting("a:1")))
			r.sweep(instance(provider.InstanceRunning))
			r.reconcile()
			if diff := cmp.Diff([]string{"a:1"}, r.asked()); diff != "" {
				t.Fatalf("images asked for (-want +got):\n%s", diff)
			}
			r.kubelet(c.broken)
			r.reconcile()
			r.reconcile()
			r.want("patch c stopping", "delete-now stratos-pull-i-c-"+plan.HashImages([]string{"a:1"})+"-0", "intent c",
				"stop i-c")
			if got := r.node("c").Annotations[v1alpha1.AnnotationImagesHash]; got != c.hash {
				t.Errorf("recorded %q, want %q", got, c.hash)
			}
		})
	}
}

// A check of the images that takes longer than scaleDown.drainTimeout takes nothing of the drain's
// time.
func TestTheLookAtTheImagesTakesNothingOfTheDrain(t *testing.T) {
	slow := func(p *v1alpha1.NodePool) { p.Spec.PreWarm.Timeout = &metav1.Duration{Duration: time.Hour} }
	r := newRig(t, drained(having("a:1")), nodePool(5, 0, wanting("a:1"), slow))
	passed := time.Duration(0)
	r.nodes.Steps = node.NewStepClock(func() time.Duration { return passed })
	look := func(later time.Duration) {
		r.now, passed = r.now.Add(later), passed+later
		r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "stopping")))
		r.reconcile()
	}
	look(0)
	look(2 * time.Second) // after binds in flight the kubelet is asked
	r.kubelet(nil)
	look(10 * time.Minute) // what it said is recorded
	look(0)
	look(2 * time.Second)
	r.want("patch c stopping", "delete-now stratos-pull-i-c-"+plan.HashImages([]string{"a:1"})+"-0", "intent c",
		"stop i-c")
}

func TestPodsThatPullGoWithTheNeed(t *testing.T) {
	p := plan.Pull{Namespace: "stratos", Node: nodeIn(v1alpha1.StateRunning), Pool: "p", Instance: "i-c",
		Images: plan.Wanted{Required: []string{"a:1"}}}.Pods()[0]
	r := newRig(t, nodeIn(v1alpha1.StateRunning), nodePool(5, 0, wanting("a:1")), p)
	r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "running")))
	r.reconcile() // empty
	r.reconcile()
	r.want("patch c running", "delete-now "+p.Name)
}

func TestStoppedWithoutItsImagesIsWarmedOnceMore(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, wanting("a:1")))
	r.sweep(instance(provider.InstanceStopped))
	r.reconcile()
	r.want("patch c warmup", "start i-c")
	n := r.node("c")
	if n.Annotations[v1alpha1.AnnotationWarmupStarted] == "" ||
		!strings.Contains(n.Annotations[v1alpha1.AnnotationHeartbeatAtStop], "Ready") {
		t.Errorf("annotations %v: want the start, and what it must surpass", n.Annotations)
	}
	r.reconcile() // the start is on its way
	r.want("tag i-c warmup")
}

// standbys are nodes of the pool, all with the images, by name.
func standbys(images []string, names ...string) []client.Object {
	var out []client.Object
	for _, name := range names {
		out = append(out, nodeIn(v1alpha1.StateStandby, having(images...), annotated(v1alpha1.AnnotationCordoned, "true"),
			func(n *corev1.Node) {
				n.Name, n.Spec.ProviderID = name, "fake:///zone-a/i-"+name
			}))
	}
	return out
}

func TestRefreshKeepsTheBudget(t *testing.T) {
	budget := func(n int32) func(*v1alpha1.NodePool) {
		return func(p *v1alpha1.NodePool) { p.Spec.Disruption.Budget = new(intstr.FromInt32(n)) }
	}
	change := func(name string, f func(*corev1.Node)) func(objects []client.Object) {
		return func(objects []client.Object) {
			for _, o := range objects {
				if n, ok := o.(*corev1.Node); ok && n.Name == name {
					f(n)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		budget  int32
		wanted  string
		changed func([]client.Object)
		want    []string
	}{
		"nothing has changed": {budget: 2, wanted: "a:1"},
		"two at a time":       {2, "a:2", nil, []string{"wake i-a", "wake i-b"}},
		"a person keeps one as it is": {1, "a:2", change("a", annotated(v1alpha1.AnnotationDoNotStart, "true")),
			[]string{"wake i-b"}},
		"a person has cordoned one": {1, "a:2", change("a", func(n *corev1.Node) {
			delete(n.Annotations,
				v1alpha1.AnnotationCordoned)
		}), []string{"wake i-b"}},
		"one rests after a failure": {1, "a:2", change("a", markedAt(v1alpha1.AnnotationUnavailableUntil,
			epoch().Add(time.Minute))), []string{"wake i-b"}},
		"one is being refreshed": {1, "a:2", change("a", refreshed), nil},
		"an image could not be pulled": {1, "a:2", change("c", annotated(v1alpha1.AnnotationImagePullFailed,
			"2026-03-01T11:50:00Z a:2: no")), nil},
		"long ago it could not": {1, "a:2", change("c", annotated(v1alpha1.AnnotationImagePullFailed,
			"2026-03-01T11:30:00Z a:2: no")), []string{"wake i-a"}},
		"another image could not": {1, "a:2", change("c", annotated(v1alpha1.AnnotationImagePullFailed,
			"2026-03-01T11:59:00Z z:2: no")), []string{"wake i-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := standbys([]string{"a:1"}, "a", "b", "c")
			if c.changed != nil {
				c.changed(objects)
			}
			r := newRig(t, append(objects, nodePool(3, 1, wanting(c.wanted), budget(c.budget), nothingLaunched))...)
			r.sweep(instance(provider.InstanceStopped, called("i-a")), instance(provider.InstanceStopped, called("i-b")),
				instance(provider.InstanceStopped, called("i-c")))
			r.reconcilePool()
			r.woke(c.want...)
		})
	}
}

// woke fails the test if other instances were queued again.
func (r *rig) woke(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = slices.DeleteFunc(r.log, func(s string) bool { return !strings.HasPrefix(s, "wake ") })
	if diff := cmp.Diff(want, r.log, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("whose turn it is (-want +got):\n%s", diff)
	}
	r.log = nil
}

// The pool decides, the node carries out: from standby to warm-up and back, with what the pool
// wants now.
func TestRefreshOfAStandbyNode(t *testing.T) {
	nodes := standbys([]string{"a:1"}, "c")
	r := newRig(t, append(nodes, nodePool(3, 0, wanting("a:2"), nothingLaunched))...)
	r.sweep(instance(provider.InstanceStopped, withTag(v1alpha1.LabelState, "standby")))
	r.reconcilePool()
	r.woke("wake i-c")
	r.reconcile()
	r.want("patch c warmup", "start i-c")
	if got := r.told(v1alpha1.ReasonWarmupStarted); got != 1 {
		t.Errorf("%d events %s, want 1", got, v1alpha1.ReasonWarmupStarted)
	}
	if got := r.failures("incomplete"); got != 0 {
		t.Errorf("%v failures counted: it is none", got)
	}
	r.reconcilePool() // its place in the budget is taken; the disruption is over
	r.woke()
	if turn := r.turns.Of("p", "c"); !turn.None() {
		t.Errorf("its turn still: %+v", turn)
	}
	r.reconcile()
	r.want("tag i-c warmup")
	if images := r.asked(); len(images) > 0 {
		t.Errorf("asked for %v before the kubelet has reported anew", images)
	}
}

// nothingLaunched: no slot is to be written first.
func nothingLaunched(p *v1alpha1.NodePool) {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationLaunches, `{"next":0}`)
}

func refreshed(n *corev1.Node) {
	n.Labels[v1alpha1.LabelState] = string(v1alpha1.StateWarmup)
	n.Annotations[v1alpha1.AnnotationWarmupStarted],
		n.Annotations[v1alpha1.AnnotationWarmedAt] = epoch().Format(time.RFC3339), epoch().Format(time.RFC3339)
}

func TestImagesCondition(t *testing.T) {
	for name, c := range map[string]struct {
		wanted []string
		nodes  []client.Object
		status metav1.ConditionStatus
		says   string
	}{
		"no images": {nil, standbys(nil, "a"), metav1.ConditionTrue, "no images are to be pulled"},
		"no nodes":  {[]string{"a:1"}, nil, metav1.ConditionUnknown, "no node has come to pull images yet"},
		"every node has them": {[]string{"a:1"}, standbys([]string{"a:1"}, "a", "b"), metav1.ConditionTrue,
			"2 of 2 nodes have their images"},
		"one node does not": {[]string{"a:1"}, append(standbys([]string{"a:1"}, "a"), standbys(nil, "b")...),
			metav1.ConditionUnknown, "1 of 2 nodes have their images"},
		"one cannot be pulled": {[]string{"a:1"}, []client.Object{broken("a:1")}, metav1.ConditionFalse,
			"0 of 1 nodes have their images; 1 cannot pull one; node c: a:1: no"},
		"one is best effort": {nil, []client.Object{broken("d:1"), daemonSet("tenant", "d:1")}, metav1.ConditionFalse,
			"0 of 1 nodes have their images; 1 cannot pull one; node c: d:1: no"},
		"one that nobody wants now": {[]string{"b:1"}, []client.Object{broken("a:1")}, metav1.ConditionUnknown,
			"0 of 1 nodes have their images"},
		"nodes that are not adopted": {nil, []client.Object{nodeIn("", func(n *corev1.Node) {
			delete(n.Labels,
				v1alpha1.LabelState)
		})}, metav1.ConditionTrue, "no images are to be pulled"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, append(c.nodes, nodePool(0, 0, wanting(c.wanted...)))...)
			r.sweep()
			r.reconcilePool()
			got := &v1alpha1.NodePool{}
			if err := r.api.Get(t.Context(), client.ObjectKey{Name: "p"}, got); err != nil {
				t.Fatal(err)
			}
			cond := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionImagesPulled)
			if cond == nil || cond.Status != c.status || cond.Message != c.says {
				t.Errorf("condition %+v, want %s %q", cond, c.status, c.says)
			}
		})
	}
}

func broken(image string) *corev1.Node {
	return nodeIn(v1alpha1.StateWarmup, annotated(v1alpha1.AnnotationImagePullFailed,
		"2026-03-01T12:00:00Z "+image+": no"))
}

func having(images ...string) func(*corev1.Node) { return scalertest.Having(images...) }
