package scheduling

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// resident is a pod that is there before: its size in cpus, its priority class, whether a
// disruption budget forbids its eviction.
type resident struct {
	cpu, class string
	guarded    bool
}

// estate is a full node.
type estate struct {
	plot
	residents map[string]resident
}

// estates are layouts in which a pod of three cpus finds no room. Whichever criterion decides is
// named; it leaves one best choice, so that both profiles must find it.
func estates() map[string]map[string]estate {
	full := func(class string) map[string]resident { return map[string]resident{class: {cpu: "4", class: class}} }
	gpu := plot{taints: []corev1.Taint{taint("gpu", "", corev1.TaintEffectNoSchedule)}}
	return map[string]map[string]estate{
		"the victim of the lowest priority": {
			"a": {residents: full("p20")}, "b": {residents: full("p10")}, "c": {residents: full("p30")},
		},
		"the fewest victims of one priority": {
			"a": {residents: map[string]resident{"one": {cpu: "2", class: "p10"}, "two": {cpu: "2", class: "p10"}}},
			"b": {residents: map[string]resident{"all": {cpu: "4", class: "p10"}}},
		},
		"no more victims than needed, the lowest first": {
			"a": {residents: map[string]resident{"w": {cpu: "1", class: "p40"}, "x": {cpu: "1", class: "p10"},
				"y": {cpu: "1", class: "p30"}, "z": {cpu: "1", class: "p20"}}},
		},
		"no disruption budget broken where it can be helped": {
			"a": {residents: map[string]resident{"guarded": {cpu: "4", class: "p10", guarded: true}}},
			"b": {residents: full("p30")},
		},
		"a cheap victim behind a taint is none": {
			"a": {plot: gpu, residents: full("p10")}, "b": {residents: full("p30")},
		},
		"a cheap victim behind a cordon is none": {
			"a": {plot: plot{cordoned: true}, residents: full("p10")}, "b": {residents: full("p30")},
		},
		"nobody of higher priority": {
			"a": {residents: full("high")}, "b": {residents: full("p40")},
		},
	}
}

// consequence is what the pod cost: who is left, and where the pod is.
type consequence struct {
	Node string
	Left []string
}

// stockVictims plays each layout twice, once for each scheduler.
func stockVictims(t *testing.T, r *framework.Rig) {
	layouts := estates()
	for i, name := range slices.Sorted(maps.Keys(layouts)) {
		t.Run(name, func(t *testing.T) {
			prefix := fmt.Sprintf("estate%d-", i)
			stock := playOut(t, r, prefix, layouts[name], corev1.DefaultSchedulerName)
			generated := playOut(t, r, prefix, layouts[name], v1alpha1.SchedulerName)
			if diff := cmp.Diff(stock, generated); diff != "" {
				t.Errorf("(-stock +generated):\n%s", diff)
			}
		})
	}
}

// playOut has the tested scheduler bind the residents, so that it knows all of them before the pod
// comes.
func playOut(t *testing.T, r *framework.Rig, prefix string, layout map[string]estate, scheduler string) consequence {
	t.Helper()
	var nodes []*corev1.Node
	var residents []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(layout)) {
		e := layout[name]
		n := assert.Ordinary(prefix+name, 4, e.taints...)
		n.Spec.Unschedulable = e.cordoned
		nodes = append(nodes, n)
		for _, who := range slices.Sorted(maps.Keys(e.residents)) {
			residents = append(residents, residentPod(n.Name, who, e.residents[who], scheduler))
		}
	}
	assert.Join(t, r, nodes...)
	budget := guard(t, r)
	assert.Create(t, r, assert.Objects(residents)...)
	assert.AwaitBound(t, r, residents...)

	high := withPriority(framework.Pod(prefix+"pod", "cpu", "3"), "high")
	high.Spec.SchedulerName = scheduler
	assert.Create(t, r, high)
	out := consequence{Node: assert.AwaitBound(t, r, high)[0]}
	for _, p := range residents {
		if now, err := framework.Read(t.Context(), r, p); err == nil && now.DeletionTimestamp == nil {
			out.Left = append(out.Left, p.Name)
		}
	}
	if len(out.Left) == len(residents) {
		t.Errorf("scheduler %s put the pod on %s without a victim: the layout has room", scheduler, out.Node)
	}
	assert.Remove(t, r, append(append(assert.Objects(residents), high, budget), assert.Objects(nodes)...)...)
	return out
}

