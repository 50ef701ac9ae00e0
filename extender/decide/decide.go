package decide

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Kind is what a decision amounts to; also the metric label of stratos_extender_decisions_total.
type Kind string

// The kinds of decision.
const (
	// Pass: a node in service takes the pod.
	Pass Kind = "pass"
	// PassClaimed: the pod's claimed node runs, or the decision claims room on a running node; it is
	// returned alone.
	PassClaimed Kind = "pass-claimed"
	// Waiting: the pod's claim stands, its node is on its way.
	Waiting Kind = "waiting"
	// Joined: the pod gets a claim on a node that is starting already.
	Joined Kind = "joined"
	// Started: the pod gets a claim on a standby node, which is to be started now.
	Started Kind = "started"
	// Reclaimed: the pod gets a claim on a node that is drained because it is empty. That drain is to
	// be cancelled now.
	Reclaimed Kind = "reclaimed"
	// Unavailable: Stratos would start a node, but has none that fits.
	Unavailable Kind = "unavailable"
	// NotOurs: Stratos may not start a node for this pod.
	NotOurs Kind = "not-ours"
)

// Ask is one question of the scheduler, or of Stratos itself about a pod that it has to place anew.
type Ask struct {
	Pod *corev1.Pod
	// Nodes are the candidates: nodes that passed all in-tree filters but taints and cordon.
	Nodes []*Node
	// World gives all nodes with the pods bound to them, for anti-affinity and spread among pods that
	// are pending together; kube-scheduler has checked the bound ones only. It is called where a
	// decision depends on it.
	World func() *fit.World
}

// Decision answers an Ask. Equal asks in equal circumstances give equal decisions, whatever the
// order of the candidates.
type Decision struct {
	Kind Kind
	// Nodes are those that take the pod now, in the order of the candidates.
	Nodes []v1alpha1.NodeName
	// Claim is the pod's claim after the decision, nil if it has none. Its node is the standby node to
	// start now (Started) or the node whose drain is to be cancelled (Reclaimed).
	Claim *Claim
	// Displaced are the claims of lower priority that were released, for their pods to be placed anew.
	Displaced []Claim
	// Refused has one node for each distinct reason. The other candidates are left out of the answer
	// on purpose: the scheduler takes a candidate it hears nothing of as unresolvable, and the answer
	// stays small.
	Refused map[v1alpha1.NodeName]string
	// Limited are the pools whose start budget refused the pod, and until when. They are only reported
	// if nothing else took it.
	Limited map[v1alpha1.PoolName]time.Time
}

// Decide decides and assumes what was decided.
func (l *Claims) Decide(ask Ask, now time.Time) Decision {
	d := Decide(l, ask, now)
	l.assume(ask.Pod.UID, &d, now)
	return d
}

// assume takes in a decision: its claim counts from now on.
func (l *Claims) assume(pod types.UID, d *Decision, now time.Time) {
	for i := range d.Displaced {
		l.drop(l.byPod[d.Displaced[i].Pod])
	}
	switch own := l.byPod[pod]; {
	case own != nil:
		own.ask(now)
		own.passed = d.Kind == PassClaimed
	case d.Claim != nil:
		c := *d.Claim
		c.burst = l.currentBurst(now)
		l.add(&c)
	}
	if d.Kind == Started {
		l.startRequested[d.Claim.Node] = true
		l.recordStart(d.Claim.Node, d.Claim.Pool, now)
	}
	maps.Copy(l.limited, d.Limited)
	if d.Kind == Unavailable || d.Kind == NotOurs {
		l.rejected[pod] = now
	} else {
		delete(l.rejected, pod)
	}
}

// attempt is one decision in the making. It only reads the claims.
type attempt struct {
	*Claims
	Ask
	now time.Time
	// digests is the pod with each pool's defaults, made once; last is the one of pool lastPool, for
	// the many nodes of one.
	digests    map[v1alpha1.PoolName]*fit.Pod
	lastDigest *fit.Pod
	lastPool   v1alpha1.PoolName
	// budgetMessages say of a pool that its start budget is used up.
	budgetMessages map[v1alpha1.PoolName]string
	// limited are the pools whose start budget refused the pod, and until when.
	limited map[v1alpha1.PoolName]time.Time
	// hasBudget says of each pool whether its start budget has something left; asked once, not for
	// each of thousands of candidates.
	hasBudget map[v1alpha1.PoolName]bool
	// displaced are the claims that are to be released for the pod.
	displaced map[types.UID]bool
	// together checks anti-affinity and spread against the pending pods; made once, where it is
	// needed.
	together *fit.View
}

func (l *Claims) newAttempt(ask Ask, now time.Time) *attempt {
	return &attempt{
		Claims: l, Ask: ask, now: now, digests: map[v1alpha1.PoolName]*fit.Pod{}, limited: map[v1alpha1.PoolName]time.Time{},
		hasBudget: map[v1alpha1.PoolName]bool{}, budgetMessages: map[v1alpha1.PoolName]string{},
	}
}

// digest is the pod as it would claim room in the node's pool.
func (j *attempt) digest(n *Node) *fit.Pod {
	if j.lastDigest != nil && n.Pool == j.lastPool {
		return j.lastDigest
	}
	d := j.digests[n.Pool]
	if d == nil {
		d = fit.NewPod(j.Pod, n.Defaults)
		j.digests[n.Pool] = d
	}
	j.lastDigest, j.lastPool = d, n.Pool
	return d
}

// hasRoom reports whether the node has room for the pod if the claims within its reach go.
func (j *attempt) hasRoom(n *Node, within reach) bool {
	d := j.digest(n)
	taken, ports := j.taken(n, within)
	return fit.Shortage(&d.Requests, &n.Allocatable, &taken) == "" && !fit.PortsConflict(d.Ports, ports)
}
