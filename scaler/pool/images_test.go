package pool

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/scalertest"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// The pool's backoff is at most six hours: a pool of many nodes would never try again.
func TestBackOffOfManyNodesIsBounded(t *testing.T) {
	wanted := plan.Wanted{BestEffort: []string{"gone:1"}}
	nodes := make([]nodeImages, 100)
	for i := range nodes {
		nodes[i] = nodeImages{wanted: wanted, lack: lacksBestEffort,
			failure: &transition.ImageFailure{Since: scalertest.Epoch(), Image: "gone:1"}}
	}
	if !backingOff(nodes, scalertest.Epoch().Add(maxRefreshRest-time.Second))[lacksBestEffort] ||
		backingOff(nodes, scalertest.Epoch().Add(maxRefreshRest))[lacksBestEffort] {
		t.Errorf("100 failures do not back off for %s", maxRefreshRest)
	}
}

// What a Node remembers tells which of the pool's images it lacks, also where an earlier version
// wrote it.
func TestLackOf(t *testing.T) {
	wanted := plan.Wanted{Required: []string{"r:1"}, BestEffort: []string{"b:1"}}
	all := scalertest.Having("b:1", "r:1")
	required := scalertest.Annotated(v1alpha1.AnnotationRequiredImagesHash, plan.HashImages([]string{"r:1"}))
	failed := func(image string) func(*corev1.Node) {
		return scalertest.Annotated(v1alpha1.AnnotationImagePullFailed, "2026-03-01T12:00:00Z "+image+": no")
	}
	for name, c := range map[string]struct {
		node   []func(*corev1.Node)
		wanted plan.Wanted
		want   lack
	}{
		"all":                                {[]func(*corev1.Node){all, required}, wanted, lacksNothing},
		"all, by an earlier version":         {[]func(*corev1.Node){all}, wanted, lacksNothing},
		"none":                               {nil, wanted, lacksRequired},
		"another set, by an earlier version": {[]func(*corev1.Node){scalertest.Having("b:0", "r:1")}, wanted, lacksRequired},
		"another set of best-effort images": {[]func(*corev1.Node){scalertest.Having("b:0", "r:1"), required}, wanted,
			lacksBestEffort},
		"a best-effort image failed": {[]func(*corev1.Node){all, required, failed("b:1")}, wanted,
			lacksBestEffort},
		"an image failed that nobody wants": {[]func(*corev1.Node){all, required, failed("z:1")}, wanted, lacksNothing},
		"a required image failed":           {[]func(*corev1.Node){required, failed("r:1")}, wanted, lacksRequired},
		"one failed that is required since": {[]func(*corev1.Node){all, required, failed("b:1")},
			plan.Wanted{Required: []string{"b:1", "r:1"}}, lacksRequired},
		"nothing is required, nothing is there": {nil, plan.Wanted{BestEffort: []string{"b:1"}}, lacksBestEffort},
		"nothing is wanted":                     {nil, plan.Wanted{}, lacksNothing},
		"nothing is wanted any more":            {[]func(*corev1.Node){all, required}, plan.Wanted{}, lacksNothing},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lackOf(scalertest.NodeIn(v1alpha1.StateStandby, c.node...), c.wanted); got != c.want {
				t.Errorf("lacks %d, want %d", got, c.want)
			}
		})
	}
}
