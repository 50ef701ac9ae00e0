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
	// Unfit: it fits no standby node of the pool, though that is empty.
	Unfit bool
}

// Supply is what comes up for pods and what is standby, by zone, and the number of the next launch.
type Supply struct {
	Coming, Standby map[string]int32
	// Next makes that a pod which may go to several zones is not always launched for in the same
	// one.
	Next int64
}

// Need is what pending pods need.
type Need struct {
	// Any is how many nodes they need in any zone, New those of them that no standby node can be.
	Any, New int32
	// Zones has one entry for each launch that they need in a zone where nothing comes up for them.
	Zones []string
	// Served is how much of what comes up or is standby they take in their zones, so that it serves no
	// other pod; ServedComing is what comes up of that.
	Served, ServedComing int32
}

// opened is how many nodes pods need, by zone, "" for any.
type opened map[string]int32

// NeedOf places the pods on empty nodes like the pattern, those that fit no standby node first,
// then those of few zones. relabel gives the labels of a node like the pattern in a zone. Where the
// pattern is nil, or refuses them all, each zone needs one node: it will tell.
func NeedOf(pods []Waiting, pattern *decide.Node, supply Supply, relabel func(labels map[string]string,
	zone string) map[string]string) Need {
	pods = inTurn(pods)
	var fresh, rest opened
	if pattern != nil {
		fresh, rest = openedFor(pods, pattern, supply, relabel)
	}
	if len(fresh)+len(rest) == 0 {
		fresh, rest = oneForEach(pods, supply)
	}
	need := Need{Any: fresh[""] + rest[""], New: fresh[""]}
	delete(fresh, "")
	delete(rest, "")
	both := maps.Clone(fresh)
	for zone, n := range rest {
		both[zone] += n
	}
	for _, zone := range slices.Sorted(maps.Keys(both)) {
		ofFresh := min(fresh[zone], supply.Coming[zone])
		ofRest := min(rest[zone], supply.of(zone)-ofFresh)
		need.Served += ofFresh + ofRest
		need.ServedComing += ofFresh + max(0, ofRest-supply.Standby[zone])
		for range both[zone] - ofFresh - ofRest {
			need.Zones = append(need.Zones, zone)
		}
	}
	return need
}

func (s Supply) of(zone string) int32 { return s.Coming[zone] + s.Standby[zone] }

// openedFor is what the pods need, fresh for those that fit no standby node.
func openedFor(pods []Waiting, pattern *decide.Node, supply Supply, relabel func(map[string]string,
	string) map[string]string) (fresh, rest opened) {
	placed := &placement{world: &fit.World{}}
	fresh, rest = opened{}, opened{}
	for _, w := range pods {
		pod := fit.NewPod(w.Pod, pattern.Defaults)
		if placed.fits(pod) {
			continue
		}
		zone, like, before := zoneFor(w, supply, fresh, rest), *pattern, len(placed.world.Nodes)
		if zone != "" {
			like.Labels = relabel(pattern.Labels, zone)
		}
		if placed.open(pod, &like); len(placed.world.Nodes) > before {
			w.among(fresh, rest)[zone]++
		}
	}
	return fresh, rest
}

// oneForEach is one node for each zone, one in any zone where that is enough.
func oneForEach(pods []Waiting, supply Supply) (fresh, rest opened) {
	fresh, rest = opened{}, opened{}
	for _, w := range pods {
		zone := zoneFor(w, supply, fresh, rest)
		if fresh[zone]+rest[zone] == 0 && (len(w.Zones) > 0 || len(fresh)+len(rest) == 0) {
			w.among(fresh, rest)[zone] = 1
		}
	}
	return fresh, rest
}

// among is which of the two counts the pod's node.
func (w Waiting) among(fresh, rest opened) opened {
	if w.Unfit {
		return fresh
	}
	return rest
}

// inTurn sorts the pods: those that fit no standby node first, so that the others take what room
// their nodes have left; then those of few zones, and those of any zone last, because they also fit
// on the nodes of the others.
func inTurn(pods []Waiting) []Waiting {
	out := slices.Clone(pods)
	rank := func(w Waiting) int {
		rank := len(w.Zones)
		if rank == 0 {
			rank = 1 << 29
		}
		if !w.Unfit {
			rank += 1 << 30
		}
		return rank
	}
	slices.SortStableFunc(out, func(a, b Waiting) int { return rank(a) - rank(b) })
	return out
}

// zoneFor picks one of the pod's zones: the first in which something comes up or is standby for it
// that is not taken yet, else by the launch's number.
func zoneFor(w Waiting, supply Supply, fresh, rest opened) string {
	if len(w.Zones) == 0 {
		return ""
	}
	for _, zone := range w.Zones {
		if w.Unfit && supply.Coming[zone] > fresh[zone] {
			return zone
		}
		if taken := min(fresh[zone], supply.Coming[zone]) + rest[zone]; !w.Unfit && supply.of(zone) > taken {
			return zone
		}
	}
	sum := int32(0)
	for _, n := range fresh {
		sum += n
	}
	for _, n := range rest {
		sum += n
	}
	return w.Zones[(max(supply.Next, 0)+int64(sum))%int64(len(w.Zones))]
}
