package extender

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

// startups are how many pods the histogram of the registry has seen, by path, and the sum of their
// seconds.
func startups(t *testing.T, registry *prometheus.Registry) (count map[string]int, seconds map[string]float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count, seconds = map[string]int{}, map[string]float64{}
	for _, f := range families {
		if f.GetName() != "stratos_pod_startup_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "path" {
					count[l.GetValue()] = int(m.GetHistogram().GetSampleCount())
					seconds[l.GetValue()] = m.GetHistogram().GetSampleSum()
				}
			}
		}
	}
	return count, seconds
}

// TestStartupPathOfAClaim: a pod claims a node, and is bound to it 7 s after its creation.
func TestStartupPathOfAClaim(t *testing.T) {
	born := func(at time.Time) func(*corev1.Node) {
		return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(at) }
	}
	drained := func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationStopReason] = string(v1alpha1.StopEmpty) }
	for name, c := range map[string]struct {
		node    *corev1.Node
		adopted bool
		gone    bool
		want    map[string]int
	}{
		"a standby node": {node: poolNode("a", v1alpha1.StateStandby, born(epoch().Add(-time.Hour))),
			want: map[string]int{"standby": 1}},
		"a node that starts": {node: poolNode("a", v1alpha1.StateStarting, born(epoch().Add(-time.Hour))),
			want: map[string]int{"standby": 1}},
		"a node whose drain is cancelled": {node: poolNode("a", v1alpha1.StateStopping, drained,
			born(epoch().Add(-time.Hour))), want: map[string]int{"reclaimed": 1}},
		"a node launched since, which stopped": {node: poolNode("a", v1alpha1.StateStandby, born(epoch().Add(time.Second))),
			want: map[string]int{"cold": 1}},
		"the pod is deleted":             {node: poolNode("a", v1alpha1.StateStandby), gone: true},
		"another replica made the claim": {node: poolNode("a", v1alpha1.StateStarting), adopted: true},
	} {
		t.Run(name, func(t *testing.T) {
			now := epoch().Add(7 * time.Second)
			clock := func() time.Time { return now }
			v, l := newTestView(clock)
			registry := prometheus.NewRegistry()
			o, err := newObserved(registry, v, clock)
			if err != nil {
				t.Fatal(err)
			}
			v.Listen(cluster.Listener{PodServed: o.released})
			pod := cpuPod("x", "", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(epoch()) })
			if c.adopted {
				c.node.Annotations[v1alpha1.AnnotationClaims] = string(pod.UID)
			}
			v.SetNode(c.node)
			v.SetPod(pod)
			if !c.adopted {
				if d := v.Place(pod, now); d.Claim == nil {
					t.Fatalf("set-up: no claim: %q", d.Refused)
				}
			} else if claimed, ok := l.Of(pod.UID); !ok || !claimed.Adopted {
				t.Fatalf("set-up: claim %+v, %t", claimed, ok)
			}
			if c.gone {
				v.DeletePod(pod)
			} else {
				bound := pod.DeepCopy()
				bound.Spec.NodeName = "a"
				v.SetPod(bound)
			}
			count, seconds := startups(t, registry)
			if diff := cmp.Diff(c.want, count, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pods by path (-want +got):\n%s", diff)
			}
			for path, s := range seconds {
				if s != 7 {
					t.Errorf("%s: %v s, want 7", path, s)
				}
			}
		})
	}
}

// TestStartupPathOfAPodWithoutAClaim: the scaler reports the pods for which a warm node was opened.
func TestStartupPathOfAPodWithoutAClaim(t *testing.T) {
	for _, path := range []decide.Path{decide.PathPromoted, decide.PathCold} {
		t.Run(string(path), func(t *testing.T) {
			clock := func() time.Time { return epoch().Add(7 * time.Second) }
			v, _ := newTestView(clock)
			registry := prometheus.NewRegistry()
			o, err := newObserved(registry, v, clock)
			if err != nil {
				t.Fatal(err)
			}
			v.Listen(cluster.Listener{PodServed: o.released})
			v.Served(decide.Claim{Pool: "p", Path: path},
				cpuPod("x", "a", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(epoch()) }))
			count, seconds := startups(t, registry)
			if count[string(path)] != 1 || seconds[string(path)] != 7 {
				t.Errorf("pods by path %v, seconds %v; want one of 7 s by %s", count, seconds, path)
			}
		})
	}
}

// TestThePausedGauge: one series for each pool, which ends with it.
func TestThePausedGauge(t *testing.T) {
	v, _ := newTestView(epoch)
	registry := prometheus.NewRegistry()
	if _, err := newObserved(registry, v, epoch); err != nil {
		t.Fatal(err)
	}
	gauges := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "stratos_nodepool_paused" {
					out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		return out
	}
	other := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "other",
		Annotations: map[string]string{v1alpha1.AnnotationPaused: "true"}}}
	v.SetPool(other)
	if diff := cmp.Diff(map[string]float64{"p": 0, "other": 1}, gauges()); diff != "" {
		t.Errorf("gauges (-want +got):\n%s", diff)
	}
	v.DeletePool("other")
	if diff := cmp.Diff(map[string]float64{"p": 0}, gauges()); diff != "" {
		t.Errorf("gauges once the pool is gone (-want +got):\n%s", diff)
	}
}
