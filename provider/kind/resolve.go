package kind

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// ResolveNodeClass returns what the class's spec stands for now. Nothing is pulled: the daemon may
// reach no registry, and a gigabyte would come without a request for it. Errors:
// InvalidConfig (image or cluster do not exist, more is reserved than the machine has), Docker's
// own.
func (p *Provider) ResolveNodeClass(ctx context.Context, class *v1alpha1.KindNodeClass) (v1alpha1.KindNodeClassStatus,
	error) {
	var none v1alpha1.KindNodeClassStatus
	control, err := p.controlPlane(ctx, class.Spec.Cluster)
	if err != nil {
		return none, err
	}
	// Of an unset image the control plane's own id is taken: its name may stand for a newer image by
	// now, of another version.
	image := control.Image
	if class.Spec.Image != "" {
		image = class.Spec.Image
	}
	found, err := p.docker.ImageInspect(ctx, image)
	if errdefs.IsNotFound(err) {
		return none, &provider.InvalidConfigError{Field: "spec.image",
			Reason: fmt.Sprintf("Docker does not have %s; pull it there first", image)}
	}
	if err != nil {
		return none, fmt.Errorf("docker: reading image %s: %w", image, err)
	}
	machine, err := p.docker.Info(ctx)
	if err != nil {
		return none, fmt.Errorf("docker: reading the machine's size: %w", err)
	}
	capacity, err := left(corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(machine.NCPU), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(machine.MemTotal, resource.BinarySI),
	}, class.Spec.Reserved)
	if err != nil {
		return none, err
	}
	return v1alpha1.KindNodeClassStatus{Image: found.ID, ControlPlane: strings.TrimPrefix(control.Name, "/"),
		Capacity: capacity}, nil
}

// left is what the machine has less what is reserved. A kubelet that reserves all there is does not
// start.
func left(machine, reserved corev1.ResourceList) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		amount := machine[name].DeepCopy()
		amount.Sub(reserved[name])
		if amount.Sign() <= 0 {
			had, wanted := machine[name], reserved[name]
			return nil, &provider.InvalidConfigError{Field: fmt.Sprintf("spec.reserved[%s]", name),
				Reason: fmt.Sprintf("%s must be less than the %s that Docker's machine has", wanted.String(), had.String())}
		}
		out[name] = amount
	}
	return out, nil
}
