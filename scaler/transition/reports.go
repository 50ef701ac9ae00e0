package transition

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// keepSeen carries over what was seen of the node in this warm-up where it is adopted once more,
// and notes a startup taint that stands now: that it is gone later says that another controller
// removed it.
func keepSeen(n, is *corev1.Node, t Template) {
	for _, key := range []string{v1alpha1.AnnotationReadySeen, v1alpha1.AnnotationNetworkSeen,
		v1alpha1.AnnotationStartupTaintsSeen} {
		if value := n.Annotations[key]; value != "" {
			metav1.SetMetaDataAnnotation(&is.ObjectMeta, key, value)
		}
	}
	for i := range t.StartupTaints {
		if slices.ContainsFunc(n.Spec.Taints, func(o corev1.Taint) bool { return o.MatchTaint(&t.StartupTaints[i]) }) {
			metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationStartupTaintsSeen, "true")
		}
	}
}

// Seen records that a warming node was Ready, and whether its network was up. Both outlive
// Ready=False, which a kubelet with graceful node shutdown reports before it ends. The allocatable
// resources are recorded for the same reason.
func Seen(n *corev1.Node, network bool, now time.Time) Patch {
	is := editable(n)
	seen(is, network, now)
	raiseAllocatable(n, is)
	return patchFromTo(n, is)
}

func seen(is *corev1.Node, network bool, now time.Time) {
	at := now.UTC().Format(time.RFC3339)
	if is.Annotations[v1alpha1.AnnotationReadySeen] == "" {
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationReadySeen, at)
	}
	if network && is.Annotations[v1alpha1.AnnotationNetworkSeen] == "" {
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationNetworkSeen, at)
	}
}

// recordReports records what the kubelet and the network agents have reported until now.
func recordReports(n, is *corev1.Node, agents string) {
	metav1.SetMetaDataAnnotation(
		&is.ObjectMeta, v1alpha1.AnnotationHeartbeatAtStop, FormatHeartbeats(n.Status.Conditions))
	delete(is.Annotations, v1alpha1.AnnotationAgentsAtStop)
	if agents != "" {
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationAgentsAtStop, agents)
	}
}

// recordAllocatable records what the node offers before its stop begins.
func recordAllocatable(n, is *corev1.Node) {
	metav1.SetMetaDataAnnotation(
		&is.ObjectMeta, v1alpha1.AnnotationAllocatableAtStop, v1alpha1.FormatResources(n.Status.Allocatable))
}

// raiseAllocatable records what the node offers, but of no resource less than is recorded already:
// a kubelet that shuts down ends its device plugins first and reports 0 of their resources.
func raiseAllocatable(n, is *corev1.Node) {
	recorded, err := v1alpha1.ParseResources(n.Annotations[v1alpha1.AnnotationAllocatableAtStop])
	if err != nil {
		recorded = nil // not written by us
	}
	most := n.Status.Allocatable.DeepCopy()
	for name, quantity := range recorded {
		if now, ok := most[name]; decide.IsDevice(name) && (!ok || now.Cmp(quantity) < 0) {
			if most == nil {
				most = corev1.ResourceList{}
			}
			most[name] = quantity
		}
	}
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationAllocatableAtStop, v1alpha1.FormatResources(most))
}

// recordDevicesAlone drops what was recorded of the rest: it is that of the type before.
func recordDevicesAlone(is *corev1.Node) {
	recorded, err := v1alpha1.ParseResources(is.Annotations[v1alpha1.AnnotationAllocatableAtStop])
	if err != nil || len(recorded) == 0 {
		return
	}
	maps.DeleteFunc(recorded, func(name corev1.ResourceName, _ resource.Quantity) bool { return !decide.IsDevice(name) })
	is.Annotations[v1alpha1.AnnotationAllocatableAtStop] = v1alpha1.FormatResources(recorded)
}

// MissingDevices lists the devices of which the node offers less than was recorded, sorted, as "4
// of 8 nvidia.com/gpu".
func MissingDevices(n *corev1.Node) []string {
	recorded, err := v1alpha1.ParseResources(n.Annotations[v1alpha1.AnnotationAllocatableAtStop])
	if err != nil {
		return nil // not written by us
	}
	var out []string
	for name, quantity := range recorded {
		if now := n.Status.Allocatable[name]; decide.IsDevice(name) && now.Cmp(quantity) < 0 {
			out = append(out, fmt.Sprintf("%s of %s %s", now.String(), quantity.String(), name))
		}
	}
	slices.Sort(out)
	return out
}

// FormatHeartbeats writes the last heartbeat of every condition that a kubelet or network agent
// reports.
func FormatHeartbeats(conditions []corev1.NodeCondition) string {
	beats := map[string]string{}
	for _, c := range conditions {
		if !strings.HasPrefix(string(c.Type), v1alpha1.Group) {
			beats[string(c.Type)] = c.LastHeartbeatTime.UTC().Format(time.RFC3339)
		}
	}
	out, err := json.Marshal(beats)
	if err != nil {
		return "" // a map of strings always encodes
	}
	return string(out)
}

// Fresh reports whether the condition was reported after the heartbeats were recorded. Without a
// record everything is fresh: the node has not been stopped by us yet. Only the kubelet's own
// stamps are compared, never our clock.
func Fresh(n *corev1.Node, c *corev1.NodeCondition) bool {
	at, recorded := HeartbeatAtStop(n, c.Type)
	return !recorded || c.LastHeartbeatTime.After(at)
}

// FreshNetwork is Fresh for a condition that a network agent writes. Agents stamp what they change,
// some without a heartbeat: a transition after the last heartbeat before the stop is news too.
func FreshNetwork(n *corev1.Node, c *corev1.NodeCondition) bool {
	at, recorded := HeartbeatAtStop(n, c.Type)
	return !recorded || c.LastHeartbeatTime.After(at) || c.LastTransitionTime.After(at)
}

// Condition is the Node's condition of that kind, nil for none. The function of component-helpers
// would bring a client into the pure packages.
func Condition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// HeartbeatAtStop is the condition's heartbeat as it was recorded at the last stop, false where
// none was.
func HeartbeatAtStop(n *corev1.Node, kind corev1.NodeConditionType) (time.Time, bool) {
	beats := map[string]string{}
	if err := json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationHeartbeatAtStop]), &beats); err != nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, beats[string(kind)])
	return at, err == nil
}
