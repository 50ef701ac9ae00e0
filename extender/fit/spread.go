package fit

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	messageSpread        = "node(s) didn't match pod topology spread constraints"
	messageSpreadNoLabel = messageSpread + " (missing required label)"
)

// SpreadConstraint is a DoNotSchedule topology spread constraint with its selector parsed and its
// defaults filled in.
type SpreadConstraint struct {
	TopologyKey string
	MaxSkew     int
	// MinDomains: while fewer domains exist, the least filled one counts as empty. At least 1.
	MinDomains int
	// Selector includes the values of matchLabelKeys.
	Selector labels.Selector
	// HonorAffinity leaves out the domains of nodes that the pod does not select (the default),
	// HonorTaints those of nodes whose taints it does not tolerate (not the default: standby nodes
	// count as empty domains).
	HonorAffinity, HonorTaints bool
}

// spreadConstraints parses what the pod itself says. The default profile adds no DoNotSchedule
// constraints of its own.
func spreadConstraints(pod *corev1.Pod) ([]SpreadConstraint, error) {
	var out []SpreadConstraint
	for i := range pod.Spec.TopologySpreadConstraints {
		in := &pod.Spec.TopologySpreadConstraints[i]
		if in.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(in.LabelSelector)
		if err != nil {
			return nil, err
		}
		c := SpreadConstraint{
			TopologyKey: in.TopologyKey, MaxSkew: int(in.MaxSkew), MinDomains: 1,
			Selector:      withLabelKeys(selector, in.MatchLabelKeys, pod.Labels),
			HonorAffinity: in.NodeAffinityPolicy == nil || *in.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
			HonorTaints:   in.NodeTaintsPolicy != nil && *in.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		}
		if in.MinDomains != nil {
			c.MinDomains = int(*in.MinDomains)
		}
		out = append(out, c)
	}
	return out, nil
}

// withLabelKeys narrows the selector to pods that share the pod's values of the keys (one revision
// of a Deployment). Keys that the pod does not carry are ignored, and a selector that matches
// nothing stays so.
func withLabelKeys(selector labels.Selector, keys []string, podLabels map[string]string) labels.Selector {
	same := labels.Set{}
	for _, key := range keys {
		if value, carried := podLabels[key]; carried {
			same[key] = value
		}
	}
	requirements, selectable := selector.Requirements()
	if len(same) == 0 || !selectable {
		return selector
	}
	return labels.SelectorFromSet(same).Add(requirements...)
}

// spreadCount is what one constraint sees: matching pods by topology value, and the least of them.
type spreadCount struct {
	pods  map[string]int
	least int
}

// SpreadOver checks the topology spread: on the node's domain there may be at most maxSkew matching
// pods more than on the emptiest, the pod itself included if it matches.
func (v *View) SpreadOver(node *Node) *Refusal {
	if v.pod.malformed != nil {
		return v.pod.malformed
	}
	if len(v.pod.Spread) == 0 {
		return nil
	}
	counts := v.spreadCounts()
	for i := range v.pod.Spread {
		c := &v.pod.Spread[i]
		value, labelled := node.Labels[c.TopologyKey]
		if !labelled {
			return &Refusal{Reason: ReasonSpread, Message: messageSpreadNoLabel, Unresolvable: true, Subject: c.TopologyKey}
		}
		there := counts[i].pods[value]
		if c.Selector.Matches(labels.Set(v.pod.Labels)) {
			there++
		}
		if there-counts[i].least > c.MaxSkew {
			return &Refusal{Reason: ReasonSpread, Message: messageSpread, Subject: c.TopologyKey}
		}
	}
	return nil
}

func (v *View) spreadCounts() []spreadCount {
	if v.spread != nil {
		return v.spread
	}
	v.spread = make([]spreadCount, len(v.pod.Spread))
	for i := range v.spread {
		v.spread[i].pods = map[string]int{}
	}
	for _, node := range v.world.Nodes {
		if hasAllKeys(node, v.pod.Spread) {
			v.countSpread(node)
		}
	}
	for i := range v.spread {
		v.spread[i].least = least(v.spread[i].pods, v.pod.Spread[i].MinDomains)
	}
	return v.spread
}

// countSpread makes the node's domains known, with or without pods in them.
func (v *View) countSpread(node *Node) {
	selected := v.pod.choice.matches(string(node.Name), node.Labels)
	tolerated := firstUntolerated(v.pod.Tolerations, node.Taints) < 0
	for i := range v.pod.Spread {
		c := &v.pod.Spread[i]
		if (c.HonorAffinity && !selected) || (c.HonorTaints && !tolerated) {
			continue
		}
		v.spread[i].pods[node.Labels[c.TopologyKey]] += v.matching(node, c.Selector)
	}
}

// matching counts pods of the pod's namespace. The empty selector counts none, though the pod
// itself matches it: that is how the scheduler reads it.
func (v *View) matching(node *Node, selector labels.Selector) int {
	if selector.Empty() {
		return 0
	}
	count := 0
	for _, placed := range node.Pods {
		if placed.Terminating || placed.Namespace != v.pod.Key.Namespace || v.self(placed) {
			continue
		}
		if selector.Matches(labels.Set(placed.Labels)) {
			count++
		}
	}
	return count
}

// hasAllKeys: a node that lacks one of the topology keys is in no domain of any constraint.
func hasAllKeys(node *Node, constraints []SpreadConstraint) bool {
	for i := range constraints {
		if _, labelled := node.Labels[constraints[i].TopologyKey]; !labelled {
			return false
		}
	}
	return true
}

func least(pods map[string]int, minDomains int) int {
	if len(pods) < minDomains {
		return 0
	}
	fewest := math.MaxInt32
	for _, count := range pods {
		fewest = min(fewest, count)
	}
	return fewest
}
