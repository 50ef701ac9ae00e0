package transition

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// maxWords bounds what of a registry's answer is kept on the Node.
const maxWords = 512

// WarmAgain is the intent to start a stopped instance for a warm-up that we end ourselves: the one
// before ended incomplete, or the node is standby and lacks images. What its kubelet reported until
// now says nothing about the new try, so n must be read from the API server, as for Standby.
func WarmAgain(n *corev1.Node, t Template, agents string, now time.Time) Patch {
	recorded := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) == v1alpha1.StateStandby &&
		n.Annotations[v1alpha1.AnnotationHeartbeatAtStop] != ""
	is := toState(n, v1alpha1.StateWarmup)
	if !recorded { // Standby has recorded it when the cloud said stopped; what came since may be a report of that boot
		recordReports(n, is, agents)
	}
	// With its fraction, as the start intent has: a process that begins after a crash has to tell
	// whether it is older than itself.
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationWarmupStarted, now.UTC().Format(time.RFC3339Nano))
	for i := range t.StartupTaints {
		addTaint(is, t.StartupTaints[i])
	}
	closeNode(is)
	return patchFromTo(n, is)
}

// ImageFailure is an image that could not be pulled, as a Node remembers it.
type ImageFailure struct {
	Since        time.Time
	Image, Words string
}

// ImageFailureOf reads what the Node remembers; false for nothing.
func ImageFailureOf(n *corev1.Node) (ImageFailure, bool) {
	since, rest, _ := strings.Cut(n.Annotations[v1alpha1.AnnotationImagePullFailed], " ")
	image, words, ok := strings.Cut(rest, ": ")
	at, err := time.Parse(time.RFC3339, since)
	return ImageFailure{Since: at, Image: image, Words: words}, ok && err == nil
}

func (f ImageFailure) String() string {
	words := strings.ToValidUTF8(f.Words[:min(len(f.Words), maxWords)], "")
	return f.Since.UTC().Format(time.RFC3339) + " " + f.Image + ": " + words
}

// ImagePullFailed remembers which image could not be pulled.
func ImagePullFailed(n *corev1.Node, f ImageFailure) Patch {
	is := editable(n)
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationImagePullFailed, f.String())
	return patchFromTo(n, is)
}

// ImagesFound is the result of a check of the images.
type ImagesFound struct {
	// Hash is the set of all images, "" where a required one is missing. RequiredHash is that of
	// the required ones.
	Hash, RequiredHash string
	// Failure is what could not be pulled, nil for nothing.
	Failure *ImageFailure
}

// ImagesRecorded ends a check of the images.
func ImagesRecorded(n *corev1.Node, found ImagesFound, now time.Time) Patch {
	is := editable(n)
	delete(is.Annotations, v1alpha1.AnnotationImagePullFailed)
	if found.Failure != nil {
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationImagePullFailed, found.Failure.String())
	}
	for key, hash := range map[string]string{
		v1alpha1.AnnotationImagesHash: found.Hash, v1alpha1.AnnotationRequiredImagesHash: found.RequiredHash,
	} {
		delete(is.Annotations, key)
		if hash != "" {
			metav1.SetMetaDataAnnotation(&is.ObjectMeta, key, hash)
		}
	}
	if v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) == v1alpha1.StateStopping { // each stop asks anew
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationImagesChecked, now.UTC().Format(time.RFC3339Nano))
	}
	return patchFromTo(n, is)
}
