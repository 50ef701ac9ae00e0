package scaler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// mirrored has the pod pull from a mirror.
func mirrored(p *corev1.Pod) error {
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Image = "mirror/" + p.Spec.Containers[i].Image
	}
	return nil
}

// meshed puts an init container and a sidecar, which never ends, into the pod, before its own
// containers.
func meshed(p *corev1.Pod) error {
	p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "mesh-init", Image: "mesh/init:1",
		Command: []string{"iptables"}})
	p.Spec.Containers = slices.Insert(p.Spec.Containers, 0, corev1.Container{Name: "mesh-proxy", Image: "mesh/proxy:1"})
	return nil
}

func mirroredAndMeshed(p *corev1.Pod) error { return errors.Join(mirrored(p), meshed(p)) }

// daemonSet is one of the namespace that runs on every node.
func daemonSet(namespace, image string) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: image}}
	return set
}

// Mirrors and meshes change pods of every namespace, Stratos's own too.
func TestWarmupPullsImagesThroughAdmission(t *testing.T) {
	for name, admission := range map[string]func(*corev1.Pod) error{
		"a mirror":          mirrored,
		"a mesh":            meshed,
		"a mesh and mirror": mirroredAndMeshed,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, wanting("a:1", "b:1")))
			r.admitting = admission
			r.sweep(instance(provider.InstanceRunning, justLaunched))
			r.reconcile()
			r.kubelet(nil)
			for range 3 {
				r.reconcile()
			}
			r.want("patch c warmup", "delete-now stratos-pull-i-c-"+plan.HashImages([]string{"a:1", "b:1"})+"-0",
				"patch c warmup", "intent c", "stop i-c")
			if n := r.node("c"); n.Annotations[v1alpha1.AnnotationWarmedAt] == "" ||
				n.Annotations[v1alpha1.AnnotationImagesHash] == "" {
				t.Errorf("annotations %v, want a warm node with its images", n.Annotations)
			}
		})
	}
}

// What the kubelet says of a mirrored image is reported about the image that was asked for.
func TestFailureOfAMirroredImageIsTold(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, wanting("a:1", "b:1")))
	r.admitting = mirroredAndMeshed
	r.sweep(instance(provider.InstanceRunning, justLaunched))
	r.reconcile()
	r.kubelet(map[string]string{"mirror/b:1": "manifest unknown"})
	r.reconcile()
	if got := r.node("c").Annotations[v1alpha1.AnnotationImagePullFailed]; !strings.HasSuffix(got,
		" b:1: ErrImagePull: manifest unknown") {
		t.Errorf("the Node remembers %q, want the failure of b:1", got)
	}
}

// A container that admission puts before ours may never let the kubelet come to them. That is told
// in its words.
func TestInjectedInitContainerThatFailsIsTold(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, wanting("a:1")))
	r.admitting = meshed
	r.sweep(instance(provider.InstanceRunning, justLaunched))
	r.reconcile()
	list := &corev1.PodList{}
	if err := r.api.List(t.Context(), list, client.InNamespace("stratos")); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d pods, error %v", len(list.Items), err)
	}
	pod := &list.Items[0]
	wait := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}}
	pod.CreationTimestamp = metav1.NewTime(r.now)
	pod.Status.Phase = corev1.PodFailed
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "mesh-init", State: ended}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "image-0", State: wait},
		{Name: "mesh-proxy", State: wait}}
	if err := r.api.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	r.reconcile()
	if got := r.node("c").Annotations[v1alpha1.AnnotationImagePullFailed]; !strings.Contains(got, " a:1: ") ||
		!strings.Contains(got, "mesh-init") {
		t.Errorf("the Node remembers %q, want a:1 and the init container that failed", got)
	}
}

