package fit

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

const (
	messageVolumeNode = "node(s) didn't match PersistentVolume's node affinity"
	messageVolumeBind = "node(s) didn't find available persistent volumes to bind"
	messageVolumeZone = "node(s) had no available volume zone"
)

// VolumeConstraint is where one volume of a pod can be used. VolumesOf makes it.
type VolumeConstraint struct {
	// Claim is the name of the PersistentVolumeClaim.
	Claim string
	// Blocked is why no node at all can serve the claim at present, in the scheduler's words; empty if
	// some can.
	Blocked string

	// lost: blocked because the claim's volume does not exist.
	lost bool
	// reach and zones hold for a claim that is bound.
	reach volumeNodeAffinity
	zones []zones
	// unbound is set for a claim that waits for its first consumer.
	unbound *unbound
}

// volumeNodeAffinity is a volume's node affinity; the zero value reaches everywhere.
type volumeNodeAffinity struct {
	selector *nodeaffinity.LazyErrorNodeSelector
}

// zones are the values that a volume's topology label allows.
type zones struct {
	key    string
	values []string
}

// unbound is what may become of a claim on a node: an existing volume, or a new one.
type unbound struct {
	// selectedNode is set once the scheduler chose a node and the volume is being made there.
	selectedNode string
	// existing are the volumes that the claim could take: those made for it first, then by size and
	// name.
	existing []candidate
	// provisioned: the class makes volumes, on nodes that one of allowed matches (anywhere: it does
	// not say).
	provisioned, anywhere bool
	allowed               []labels.Selector
}

type candidate struct {
	name string
	// own: the volume names the claim. Where it does not reach, no other volume is taken.
	own   bool
	reach volumeNodeAffinity
}

// CheckVolumes checks the pod's volume claims: the in-tree filters VolumeBinding, without storage
// capacity, and VolumeZone. No eviction helps: volumes do not move.
func CheckVolumes(pod *Pod, node *Node) *Refusal {
	if refusal := blocked(pod.Volumes); refusal != nil {
		return refusal
	}
	for i := range pod.Volumes {
		if !pod.Volumes[i].reach.includes(node) {
			return refuseVolume(messageVolumeNode, pod.Volumes[i].Claim)
		}
	}
	if claim, bindable := bindable(pod.Volumes, node); !bindable {
		return refuseVolume(messageVolumeBind, claim)
	}
	for i := range pod.Volumes {
		if !inZones(pod.Volumes[i].zones, node) {
			return refuseVolume(messageVolumeZone, pod.Volumes[i].Claim)
		}
	}
	return nil
}

func refuseVolume(message, claim string) *Refusal {
	return &Refusal{Reason: ReasonVolume, Message: message, Unresolvable: true, Subject: claim}
}

// blocked names a lost volume only where no claim is at fault: VolumeZone, which finds it, runs
// after VolumeBinding.
func blocked(volumes []VolumeConstraint) *Refusal {
	var lost *VolumeConstraint
	for i := range volumes {
		switch {
		case volumes[i].Blocked == "":
		case !volumes[i].lost:
			return refuseVolume(volumes[i].Blocked, volumes[i].Claim)
		case lost == nil:
			lost = &volumes[i]
		}
	}
	if lost == nil {
		return nil
	}
	return refuseVolume(lost.Blocked, lost.Claim)
}

func reachOf(pv *corev1.PersistentVolume) volumeNodeAffinity {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return volumeNodeAffinity{}
	}
	return volumeNodeAffinity{nodeaffinity.NewLazyErrorNodeSelector(pv.Spec.NodeAffinity.Required)}
}

// includes matches by labels alone: volumes know no node names, so the Node given to the selector
// has none. A selector that does not parse reaches nothing.
func (r volumeNodeAffinity) includes(node *Node) bool {
	if r.selector == nil {
		return true
	}
	matched, _ := r.selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node.Labels}})
	return matched
}

// bindable goes through the unbound claims in their order, the smallest first, and takes the first
// volume that will do for each. It does not try again when a later claim finds nothing, because the
// scheduler does not. It returns the first claim that finds nothing.
func bindable(volumes []VolumeConstraint, node *Node) (claim string, ok bool) {
	var taken []string
	for i := range volumes {
		u := volumes[i].unbound
		if u == nil {
			continue
		}
		if u.selectedNode == "" {
			if name, found := u.take(node, taken); found {
				taken = append(taken, name)
				continue
			}
		}
		if !u.provisionable(node) {
			return volumes[i].Claim, false
		}
	}
	return "", true
}

// take finds the existing volume that the claim would get on the node.
func (u *unbound) take(node *Node, taken []string) (name string, found bool) {
	for i := range u.existing {
		c := &u.existing[i]
		if slices.Contains(taken, c.name) {
			continue
		}
		if c.reach.includes(node) {
			return c.name, true
		}
		if c.own {
			return "", false
		}
	}
	return "", false
}

func (u *unbound) provisionable(node *Node) bool {
	if u.selectedNode != "" && u.selectedNode != string(node.Name) {
		return false
	}
	if !u.provisioned {
		return false
	}
	for _, selector := range u.allowed {
		if selector.Matches(labels.Set(node.Labels)) {
			return true
		}
	}
	return u.anywhere
}

// zoneKeys are the labels by which volumes without node affinity say where they are.
func zoneKeys() [4]string {
	return [...]string{
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	}
}

// zonesOf reads a volume's topology labels: zones separated by two underscores. A label with an
// empty part is ignored.
func zonesOf(pv *corev1.PersistentVolume) []zones {
	var out []zones
	for _, key := range zoneKeys() {
		label, labelled := pv.Labels[key]
		if !labelled {
			continue
		}
		values := strings.Split(label, "__")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if !slices.Contains(values, "") {
			out = append(out, zones{key, values})
		}
	}
	return out
}

// inZones lets every volume onto a node that says nothing about where it is.
func inZones(all []zones, node *Node) bool {
	if len(all) == 0 || !located(node) {
		return true
	}
	for _, z := range all {
		value, labelled := node.Labels[z.key]
		if !labelled {
			value, labelled = node.Labels[stableKey(z.key)]
		}
		if !labelled || !slices.Contains(z.values, value) {
			return false
		}
	}
	return true
}

func located(node *Node) bool {
	for _, key := range zoneKeys() {
		if _, labelled := node.Labels[key]; labelled {
			return true
		}
	}
	return false
}

// stableKey is today's name of a beta label: old volumes carry the one, new nodes the other.
func stableKey(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	default:
		return key
	}
}
