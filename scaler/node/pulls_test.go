package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/scalertest"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// pulling is the pod that pulls the one image on "c", made two minutes ago, with what its kubelet
// says.
func pulling(wanted plan.Wanted, said ...func(*corev1.Pod)) []corev1.Pod {
	request := plan.Pull{Namespace: "stratos", Node: scalertest.NodeIn(v1alpha1.StateWarmup), Pool: "p", Instance: "i-c",
		Images: wanted}
	pod := *request.Pods()[0]
	pod.CreationTimestamp.Time = scalertest.Epoch().Add(-2 * time.Minute)
	for _, f := range said {
		f(&pod)
	}
	return []corev1.Pod{pod}
}

func pulled(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: decide.PullContainerName(0), ImageID: "sha256:1"}}
}

func notPulled(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: decide.PullContainerName(0),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
}

func refusedByKubelet(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu" }

func youngerThan(age time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp.Time = scalertest.Epoch().Add(-age).Add(time.Second) }
}

// TestObserveImages: the pool wants the image "a".
func TestObserveImages(t *testing.T) {
	required, bestEffort := plan.Wanted{Required: []string{"a"}}, plan.Wanted{BestEffort: []string{"a"}}
	reported := func(image string) func(*corev1.Node) {
		failure := transition.ImageFailure{Since: scalertest.Epoch(), Image: image, Words: "no such image"}
		return scalertest.Annotated(v1alpha1.AnnotationImagePullFailed, failure.String())
	}
	again := scalertest.MarkedAt(v1alpha1.AnnotationWarmupStarted, scalertest.Epoch().Add(time.Minute))
	checked := scalertest.MarkedAt(v1alpha1.AnnotationImagesChecked, scalertest.Epoch())
	is := scalertest.NodeIn
	for name, c := range map[string]struct {
		wanted plan.Wanted
		node   *corev1.Node
		pods   []corev1.Pod
		want   lifecycle.ImageState
		// incomplete: a required image is not on the node, or that is not known.
		incomplete bool
	}{
		"none is wanted":  {plan.Wanted{}, is(v1alpha1.StateWarmup), nil, lifecycle.ImagesPresent, false},
		"no pod is there": {required, is(v1alpha1.StateWarmup), nil, lifecycle.ImagesUnknown, true},
		"a pod that pulls another set": {required, is(v1alpha1.StateWarmup),
			pulling(plan.Wanted{Required: []string{"b"}}, pulled), lifecycle.ImagesUnknown, true},
		"the kubelet pulls": {required, is(v1alpha1.StateWarmup), pulling(required), lifecycle.ImagesPulling, true},
		"it has pulled":     {required, is(v1alpha1.StateWarmup), pulling(required, pulled), lifecycle.ImagesSettled, false},
		"that is recorded": {required, is(v1alpha1.StateWarmup, scalertest.Having("a")), pulling(required, pulled),
			lifecycle.ImagesPresent, false},
		"it cannot pull": {required, is(v1alpha1.StateWarmup), pulling(required, notPulled), lifecycle.ImagesFailing, true},
		"that was reported": {required, is(v1alpha1.StateWarmup, reported("a")), pulling(required, notPulled),
			lifecycle.ImagesFailureReported, true},
		"that was reported in an earlier try": {required, is(v1alpha1.StateWarmup, reported("a"), again),
			pulling(required, notPulled), lifecycle.ImagesFailing, true},
		"another image was reported": {required, is(v1alpha1.StateWarmup, reported("b")), pulling(required, notPulled),
			lifecycle.ImagesFailing, true},
		"the kubelet has refused the pod": {required, is(v1alpha1.StateWarmup), pulling(required, refusedByKubelet),
			lifecycle.ImagesFailing, true},
		"that was reported, so another pod is made": {required, is(v1alpha1.StateWarmup, reported("a")),
			pulling(required, refusedByKubelet), lifecycle.ImagesUnknown, true},
		"but not at once": {required, is(v1alpha1.StateWarmup, reported("a")),
			pulling(required, refusedByKubelet, youngerThan(refusedRest)), lifecycle.ImagesFailureReported, true},
		"a best-effort image cannot be pulled": {bestEffort, is(v1alpha1.StateWarmup), pulling(bestEffort, notPulled),
			lifecycle.ImagesSettled, false},
		"a pod with best-effort images was denied": {bestEffort, is(v1alpha1.StateWarmup, reported("a")), nil,
			lifecycle.ImagesSettled, false},
		"and in an earlier try": {bestEffort, is(v1alpha1.StateWarmup, reported("a"), again), nil,
			lifecycle.ImagesUnknown, false},
		"before a stop no registry is waited for": {required, is(v1alpha1.StateStopping), pulling(required, notPulled),
			lifecycle.ImagesSettled, true},
		"before a stop they were looked at": {required, is(v1alpha1.StateStopping, checked), nil,
			lifecycle.ImagesPresent, true},
		"a running node, on which nothing depends": {required, is(v1alpha1.StateRunning), nil,
			lifecycle.ImagesPresent, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(reading("", provider.InstanceRunning, func(r *raw) {
				r.node, r.pods = c.node, c.pods
				r.pool.Spec.PreWarm.ImagesToPull = c.wanted.All()
				r.pool.Spec.PreWarm.ImagePullPolicy = v1alpha1.ImagesRequired
				if len(c.wanted.Required) == 0 {
					r.pool.Spec.PreWarm.ImagePullPolicy = v1alpha1.ImagesBestEffort
				}
			}), scalertest.Epoch())
			if o.Node.Images != c.want || o.Node.ImagesOptional == c.incomplete {
				t.Errorf("images %q, optional %t; want %q, %t", o.Node.Images, o.Node.ImagesOptional, c.want, !c.incomplete)
			}
		})
	}
}
