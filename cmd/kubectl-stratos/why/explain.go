package why

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// Cause is why a pod is pending, in one word.
type Cause string

// The causes.
const (
	// Bound: it is not pending.
	Bound Cause = "Bound"
	// Ended: it is being deleted, or has ended.
	Ended Cause = "Ended"
	// Claimed: it has a claim on a node.
	Claimed Cause = "Claimed"
	// Gated: its scheduling gates keep schedulers from it.
	Gated Cause = "Gated"
	// NotScheduled: no scheduler has looked at it.
	NotScheduled Cause = "NotScheduled"
	// SchedulerError: its scheduler fails.
	SchedulerError Cause = "SchedulerError"
	// StartsNoNode: Stratos starts no node for such a pod.
	StartsNoNode Cause = "StartsNoNode"
	// Nominated: its scheduler, or another program, has a node in mind.
	Nominated Cause = "Nominated"
	// Launching: a new instance is launched for it.
	Launching Cause = "Launching"
	// Unavailable: no standby node can serve it.
	Unavailable Cause = "Unavailable"
	// Unanswered: its scheduler found no node, and Stratos has said nothing.
	Unanswered Cause = "Unanswered"
)

// Explanation is what can be said of one pod.
type Explanation struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Scheduler string `json:"scheduler"`
	// Since is when the pod was created.
	Since metav1.Time `json:"since"`
	Cause Cause       `json:"cause"`
	// Asked reports whether Stratos is known to have looked at the pod.
	Asked bool `json:"asked"`
	// Node is the one that the pod has a claim on, or is bound or nominated to.
	Node *NodeFacts `json:"node,omitempty"`
	// Reasons say why, in the words of Stratos or of the scheduler, a line for each pool.
	Reasons []string `json:"reasons,omitempty"`
	// Next is what happens next, or what to do.
	Next string `json:"next"`
}

// Sign differs for two explanations of a pod that say something else. Times that only pass are no
// part of it.
func (e *Explanation) Sign() string {
	parts := append([]string{string(e.Cause), e.Next}, e.Reasons...)
	if e.Node != nil {
		parts = append(parts, e.Node.Name, string(e.Node.State))
	}
	return strings.Join(parts, "\x00")
}

// NodeFacts are those of a pod's node. All but the name is empty where it cannot be read.
type NodeFacts struct {
	Name  string             `json:"name"`
	Pool  v1alpha1.PoolName  `json:"pool,omitempty"`
	State v1alpha1.NodeState `json:"state,omitempty"`
	// Since is when the state began, where the Node says so.
	Since *metav1.Time `json:"since,omitempty"`
	// UsualSeconds is what half of the pool's last starts took at most; 0 where it is not known.
	UsualSeconds int32 `json:"usualSeconds,omitempty"`
	// Deadline is when a start is given up that has not ended.
	Deadline *metav1.Time `json:"deadline,omitempty"`
}

// explainWithin is how long Stratos takes at most to give a reason after the scheduler has found no
// node, with some time for the event to arrive.
const explainWithin = 30 * time.Second

