package fit

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

const (
	messagePodAffinity  = "node(s) didn't match pod affinity rules"
	messageAntiAffinity = "node(s) didn't match pod anti-affinity rules"
	messageExistingAnti = "node(s) didn't satisfy existing pods anti-affinity rules"
)

// podCounts are numbers of placed pods by domain. Domains without any have no entry.
type podCounts struct {
	// affinity counts pods that match all of the pod's affinity terms.
	affinity map[domain]int
	// anti counts pods that match one of the pod's anti-affinity terms.
	anti map[domain]int
	// existing counts pods one of whose anti-affinity terms matches the pod.
	existing map[domain]int
}

// AntiAffinity checks required anti-affinity in both directions.
func (v *View) AntiAffinity(node *Node) *Refusal {
	if v.pod.malformed != nil {
		return v.pod.malformed
	}
	counts := v.podCounts()
	for i := range v.pod.AntiAffinity {
		key := v.pod.AntiAffinity[i].TopologyKey
		if value, labelled := node.Labels[key]; labelled && counts.anti[domain{key, value}] > 0 {
			return &Refusal{Reason: ReasonAntiAffinity, Message: messageAntiAffinity, Subject: key}
		}
	}
	if key, found := firstDomainOf(node, counts.existing); found {
		return &Refusal{Reason: ReasonAntiAffinity, Message: messageExistingAnti, Subject: key}
	}
	return nil
}

// PodAffinity checks required pod affinity. A node without the topology label never satisfies it.
func (v *View) PodAffinity(node *Node) *Refusal {
	if v.pod.malformed != nil {
		return v.pod.malformed
	}
	if len(v.pod.Affinity) == 0 {
		return nil
	}
	counts := v.podCounts()
	lonely := ""
	for i := range v.pod.Affinity {
		key := v.pod.Affinity[i].TopologyKey
		value, labelled := node.Labels[key]
		if !labelled {
			return refusePodAffinity(key)
		}
		if lonely == "" && counts.affinity[domain{key, value}] == 0 {
			lonely = key
		}
	}
	if lonely == "" || v.firstOfGroup(counts) {
		return nil
	}
	return refusePodAffinity(lonely)
}

func refusePodAffinity(key string) *Refusal {
	// Evicting pods brings no partner, hence unresolvable.
	return &Refusal{Reason: ReasonPodAffinity, Message: messagePodAffinity, Unresolvable: true, Subject: key}
}

// firstOfGroup lets in the first of pods that want to be with their own kind: else none of them
// would ever run.
func (v *View) firstOfGroup(counts *podCounts) bool {
	return len(counts.affinity) == 0 && v.matchesAll(v.pod.Affinity, v.pod.Key.Namespace, v.pod.Labels)
}

func (v *View) podCounts() *podCounts {
	if v.pods != nil {
		return v.pods
	}
	v.pods = &podCounts{affinity: map[domain]int{}, anti: map[domain]int{}, existing: map[domain]int{}}
	for _, node := range v.world.Nodes {
		for _, placed := range node.Pods {
			if !v.self(placed) {
				v.count(node, placed)
			}
		}
	}
	return v.pods
}

func (v *View) count(node *Node, placed *Placed) {
	if len(v.pod.Affinity) > 0 && v.matchesAll(v.pod.Affinity, placed.Namespace, placed.Labels) {
		for i := range v.pod.Affinity {
			add(v.pods.affinity, node, v.pod.Affinity[i].TopologyKey)
		}
	}
	for i := range v.pod.AntiAffinity {
		if v.matches(&v.pod.AntiAffinity[i], placed.Namespace, placed.Labels) {
			add(v.pods.anti, node, v.pod.AntiAffinity[i].TopologyKey)
		}
	}
	for i := range placed.AntiAffinity {
		if v.repels(&placed.AntiAffinity[i]) {
			add(v.pods.existing, node, placed.AntiAffinity[i].TopologyKey)
		}
	}
}

// matches reports whether a term of the pod means a pod with that namespace and those labels.
//
// An empty namespace selector means every namespace; another one those that are known and whose
// labels it takes. That is how kube-scheduler decides from 1.37 on. Before, each selector that a
// namespace without labels satisfies (NotIn, DoesNotExist) meant every namespace, too.
func (v *View) matches(term *Term, namespace string, podLabels map[string]string) bool {
	if !slices.Contains(term.Namespaces, namespace) && !term.NamespaceSelector.Empty() {
		known, exists := v.world.Namespaces[namespace]
		if !exists || !term.NamespaceSelector.Matches(labels.Set(known)) {
			return false
		}
	}
	return term.Selector.Matches(labels.Set(podLabels))
}

func (v *View) matchesAll(all []Term, namespace string, podLabels map[string]string) bool {
	for i := range all {
		if !v.matches(&all[i], namespace, podLabels) {
			return false
		}
	}
	return true
}

// repels reports whether a term of a placed pod means the pod. Unlike matches it asks about the
// labels that the namespace has, an unknown one counting as without: the two directions differ in
// the scheduler too.
func (v *View) repels(term *Term) bool {
	namespace := v.pod.Key.Namespace
	if !slices.Contains(term.Namespaces, namespace) &&
		!term.NamespaceSelector.Matches(labels.Set(v.world.Namespaces[namespace])) {
		return false
	}
	return term.Selector.Matches(labels.Set(v.pod.Labels))
}

func add(counts map[domain]int, node *Node, key string) {
	if value, labelled := node.Labels[key]; labelled {
		counts[domain{key, value}]++
	}
}

// firstDomainOf returns the least topology key by which the node is in one of the domains.
func firstDomainOf(node *Node, counts map[domain]int) (key string, found bool) {
	if len(counts) == 0 {
		return "", false
	}
	for k, value := range node.Labels {
		if counts[domain{k, value}] > 0 && (!found || k < key) {
			key, found = k, true
		}
	}
	return key, found
}
