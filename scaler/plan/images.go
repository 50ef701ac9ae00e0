package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Wanted are the images that a node shall have before it is standby. Both lists are sorted, and an
// image is in one of them.
type Wanted struct {
	// Required: a node without one of these is not complete.
	Required []string
	// BestEffort: a node waits for these while they are being pulled, and is standby without those
	// that cannot be.
	BestEffort []string
}

// All are both, sorted.
func (w Wanted) All() []string {
	all := slices.Concat(w.Required, w.BestEffort)
	slices.Sort(all)
	return all
}

// Has reports whether the image is one of them.
func (w Wanted) Has(image string) bool {
	return w.Requires(image) || slices.Contains(w.BestEffort, image)
}

// Requires reports whether the image is a required one.
func (w Wanted) Requires(image string) bool { return slices.Contains(w.Required, image) }

// Hash tells two sets of all images apart, "" is none. Which of them are required changes nothing
// in it.
func (w Wanted) Hash() string { return HashImages(w.All()) }

// layout is which pod and which container of it pulls what. A best-effort image is never in one pod
// with a required one: the kubelet takes a pod's containers one after the other, and one whose
// registry does not answer keeps the next waiting.
func (w Wanted) layout() [][]string {
	required := slices.Collect(slices.Chunk(w.Required, pullsPerPod))
	return slices.AppendSeq(required, slices.Chunk(w.BestEffort, pullsPerPod))
}

// layoutHash tells apart which pods pull what.
func (w Wanted) layoutHash() string {
	if len(w.BestEffort) == 0 {
		return HashImages(w.Required)
	}
	return HashImages(slices.Concat(w.Required, []string{""}, w.BestEffort))
}

// Images are what a node of the pool shall have: what the pool names, required if it says so, and
// the images of every DaemonSet whose pods would run on the node while it is running. Those are
// required only in the namespaces given: a DaemonSet of any tenant may name an image that cannot be
// pulled.
func Images(pool *v1alpha1.NodePool, node *corev1.Node, sets []*appsv1.DaemonSet, required []string) Wanted {
	is := map[string]bool{}
	strict := pool.Spec.PreWarm.ImagePullPolicyOrDefault() == v1alpha1.ImagesRequired
	for _, image := range pool.Spec.PreWarm.ImagesToPull {
		is[image] = strict
	}
	for _, set := range sets {
		// The other taints on a Node are Stratos's own, pass with the start, or are a person's: an image
		// too many does no harm.
		if !fit.RunsOn(pool, node, set, pool.Spec.Template.Taints) {
			continue
		}
		for _, image := range imagesOf(&set.Spec.Template.Spec) {
			is[image] = is[image] || slices.Contains(required, set.Namespace)
		}
	}
	var w Wanted
	for _, image := range slices.Sorted(maps.Keys(is)) {
		if is[image] {
			w.Required = append(w.Required, image)
		} else {
			w.BestEffort = append(w.BestEffort, image)
		}
	}
	return w
}

func imagesOf(spec *corev1.PodSpec) []string {
	var images []string
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if list[i].Image != "" { // left to an admission webhook
				images = append(images, list[i].Image)
			}
		}
	}
	return images
}

// HashImages tells two sets of images apart; "" is the empty set. The set is sorted.
func HashImages(images []string) string {
	if len(images) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(images, "\n")))
	return hex.EncodeToString(sum[:8])
}
