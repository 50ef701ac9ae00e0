package node

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// observe makes the observation of what was read. It is pure, as is all that it calls: this file,
// network.go, promote.go and pulls.go import no client, logger or context.
func observe(r raw, now time.Time) lifecycle.Observation {
	o := lifecycle.Observation{
		Instance: observeInstance(&r), Policy: policyOf(r.pool, r.class), ProcessStart: r.processStart,
		StepObservedAt: r.stepObservedAt, Unreported: r.unreported,
	}
	if r.node == nil {
		o.EndUnexplained, o.TerminationRequested = o.Policy.Exists && r.instance.EndUnexplained(), r.instance.EndExplained
		return o
	}
	n := observeNode(r.node, r.template())
	o.Node = n
	o.Recycle, o.Refresh, o.Why = r.disruption.Reason, r.disruption.Refresh, r.disruption.Why
	o.Claims, o.ReturnTo, o.Reservation = r.claims, r.returnTo, r.reservation
	o.Fallback = r.fallback
	workload := transition.WorkloadPods(r.node.Name, r.namespace, r.pods)
	o.WorkloadPods, o.OverduePods, o.Serving = len(workload), overdueOf(workload, r.deletedSince, now), servingOf(workload)
	o.DeletingPods = len(transition.DeletingPods(r.node.Name, r.namespace, r.pods))
	n.DoNotDisrupt = pool.DoNotDisrupt(r.node, workload)
	status := r.networkStatus(n)
	n.NetworkReady, n.NetworkReported = networkReady(&r, n, status, now), status.Reported
	images := pullsOf(&r, n)
	n.Images, n.ImagesOptional = images.state(n, now), images.required.Missing() == 0
	o.Attached = len(r.volumes.attached())
	o.OtherStartsFail = isLastStart(n, r.instance.State) && othersFail(&r, now)
	o.Wanted = promotable(n) && wanted(&r, now)
	return o
}

// template is what Stratos writes to the Node.
func (r *raw) template() transition.Template {
	t := transition.TemplateOf(r.pool, r.instance.Pool(), r.instance.ID)
	t.Origin = nodeclass.OriginOf(r.instance, &corev1.Node{}).Annotations()
	return t
}

// observeInstance reads the cloud's side.
func observeInstance(r *raw) lifecycle.Instance {
	e := &r.instance
	return lifecycle.Instance{
		State: e.State, Launched: e.LaunchTime, Seen: e.Seen, Since: e.Since, Up: e.Up, Absent: e.Absent,
		Reason: e.StateReason, Accepted: r.startAccepted,
	}
}

// observeNode reads the cluster's side, as far as the Node alone shows it.
func observeNode(n *corev1.Node, t transition.Template) *lifecycle.Node {
	started := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationScaleUpStarted)
	ready := transition.Condition(n, corev1.NodeReady)
	missing := transition.MissingDevices(n)
	return &lifecycle.Node{
		State:         v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]),
		Ready:         ready != nil && ready.Status == corev1.ConditionTrue && transition.Fresh(n, ready),
		Reports:       inventory.Reports(n),
		Silent:        ready == nil || ready.Status == corev1.ConditionUnknown || !transition.Fresh(n, ready),
		EverReady:     wasReady(n, ready),
		ReadySeen:     n.Annotations[v1alpha1.AnnotationReadySeen] != "",
		NetworkSeen:   n.Annotations[v1alpha1.AnnotationNetworkSeen] != "",
		AgentTaint:    agentTaint(n, t),
		Complete:      len(missing) == 0,
		Devices:       strings.Join(missing, ", "),
		Warmed:        v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationWarmedAt),
		Started:       started,
		Running:       v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationRunningSince),
		EmptySince:    v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationScaleDownCandidateSince),
		StoppingSince: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationStoppingSince),
		Stop:          v1alpha1.StopIntentOf(n),
		Failures:      transition.Failures(n),
		DrainFailed:   v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationDrainFailedAt),
		DrainFailures: transition.DrainFailures(n),
		WarmupStarted: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationWarmupStarted),
		ImagesChecked: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationImagesChecked),

		UnavailableUntil: v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationUnavailableUntil),
	}
}

// wasReady reports whether some Ready report was true in the life of the Node, also one left over
// from before a stop.
func wasReady(n *corev1.Node, ready *corev1.NodeCondition) bool {
	if n.Annotations[v1alpha1.AnnotationReadySeen] != "" {
		return true
	}
	return ready != nil && (ready.Status == corev1.ConditionTrue || fellSilent(ready) || turnedNotReady(n, ready))
}

// fellSilent reports whether a kubelet that had reported does not report any more, so that it is
// not known whether it was Ready: its instance may have warmed up and stopped while no Stratos was
// there to see it.
func fellSilent(ready *corev1.NodeCondition) bool {
	return ready.Status == corev1.ConditionUnknown && ready.Reason == "NodeStatusUnknown"
}

