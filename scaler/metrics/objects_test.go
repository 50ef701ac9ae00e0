package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// nodeOf is a node of the pool in the state, since then by the annotation.
func nodeOf(name, pool string, state v1alpha1.NodeState, annotation string, since time.Duration) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(epoch().Add(-24 * time.Hour)),
		Labels: map[string]string{v1alpha1.LabelPool: pool, v1alpha1.LabelState: string(state)},
	}}
	if annotation != "" {
		n.Annotations = map[string]string{annotation: epoch().Add(-since).Format(time.RFC3339)}
	}
	return n
}

// registered are the objects' metrics, read from the client.
func registered(t *testing.T, c client.Reader) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	lists := map[string]func() client.ObjectList{
		v1alpha1.KindAWSNodeClass: func() client.ObjectList { return &v1alpha1.AWSNodeClassList{} },
	}
	if err := RegisterObjects(registry, c, lists, epoch); err != nil {
		t.Fatal(err)
	}
	return registry
}

func schemed(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// TestConditionsAsMetrics: one of three series of each condition is 1, and they end with the
// object.
func TestConditionsAsMetrics(t *testing.T) {
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pool.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	class := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	class.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
	c := schemed(t, pool, class)
	registry := registered(t, c)
	want := `
# HELP stratos_nodeclass_condition 1 for the status that the condition of the node class has, True, False or Unknown; 0 for the others.
# TYPE stratos_nodeclass_condition gauge
stratos_nodeclass_condition{class="c",condition="Ready",kind="AWSNodeClass",status="False"} 1
stratos_nodeclass_condition{class="c",condition="Ready",kind="AWSNodeClass",status="True"} 0
stratos_nodeclass_condition{class="c",condition="Ready",kind="AWSNodeClass",status="Unknown"} 0
# HELP stratos_nodepool_condition 1 for the status that the condition of the pool has, True, False or Unknown; 0 for the others.
# TYPE stratos_nodepool_condition gauge
stratos_nodepool_condition{condition="Ready",pool="p",status="False"} 0
stratos_nodepool_condition{condition="Ready",pool="p",status="True"} 1
stratos_nodepool_condition{condition="Ready",pool="p",status="Unknown"} 0
`
	names := []string{"stratos_nodeclass_condition", "stratos_nodepool_condition"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	for _, o := range []client.Object{pool, class} {
		if err := c.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series of deleted objects (%v)", n, err)
	}
}

// TestOverdueNodes: those past the bound of their state and 5 minutes more, of pools that exist.
func TestOverdueNodes(t *testing.T) {
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	bound := pool.Spec.StateBound
	for name, c := range map[string]struct {
		node *corev1.Node
		want int
	}{
		"starting, on time": {nodeOf("n", "p", v1alpha1.StateStarting, v1alpha1.AnnotationScaleUpStarted,
			bound(v1alpha1.StateStarting)+5*time.Minute), 0},
		"starting, overdue": {nodeOf("n", "p", v1alpha1.StateStarting, v1alpha1.AnnotationScaleUpStarted,
			bound(v1alpha1.StateStarting)+6*time.Minute), 1},
		"stopping, overdue": {nodeOf("n", "p", v1alpha1.StateStopping, v1alpha1.AnnotationStoppingSince,
			bound(v1alpha1.StateStopping)+6*time.Minute), 1},
		"terminating, overdue": {nodeOf("n", "p", v1alpha1.StateTerminating, v1alpha1.AnnotationStoppingSince,
			bound(v1alpha1.StateTerminating)+6*time.Minute), 1},
		"the first warm-up, since its Node was made": {nodeOf("n", "p", v1alpha1.StateWarmup, "", 0), 1},
		"another warm-up, on time": {nodeOf("n", "p", v1alpha1.StateWarmup, v1alpha1.AnnotationWarmupStarted,
			time.Minute), 0},
		"running for a day":    {nodeOf("n", "p", v1alpha1.StateRunning, v1alpha1.AnnotationRunningSince, 24*time.Hour), 0},
		"standby":              {nodeOf("n", "p", v1alpha1.StateStandby, "", 0), 0},
		"its pool is gone":     {nodeOf("n", "q", v1alpha1.StateWarmup, "", 0), 0},
		"since is not written": {nodeOf("n", "p", v1alpha1.StateStarting, "", 0), 0},
	} {
		t.Run(name, func(t *testing.T) {
			families, err := registered(t, schemed(t, pool.DeepCopy(), c.node)).Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, f := range families {
				if f.GetName() != "stratos_nodepool_overdue_nodes" {
					continue
				}
				for _, m := range f.GetMetric() {
					got += int(m.GetGauge().GetValue())
				}
			}
			if got != c.want {
				t.Errorf("%d overdue, want %d", got, c.want)
			}
		})
	}
}