// Explain says of each pod why it is pending, in the order of their names.
func (f *Facts) Explain(now time.Time) []Explanation {
	slices.SortFunc(f.Pods, func(a, b corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	claims, said := f.claims(), f.lastSaid()
	out := make([]Explanation, 0, len(f.Pods))
	for i := range f.Pods {
		pod := &f.Pods[i]
		out = append(out, f.explain(pod, claims[pod.UID], said[pod.UID], now))
	}
	return out
}

// explain goes from what is certain to what is assumed. A claim on a Node is newer than any event.
func (f *Facts) explain(pod *corev1.Pod, claimed *metav1.PartialObjectMetadata, said *eventsv1.Event,
	now time.Time) Explanation {
	e := Explanation{
		Namespace: pod.Namespace, Pod: pod.Name, Scheduler: pod.Spec.SchedulerName, Since: pod.CreationTimestamp,
		Asked: claimed != nil || said != nil,
	}
	refused := refusedBy(pod)
	switch {
	case pod.Spec.NodeName != "":
		e.Cause, e.Node = Bound, f.nodeNamed(pod.Spec.NodeName)
		e.Next = "nothing: it is bound to its node"
	case pod.DeletionTimestamp != nil, pod.Status.Phase != corev1.PodPending:
		e.Cause, e.Next = Ended, "nothing: it is being deleted, or has ended"
	case claimed != nil:
		e.Cause, e.Node = Claimed, f.nodeFacts(claimed)
		e.Next = e.Node.next()
	case len(pod.Spec.SchedulingGates) > 0:
		e.Cause, e.Reasons = Gated, []string{"its scheduling gates: " + gates(pod)}
		e.Next = "its owner removes the gates; until then no scheduler and no Stratos looks at it"
	case decide.NominatedNode(pod) != "":
		e.Cause, e.Node = Nominated, f.nodeNamed(string(decide.NominatedNode(pod)))
		e.Next = "its scheduler binds it to that node, as soon as there is room"
	case refused == nil:
		e.Cause, e.Reasons = NotScheduled, []string{"no scheduler has looked at it"}
		e.Next = fmt.Sprintf("scheduler %q looks at it; if it does not, check that it runs", pod.Spec.SchedulerName)
	case refused.Reason == corev1.PodReasonSchedulerError:
		e.Cause, e.Reasons = SchedulerError, []string{"the scheduler fails: " + refused.Message}
		e.Next = fmt.Sprintf("the log of scheduler %q says more; Stratos is not asked until it works", pod.Spec.SchedulerName)
	case mayNotStart(pod) != "":
		e.Cause, e.Reasons = StartsNoNode, []string{mayNotStart(pod)}
		e.Next = "it gets a node only where another pod leaves room, or another node comes"
	default:
		f.fromEvent(&e, said, refused, now)
	}
	return e
}

// mayNotStart is why Stratos starts no node for such a pod, "" if it may.
func mayNotStart(pod *corev1.Pod) string {
	if len(pod.Spec.ResourceClaims) > 0 {
		return "pods with resource claims start no node"
	}
	return decide.MayNotStart(pod)
}

// fromEvent tells what Stratos last said of the pod, or else what its scheduler says.
func (f *Facts) fromEvent(e *Explanation, said *eventsv1.Event, refused *corev1.PodCondition, now time.Time) {
	if said == nil {
		e.Cause, e.Reasons = Unanswered, []string{"the scheduler: " + refused.Message}
		e.Next = "Stratos claims a node, or says why not, within " + explainWithin.String()
		if now.Sub(refused.LastTransitionTime.Time) > explainWithin {
			e.Next = "Stratos has said nothing: check that its pods are ready (kubectl get pods -A -l app.kubernetes.io/name=stratos)"
		}
		return
	}
	e.Reasons = strings.Split(said.Note, "; ")
	switch v1alpha1.Reason(said.Reason) {
	case v1alpha1.ReasonStandbyStarting:
		e.Cause, e.Node = Claimed, f.nodeOfNote(said.Note)
		e.Next = "the scheduler binds it when that node is open to pods"
	case v1alpha1.ReasonColdLaunch:
		reasons, launch := cutLaunch(said.Note)
		e.Cause, e.Reasons = Launching, strings.Split(reasons, "; ")
		e.Next = launch + ", which warms up and takes the pod"
	default:
		e.Cause, e.Next = Unavailable, "Stratos tries again at each change of pods, nodes and pools, and once a minute"
	}
}

// cutLaunch parts the note of an event ColdLaunch: why no standby node serves the pod, and what is
// launched for it.
func cutLaunch(note string) (reasons, launch string) {
	const launching = ": launching a new instance"
	if at := strings.LastIndex(note, launching); at >= 0 {
		return note[:at], strings.TrimPrefix(note[at:], ": ")
	}
	return note, "an instance is launched"
}

// next is what happens to a pod that has a claim on the node.
func (n *NodeFacts) next() string {
	switch n.State {
	case v1alpha1.StateStandby:
		return "Stratos writes the start intent and starts the instance"
	case v1alpha1.StateStarting:
		return "the scheduler binds it when the node is open to pods; a start that fails has the pod claim another node"
	case v1alpha1.StateStopping:
		return "Stratos cancels the stop of the node"
	case v1alpha1.StateRunning:
		return "the scheduler binds it"
	case v1alpha1.StateWarmup, v1alpha1.StateTerminating:
	}
	return "the node changes its state first"
}

func gates(pod *corev1.Pod) string {
	var names []string
	for _, g := range pod.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

// refusedBy is what the scheduler says of a pod that it cannot place; nil where it has not tried.
func refusedBy(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c
		}
	}
	return nil
}

// claims are the nodes on which pods have published claims.
func (f *Facts) claims() map[types.UID]*metav1.PartialObjectMetadata {
	out := map[types.UID]*metav1.PartialObjectMetadata{}
	for i := range f.Nodes {
		for uid := range strings.SplitSeq(f.Nodes[i].Annotations[v1alpha1.AnnotationClaims], ",") {
			out[types.UID(uid)] = &f.Nodes[i]
		}
	}
	return out
}

// lastSaid is the newest event on each pod.
func (f *Facts) lastSaid() map[types.UID]*eventsv1.Event {
	out := map[types.UID]*eventsv1.Event{}
	for i := range f.Events {
		e := &f.Events[i]
		if last := out[e.Regarding.UID]; last == nil || saidAt(last).Before(saidAt(e)) {
			out[e.Regarding.UID] = e
		}
	}
	return out
}

// saidAt is when the event was last written: a repeated one has a series.
func saidAt(e *eventsv1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return e.EventTime.Time
}

// nodeNamed are the facts of the node, as far as it is one of a pool and can be read.
func (f *Facts) nodeNamed(name string) *NodeFacts {
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return f.nodeFacts(&f.Nodes[i])
		}
	}
	return &NodeFacts{Name: name}
}

