package images

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestImagesArePulledBeforeStandby: the images of the pool and of the DaemonSet for its nodes, and
// none of another's. A pull takes longer than it takes a SelfStop instance to switch itself off, so
// those need a second boot.
func TestImagesArePulledBeforeStandby(t *testing.T) {
	t.Parallel()
	r := restrict(t, assert.NewRig(t, framework.Options{Cloud: append(assert.FastCloud(), "--fake-pull-time=2s")}))
	j := assert.OpenJournal(t, r)
	here, elsewhere := agents("here", "example.com/agent:1"), agents("elsewhere", "example.com/elsewhere:1")
	here.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
	elsewhere.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"}
	here.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "example.com/init:1"}}
	assert.Create(t, r, here, elsewhere)
	for name, row := range map[string]struct {
		mode  v1alpha1.CompletionMode
		boots int
	}{
		"selfstop":       {v1alpha1.SelfStop, 2},
		"controllerstop": {v1alpha1.ControllerStop, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, class := pool(name, 2, row.mode, "example.com/app:1", "example.com/agent:1")
			assert.Create(t, r, class, p)
			assert.AwaitStandby(t, r, name, 2)
			checkDisks(t, r, name, "example.com/app:1", "example.com/agent:1", "example.com/init:1")
			for id, v := range assert.PoolInstances(t, r, name) {
				if v.Boots > row.boots { // on a machine that stalls, a pull may be over before the guest gets to switch itself off
					t.Errorf("instance %s has booted %d times, want %d at most", id, v.Boots, row.boots)
				}
			}
			for node := range assert.PoolNodes(t, r, name) {
				for _, v := range j.NodeVersions(node) {
					if assert.StateOf(v.Object) == v1alpha1.StateStandby && v.Object.Annotations[v1alpha1.AnnotationImagesHash] == "" {
						t.Errorf("node %s stood by at revision %d without its images", node, v.Revision)
					}
				}
			}
			told := imagesPulled(t, r, name, metav1.ConditionTrue, v1alpha1.ReasonImagesPresent)
			if !strings.Contains(told, "2 of 2") {
				t.Errorf("condition says %q", told)
			}
			awaitNoPulls(t, r, name)
		})
	}
}

// TestImagePullFailureIsTold: of a pool that requires its images no node is standby, of one that
// does not its nodes do; both say why. The condition turns again when the image is no longer
// wanted.
func TestImagePullFailureIsTold(t *testing.T) {
	t.Parallel()
	const gone, good = "missing.invalid/gone:1", "example.com/good:1"
	r := restrict(t, assert.SharedRig(t))
	j := assert.OpenJournal(t, r)
	strict, strictClass := pool("strict", 1, v1alpha1.ControllerStop, gone, good)
	lenient, lenientClass := pool("lenient", 1, v1alpha1.ControllerStop, gone, good)
	lenient.Spec.PreWarm.ImagePullPolicy = v1alpha1.ImagesBestEffort
	assert.Create(t, r, strictClass, strict, lenientClass, lenient)

	assert.AwaitStandby(t, r, "lenient", 1)
	for _, p := range []*v1alpha1.NodePool{strict, lenient} {
		node := assert.OnlyNode(t, r, p.Name)
		for where, words := range map[string]string{
			"condition":         imagesPulled(t, r, p.Name, metav1.ConditionFalse, v1alpha1.ReasonImagePullFailed),
			"event on the pool": assert.AwaitEvent(t, r, p, v1alpha1.ReasonImagePullFailed),
			"event on the Node": assert.AwaitEvent(t, r, node, v1alpha1.ReasonImagePullFailed),
		} {
			if !strings.Contains(words, gone) || !strings.Contains(words, "not found") || strings.Contains(words, good) {
				t.Errorf("%s of pool %s says %q", where, p.Name, words)
			}
		}
	}
	node := assert.OnlyNode(t, r, "strict").Name
	for _, v := range j.NodeVersions(node) {
		if assert.StateOf(v.Object) != v1alpha1.StateWarmup && assert.StateOf(v.Object) != "" {
			t.Errorf("node %s was %s at revision %d without its images", node, assert.StateOf(v.Object), v.Revision)
		}
	}
	checkDisks(t, r, "lenient", good)

	assert.ChangePool(t, r, "strict", func(s *v1alpha1.NodePoolSpec) { s.PreWarm.ImagesToPull = []string{good} })
	assert.AwaitStandby(t, r, "strict", 1)
	checkDisks(t, r, "strict", good)
	imagesPulled(t, r, "strict", metav1.ConditionTrue, v1alpha1.ReasonImagesPresent)
	awaitNoPulls(t, r, "strict")
	awaitNoPulls(t, r, "lenient")
}
