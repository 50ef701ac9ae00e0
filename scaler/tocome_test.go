package scaler

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/nominate"
)

// TestNewsOfReplicasToCome: what is said on owners and pods, and counted. What another replica of
// Stratos has claimed, that one reports.
func TestNewsOfReplicasToCome(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "set"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "pod"}}
	until := time.Date(2026, 3, 1, 12, 1, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		news   func(cluster.Listener)
		events []string
		counts map[string]float64
	}{
		"nodes start": {func(l cluster.Listener) {
			l.ReplicasClaimed(cluster.ReplicasClaimed{Owner: set, Claims: 48, Starts: 12})
		}, []string{"Normal StandbyStarting 12 nodes start for 48 replicas to come"}, map[string]float64{"claimed": 48}},
		"one node starts": {func(l cluster.Listener) {
			l.ReplicasClaimed(cluster.ReplicasClaimed{Owner: set, Claims: 1, Starts: 1})
		}, []string{"Normal StandbyStarting 1 node starts for 1 replica to come"}, map[string]float64{"claimed": 1}},
		"nodes that start have room for all": {func(l cluster.Listener) {
			l.ReplicasClaimed(cluster.ReplicasClaimed{Owner: set, Claims: 3})
		}, nil, map[string]float64{"claimed": 3}},
		"a replica came": {func(l cluster.Listener) {
			l.ReplicaCame(decide.Claim{Node: "n", Message: "starting standby node n"}, pod)
		}, []string{"Normal StandbyStarting starting standby node n"}, map[string]float64{"used": 1}},
		"one that another has claimed": {func(l cluster.Listener) {
			l.ReplicaCame(decide.Claim{Node: "n", Adopted: true}, pod)
		}, nil, nil},
		"some will not come": {func(l cluster.Listener) {
			l.ReplicasEnded(cluster.ReplicasEnded{Claims: 4})
		}, nil, map[string]float64{"released": 4}},
		"nodes were started for nothing": {func(l cluster.Listener) {
			l.ReplicasEnded(cluster.ReplicasEnded{Claims: 4, Nodes: []v1alpha1.NodeName{"n"}, Owner: set, Until: until})
		}, []string{"Warning FutileStart 1 node was started for replicas that did not come; " +
			"starting none ahead until 2026-03-01T12:01:00Z"}, map[string]float64{"released": 4}},
		"for another's": {func(l cluster.Listener) {
			l.ReplicasEnded(cluster.ReplicasEnded{Claims: 4, Adopted: true, Nodes: []v1alpha1.NodeName{"n"}, Owner: set})
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := metrics.New(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			recorder := events.NewFakeRecorder(10)
			nominator := nominate.New(nominate.Options{State: cluster.New(decide.NewClaims(), time.Now)})
			c.news(replicaNews(recorder, m, nominator))
			var said []string
			for len(recorder.Events) > 0 {
				said = append(said, <-recorder.Events)
			}
			if !slices.Equal(said, c.events) {
				t.Errorf("said %q, want %q", said, c.events)
			}
			for _, result := range []string{"claimed", "used", "released"} {
				if got := testutil.ToFloat64(m.ReplicaClaims.WithLabelValues(result)); got != c.counts[result] {
					t.Errorf("%s: %v, want %v", result, got, c.counts[result])
				}
			}
		})
	}
}