// noteNode finds the node in the note of an event StandbyStarting.
var noteNode = regexp.MustCompile(`\bnode (\S+) of pool (\S+)`)

// nodeOfNote are the facts of the node that the note names; nil where it names none. A node that
// runs names no claims, so this is also how the node of a pod is found that is about to be bound.
func (f *Facts) nodeOfNote(note string) *NodeFacts {
	words := noteNode.FindStringSubmatch(note)
	if words == nil {
		return nil
	}
	n := f.nodeNamed(words[1])
	n.Pool = v1alpha1.PoolName(words[2])
	return n
}

func (f *Facts) nodeFacts(node *metav1.PartialObjectMetadata) *NodeFacts {
	n := &NodeFacts{
		Name: node.Name, Pool: v1alpha1.PoolName(node.Labels[v1alpha1.LabelPool]),
		State: v1alpha1.NodeState(node.Labels[v1alpha1.LabelState]), Since: StateSince(node),
	}
	for i := range f.Pools {
		p := &f.Pools[i]
		if v1alpha1.PoolName(p.Name) != n.Pool || n.State != v1alpha1.StateStarting {
			continue
		}
		if usual := p.Status.StartSeconds; usual != nil {
			n.UsualSeconds = usual.P50
		}
		if n.Since != nil {
			n.Deadline = &metav1.Time{Time: n.Since.Add(p.Spec.ScaleUp.ReadyTimeoutOrDefault())}
		}
	}
	return n
}

// StateSince is when the state of the node began; nil where the Node does not say so.
func StateSince(node metav1.Object) *metav1.Time {
	if at := v1alpha1.StateSince(node); !at.IsZero() {
		return &metav1.Time{Time: at}
	}
	return nil
}