// A DaemonSet of any tenant may name an image that cannot be pulled.
func TestDaemonSetImageThatCannotBePulledKeepsNoNodeFromWarming(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, wanting("a:1")),
		daemonSet("tenant", "gone:1"))
	r.sweep(instance(provider.InstanceRunning, justLaunched))
	r.reconcile()
	r.kubelet(map[string]string{"gone:1": "not found"})
	for range 3 {
		r.reconcile()
	}
	n := r.node("c")
	if n.Annotations[v1alpha1.AnnotationWarmedAt] == "" {
		t.Errorf("annotations %v, want a warm node", n.Annotations)
	}
	if got := n.Annotations[v1alpha1.AnnotationImagePullFailed]; !strings.Contains(got,
		" gone:1: ErrImagePull: not found") {
		t.Errorf("the Node remembers %q, want the failure of gone:1", got)
	}
	if got := r.told(v1alpha1.ReasonImagePullFailed); got != 2 {
		t.Errorf("told %d times, want once on the Node and once on the pool", got)
	}
}

// While the kubelet is at it, a warm-up waits, for the images of DaemonSets too.
func TestWarmupWaitsForADaemonSetImageThatIsBeingPulled(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, wanting("a:1")),
		daemonSet("tenant", "slow:1"))
	r.sweep(instance(provider.InstanceRunning, justLaunched))
	for range 4 {
		r.reconcile()
	}
	if n := r.node("c"); n.Annotations[v1alpha1.AnnotationWarmedAt] != "" {
		t.Errorf("annotations %v, want a node that is not warm yet", n.Annotations)
	}
	// Until preWarm.timeout: a registry that never answers keeps no node from warming either.
	r.now = epoch().Add(nodePool(1, 1).Spec.PreWarm.TimeoutOrDefault())
	r.kubeletOf("a:1")
	for range 4 {
		r.reconcile()
	}
	if n := r.node("c"); n.Annotations[v1alpha1.AnnotationWarmedAt] == "" {
		t.Errorf("annotations %v, want a warm node at preWarm.timeout", n.Annotations)
	}
}

// kubeletOf has the kubelet come to the one image only.
func (r *rig) kubeletOf(image string) {
	r.t.Helper()
	list := &corev1.PodList{}
	if err := r.api.List(r.t.Context(), list, client.InNamespace("stratos")); err != nil {
		r.t.Fatal(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		for _, c := range p.Spec.Containers {
			if c.Image == image {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, statusOf(c, ""))
			}
		}
		if err := r.api.Status().Update(r.t.Context(), p); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A policy of the cluster may refuse the pod that pulls an image of a DaemonSet.
func TestRefusedPodKeepsNoNodeFromWarming(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, wanting("a:1")),
		daemonSet("tenant", "forbidden:1"))
	r.admitting = func(p *corev1.Pod) error {
		if slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Image == "forbidden:1" }) {
			return apierrors.NewForbidden(corev1.Resource("pods"), p.Name,
				errors.New("admission webhook denied the request: forbidden:1 is not ours"))
		}
		return nil
	}
	r.sweep(instance(provider.InstanceRunning, justLaunched))
	for range 3 {
		r.reconcile()
	}
	if diff := cmp.Diff([]string{"a:1"}, r.asked()); diff != "" {
		t.Fatalf("images asked for (-want +got):\n%s", diff)
	}
	r.kubelet(nil)
	for range 3 {
		r.reconcile()
	}
	n := r.node("c")
	if n.Annotations[v1alpha1.AnnotationWarmedAt] == "" {
		t.Errorf("annotations %v, want a warm node", n.Annotations)
	}
	if got := r.told(v1alpha1.ReasonImagePullFailed); got != 2 {
		t.Errorf("told %d times, want once on the Node and once on the pool", got)
	}
	if got := n.Annotations[v1alpha1.AnnotationImagePullFailed]; !strings.Contains(got, " forbidden:1: ") ||
		!strings.Contains(got, "denied the request") {
		t.Errorf("the Node remembers %q, want the refusal of forbidden:1", got)
	}
}

