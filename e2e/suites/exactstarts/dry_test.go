package exactstarts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

const (
	zoneA = "us-east-1a"

	// Types of the size of four: of other the cloud has none in zone A, of none it has none at all.
	other = "other"
	none  = "none"

	// checkAgain is how soon Stratos checks a pending pod again without any event: nothing here
	// takes so long.
	checkAgain = time.Minute
)

// dryRow is a burst in a pool of its own, while the cloud has not all types of the pool. On each
// node there is an agent of 100m.
type dryRow struct {
	pool pool
	// room is for how many more instances the pool has room.
	room     int32
	fallback []string
	pods     []*corev1.Pod
	// dry are the offerings without capacity, by the zones where the pool has nodes. A start is tried
	// in the first of them first.
	dry func(zones []string) []fake.Capacity
	// as are the types that nodes are started as, and how many nodes the burst takes of each.
	as map[string]int
	// launches is how many of those nodes are new.
	launches int
	why      string
}

// dryPools are the pools of the rows.
func dryPools(rows []dryRow) (out []pool) {
	for _, row := range rows {
		out = append(out, row.pool)
	}
	return out
}

// dryRows have types of their own: what is known of one would be known in the others' pools too.
func dryRows() []dryRow {
	everywhere := func(kinds ...string) func([]string) []fake.Capacity {
		return func([]string) (out []fake.Capacity) {
			for _, kind := range kinds {
				out = append(out, fake.Capacity{Zone: "*", Type: family + kind})
			}
			return out
		}
	}
	wide := func(n int) []*corev1.Pod { return pods(n, "cpu", "2500m") }
	rows := []dryRow{
		{
			pool: pool{"one-zone", 9, 10}, fallback: []string{four}, pods: wide(4),
			dry: func(zones []string) []fake.Capacity {
				return []fake.Capacity{{Zone: zones[0], Type: family + "one-zone"}}
			},
			as:  map[string]int{"one-zone": 4},
			why: "one pod to a node, and the other zones have so many nodes that no type is to be changed",
		},
		{
			pool: pool{"all-zones", 6, 10}, fallback: []string{four}, pods: wide(4), dry: everywhere("all-zones"),
			as: map[string]int{four: 4}, why: "one pod to a node, as to one of the first type",
		},
		{
			pool: pool{"larger", 5, 10}, fallback: []string{eight}, pods: pods(6, "cpu", "1900m"), dry: everywhere("larger"),
			as: map[string]int{eight: 3}, why: "a node that has been of 4 cpu is counted on for no more than that",
		},
		{
			pool: pool{"by-zone", 9, 10}, fallback: []string{other, four},
			pods: slices.Concat(each(wide(2), inZone(zoneA)), each(named("b", wide(2)), inZone(zoneB))),
			dry: func([]string) []fake.Capacity {
				return []fake.Capacity{{Zone: "*", Type: family + "by-zone"}, {Zone: zoneA, Type: family + other}}
			},
			as: map[string]int{four: 2, other: 2}, why: "one pod to a node, in each zone of the first type there",
		},
		{
			pool: pool{"shapes", 7, 10}, fallback: []string{four}, dry: everywhere("shapes"),
			pods: slices.Concat(pods(6, "cpu", "100m"), each(named("port", pods(3, "cpu", "1")), hostPort),
				named("wide", pods(1, "cpu", "3700m"))),
			as:  map[string]int{four: 4},
			why: "each pod with the port takes a node, the widest another one, and the small ones fit beside them",
		},
		{
			pool: pool{"none-left", 3, 10}, room: 2, fallback: []string{none}, pods: wide(4), dry: everywhere("none-left", none),
			why: "neither type may be had anywhere, by a start or a launch",
		},
		{
			pool: pool{"launched", 2, 10}, room: 2, pods: wide(2),
			dry: func(zones []string) (out []fake.Capacity) {
				for _, zone := range zones {
					out = append(out, fake.Capacity{Zone: zone, Type: family + "launched"})
				}
				return out
			},
			as: map[string]int{"launched": 2}, launches: 2,
			why: "one pod to a node, launched in a zone where the pool had none",
		},
	}
	for _, row := range rows {
		each(named(row.pool.kind, row.pods), func(p *corev1.Pod) {
			inZone := p.Spec.NodeSelector
			only(row.pool.kind)(p)
			maps.Copy(p.Spec.NodeSelector, inZone)
		})
	}
	return rows
}