// turnedNotReady reports whether the kubelet of a first warm-up said NotReady later than it
// registered: it was Ready in between. Both stamps are of the node's own clock: the conditions
// other than Ready do not change in a warm-up.
func turnedNotReady(n *corev1.Node, ready *corev1.NodeCondition) bool {
	pressure := transition.Condition(n, corev1.NodeMemoryPressure)
	if ready.Status != corev1.ConditionFalse || pressure == nil || n.Annotations[v1alpha1.AnnotationWarmupStarted] != "" {
		return false
	}
	return ready.LastTransitionTime.Sub(pressure.LastTransitionTime.Time) > registrationSkew
}

// registrationSkew is how far the stamps that one report puts on two conditions may lie apart: they
// have whole seconds.
const registrationSkew = time.Second

// agentTaint is the key of the first taint by which an agent says that it is down on the node, ""
// for none. Taints that the pool names in its startup taints are waited for with those.
func agentTaint(n *corev1.Node, t transition.Template) string {
	for i := range n.Spec.Taints {
		taint := &n.Spec.Taints[i]
		named := slices.ContainsFunc(t.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(taint) })
		if decide.IsAgentTaint(taint) && !named && taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return taint.Key
		}
	}
	return ""
}

// servingOf counts the pods that run.
func servingOf(counting []*corev1.Pod) int {
	count := 0
	for _, p := range counting {
		if p.Spec.NodeName != "" && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			count++
		}
	}
	return count
}

// podOverdue is how much longer than its grace a pod that is being deleted may take until it is
// not waited for any more: its kubelet tells the API server a moment after its end.
const podOverdue = 10 * time.Second

// overdueOf counts the pods that are being deleted and have outstayed their grace since this
// process first saw that. Their deletion time, the end of the grace by the API server's clock,
// counts where no clock of ours runs: that clock may be hours off.
func overdueOf(pods []*corev1.Pod, since map[types.UID]time.Time, now time.Time) int {
	count := 0
	for _, p := range pods {
		if p.DeletionTimestamp == nil {
			continue
		}
		end := p.DeletionTimestamp.Time
		if since != nil {
			begun, seen := since[p.UID]
			if !seen {
				continue
			}
			if end = begun; p.DeletionGracePeriodSeconds != nil {
				end = begun.Add(time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
			}
		}
		if now.After(end.Add(podOverdue)) {
			count++
		}
	}
	return count
}

// leaves reports whether the node is being drained, or was and is to be drained again. On other
// nodes the volumes decide nothing.
func leaves(n *lifecycle.Node) bool {
	return n.State == v1alpha1.StateStopping || n.State == v1alpha1.StateTerminating || !n.DrainFailed.IsZero()
}

// failureHolds is how long after the end of its backoff a node's failed start tells something about
// the others of its pool: longer than a start that follows on it takes.
const failureHolds = time.Hour

// isLastStart reports whether the node would be replaced if this start failed too. Then it matters
// whether others fail as well.
func isLastStart(n *lifecycle.Node, state provider.InstanceState) bool {
	return n.State == v1alpha1.StateStarting && state == provider.InstanceStopped &&
		n.Failures+1 >= lifecycle.MaxStartFailures
}

// othersFail reports whether the last start of another node of the pool failed.
func othersFail(r *raw, now time.Time) bool {
	return slices.ContainsFunc(r.poolNodes, func(p poolNode) bool {
		until := v1alpha1.TimeAnnotation(p.node, v1alpha1.AnnotationUnavailableUntil)
		return p.node.Name != r.node.Name && transition.Failures(p.node) > 0 && now.Before(until.Add(failureHolds))
	})
}

// completionMode is who stops an instance at the end of warm-up. Where the class is gone it is as
// it was while the class was there.
func completionMode(p *v1alpha1.NodePool, class v1alpha1.NodeClass) v1alpha1.CompletionMode {
	if class == nil {
		return cmp.Or(p.Spec.PreWarm.CompletionMode, p.Status.CompletionMode, v1alpha1.SelfStop)
	}
	return p.Spec.PreWarm.CompletionModeOf(class)
}

// policyOf reads what the lifecycle needs of a pool; nil is a pool that is gone. The class is nil
// where it is not known.
func policyOf(p *v1alpha1.NodePool, class v1alpha1.NodeClass) lifecycle.Policy {
	if p == nil {
		return lifecycle.Policy{}
	}
	s := &p.Spec
	grace := time.Duration(0)
	if s.Disruption.TerminationGracePeriod != nil {
		grace = s.Disruption.TerminationGracePeriod.Duration
	}
	return lifecycle.Policy{
		Exists: true, Deleting: p.DeletionTimestamp != nil, Paused: p.IsPaused(),
		SelfStop:           completionMode(p, class) == v1alpha1.SelfStop,
		TerminateOnTimeout: s.PreWarm.TimeoutActionOrDefault() == v1alpha1.TimeoutTerminate,
		WarmupTimeout:      s.PreWarm.TimeoutOrDefault(),
		ReadyTimeout:       s.ScaleUp.ReadyTimeoutOrDefault(),
		ScaleDown:          s.ScaleDown.EnabledOrDefault(),
		EmptyTTL:           s.ScaleDown.EmptyNodeTTLOrDefault(),
		DrainTimeout:       s.ScaleDown.DrainTimeoutOrDefault(),
		TerminationGrace:   grace,
		Bounded:            s.Disruption.TerminationGracePeriod != nil,
	}
}
