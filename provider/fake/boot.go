package fake

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	// registerBefore is how long before its first Ready a kubelet registers NotReady.
	registerBefore = 200 * time.Millisecond
	// imageReportDelay collects images that arrive together into one report; a kubelet looks every 10
	// s.
	imageReportDelay = time.Second
)

// syncMachine brings one machine's Node to where it should be by now: registered, Ready, network,
// devices, images, heartbeat, and at last the end of its user data.
func (m *Machines) syncMachine(ctx context.Context, id v1alpha1.InstanceID) (time.Duration, error) {
	mach := m.machine(id)
	if mach == nil {
		return 0, nil
	}
	l := mach.now()
	if !l.up || l.boot.Silent || mach.script.refusal != "" {
		return 0, nil
	}
	if l.ending {
		return 0, m.shutDown(ctx, mach, l.boot.Number)
	}
	if wait := time.Until(l.boot.ReadyAt.Add(-registerBefore)); wait > 0 {
		return wait, nil
	}
	if !l.known {
		if err := m.register(ctx, mach, l.boot.Number); err != nil {
			return 0, err
		}
	}
	if wait := time.Until(l.boot.ReadyAt); wait > 0 {
		return wait, nil
	}
	if !l.reported {
		if wait := time.Until(m.nextStamp(mach)); wait > 0 && !mach.now().created {
			return wait, nil
		}
		if err := m.reportReady(ctx, mach, l.boot); err != nil {
			return 0, err
		}
	}
	return m.follow(ctx, mach)
}

// nextStamp returns the earliest time whose heartbeat is newer than every one on the Node.
// Heartbeats have whole seconds, so a machine that restarts within the second waits for the next:
// with the same stamp its report would look like one from before the stop.
func (m *Machines) nextStamp(mach *machine) time.Time {
	mach.Disk.Lock()
	last := mach.Disk.Heartbeat
	mach.Disk.Unlock()
	if node := m.cachedNode(mach.name); node != nil {
		for _, c := range node.Status.Conditions {
			ours := c.Type == corev1.NodeReady || c.Type == mach.script.cni.condition.Type
			if ours && c.LastHeartbeatTime.After(last) {
				last = c.LastHeartbeatTime.Time
			}
		}
	}
	if last.IsZero() {
		return time.Time{}
	}
	return last.Truncate(time.Second).Add(time.Second)
}

// cachedNode returns the Node as the shared watch last saw it; nil for none. It is not to be
// changed.
func (m *Machines) cachedNode(name v1alpha1.NodeName) *corev1.Node {
	object, ok, err := m.nodes.GetStore().GetByKey(string(name))
	if err != nil || !ok {
		return nil
	}
	node, _ := object.(*corev1.Node)
	return node
}

// register creates the Node, or takes the one that exists. Taints and labels of the kubelet's flags
// are part of the creation only; of a Node that exists nothing but missing default labels and the
// provider id are set.
func (m *Machines) register(ctx context.Context, mach *machine, bootNumber int) error {
	fresh := false
	spoken, err := mach.speak(bootNumber, func() error {
		if err := m.authenticate(ctx, mach); err != nil {
			return err
		}
		if node := m.cachedNode(mach.name); node != nil {
			return m.adopt(ctx, mach, node)
		}
		created, err := m.o.Client.CoreV1().Nodes().Create(ctx, mach.newNode(time.Now()), metav1.CreateOptions{})
		if err == nil {
			fresh = true
			mach.stamped(created.Status.Conditions)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("register: %w", err)
		}
		node, err := m.o.Client.CoreV1().Nodes().Get(ctx, string(mach.name), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("register: %w", err)
		}
		return m.adopt(ctx, mach, node)
	})
	if err != nil || !spoken {
		return err
	}
	mach.Disk.Lock()
	mach.Disk.Registered = true
	mach.Disk.Unlock()
	mach.update(bootNumber, func(l *life) { l.known, l.created = true, fresh })
	return nil
}

