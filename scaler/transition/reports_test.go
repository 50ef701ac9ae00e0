package transition

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

const device = corev1.ResourceName("example.com/gpu")

// offers sets how many devices the node reports.
func offers(n *corev1.Node, devices string) *corev1.Node {
	n = n.DeepCopy()
	n.Status.Allocatable[device] = resource.MustParse(devices)
	return n
}

// recorded is how many devices the next start has to bring back.
func recorded(t *testing.T, n *corev1.Node) string {
	t.Helper()
	list, err := v1alpha1.ParseResources(n.Annotations[v1alpha1.AnnotationAllocatableAtStop])
	if err != nil {
		t.Fatal(err)
	}
	quantity := list[device]
	return quantity.String()
}

// TestDevicesAreRecordedBeforeTheStop: a kubelet that shuts down in order reports 0 devices before
// the cloud says stopped.
func TestDevicesAreRecordedBeforeTheStop(t *testing.T) {
	warming := apply(t, registered(), Warmup(registered(), template()))
	running := apply(t, warming, Running(warming, template(), epoch()))
	for name, c := range map[string]struct {
		life func(t *testing.T) *corev1.Node
		want string
	}{
		"stopped by Stratos": {func(t *testing.T) *corev1.Node {
			n := offers(running, "8")
			n = apply(t, n, Stopping(n, v1alpha1.StopEmpty, epoch()))
			return apply(t, n, StopIntent(n, epoch()))
		}, "8"},
		"stopped by Stratos after a plugin was removed": {func(t *testing.T) *corev1.Node {
			n := offers(running, "8")
			n.Annotations[v1alpha1.AnnotationAllocatableAtStop] = `{"example.com/gpu":"8"}`
			n = offers(n, "4")
			n = apply(t, n, Stopping(n, v1alpha1.StopEmpty, epoch()))
			return apply(t, n, StopIntent(n, epoch()))
		}, "4"},
		"warmed up and stopped by Stratos": {func(t *testing.T) *corev1.Node {
			n := offers(warming, "8")
			return apply(t, n, WarmStop(n, epoch()))
		}, "8"},
		"warmed up and stopped itself": {func(t *testing.T) *corev1.Node {
			n := offers(warming, "8")
			return apply(t, n, Seen(n, true, epoch()))
		}, "8"},
		"its plugin came late, and it stopped itself": {func(t *testing.T) *corev1.Node {
			n := offers(warming, "0")
			n = offers(apply(t, n, Seen(n, true, epoch())), "8")
			return apply(t, n, Warmed(n, epoch()))
		}, "8"},
		"stopped by a person in its second life": {func(*testing.T) *corev1.Node {
			n := running.DeepCopy()
			n.Annotations[v1alpha1.AnnotationAllocatableAtStop] = `{"example.com/gpu":"8"}`
			return n
		}, "8"},
	} {
		t.Run(name, func(t *testing.T) {
			n := offers(c.life(t), "0") // the shutdown
			n = apply(t, n, Standby(n, template(), true, ""))
			if got := recorded(t, n); got != c.want {
				t.Errorf("the next start waits for %s devices, want %s", got, c.want)
			}
		})
	}
}

// TestDevicesThatDoNotComeBackAreForgotten: the next start does not wait for them once more.
func TestDevicesThatDoNotComeBackAreForgotten(t *testing.T) {
	n := offers(apply(t, registered(), Warmup(registered(), template())), "8")
	n = offers(apply(t, n, Standby(n, template(), true, "")), "4")
	if diff := cmp.Diff([]string{"4 of 8 example.com/gpu"}, MissingDevices(n)); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	n = apply(t, n, Running(n, template(), epoch()))
	if got := recorded(t, n); got != "4" || len(MissingDevices(n)) != 0 {
		t.Errorf("recorded %s, missing %v", got, MissingDevices(n))
	}
}

