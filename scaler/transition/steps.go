package transition

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// marks are the annotations that belong to one stretch of a node's life. Every step clears them all
// and writes those that hold from then on. Left alone: what a person wrote, what describes the
// instance, and what counts failures.
func marks() []string {
	return []string{
		v1alpha1.AnnotationScaleUpStarted, v1alpha1.AnnotationScaleDownCandidateSince, v1alpha1.AnnotationClaims,
		v1alpha1.AnnotationStopReason, v1alpha1.AnnotationStopIntent, v1alpha1.AnnotationStoppingSince,
		v1alpha1.AnnotationNudgedAt, v1alpha1.AnnotationRunningSince, v1alpha1.AnnotationDrainFailedAt,
		v1alpha1.AnnotationDrainFailures,
		v1alpha1.AnnotationSurplusSince, v1alpha1.AnnotationWarmupStarted, v1alpha1.AnnotationImagesChecked,
		v1alpha1.AnnotationStopAsked,
		v1alpha1.AnnotationReadySeen, v1alpha1.AnnotationNetworkSeen, v1alpha1.AnnotationStartupTaintsSeen,
	}
}

// Template is what a pool demands of its Nodes.
type Template struct {
	Pool          v1alpha1.PoolName
	Labels        map[string]string
	Taints        []corev1.Taint
	StartupTaints []corev1.Taint
	// RemoveStartupTaints: Stratos takes them away itself when the node runs (WhenNetworkReady).
	RemoveStartupTaints bool
	// Instance is the cloud's id, for people.
	Instance v1alpha1.InstanceID
	// Origin are the annotations that say what the instance was launched from.
	Origin map[string]string
}

// TemplateOf reads what the pool demands of the Node of one instance; nil is a pool that is gone.
func TemplateOf(p *v1alpha1.NodePool, pool v1alpha1.PoolName, id v1alpha1.InstanceID) Template {
	t := Template{Pool: pool, Instance: id}
	if p == nil {
		return t
	}
	spec := &p.Spec.Template
	t.Labels, t.Taints, t.StartupTaints = spec.Labels, spec.Taints, spec.StartupTaints
	t.RemoveStartupTaints = spec.StartupTaintRemovalOrDefault() == v1alpha1.RemoveWhenNetworkReady
	return t
}

// Warmup adopts a Node that registered: it gets the pool's labels and taints and is closed to pods.
func Warmup(n *corev1.Node, t Template) Patch { return patchFromTo(n, warmup(n, t)) }

// Reregistered adopts the Node under which the kubelet of an instance registers that had another
// Node before. User data does not run again, so Stratos ends this warm-up.
func Reregistered(n *corev1.Node, t Template, now time.Time) Patch {
	is := warmup(n, t)
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationWarmupStarted, now.UTC().Format(time.RFC3339Nano))
	return patchFromTo(n, is)
}

func warmup(n *corev1.Node, t Template) *corev1.Node {
	is := toState(n, v1alpha1.StateWarmup)
	metav1.SetMetaDataLabel(&is.ObjectMeta, v1alpha1.LabelPool, string(t.Pool))
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationInstanceID, string(t.Instance))
	keepSeen(n, is, t)
	for k, v := range t.Origin {
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, k, v)
	}
	for k, v := range t.Labels {
		metav1.SetMetaDataLabel(&is.ObjectMeta, k, v)
	}
	for i := range t.Taints {
		addTaint(is, t.Taints[i])
	}
	closeNode(is)
	return is
}

// Mended restores what was removed from a Node that Stratos adopted: pool and instance, and, while
// it is not running, what keeps pods off it. On a running node users may change labels, taints and
// the cordon; the outdated taints of other controllers go. kind is the type that the cloud shows of
// the instance, "" where nothing of that is to be written.
func Mended(n *corev1.Node, t Template, kind string) Patch {
	is := editable(n)
	if kind != "" {
		typeShown(is, kind)
	}
	metav1.SetMetaDataLabel(&is.ObjectMeta, v1alpha1.LabelPool, string(t.Pool))
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationInstanceID, string(t.Instance))
	if v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) == v1alpha1.StateRunning {
		is.Spec.Taints = slices.DeleteFunc(is.Spec.Taints, func(taint corev1.Taint) bool {
			return decide.IsOutdatedTaint(n, &taint)
		})
	} else {
		closeNode(is)
	}
	return patchFromTo(n, is)
}