func (m *Machines) adopt(ctx context.Context, mach *machine, node *corev1.Node) error {
	if node.Spec.ProviderID != "" && node.Spec.ProviderID != mach.ProviderID {
		return fmt.Errorf("register: node %s belongs to %s", mach.name, node.Spec.ProviderID)
	}
	patch := adoption(node, mach)
	if patch == nil {
		return nil
	}
	_, err := m.o.Client.CoreV1().Nodes().Patch(ctx, string(mach.name), types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// stamped notes the newest heartbeat that was written.
func (m *machine) stamped(conditions []corev1.NodeCondition) {
	m.Disk.Lock()
	defer m.Disk.Unlock()
	for _, c := range conditions {
		if c.LastHeartbeatTime.After(m.Disk.Heartbeat) {
			m.Disk.Heartbeat = c.LastHeartbeatTime.Time
		}
	}
}

// reportReady is the first whole report of a boot. What follows from it: lease, pods, later
// reports.
func (m *Machines) reportReady(ctx context.Context, mach *machine, b simcloud.Boot) error {
	now := time.Now()
	due := mach.script.cni.firstDue(now, m.power.Times().NetworkDelay, b.NoNetwork)
	withNetwork := !due.IsZero() && !due.After(now)
	withDevices := b.DeviceDelay <= 0 || !simcloud.HasDevices(mach.size.Capacity)
	spoken, err := m.reportStatus(ctx, mach, b.Number, func() statusReport {
		return mach.fullReport(now, withNetwork && mach.script.cni.writes(m.cachedNode(mach.name)), withDevices)
	})
	if err != nil || !spoken {
		return err
	}
	if withNetwork {
		due = mach.script.cni.nextDue(now)
	}
	mach.update(b.Number, func(l *life) {
		l.reported, l.readyAt = true, now
		l.networkDue = due
		l.devices = withDevices
		l.heartbeatDue = now.Add(m.o.HeartbeatPeriod)
	})
	m.leases.Add(key{machine: mach.ID})
	m.takePods(mach)
	return nil
}

// takePods admits the pods that are bound to the machine already, oldest first as a kubelet does,
// and sets them going.
func (m *Machines) takePods(mach *machine) {
	pods := m.podsOf(mach)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return compareStrings(a.UID, b.UID)
	})
	for _, pod := range pods {
		if !finished(pod) {
			mach.admit(pod)
		}
		m.queue.Add(podKey(pod))
	}
}

// podsOf are the pods that are bound to the machine.
func (m *Machines) podsOf(mach *machine) []*corev1.Pod {
	objects, err := m.pods.GetIndexer().ByIndex(byNodeIndex, string(mach.name))
	if err != nil {
		return nil
	}
	var pods []*corev1.Pod
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// follow does what is due after Ready and returns when the next thing is.
func (m *Machines) follow(ctx context.Context, mach *machine) (time.Duration, error) {
	l := mach.now()
	if !l.reported || !l.up {
		return 0, nil
	}
	now := time.Now()
	next := agenda{now: now}
	if !l.networkDue.IsZero() && next.due(l.networkDue) ||
		!l.devices && next.due(l.readyAt.Add(l.boot.DeviceDelay)) ||
		l.imagesDirty || next.due(l.heartbeatDue) {
		if err := m.reportAgain(ctx, mach, now); err != nil {
			return 0, err
		}
		return time.Millisecond, nil
	}
	if l.boot.Number == 1 && mach.script.powersOff && next.due(l.readyAt.Add(m.power.Times().SelfStopAfter)) {
		m.power.ShutDown(mach.ID, l.boot.Number)
		return 0, nil
	}
	return next.wait(), nil
}

// reportAgain is a later report of the boot: conditions with new heartbeats, and whatever else has
// come.
func (m *Machines) reportAgain(ctx context.Context, mach *machine, now time.Time) error {
	l := mach.now()
	network := !l.networkDue.IsZero() && !now.Before(l.networkDue)
	devices := l.devices || !now.Before(l.readyAt.Add(l.boot.DeviceDelay))
	// The mark goes before the report: an image that comes meanwhile makes another one.
	mach.update(l.boot.Number, func(l *life) { l.imagesDirty = false })
	spoken, err := m.reportStatus(ctx, mach, l.boot.Number, func() statusReport {
		return mach.fullReport(now, network && mach.script.cni.writes(m.cachedNode(mach.name)), devices)
	})
	if err != nil {
		mach.update(l.boot.Number, func(l *life) { l.imagesDirty = true })
		return err
	}
	if spoken {
		mach.update(l.boot.Number, func(l *life) {
			l.devices = devices
			if network {
				l.networkDue = mach.script.cni.nextDue(now)
			}
			l.heartbeatDue = now.Add(m.o.HeartbeatPeriod)
		})
	}
	return nil
}

// agenda collects the times at which something is to be done.
type agenda struct{ now, next time.Time }

// due reports whether t has come, and remembers it otherwise.
func (a *agenda) due(t time.Time) bool {
	if !t.After(a.now) {
		return true
	}
	if a.next.IsZero() || t.Before(a.next) {
		a.next = t
	}
	return false
}

// wait returns the time until the next thing; 0 for nothing.
func (a *agenda) wait() time.Duration {
	if a.next.IsZero() {
		return 0
	}
	return max(time.Millisecond, a.next.Sub(a.now))
}
