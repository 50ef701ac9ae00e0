package transition

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// DrainAbandoned opens a node whose drain did not end, and counts the failure in the same patch:
// the next drain backs off.
func DrainAbandoned(n *corev1.Node, t Template, now time.Time) Patch {
	return append(Running(n, t, now), drainFailed(n, now)...)
}

// DrainRefused counts a drain that did not begin because dry-run evictions were refused. It tests
// that the last failure is as the Node has it, so that a cache that lags does not count one refusal
// twice.
func DrainRefused(n *corev1.Node, now time.Time) Patch {
	return append(Patch{testAnnotation(n, v1alpha1.AnnotationDrainFailedAt)}, drainFailed(n, now)...)
}

func drainFailed(n *corev1.Node, now time.Time) Patch {
	path := "/metadata/annotations/"
	return Patch{
		{Op: "add", Path: path + escape(v1alpha1.AnnotationDrainFailedAt), Value: now.UTC().Format(time.RFC3339)},
		{Op: "add", Path: path + escape(v1alpha1.AnnotationDrainFailures), Value: strconv.Itoa(DrainFailures(n) + 1)},
	}
}

// DrainFailures reads how many drains in a row have failed.
func DrainFailures(n *corev1.Node) int {
	count, err := strconv.Atoi(n.Annotations[v1alpha1.AnnotationDrainFailures])
	if err != nil || count < 0 {
		return 0 // absent, or written by another program
	}
	return count
}