func TestMissingDevices(t *testing.T) {
	for name, c := range map[string]struct {
		record string
		now    map[corev1.ResourceName]string
		want   []string
	}{
		"no record": {"", map[corev1.ResourceName]string{"cpu": "4"}, nil},
		"all there": {`{"cpu":"4","example.com/gpu":"2"}`,
			map[corev1.ResourceName]string{"cpu": "4", "example.com/gpu": "2"}, nil},
		"the plugin has not registered": {`{"example.com/gpu":"2"}`, nil, []string{"0 of 2 example.com/gpu"}},
		"it has registered nothing yet": {`{"example.com/gpu":"2"}`, map[corev1.ResourceName]string{"example.com/gpu": "0"},
			[]string{"0 of 2 example.com/gpu"}},
		"one device of two": {`{"example.com/gpu":"2"}`, map[corev1.ResourceName]string{"example.com/gpu": "1"},
			[]string{"1 of 2 example.com/gpu"}},
		"more than before": {`{"example.com/gpu":"2"}`, map[corev1.ResourceName]string{"example.com/gpu": "3"},
			nil},
		"a little less cpu and memory": {`{"cpu":"4","memory":"16Gi"}`, map[corev1.ResourceName]string{"cpu": "3900m",
			"memory": "15Gi"}, nil},
		"a garbled record": {`{`, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := bare()
			n.Annotations = map[string]string{v1alpha1.AnnotationAllocatableAtStop: c.record}
			n.Status.Allocatable = corev1.ResourceList{}
			for k, v := range c.now {
				n.Status.Allocatable[k] = resource.MustParse(v)
			}
			if diff := cmp.Diff(c.want, MissingDevices(n)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStartPutsStartupTaintsBack: what an operator removed while the node was standby says nothing
// about this start.
func TestStartPutsStartupTaintsBack(t *testing.T) {
	n := apply(t, registered(), Warmup(registered(), template()))
	n = apply(t, n, Standby(n, template(), true, ""))
	n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}}
	n = apply(t, n, Starting(n, template().StartupTaints, nil, "", epoch()))
	for _, want := range template().StartupTaints {
		found := false
		for i := range n.Spec.Taints {
			found = found || n.Spec.Taints[i].MatchTaint(&want)
		}
		if !found {
			t.Errorf("taints %v, want %s too", n.Spec.Taints, want.Key)
		}
	}
}

// TestWhatWasSeenInAWarmUp is kept when the node is adopted once more, and ends with the warm-up.
func TestWhatWasSeenInAWarmUp(t *testing.T) {
	tainted := registered()
	tainted.Spec.Taints = append(tainted.Spec.Taints, template().StartupTaints...)
	n := apply(t, tainted, Warmup(tainted, template()))
	if n.Annotations[v1alpha1.AnnotationStartupTaintsSeen] != "true" {
		t.Error("the startup taint that stood at the adoption was not noted")
	}
	n = apply(t, n, Seen(n, false, epoch()))
	if n.Annotations[v1alpha1.AnnotationReadySeen] != "2026-03-01T12:00:00Z" ||
		n.Annotations[v1alpha1.AnnotationNetworkSeen] != "" {
		t.Errorf("annotations %v, want Ready alone", n.Annotations)
	}
	n = apply(t, n, Seen(n, true, epoch().Add(time.Minute)))
	n = apply(t, n, Warmup(n, template()))
	for key, want := range map[string]string{
		v1alpha1.AnnotationReadySeen: "2026-03-01T12:00:00Z", v1alpha1.AnnotationNetworkSeen: "2026-03-01T12:01:00Z",
		v1alpha1.AnnotationStartupTaintsSeen: "true",
	} {
		if got := n.Annotations[key]; got != want {
			t.Errorf("%s is %q after another adoption, want %q", key, got, want)
		}
	}
	n = apply(t, n, Standby(n, template(), true, `{"a/b":"2026-03-01T12:00:00Z"}`))
	for _, key := range []string{v1alpha1.AnnotationReadySeen, v1alpha1.AnnotationNetworkSeen,
		v1alpha1.AnnotationStartupTaintsSeen} {
		if got := n.Annotations[key]; got != "" {
			t.Errorf("%s is %q on a standby node", key, got)
		}
	}
	if n.Annotations[v1alpha1.AnnotationAgentsAtStop] == "" {
		t.Error("the starts of the agents were not recorded")
	}
	if n = apply(t, n, Running(n, template(), epoch())); n.Annotations[v1alpha1.AnnotationAgentsAtStop] != "" {
		t.Error("a running node bears the starts of its last life")
	}
}

// TestAStartGivenUpWithoutAStrike: the node's strikes stay as they are.
func TestAStartGivenUpWithoutAStrike(t *testing.T) {
	n := apply(t, registered(), Warmup(registered(), template()))
	n.Annotations[v1alpha1.AnnotationStartFailures] = "1"
	n = apply(t, n, StartGivenUp(n, false, epoch(), epoch().Add(time.Minute)))
	if Failures(n) != 1 || n.Annotations[v1alpha1.AnnotationUnavailableUntil] == "" ||
		n.Annotations[v1alpha1.AnnotationStopIntent] == "" {
		t.Errorf("annotations %v, want one failure, a back-off and the intent to stop", n.Annotations)
	}
}

// TestWhatWasRecordedIsOfTheTypeBefore: of a node that becomes another type only devices stand.
func TestWhatWasRecordedIsOfTheTypeBefore(t *testing.T) {
	for name, c := range map[string]struct{ record, want string }{
		"with a device":       {`{"cpu":"4","example.com/gpu":"8"}`, `{"example.com/gpu":"8"}`},
		"without":             {`{"cpu":"4"}`, `{}`},
		"nothing is recorded": {"", ""},
		"not written by us":   {"{", "{"},
	} {
		for step, patch := range map[string]func(*corev1.Node) Patch{
			"a start":  func(n *corev1.Node) Patch { return Starting(n, nil, nil, "b", epoch()) },
			"a return": func(n *corev1.Node) Patch { return OfType(n, "b") },
		} {
			n := registered()
			n.Labels[v1alpha1.LabelState] = string(v1alpha1.StateStandby)
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.AnnotationAllocatableAtStop, c.record)
			n = apply(t, n, patch(n))
			if got := n.Annotations[v1alpha1.AnnotationAllocatableAtStop]; got != c.want {
				t.Errorf("%s, %s: %s is recorded, want %s", name, step, got, c.want)
			}
		}
	}
}

// TestAStartRefusesANodeOfAnotherTypeThanItsCaller: the sweep has restored the type since the cache
// was filled, which still shows the intent of the start before.
func TestAStartRefusesANodeOfAnotherTypeThanItsCaller(t *testing.T) {
	cached := apply(t, registered(), Warmup(registered(), template()))
	cached = apply(t, cached, Standby(cached, template(), true, ""))
	cached = apply(t, cached, OfType(cached, "b"))
	live := apply(t, cached, Mended(cached, template(), "a"))
	if live.Labels[corev1.LabelInstanceTypeStable] != "a" {
		t.Fatalf("labels of a restored Node: %v", live.Labels)
	}
	for _, as := range []string{"b", ""} { // "": the type that the Node is to become already
		if _, err := try(live, Starting(cached, nil, nil, as, epoch())); err == nil {
			t.Errorf("a start as %q went through", as)
		}
		if _, err := try(live, Starting(live, nil, nil, as, epoch())); err != nil {
			t.Errorf("the next one as %q: %v", as, err)
		}
	}
}
