package userdata

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// RegistersLabel reports whether a kubelet may set the label on its own node. A kubelet with
// another label of kubernetes.io or k8s.io in --node-labels does not start.
func RegistersLabel(key string) bool {
	domain, _, hasDomain := strings.Cut(key, "/")
	if !hasDomain || !isIn(domain, "kubernetes.io") && !isIn(domain, "k8s.io") {
		return true
	}
	return isIn(domain, corev1.LabelNamespaceSuffixKubelet) || isIn(domain, corev1.LabelNamespaceSuffixNode) ||
		slices.Contains(kubeletLabels(), key)
}

// kubeletLabels are the other labels of kubernetes.io that a kubelet may set, old names included
// (k8s.io/kubelet/pkg/apis).
func kubeletLabels() []string {
	return []string{
		corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelOSStable,
		corev1.LabelArchStable, corev1.LabelInstanceTypeStable, corev1.LabelInstanceType,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	}
}

// isIn reports whether the domain is the parent or below it.
func isIn(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// labelFault says why a kubelet would not start with the label, or is empty.
func labelFault(key, value string) string {
	if errs := validation.IsQualifiedName(key); len(errs) > 0 {
		return fmt.Sprintf("label %q is no label key: %s", key, errs[0])
	}
	if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
		return fmt.Sprintf("label %s has the value %q: %s", key, value, errs[0])
	}
	if !RegistersLabel(key) {
		return fmt.Sprintf("label %s is not allowed: a kubelet does not start with it, because of kubernetes.io and k8s.io "+
			"it may set well-known labels and those under node.kubernetes.io and kubelet.kubernetes.io alone", key)
	}
	return ""
}

// userLabelFault is labelFault for a label that the user data sets.
func userLabelFault(key, value string) string {
	if domain, _, found := strings.Cut(key, "/"); found && isIn(domain, v1alpha1.Group) {
		return fmt.Sprintf("label %s is not allowed: Stratos sets the labels of %s itself", key, v1alpha1.Group)
	}
	return labelFault(key, value)
}

// checkLabels refuses labels of the pool with which the kubelet would not start.
func checkLabels(labels map[string]string) []Problem {
	var found []Problem
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if fault := labelFault(key, labels[key]); fault != "" {
			found = append(found, Problem{Field: "bootstrap", Reason: "the NodePool's " + fault})
		}
	}
	return found
}

// labelsFlag is the value of --node-labels.
func labelsFlag(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ",")
}