// Warmed records that a warming node was seen complete.
func Warmed(n *corev1.Node, now time.Time) Patch {
	is := editable(n)
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationWarmedAt, now.UTC().Format(time.RFC3339))
	seen(is, true, now)
	raiseAllocatable(n, is)
	return patchFromTo(n, is)
}

// Stamp writes what the instance was launched from on a Node that does not say so.
func Stamp(n *corev1.Node, origin map[string]string) Patch {
	if len(origin) == 0 {
		return nil
	}
	is := editable(n)
	for k, v := range origin {
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, k, v)
	}
	return patchFromTo(n, is)
}

// Surplus marks a standby node as one above minStandby since the given time; the zero time takes
// the mark away.
func Surplus(n *corev1.Node, since time.Time) Patch {
	is := editable(n)
	delete(is.Annotations, v1alpha1.AnnotationSurplusSince)
	if !since.IsZero() {
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationSurplusSince, since.UTC().Format(time.RFC3339))
	}
	return patchFromTo(n, is)
}

// Standby says that the instance is stopped and can be started. It records what a start must
// surpass: the heartbeats of the kubelet and the container starts of the network agents as they are
// now that the cloud says stopped, and the allocatable resources of a node that had been whole,
// unless an intent to stop has recorded them before. n must be read from the API server, not from a
// cache: a heartbeat that a cache missed would count as fresh later.
func Standby(n *corev1.Node, t Template, whole bool, agents string) Patch {
	is := toState(n, v1alpha1.StateStandby)
	recordReports(n, is, agents)
	recorded := v1alpha1.StopIntentOf(n).Stands() && n.Annotations[v1alpha1.AnnotationAllocatableAtStop] != ""
	if whole && !recorded {
		raiseAllocatable(n, is)
	}
	for i := range t.StartupTaints {
		addTaint(is, t.StartupTaints[i])
	}
	closeNode(is)
	return patchFromTo(n, is)
}

// Starting is the start intent, written before the cloud is called. It puts back the startup taints
// that are missing: that one is gone later says that another controller removed it since. as is the
// type that the instance is to be changed to before, "" where it keeps its own. It tests the
// backoff and the type that the caller decided by: another writer may have started the node
// meanwhile, for nothing.
func Starting(n *corev1.Node, startup []corev1.Taint, claims []types.UID, as string, now time.Time) Patch {
	is := toState(n, v1alpha1.StateStarting)
	if as != "" {
		setType(is, as)
	}
	for i := range startup {
		addTaint(is, startup[i])
	}
	// With its fraction: a process that begins after a crash has to tell whether the intent is older
	// than itself.
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationScaleUpStarted, now.UTC().Format(time.RFC3339Nano))
	setClaims(is, claims)
	var p Patch
	if kind, ok := n.Labels[corev1.LabelInstanceTypeStable]; ok {
		p = append(p, Op{Op: "test", Path: "/metadata/labels/" + escape(corev1.LabelInstanceTypeStable), Value: kind})
	}
	p = append(p, patchFromTo(n, is)...)
	// Last, where the patch has given annotations to a Node that had none: a test needs the map.
	return append(p, testAnnotation(n, v1alpha1.AnnotationUnavailableUntil))
}

// Claims publishes which pods have claims on the node.
func Claims(n *corev1.Node, claims []types.UID) Patch {
	is := editable(n)
	setClaims(is, claims)
	return patchFromTo(n, is)
}

// StartFailed cancels the start intent: the node is standby again and backs off until the given
// time.
func StartFailed(n *corev1.Node, until time.Time) Patch {
	is := toState(n, v1alpha1.StateStandby)
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationStartFailures, strconv.Itoa(Failures(n)+1))
	setUntil(is, until)
	return patchFromTo(n, is)
}

// StartUnclaimed cancels the start intent of a node that no pod needs any more and that the cloud
// was not asked to start.
func StartUnclaimed(n *corev1.Node) Patch {
	return patchFromTo(n, toState(n, v1alpha1.StateStandby))
}

