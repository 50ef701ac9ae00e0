package scaler

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

// judged is what can be said of a pool for a pod.
type judged struct {
	why string
	// launch: a new instance of the pool could serve the pod, and poolSize allows one. coming: one
	// could, and some are warming up.
	launch, coming bool
	// zones are those in which a new instance could; none means any.
	zones []string
}

// judgePool checks the pod against the pool's nodes as if they were empty, and against a new
// instance in each zone of its class. All nodes of a pool are alike but for their zones, so where
// every node refuses, the first refusal by name holds for the pool.
func judgePool(judge *cluster.PodFit, pool *v1alpha1.NodePool, nodes []corev1.Node, o offer) judged {
	var refusal, apart string
	var mine, fitting, free int
	for i := range nodes {
		n := judge.Empty(&nodes[i], pool)
		if n.Pool != v1alpha1.PoolName(pool.Name) {
			continue
		}
		mine++
		why := whyNotNode(judge, n)
		if why == "" {
			fitting++
			if now := whyNotNow(judge, n); now != "" {
				apart = cmp.Or(apart, now)
			} else if n.State == v1alpha1.StateStandby {
				free++
			}
		}
		refusal = cmp.Or(refusal, why)
	}
	zones, never := serving(judge, pool, nodes, o)
	serves := never == nil
	room, warming := serves && pool.Status.Total < pool.Spec.PoolSize, serves && pool.Status.Warmup > 0
	says := func(why string) judged {
		return judged{why: fmt.Sprintf("pool %s%s", pool.Name, why), launch: room, coming: warming, zones: zones}
	}
	switch {
	case pool.DeletionTimestamp != nil:
		return judged{why: fmt.Sprintf("pool %s is being deleted", pool.Name)}
	case mine == 0 && !serves:
		return says(": " + never.Explain())
	case mine == 0:
		return says(" has no node yet")
	case fitting == 0:
		return says(": " + refusal)
	case apart != "" && free == 0:
		return says(": " + apart)
	case serves && !room:
		return says(fmt.Sprintf(" is at its poolSize of %d and none of its nodes has room", pool.Spec.PoolSize))
	}
	return says(" has no standby node with room now")
}

// whyNotNode checks what does not depend on the other pods of the cluster.
func whyNotNode(judge *cluster.PodFit, n *decide.Node) string {
	if refusal := refusesEmpty(judge, n, true); refusal != nil {
		return refusal.Explain()
	}
	if n.State == v1alpha1.StateStandby && n.NotStartable != "" {
		return "its standby nodes are kept back: " + n.NotStartable
	}
	return ""
}

// whyNotNow is why a standby node does not take the pod all the same: it is empty, so what is left
// is where other pods are (anti-affinity, spread). A new instance may come up in another zone, so
// this rules out no new instance.
func whyNotNow(judge *cluster.PodFit, n *decide.Node) string {
	if n.State != v1alpha1.StateStandby {
		return ""
	}
	if refusal := judge.Refusal(n); refusal != nil {
		return refusal.Explain()
	}
	return ""
}
