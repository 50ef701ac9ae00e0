package fake

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaseSeconds is the kubelet's nodeLeaseDurationSeconds.
const leaseSeconds int32 = 40

// renew renews one machine's lease and returns when to do so again.
func (m *Machines) renew(ctx context.Context, k key) (time.Duration, error) {
	mach := m.machine(k.machine)
	if mach == nil {
		return 0, nil
	}
	l := mach.now()
	if !l.up || !l.reported {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	spoken, err := mach.speak(l.boot.Number, func() error { return m.writeLease(ctx, mach) })
	if err != nil {
		// Another client wrote or deleted it: begin from what is there.
		mach.lease = nil
		return 0, fmt.Errorf("renew lease: %w", err)
	}
	if !spoken {
		return 0, nil
	}
	// The kubelet's jitter, without which a burst of starts renews in step forever.
	return time.Duration(float64(m.o.LeasePeriod) * (0.96 + 0.08*rand.Float64())), nil
}

func (m *Machines) writeLease(ctx context.Context, mach *machine) error {
	leases := m.o.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if mach.lease == nil {
		lease, err := leases.Get(ctx, string(mach.name), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			created, err := leases.Create(ctx, m.freshLease(mach, nil), metav1.CreateOptions{})
			if err == nil {
				mach.lease = created
			}
			return err
		}
		if err != nil {
			return err
		}
		mach.lease = lease
	}
	updated, err := leases.Update(ctx, m.freshLease(mach, mach.lease), metav1.UpdateOptions{})
	if err == nil {
		mach.lease = updated
	}
	return err
}

// freshLease returns the lease to write. Its owner is the Node, so that it goes with it; the owner
// is set as soon as the shared watch knows the Node's UID.
func (m *Machines) freshLease(mach *machine, old *coordinationv1.Lease) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: string(mach.name),
		Namespace: corev1.NamespaceNodeLease}}
	if old != nil {
		lease = old.DeepCopy()
	}
	now := metav1.NewMicroTime(time.Now())
	lease.Spec.HolderIdentity = new(string(mach.name))
	lease.Spec.LeaseDurationSeconds = new(leaseSeconds)
	lease.Spec.RenewTime = &now
	if node := m.cachedNode(mach.name); node != nil && node.UID != "" {
		lease.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
		}}
	}
	return lease
}