// A failure of the API server passes: what could not be made then is made, and what is under way
// stays.
func TestPodsThatAreMissingAreMadeLater(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, wanting("a:1")),
		daemonSet("tenant", "d:1"))
	r.admitting = func(p *corev1.Pod) error {
		if p.Spec.Containers[0].Image == "d:1" {
			return apierrors.NewInternalError(errors.New("failed calling webhook"))
		}
		return nil
	}
	r.sweep(instance(provider.InstanceRunning, justLaunched))
	if _, err := r.nodes.Reconcile(t.Context(), "i-c"); err == nil || !strings.Contains(err.Error(),
		"failed calling webhook") {
		t.Fatalf("error %v, want the API server's", err)
	}
	r.admitting = nil
	r.reconcile()
	r.want()
	if diff := cmp.Diff([]string{"a:1", "d:1"}, r.asked()); diff != "" {
		t.Errorf("images asked for (-want +got):\n%s", diff)
	}
}

// An administrator may name namespaces without the images of whose DaemonSets no node is standby.
func TestRequiredDaemonSetNamespaces(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop, bestEffort, wanting("a:1")),
		daemonSet("kube-system", "cni:1"))
	r.nodes.RequiredDaemonSets = []string{"kube-system"}
	r.sweep(instance(provider.InstanceRunning, justLaunched))
	r.reconcile()
	r.kubelet(map[string]string{"cni:1": "no such host", "a:1": "not found"})
	for range 4 {
		r.reconcile()
	}
	n := r.node("c")
	if n.Annotations[v1alpha1.AnnotationWarmedAt] != "" ||
		!strings.Contains(n.Annotations[v1alpha1.AnnotationImagePullFailed], " cni:1: ErrImagePull: no such host") {
		t.Errorf("annotations %v, want a node that waits for cni:1", n.Annotations)
	}
	r.kubelet(map[string]string{"a:1": "not found"})
	for range 3 {
		r.reconcile()
	}
	n = r.node("c")
	if n.Annotations[v1alpha1.AnnotationWarmedAt] == "" ||
		n.Annotations[v1alpha1.AnnotationRequiredImagesHash] != plan.HashImages([]string{"cni:1"}) {
		t.Errorf("annotations %v, want a warm node with cni:1", n.Annotations)
	}
}

// A kubelet may have no room for the second pod. For images of best effort it is not asked again.
func TestRefusedPodWithBestEffortImages(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp), nodePool(5, 0, controllerStop), daemonSet("tenant", "d:1"))
	r.sweep(instance(provider.InstanceRunning, justLaunched))
	r.reconcile()
	list := &corev1.PodList{}
	if err := r.api.List(t.Context(), list, client.InNamespace("stratos")); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d pods, error %v", len(list.Items), err)
	}
	list.Items[0].Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "no room"}
	if err := r.api.Status().Update(t.Context(), &list.Items[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.reconcile()
	}
	n := r.node("c")
	if n.Annotations[v1alpha1.AnnotationWarmedAt] == "" ||
		!strings.Contains(n.Annotations[v1alpha1.AnnotationImagePullFailed],
			" d:1: kubelet ended the pod that pulls: OutOfpods: no room") {
		t.Errorf("annotations %v, want a warm node that says what was refused", n.Annotations)
	}
}

// Images of DaemonSets that cannot be pulled rest by themselves: a change of imagesToPull is pulled
// all the same.
func TestRefreshOfRequiredImagesWaitsForNoDaemonSet(t *testing.T) {
	objects := standbys([]string{"a:1"}, "a", "b", "c")
	annotated(v1alpha1.AnnotationImagePullFailed, "2026-03-01T11:50:00Z gone:1: no")(objects[2].(*corev1.Node))
	one := func(p *v1alpha1.NodePool) { p.Spec.Disruption.Budget = new(intstr.FromInt32(1)) }
	r := newRig(t, append(objects, nodePool(3, 1, wanting("a:2"), one, nothingLaunched), daemonSet("tenant", "gone:1"))...)
	r.sweep(instance(provider.InstanceStopped, called("i-a")), instance(provider.InstanceStopped, called("i-b")),
		instance(provider.InstanceStopped, called("i-c")))
	r.reconcilePool()
	r.woke("wake i-a")
}

// gone is a standby node on which the best-effort image gone:1 could not be pulled so long ago.
func gone(long time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		having("gone:1")(n)
		annotated(v1alpha1.AnnotationImagePullFailed, epoch().Add(-long).Format(time.RFC3339)+" gone:1: no")(n)
	}
}

