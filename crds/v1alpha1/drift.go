package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hashVersion stands before every hash. It is raised when the same spec would give another hash
// than before: nodes with a hash of another version are then stamped anew, where a hash that merely
// differed would have every node of every user replaced.
const hashVersion = "v1."

// Hash is the hash of what a Node shows of its template: two templates with the same hash give the
// same nodes. Left out are what no node shows: the pool's own label, which is always set, the order
// of taints, who removes startup taints and which agents a start waits for, which are decided at
// each start anew.
func (t *NodeTemplate) Hash() string {
	shown := t.DeepCopy()
	delete(shown.Labels, LabelPool)
	sortTaints(shown.Taints)
	sortTaints(shown.StartupTaints)
	shown.StartupTaintRemoval, shown.NetworkAgents = "", nil
	return hashOf(shown)
}

// Hash is the hash of what an instance is launched from. A default that is written out changes
// nothing. Of the cluster that nodes join, what a user wrote is part of it, what EKS said is not: a
// rotated certificate authority replaces no node.
func (s *AWSNodeClassSpec) Hash() string {
	whole := s.DeepCopy()
	whole.SetDefaults()
	whole.FallbackInstanceTypes = nil // an instance of another type of the list is as good
	whole.CapacityReservation = nil   // a stopped instance gets another one without being replaced
	if whole.Bootstrap != nil {
		whole.Bootstrap.Family = s.BootstrapFamily()
	}
	return hashOf(whole)
}

// Hash is the hash of what a node container is made from.
func (s *KindNodeClassSpec) Hash() string { return hashOf(s) }

// IsHash reports whether the text is a hash that this version of Stratos can compare.
func IsHash(text string) bool { return strings.HasPrefix(text, hashVersion) }

// hashOf hashes the value as JSON: maps are sorted there, and a field that is added later and left
// empty changes no hash.
func hashOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("v1alpha1: a spec that was read as JSON can be written as JSON: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hashVersion + hex.EncodeToString(sum[:8])
}

func sortTaints(taints []corev1.Taint) {
	slices.SortFunc(taints, func(a, b corev1.Taint) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Effect), string(b.Effect)))
	})
}