// StartDeclined cancels the start intent of a node that is not at fault: it backs off until the
// given time, not at all where that is zero, and its strikes stay as they are. kind is the type of
// its instance where the cloud was asked for it, else "".
func StartDeclined(n *corev1.Node, until time.Time, kind string) Patch {
	is := toState(n, v1alpha1.StateStandby)
	if !until.IsZero() {
		setUntil(is, until)
	}
	if kind != "" {
		typeShown(is, kind)
	}
	return patchFromTo(n, is)
}

// OfType says that the stopped instance is to become the type. It is written before the cloud is
// asked.
func OfType(n *corev1.Node, kind string) Patch {
	is := editable(n)
	setType(is, kind)
	return append(Patch{{Op: "test", Path: "/metadata/labels/" + escape(v1alpha1.LabelState),
		Value: n.Labels[v1alpha1.LabelState]}}, patchFromTo(n, is)...)
}

func setType(is *corev1.Node, kind string) {
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationInstanceType, kind)
	v1alpha1.SetInstanceType(is.Labels, kind)
	recordDevicesAlone(is)
}

// typeShown takes in the type that the cloud shows of the instance. Nodes without a label of their
// type are left without.
func typeShown(is *corev1.Node, kind string) {
	delete(is.Annotations, v1alpha1.AnnotationInstanceType)
	if shown := is.Labels[corev1.LabelInstanceTypeStable]; shown != "" && shown != kind {
		v1alpha1.SetInstanceType(is.Labels, kind)
	}
}

// Running opens the node to pods: our cordon and all lifecycle taints go in one patch, also those
// that the node and cloud controllers would take away in their 5 s loops. That is safe because the
// kubelet has reported anew; where it is wrong they come back. A person's cordon and taints stay.
// It tests that no stop intent stands: a cache that lags, or another leader, may not have seen it
// yet, and after it the stop is not cancelled.
func Running(n *corev1.Node, t Template, now time.Time) Patch {
	is := toState(n, v1alpha1.StateRunning)
	delete(is.Labels, v1alpha1.LabelExcludeDisruption)
	for _, k := range []string{
		v1alpha1.AnnotationStartFailures, v1alpha1.AnnotationUnavailableUntil, v1alpha1.AnnotationHeartbeatAtStop,
		v1alpha1.AnnotationAgentsAtStop, v1alpha1.AnnotationInstanceType,
	} {
		delete(is.Annotations, k)
	}
	if len(MissingDevices(n)) > 0 { // they are not waited for any more, at the next start neither
		recordAllocatable(n, is)
	}
	since := now.UTC().Format(time.RFC3339)
	// a stop was cancelled: max runtime counts on
	if before := n.Annotations[v1alpha1.AnnotationRunningSince]; before != "" {
		since = before
	}
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationRunningSince, since)
	open(is)
	is.Spec.Taints = slices.DeleteFunc(is.Spec.Taints, func(taint corev1.Taint) bool {
		return goesWhenRunning(is, &taint, t)
	})
	return append(Patch{{Op: "test", Path: "/metadata/annotations/" + escape(v1alpha1.AnnotationStopIntent)}},
		patchFromTo(n, is)...)
}

// Opened is Running at the end of a start. It writes how the start went; nil where that is not
// known, and then what is written of an earlier start goes.
func Opened(n *corev1.Node, t Template, last *v1alpha1.LastStart, now time.Time) Patch {
	path := "/metadata/annotations/" + escape(v1alpha1.AnnotationLastStart)
	switch _, was := n.Annotations[v1alpha1.AnnotationLastStart]; {
	case last != nil:
		return append(Running(n, t, now), Op{Op: "add", Path: path, Value: last.Text()})
	case was:
		return append(Running(n, t, now), Op{Op: "remove", Path: path})
	}
	return Running(n, t, now)
}

// Backoff lets the backoff of a node end at the given time.
func Backoff(n *corev1.Node, until time.Time) Patch {
	is := editable(n)
	setUntil(is, until)
	return patchFromTo(n, is)
}

func setUntil(is *corev1.Node, until time.Time) {
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationUnavailableUntil, until.UTC().Format(time.RFC3339))
}

// Empty marks a running node as empty since now.
func Empty(n *corev1.Node, now time.Time) Patch {
	is := editable(n)
	metav1.SetMetaDataAnnotation(
		&is.ObjectMeta, v1alpha1.AnnotationScaleDownCandidateSince, now.UTC().Format(time.RFC3339))
	return patchFromTo(n, is)
}

