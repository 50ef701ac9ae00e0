package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=list;watch

// abandonDrain cancels a drain that does not end.
func (c *Reconciler) abandonDrain(ctx context.Context, g gathered, why string) error {
	held, err := c.heldBy(ctx, g.node.Name)
	if err != nil {
		return err
	}
	if err := c.toRunning(ctx, g, lifecycle.Decision{Action: lifecycle.AbandonDrain, Reason: why}); err != nil {
		return err
	}
	c.Events.Eventf(g.node, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonDrainFailed), "AbandonDrain",
		"%s, back to running; held up by %s", why, held)
	return nil
}

// heldBy names the first few things that keep the node from being empty.
func (c *Reconciler) heldBy(ctx context.Context, node string) (string, error) {
	pods, err := c.podsOn(ctx, node)
	if err != nil {
		return "", err
	}
	var names []string
	for _, p := range transition.WorkloadPods(node, c.Namespace, pods) {
		names = append(names, "pod "+p.Namespace+"/"+p.Name)
	}
	volumes, err := c.volumesOf(ctx, node, pods)
	if err != nil {
		return "", err
	}
	for _, v := range volumes.attached() {
		names = append(names, "volume attachment "+v)
	}
	slices.Sort(names)
	const most = 3
	if len(names) == 0 {
		return "nothing any more", nil
	}
	return v1alpha1.FirstNames(names, most), nil
}

// nodeVolumes are the volumes of a node, as far as they decide when it is drained.
type nodeVolumes struct {
	// attachments are the node's VolumeAttachments.
	attachments []storagev1.VolumeAttachment
	// staying are the names of the volumes of pods that do not leave the node: those of DaemonSets,
	// and static ones.
	staying map[string]bool
}

// attached names the VolumeAttachments of the node, sorted, but for those of pods that stay on it
// until it stops. A volume that is attached to a stopped instance is lost to every other node until
// a person detaches it by force.
func (v nodeVolumes) attached() []string {
	var out []string
	for i := range v.attachments {
		volume := v.attachments[i].Spec.Source.PersistentVolumeName
		if volume == nil || !v.staying[*volume] {
			out = append(out, v.attachments[i].Name)
		}
	}
	slices.Sort(out)
	return out
}

// volumesOf reads the node's volumes. pods are those on it.
func (c *Reconciler) volumesOf(ctx context.Context, node string, pods []corev1.Pod) (nodeVolumes, error) {
	list := &storagev1.VolumeAttachmentList{}
	err := c.Reader.List(ctx, list, client.MatchingFields{inventory.IndexAttachment: node})
	if err != nil || len(list.Items) == 0 {
		return nodeVolumes{}, err
	}
	v := nodeVolumes{attachments: list.Items, staying: map[string]bool{}}
	for _, p := range stayingPods(node, c.Namespace, pods) {
		for _, claim := range fit.ClaimNames(p) {
			pvc := &corev1.PersistentVolumeClaim{}
			err := c.Reader.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: claim}, pvc)
			if client.IgnoreNotFound(err) != nil {
				return nodeVolumes{}, err
			}
			v.staying[pvc.Spec.VolumeName] = true
		}
	}
	return v, nil
}

// stayingPods are the pods that a drain leaves on the node.
func stayingPods(node string, ours decide.Namespace, pods []corev1.Pod) []*corev1.Pod {
	workload := transition.WorkloadPods(node, ours, pods)
	var out []*corev1.Pod
	for i := range pods {
		p := &pods[i]
		leaves := slices.ContainsFunc(workload, func(o *corev1.Pod) bool { return o.UID == p.UID })
		if !leaves && !fit.Finished(p) {
			out = append(out, p)
		}
	}
	return out
}
