package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// golden compares the text with the file of the name. UPDATE=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// startedObjects are pools whose starts differ, and a node with what other clocks say of its start.
func startedObjects() []client.Object {
	pool := func(name string, starts *v1alpha1.StartSeconds) *v1alpha1.NodePool {
		return &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1alpha1.NodePoolStatus{StartSeconds: starts}}
	}
	phases := func(seconds ...int32) []v1alpha1.StartPhaseSeconds {
		var out []v1alpha1.StartPhaseSeconds
		for i, phase := range v1alpha1.StartPhases() {
			out = append(out, v1alpha1.StartPhaseSeconds{Name: phase, P50: seconds[i], P95: 3 * seconds[i]})
		}
		return out
	}
	at := func(seconds int) metav1.Time {
		return metav1.NewTime(epoch().Add(time.Duration(seconds) * time.Second))
	}
	last := v1alpha1.LastStart{Started: epoch(), Phases: map[v1alpha1.StartPhase]time.Duration{
		v1alpha1.PhaseCall: 120 * time.Millisecond, v1alpha1.PhaseMachine: 5900 * time.Millisecond,
		v1alpha1.PhaseBoot: 7300 * time.Millisecond, v1alpha1.PhaseReady: 200 * time.Millisecond,
		v1alpha1.PhaseNetwork: 3400 * time.Millisecond, v1alpha1.PhaseOpen: 15 * time.Millisecond,
	}}
	node := func(name string, annotations map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations,
			Labels: map[string]string{v1alpha1.LabelPool: "general", v1alpha1.LabelState: string(v1alpha1.StateRunning)}}}
	}
	pod := func(name string, bound, container int, owner string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: at(bound - 20)},
			Spec: corev1.PodSpec{NodeName: "a"}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "x", UID: "x", Controller: new(true)}}
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
			LastTransitionTime: at(bound)}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(container + 1)}}},
			{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(container)}}},
		}
		return p
	}
	event := func(name, reason, component string, seconds int) *eventsv1.Event {
		return &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Reason: reason,
			Regarding:        corev1.ObjectReference{Kind: "Node", Name: "a"},
			DeprecatedSource: corev1.EventSource{Component: component}, DeprecatedLastTimestamp: at(seconds)}
	}
	return []client.Object{
		pool("general", &v1alpha1.StartSeconds{P50: 17, P95: 51, Count: 12, Phases: phases(0, 6, 7, 0, 3, 0, 0)}),
		pool("devices", &v1alpha1.StartSeconds{P50: 70, P95: 210, Count: 50, Phases: phases(0, 8, 9, 1, 2, 50, 0)}),
		pool("taken-over", &v1alpha1.StartSeconds{P50: 9, P95: 9, Count: 1}),
		pool("unstarted", nil),
		pool("instant", &v1alpha1.StartSeconds{P50: 1, P95: 1, Count: 3, Phases: phases(0, 0, 0, 0, 0, 0, 0)}),
		node("a", map[string]string{v1alpha1.AnnotationLastStart: last.Text()}), node("b", nil),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}},
		pod("web", 17, 19, "ReplicaSet"), pod("later", 30, 33, ""), pod("agent", 2, 14, "DaemonSet"),
		pod("earlier", -900, -890, ""),
		event("e1", "Starting", "kubelet", -4000), event("e2", "Starting", "kubelet", 12),
		event("e3", "Starting", "kube-proxy", 14), event("e4", "Rebooted", "kubelet", 13),
	}
}

// runStarts returns what the command prints, errors last.
func runStarts(t *testing.T, format string, args ...string) string {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	index := func(f func(client.Object) string) client.IndexerFunc {
		return func(o client.Object) []string { return []string{f(o)} }
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(startedObjects()...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", index(func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName })).
		WithIndex(&eventsv1.Event{}, "regarding.kind",
			index(func(o client.Object) string { return o.(*eventsv1.Event).Regarding.Kind })).
		WithIndex(&eventsv1.Event{}, "regarding.name",
			index(func(o client.Object) string { return o.(*eventsv1.Event).Regarding.Name })).Build()
	var out, errs bytes.Buffer
	s := &shared{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errs}, now: epoch}
	if err := s.showStarts(t.Context(), &output{format: format}, c, args); err != nil {
		fmt.Fprintln(&errs, Words(err))
	}
	return out.String() + errs.String()
}

// TestStartsScreens: what the command prints, of all pools, of one, and of a node.
func TestStartsScreens(t *testing.T) {
	for name, args := range map[string][]string{
		"starts.txt": {""}, "starts-wide.txt": {wide}, "starts-pool.txt": {"", "devices"}, "starts-node.txt": {"", "a"},
		"starts-node.json": {"json", "a"}, "starts-pool.yaml": {"yaml", "general"}, "starts-name.txt": {"name"},
	} {
		golden(t, name, runStarts(t, args[0], args[1:]...))
	}
	for node, want := range map[string]string{
		"b":       "The phases of the last start of node \"b\" are not known",
		"foreign": "error: node \"foreign\" is not of a pool\n",
		"absent":  "error: \"absent\" is neither a pool nor a node\n",
	} {
		if got := runStarts(t, "", node); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
}

// TestEveryPhaseHasASection: the page has a heading for each section that the command names.
func TestEveryPhaseHasASection(t *testing.T) {
	text, err := os.ReadFile("../../../" + startsPage)
	if err != nil {
		t.Fatal(err)
	}
	var anchors []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ ([A-Za-z -]+)$`).FindAllStringSubmatch(string(text), -1) {
		anchors = append(anchors, strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-"))
	}
	for _, phase := range v1alpha1.StartPhases() {
		name, anchor, ok := strings.Cut(pageOf(phase), "#")
		if !ok || name != startsPage || !slices.Contains(anchors, anchor) {
			t.Errorf("%s: %s is no section of the page, which has %v", phase, pageOf(phase), anchors)
		}
	}
}

// TestTheSlowestPhase: by the usual time, then by that of slow starts. Where all are short there is
// none.
func TestTheSlowestPhase(t *testing.T) {
	for name, c := range map[string]struct {
		phases []v1alpha1.StartPhaseSeconds
		want   v1alpha1.StartPhase
	}{
		"none is known":      {},
		"all are short":      {phases: []v1alpha1.StartPhaseSeconds{{Name: "call"}, {Name: "open"}}},
		"the usual time":     {phases: []v1alpha1.StartPhaseSeconds{{Name: "boot", P50: 4, P95: 5}, {Name: "ready", P50: 3, P95: 90}}, want: "boot"},
		"that of slow ones":  {phases: []v1alpha1.StartPhaseSeconds{{Name: "boot", P50: 4, P95: 5}, {Name: "ready", P50: 4, P95: 6}}, want: "ready"},
		"the first of equal": {phases: []v1alpha1.StartPhaseSeconds{{Name: "boot", P50: 4, P95: 6}, {Name: "ready", P50: 4, P95: 6}}, want: "boot"},
	} {
		if got := slowestPhase(c.phases); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