// InUse takes the mark of an empty node away.
func InUse(n *corev1.Node) Patch {
	is := editable(n)
	delete(is.Annotations, v1alpha1.AnnotationScaleDownCandidateSince)
	return patchFromTo(n, is)
}

// testAnnotation tests that the annotation is as the Node has it, or that there is none. The Node
// must have some annotation.
func testAnnotation(n *corev1.Node, key string) Op {
	op := Op{Op: "test", Path: "/metadata/annotations/" + escape(key)}
	if value, ok := n.Annotations[key]; ok {
		op.Value = value
	}
	return op
}

// toState copies the Node into another state without the marks of the one before.
func toState(n *corev1.Node, s v1alpha1.NodeState) *corev1.Node {
	is := editable(n)
	if is.Labels == nil {
		is.Labels = map[string]string{}
	}
	v1alpha1.SetState(is.Labels, s)
	for _, k := range marks() {
		delete(is.Annotations, k)
	}
	return is
}

// closeNode closes a node to pods. A cordon that stands already is another owner's and stays
// theirs.
func closeNode(n *corev1.Node) {
	metav1.SetMetaDataLabel(&n.ObjectMeta, v1alpha1.LabelExcludeDisruption, "true")
	addTaint(n, corev1.Taint{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule})
	if !n.Spec.Unschedulable {
		n.Spec.Unschedulable = true
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.AnnotationCordoned, "true")
	}
}

// open takes our cordon away and leaves a person's.
func open(n *corev1.Node) {
	if n.Annotations[v1alpha1.AnnotationCordoned] == "true" {
		n.Spec.Unschedulable = false
		delete(n.Annotations, v1alpha1.AnnotationCordoned)
	}
}

func goesWhenRunning(n *corev1.Node, taint *corev1.Taint, t Template) bool {
	return taint.Key == v1alpha1.TaintStandby || decide.IsOutdatedTaint(n, taint) ||
		t.RemoveStartupTaints && slices.ContainsFunc(t.StartupTaints,
			func(s corev1.Taint) bool { return s.MatchTaint(taint) })
}

func addTaint(n *corev1.Node, t corev1.Taint) {
	if !slices.ContainsFunc(n.Spec.Taints, func(o corev1.Taint) bool { return o.MatchTaint(&t) }) {
		n.Spec.Taints = append(n.Spec.Taints, t)
	}
}

func setClaims(n *corev1.Node, claims []types.UID) {
	if len(claims) == 0 {
		delete(n.Annotations, v1alpha1.AnnotationClaims)
		return
	}
	uids := make([]string, len(claims))
	for i := range claims {
		uids[i] = string(claims[i])
	}
	slices.Sort(uids)
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.AnnotationClaims, strings.Join(uids, ","))
}

// Failures reads how many starts in a row have failed.
func Failures(n *corev1.Node) int {
	count, err := strconv.Atoi(n.Annotations[v1alpha1.AnnotationStartFailures])
	if err != nil || count < 0 {
		return 0 // absent, or written by another program: then it carries no authority
	}
	return count
}

// WorkloadPods lists the pods that keep a node from being stopped, those nominated to it by
// others included: a nomination by Stratos shows a claim, which keeps the node by itself.
// ours is where Stratos runs.
func WorkloadPods(node string, ours decide.Namespace, pods []corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range pods {
		p := &pods[i]
		here := p.Spec.NodeName == node || p.Spec.NodeName == "" && string(decide.NominatedNode(p)) == node
		if here && decide.IsWorkloadPod(p, ours) {
			out = append(out, p)
		}
	}
	return out
}

// DeletingPods lists the pods on a node that do not count and are being deleted, static ones left
// out: those are their kubelet's. Once the instance is stopped none of them runs any more, and
// only Stratos knows that.
func DeletingPods(node string, ours decide.Namespace, pods []corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range pods {
		p := &pods[i]
		static := p.Annotations[corev1.MirrorPodAnnotationKey] != ""
		if p.Spec.NodeName == node && p.DeletionTimestamp != nil && !decide.IsWorkloadPod(p, ours) && !static {
			out = append(out, p)
		}
	}
	return out
}