func residentPod(node, who string, is resident, scheduler string) *corev1.Pod {
	p := withPriority(framework.Pod(node+"-"+who, "cpu", is.cpu), is.class)
	p.Spec.SchedulerName, p.Spec.Affinity, p.Spec.Tolerations = scheduler, framework.OnNode(node), framework.TolerateAll()
	if is.guarded {
		p.Labels = map[string]string{"guarded": "yes"}
	}
	return p
}

// guard is a disruption budget that allows nothing. The scheduler counts a victim under it as a
// violation once kube-controller-manager has written its status.
func guard(t *testing.T, r *framework.Rig) *policyv1.PodDisruptionBudget {
	t.Helper()
	budget := framework.Budget("guard", map[string]string{"guarded": "yes"})
	assert.Create(t, r, budget)
	assert.AwaitObject(t, r, budget, "status", func(now *policyv1.PodDisruptionBudget) bool {
		return now.Status.ObservedGeneration == now.Generation
	})
	return budget
}

// nullLists posts what kube-scheduler's Go types can become in JSON. The node is one that may lose
// pods, so an entry for it comes back where it has victims.
func nullLists(t *testing.T, r *framework.Rig) {
	open := assert.Ordinary("open", 2)
	assert.Join(t, r, open)
	defer assert.Remove(t, r, open)
	assert.Eventually(t, "the extender's view of node open",
		func(ctx context.Context) (extenderv1.ExtenderPreemptionResult, error) {
			return postPreempt(ctx, r, `"NodeNameToMetaVictims":{"open":{"Pods":[{"UID":"a"}]}}`)
		}, func(kept extenderv1.ExtenderPreemptionResult) bool { return len(kept.NodeNameToMetaVictims) == 1 })
	for name, row := range map[string]struct {
		body string
		want map[string][]string
	}{
		"null for every map": {`"NodeNameToVictims":null,"NodeNameToMetaVictims":null`, nil},
		"no map at all":      {`"NodeNameToVictims":{}`, nil},
		"null for a node":    {`"NodeNameToMetaVictims":{"open":null}`, nil},
		"null for its list":  {`"NodeNameToMetaVictims":{"open":{"Pods":null,"NumPDBViolations":1}}`, nil},
		"an empty list":      {`"NodeNameToMetaVictims":{"open":{"Pods":[]}}`, nil},
		"null in the list":   {`"NodeNameToMetaVictims":{"open":{"Pods":[null]}}`, nil},
		"null beside a victim": {`"NodeNameToMetaVictims":{"open":{"Pods":[null,{"UID":"a"}]}}`,
			map[string][]string{"open": {"a"}}},
		"victims on an unknown node": {`"NodeNameToMetaVictims":{"nowhere":{"Pods":[{"UID":"a"}]}}`, nil},
		"whole pods, null among them": {`"NodeNameToVictims":{"open":{"Pods":[null,{"metadata":{"uid":"a"}}]},"none":null}`,
			map[string][]string{"open": {"a"}}},
		"whole pods, null for a list":  {`"NodeNameToVictims":{"open":{"Pods":null}}`, nil},
		"two victims come back as two": {`"NodeNameToMetaVictims":{"open":{"Pods":[{"UID":"a"},{"UID":"b"}],"NumPDBViolations":2}}`, map[string][]string{"open": {"a", "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			kept, err := postPreempt(t.Context(), r, row.body)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string][]string
			for node, victims := range kept.NodeNameToMetaVictims {
				if got == nil {
					got = map[string][]string{}
				}
				got[node] = uidsOf(victims)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func uidsOf(victims *extenderv1.MetaVictims) []string {
	if victims == nil {
		return nil
	}
	var uids []string
	for _, p := range victims.Pods {
		if p == nil {
			uids = append(uids, "null")
			continue
		}
		uids = append(uids, p.UID)
	}
	return uids
}

// postPreempt asks about evictions for a pod that exists nowhere else.
func postPreempt(ctx context.Context, r *framework.Rig, maps string) (extenderv1.ExtenderPreemptionResult, error) {
	result := extenderv1.ExtenderPreemptionResult{}
	pod := `"Pod":{"metadata":{"namespace":"default","name":"asker","uid":"asker"},"spec":{"containers":[{"name":"main"}]}}`
	err := framework.Ask(ctx, r.ExtenderURL()+framework.Preempt, json.RawMessage("{"+pod+","+maps+"}"), &result)
	return result, err
}