func inZone(zone string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone} }
}

// dryTypes are the instance types of the dry rows, all of the size of four.
func dryTypes() string {
	kinds := []string{other, none}
	for _, row := range dryRows() {
		kinds = append(kinds, row.pool.kind)
	}
	var out strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&out, ";%s%s=cpu:4,memory:16Gi,pods:110", family, kind)
	}
	return out.String()
}

// withFallbackTypes gives the pools of the rows their room and their fallback types.
func withFallbackTypes(rows []dryRow) func(*v1alpha1.NodePool, *v1alpha1.AWSNodeClass) {
	return func(p *v1alpha1.NodePool, class *v1alpha1.AWSNodeClass) {
		for _, row := range rows {
			if row.pool.kind != p.Name {
				continue
			}
			p.Spec.PoolSize += row.room
			for _, kind := range row.fallback {
				class.Spec.FallbackInstanceTypes = append(class.Spec.FallbackInstanceTypes, family+kind)
			}
		}
	}
}

// playDry takes the capacity of the rows' dry offerings away and plays their bursts at once, with
// the other pods. It checks the rows, and returns what was started: see typesOf.
func playDry(t *testing.T, r *framework.Rig, rows []dryRow, beside []*corev1.Pod) map[string]map[string]int {
	t.Helper()
	dryUp(t, r, rows)
	all := slices.Clone(beside)
	for _, row := range rows {
		if len(row.as) == 0 {
			create(t, r, assert.Objects(row.pods)...) // they stay pending
		} else {
			all = append(all, row.pods...)
		}
	}
	began := time.Now()
	started := typesOf(t, r, burst(t, r, all))
	if took := time.Since(began); took > checkAgain {
		t.Errorf("the pods were bound within %s: some waited until they were checked again", took)
	}
	for _, row := range rows {
		row.check(t, r, started[row.pool.kind])
	}
	return started
}

func dryUp(t *testing.T, r *framework.Rig, rows []dryRow) {
	t.Helper()
	var limits []fake.Capacity
	for _, row := range rows {
		var zones []string
		nodes := assert.PoolNodes(t, r, row.pool.kind)
		for _, name := range slices.Sorted(maps.Keys(nodes)) { // of nodes that are alike, the first by name starts
			if zone := nodes[name].Labels[corev1.LabelTopologyZone]; !slices.Contains(zones, zone) {
				zones = append(zones, zone)
			}
		}
		limits = append(limits, row.dry(zones)...)
	}
	if err := r.Cloud.SetCapacity(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
}

// check compares the nodes that were started in the row's pool, by their types, and the launches
// with those it wants.
func (d dryRow) check(t *testing.T, r *framework.Rig, started map[string]int) {
	t.Helper()
	if !maps.Equal(started, d.as) {
		t.Errorf("nodes of pool %s were started as %v, want %v: %s", d.pool.kind, started, d.as, d.why)
	}
	instances := assert.PoolInstances(t, r, d.pool.kind)
	if n := len(instances) - int(d.pool.size); n != d.launches {
		t.Errorf("%d instances of pool %s were launched, want %d: %s", n, d.pool.kind, d.launches, d.why)
	}
	calls, err := r.Cloud.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(calls, func(c fake.Call) bool {
		_, ours := instances[c.Instance]
		return ours && c.Op == fake.OpStart && c.Err != ""
	}) {
		t.Errorf("no start in pool %s was refused, so this shows nothing", d.pool.kind)
	}
	if len(d.as) > 0 {
		return
	}
	for _, p := range d.pods { // they wait for an instance that the cloud does not launch either
		assert.AwaitEvent(t, r, p, v1alpha1.ReasonColdLaunch, "has no capacity for "+family)
	}
}

// typesOf counts the instances by their pools and the types that their Nodes have.
func typesOf(t *testing.T, r *framework.Rig, ids []string) map[string]map[string]int {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := r.Client.List(t.Context(), nodes, client.HasLabels{v1alpha1.LabelPool}); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]int{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if !slices.ContainsFunc(ids, func(id string) bool { return strings.HasSuffix(n.Spec.ProviderID, "/"+id) }) {
			continue
		}
		pool, kind := n.Labels[v1alpha1.LabelPool], strings.TrimPrefix(n.Labels[corev1.LabelInstanceTypeStable], family)
		if out[pool] == nil {
			out[pool] = map[string]int{}
		}
		out[pool][kind]++
	}
	return out
}
