package plan

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Waiting is a pending pod that needs an instance, and the zones in which one would help. None
// means any zone.
type Waiting struct {
	Pod   *corev1.Pod
	Zones []string
}

// Supply is what comes up for pods, or is there, by zone, and the number of the next launch.
type Supply struct {
	ByZone map[string]int32
	// Next makes that a pod which may go to several zones is not always launched for in the same
	// one.
	Next int64
}

// Need is what pending pods need.
type Need struct {
	// Any is how many nodes they need in any zone.
	Any int32
	// Zones has one entry for each launch that they need in a zone where nothing comes up for them.
	Zones []string
	// Served is how much of what comes up they take in their zones, so that it serves no other pod.
	Served int32
}

// NeedOf places the pods on empty nodes like the pattern, those of few zones first. relabel gives
// the labels of a node like the pattern in a zone. Where the pattern is nil, or refuses them all,
// each zone needs one node: it will tell.
func NeedOf(pods []Waiting, pattern *decide.Node, supply Supply, relabel func(labels map[string]string,
	zone string) map[string]string) Need {
	opened := map[string]int32{}
	if pattern != nil {
		opened = openedFor(bound(pods), pattern, supply, relabel)
	}
	if len(opened) == 0 {
		for _, w := range bound(pods) {
			if zone := zoneFor(w.Zones, supply, opened); opened[zone] == 0 && (len(w.Zones) > 0 || len(opened) == 0) {
				opened[zone] = 1
			}
		}
	}
	need := Need{Any: opened[""]}
	for _, zone := range slices.Sorted(maps.Keys(opened)) {
		if zone == "" {
			continue
		}
		served := min(opened[zone], supply.ByZone[zone])
		need.Served += served
		for range opened[zone] - served {
			need.Zones = append(need.Zones, zone)
		}
	}
	return need
}

// openedFor is how many nodes the pods need, by zone, "" for any.
func openedFor(pods []Waiting, pattern *decide.Node, supply Supply, relabel func(map[string]string,
	string) map[string]string) map[string]int32 {
	placed, opened := &placement{world: &fit.World{}}, map[string]int32{}
	for _, w := range pods {
		pod := fit.NewPod(w.Pod, pattern.Defaults)
		if placed.fits(pod) {
			continue
		}
		zone, like, before := zoneFor(w.Zones, supply, opened), *pattern, len(placed.world.Nodes)
		if zone != "" {
			like.Labels = relabel(pattern.Labels, zone)
		}
		if placed.open(pod, &like); len(placed.world.Nodes) > before {
			opened[zone]++
		}
	}
	return opened
}

// bound sorts the pods: those of few zones first, those of any zone last, because they also fit on
// the nodes of the others.
func bound(pods []Waiting) []Waiting {
	out := slices.Clone(pods)
	rank := func(w Waiting) int {
		if len(w.Zones) == 0 {
			return 1 << 30
		}
		return len(w.Zones)
	}
	slices.SortStableFunc(out, func(a, b Waiting) int { return rank(a) - rank(b) })
	return out
}

// zoneFor picks one of the zones: the first in which something comes up that is not taken yet, else
// by the launch's number.
func zoneFor(zones []string, supply Supply, taken map[string]int32) string {
	if len(zones) == 0 {
		return ""
	}
	for _, zone := range zones {
		if supply.ByZone[zone] > taken[zone] {
			return zone
		}
	}
	sum := int32(0)
	for _, n := range taken {
		sum += n
	}
	return zones[(max(supply.Next, 0)+int64(sum))%int64(len(zones))]
}