// An image of best effort that cannot be pulled is tried again, ever more seldom.
func TestRefreshOfBestEffortImagesBacksOff(t *testing.T) {
	never := func(*corev1.Node) {}
	for name, c := range map[string]struct {
		a, b, c func(*corev1.Node)
		want    []string
	}{
		"one failed a moment ago":       {having("gone:1"), having("gone:1"), gone(time.Minute), nil},
		"another wants it, which waits": {never, having("gone:1"), gone(14 * time.Minute), nil},
		"one failed a quarter of an hour ago": {having("gone:1"), having("gone:1"), gone(16 * time.Minute),
			[]string{"wake i-c"}},
		"two failed a quarter of an hour ago": {having("gone:1"), gone(16 * time.Minute), gone(16 * time.Minute), nil},
		"three failed, the last 50 min. ago":  {gone(5 * time.Hour), gone(4 * time.Hour), gone(50 * time.Minute), nil},
		"three failed, more than an hour ago": {gone(5 * time.Hour), gone(4 * time.Hour), gone(61 * time.Minute),
			[]string{"wake i-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := standbys(nil, "a", "b", "c")
			for i, f := range []func(*corev1.Node){c.a, c.b, c.c} {
				f(objects[i].(*corev1.Node))
			}
			one := func(p *v1alpha1.NodePool) { p.Spec.Disruption.Budget = new(intstr.FromInt32(1)) }
			r := newRig(t, append(objects, nodePool(3, 1, one, nothingLaunched), daemonSet("tenant", "gone:1"))...)
			r.sweep(instance(provider.InstanceStopped, called("i-a")), instance(provider.InstanceStopped, called("i-b")),
				instance(provider.InstanceStopped, called("i-c")))
			r.reconcilePool()
			r.woke(c.want...)
		})
	}
}

// A node that was standby without an image of best effort pulls it when it is refreshed, though the
// set is the same.
func TestRefreshTriesABestEffortImageAgain(t *testing.T) {
	for name, c := range map[string]struct {
		broken map[string]string
		failed string
	}{
		"it is there now": {nil, ""},
		"it still is not": {map[string]string{"gone:1": "still not"}, "2026-03-01T12:00:00Z gone:1: ErrImagePull: still not"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodeIn(v1alpha1.StateWarmup, seenUp, refreshed, gone(time.Hour)), nodePool(5, 0),
				daemonSet("tenant", "gone:1"))
			r.sweep(instance(provider.InstanceRunning))
			r.reconcile()
			if diff := cmp.Diff([]string{"gone:1"}, r.asked()); diff != "" {
				t.Fatalf("images asked for (-want +got):\n%s", diff)
			}
			r.kubelet(c.broken)
			r.reconcile()
			r.reconcile()
			r.want("patch c warmup", "delete-now "+"stratos-pull-i-c-"+plan.HashImages([]string{"", "gone:1"})+"-0", "intent c",
				"stop i-c")
			if got := r.node("c").Annotations[v1alpha1.AnnotationImagePullFailed]; got != c.failed {
				t.Errorf("the Node remembers %q, want %q", got, c.failed)
			}
		})
	}
}

// A stop waits for no registry, whatever is required.
func TestStopWithoutABestEffortImage(t *testing.T) {
	r := newRig(t, drained(having("a:1", "gone:1")), nodePool(5, 0, wanting("a:1")), daemonSet("tenant", "gone:1"))
	r.sweep(instance(provider.InstanceRunning))
	r.reconcile()
	r.kubelet(map[string]string{"gone:1": "no such host"})
	pods := r.pulling()
	r.reconcile()
	r.reconcile()
	r.want("patch c stopping", "delete-now "+pods[0], "delete-now "+pods[1], "intent c", "stop i-c")
	n := r.node("c")
	failure, failed := transition.ImageFailureOf(n)
	if n.Annotations[v1alpha1.AnnotationRequiredImagesHash] != plan.HashImages([]string{"a:1"}) ||
		!failed || failure.Image != "gone:1" {
		t.Errorf("annotations %v, want a node that has a:1 and lacks gone:1", n.Annotations)
	}
}
