package fake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// kubeletVersion is what the machines' kubelets say they are: below any API server that the tests
// run.
const kubeletVersion = "v1.36.0-fake"

func compareStrings[T ~string](a, b T) int { return cmp.Compare(a, b) }

// defaultLabels are those that every kubelet sets on its Node.
func (m *machine) defaultLabels() map[string]string {
	return map[string]string{
		corev1.LabelHostname:           string(m.name),
		corev1.LabelArchStable:         archOf(m.size),
		corev1.LabelOSStable:           "linux",
		corev1.LabelInstanceTypeStable: m.Type,
		corev1.LabelTopologyZone:       m.Zone,
		corev1.LabelTopologyRegion:     m.Region,
	}
}

// newNode is the Node as the kubelet registers it: NotReady, with the flags' labels and taints.
func (m *machine) newNode(now time.Time) *corev1.Node {
	labels := maps.Clone(m.script.labels)
	maps.Copy(labels, m.defaultLabels())
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: string(m.name), Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: m.ProviderID, Taints: m.script.taints},
	}
	report := m.fullReport(now, false, !simcloud.HasDevices(m.size.Capacity))
	node.Status = corev1.NodeStatus{
		Capacity: report.Capacity, Allocatable: report.Allocatable, Addresses: report.Addresses,
		NodeInfo: *report.NodeInfo, Conditions: report.Conditions,
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.LastTransitionTime = c.LastHeartbeatTime
		if c.Type == corev1.NodeReady {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, "KubeletNotReady", "container runtime network not ready"
		}
	}
	return node
}

// adoption returns the patch that a kubelet makes to a Node that exists; nil for none. The instance
// type is a cloud controller's to write, at the Node's initialisation only.
func adoption(node *corev1.Node, m *machine) []byte {
	missing := map[string]string{}
	for name, value := range m.defaultLabels() {
		if has := node.Labels[name]; has != value && (has == "" || name != corev1.LabelInstanceTypeStable) {
			missing[name] = value
		}
	}
	patch := map[string]any{}
	if len(missing) > 0 {
		patch["metadata"] = map[string]any{"labels": missing}
	}
	if node.Spec.ProviderID == "" {
		patch["spec"] = map[string]any{"providerID": m.ProviderID}
	}
	if len(patch) == 0 {
		return nil
	}
	return mustJSON(patch)
}

// mustJSON marshals plain maps and API types, which cannot fail.
func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fake: %v", err))
	}
	return text
}

// statusReport is the part of Node.status that a kubelet writes, as a strategic merge patch:
// conditions merge by type, so those of others stay.
type statusReport struct {
	Conditions  []corev1.NodeCondition  `json:"conditions,omitempty"`
	Capacity    corev1.ResourceList     `json:"capacity,omitempty"`
	Allocatable corev1.ResourceList     `json:"allocatable,omitempty"`
	Addresses   []corev1.NodeAddress    `json:"addresses,omitempty"`
	NodeInfo    *corev1.NodeSystemInfo  `json:"nodeInfo,omitempty"`
	Images      []corev1.ContainerImage `json:"images,omitempty"`
}

// fullReport is everything the machine has to say now.
func (m *machine) fullReport(now time.Time, network, devices bool) statusReport {
	stamp := metav1.NewTime(now.Truncate(time.Second))
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason,
		message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: stamp}
	}
	r := statusReport{
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory",
				"kubelet has sufficient memory available"),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure",
				"kubelet has no disk pressure"),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID",
				"kubelet has sufficient PID available"),
			condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
		},
		Capacity:    m.size.Capacity,
		Allocatable: m.size.Capacity,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: m.Address},
			{Type: corev1.NodeInternalDNS, Address: string(m.name)},
			{Type: corev1.NodeHostName, Address: string(m.name)},
		},
		NodeInfo: m.nodeInfo(),
		Images:   m.imageList(),
	}
	if network {
		c := m.script.cni.condition
		c.LastHeartbeatTime = stamp
		r.Conditions = append(r.Conditions, c)
	}
	if !devices {
		r.Capacity = simcloud.WithoutDevices(m.size.Capacity)
		r.Allocatable = r.Capacity
	}
	return r
}

func (m *machine) nodeInfo() *corev1.NodeSystemInfo {
	return &corev1.NodeSystemInfo{
		MachineID:               string(m.ID),
		SystemUUID:              string(m.ID),
		BootID:                  fmt.Sprintf("%s-%d", m.ID, m.now().boot.Number),
		KernelVersion:           "6.12.0",
		OSImage:                 "Stratos fake machine",
		ContainerRuntimeVersion: "containerd://2.0.0",
		KubeletVersion:          kubeletVersion,
		OperatingSystem:         "linux",
		Architecture:            m.defaultLabels()[corev1.LabelArchStable],
	}
}

// reportStatus writes a report. A Node that was deleted under a running kubelet stays deleted:
// the real one registers at its start only.
func (m *Machines) reportStatus(ctx context.Context, mach *machine, bootNumber int, make func() statusReport) (bool,
	error) {
	return mach.speak(bootNumber, func() error {
		report := make()
		m.keepTransitions(mach, report.Conditions)
		patch := mustJSON(map[string]any{"status": report})
		_, err := m.o.Client.CoreV1().Nodes().Patch(ctx, string(mach.name), types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("report status: %w", err)
		}
		mach.stamped(report.Conditions)
		return nil
	})
}

// keepTransitions sets each condition's transition time: the one on the Node where the status is
// the same, else now.
func (m *Machines) keepTransitions(mach *machine, conditions []corev1.NodeCondition) {
	before := map[corev1.NodeConditionType]corev1.NodeCondition{}
	if node := m.cachedNode(mach.name); node != nil {
		for _, c := range node.Status.Conditions {
			before[c.Type] = c
		}
	}
	for i := range conditions {
		c := &conditions[i]
		c.LastTransitionTime = c.LastHeartbeatTime
		if old, ok := before[c.Type]; ok && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
}
