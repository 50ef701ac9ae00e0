package exactstarts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

const (
	zoneA = "us-east-1a"

	// other and out are types of the size of four. Of other the cloud has none in zone A, of out none
	// at all.
	other, out = "other", "out"
)

// dryRow is a burst in a pool of its own, whose first type the cloud is out of in all zones.
type dryRow struct {
	pool     pool
	fallback []string
	pods     []*corev1.Pod
	// as is how many nodes start as each type.
	as  map[string]int
	why string
}

func dryRows() []dryRow {
	rows := []dryRow{
		{pool{"one-type", 5, 10}, []string{four}, pods(4, "cpu", "2500m"), map[string]int{four: 4},
			"one pod to a node, as to one of the first type"},
		{pool{"shapes", 6, 10}, []string{out, four},
			slices.Concat(pods(6, "cpu", "100m"), each(named("port", pods(3, "cpu", "1")), hostPort),
				named("wide", pods(1, "cpu", "3700m"))),
			map[string]int{four: 4},
			"each pod with the port takes a node, the widest another one, and the small ones fit beside them"},
		{pool{"by-zone", 9, 10}, []string{other, four},
			slices.Concat(each(pods(2, "cpu", "2500m"), inZone(zoneA)),
				each(named("b", pods(2, "cpu", "2500m")), inZone(zoneB))),
			map[string]int{four: 2, other: 2}, "one pod to a node, as the first type that its zone has"},
	}
	for _, row := range rows {
		each(named(row.pool.kind, row.pods), only(row.pool.kind))
	}
	return rows
}

func inZone(zone string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { framework.InZone(p, zone) }
}

// dryTypes are the instance types of the dry rows, all of the size of four.
func dryTypes() string {
	kinds := []string{other, out}
	for _, row := range dryRows() {
		kinds = append(kinds, row.pool.kind)
	}
	var types strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&types, ";%s%s=cpu:4,memory:16Gi,pods:110", family, kind)
	}
	return types.String()
}

// playDry plays all dry rows at once: as many nodes start as if the cloud had the first type.
func playDry(t *testing.T, r *framework.Rig) {
	t.Helper()
	rows := dryRows()
	var pools []pool
	var all []*corev1.Pod
	dry := []fake.Capacity{{Zone: zoneA, Type: family + other}, {Zone: "*", Type: family + out}}
	for _, row := range rows {
		pools, all = append(pools, row.pool), append(all, row.pods...)
		dry = append(dry, fake.Capacity{Zone: "*", Type: family + row.pool.kind})
	}
	warm(t, r, pools, func(class *v1alpha1.AWSNodeClass) {
		for _, row := range rows {
			if row.pool.kind != class.Name {
				continue
			}
			for _, kind := range row.fallback {
				class.Spec.FallbackInstanceTypes = append(class.Spec.FallbackInstanceTypes, family+kind)
			}
		}
	})
	if err := r.Cloud.SetCapacity(t.Context(), dry); err != nil {
		t.Fatal(err)
	}
	started := startedTypes(t, r, burst(t, r, all))
	for _, row := range rows {
		if !maps.Equal(started[row.pool.kind], row.as) {
			t.Errorf("nodes of pool %s were started as %v, want %v: %s", row.pool.kind, started[row.pool.kind], row.as, row.why)
		}
		if n := len(assert.PoolInstances(t, r, row.pool.kind)); n != int(row.pool.size) {
			t.Errorf("pool %s has %d instances, want the %d that stood by", row.pool.kind, n, row.pool.size)
		}
	}
	if err := r.Cloud.SetCapacity(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	tidy(t, r, row{pools: pools})
}

// startedTypes counts the instances by their pools and the types that their Nodes have.
func startedTypes(t *testing.T, r *framework.Rig, ids []string) map[string]map[string]int {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := r.Client.List(t.Context(), nodes, client.HasLabels{v1alpha1.LabelPool}); err != nil {
		t.Fatal(err)
	}
	counts := map[string]map[string]int{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if !slices.ContainsFunc(ids, func(id string) bool { return strings.HasSuffix(n.Spec.ProviderID, "/"+id) }) {
			continue
		}
		in, kind := n.Labels[v1alpha1.LabelPool], strings.TrimPrefix(n.Labels[corev1.LabelInstanceTypeStable], family)
		if counts[in] == nil {
			counts[in] = map[string]int{}
		}
		counts[in][kind]++
	}
	return counts
}
