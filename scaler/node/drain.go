package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
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
	volumes, err := c.attached(ctx, node, pods)
	if err != nil {
		return "", err
	}
	for _, v := range volumes {
		names = append(names, "volume attachment "+v)
	}
	slices.Sort(names)
	const most = 3
	if len(names) == 0 {
		return "nothing any more", nil
	}
	return v1alpha1.FirstNames(names, most), nil
}

// attached lists the VolumeAttachments of the node, sorted, but for those of pods that stay on it
// until it stops. A volume that is attached to a stopped instance is lost to every other node until
// a person detaches it by force.
func (c *Reconciler) attached(ctx context.Context, node string, pods []corev1.Pod) ([]string, error) {
	list := &storagev1.VolumeAttachmentList{}
	err := c.Reader.List(ctx, list, client.MatchingFields{inventory.IndexAttachment: node})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	staying, err := c.volumesOf(ctx, node, pods)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		volume := list.Items[i].Spec.Source.PersistentVolumeName
		if volume == nil || !staying[*volume] {
			out = append(out, list.Items[i].Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// volumesOf are the names of the volumes that pods use which do not leave the node: those of
// DaemonSets, and static ones.
func (c *Reconciler) volumesOf(ctx context.Context, node string, pods []corev1.Pod) (map[string]bool, error) {
	counting := transition.WorkloadPods(node, c.Namespace, pods)
	used := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if slices.ContainsFunc(counting, func(o *corev1.Pod) bool { return o.UID == p.UID }) || fit.Finished(p) {
			continue
		}
		for _, claim := range fit.ClaimNames(p) {
			pvc := &corev1.PersistentVolumeClaim{}
			err := c.Reader.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: claim}, pvc)
			if client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			used[pvc.Spec.VolumeName] = true
		}
	}
	return used, nil
}
