package pending

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

// assessment is what can be said of a pool for a pod.
type assessment struct {
	why string
	// launch: a new instance of the pool could serve the pod, and poolSize allows one. coming: one
	// could, and some are warming up.
	launch, coming bool
	// zones are those in which a new instance could; none means any.
	zones []string
}

// assess checks the pod against the pool's nodes as if they were empty, and against a new
// instance in each zone of its class. All nodes of a pool are alike but for their zones, so where
// every node refuses, the first refusal by name holds for the pool.
func assess(judge *cluster.PodFit, pool *v1alpha1.NodePool, nodes []corev1.Node, o Offer) assessment {
	fits := countFitting(judge, pool, nodes)
	zones, never := serving(judge, pool, nodes, o)
	serves := never == nil
	room, warming := serves && pool.Status.Total < pool.Spec.PoolSize, serves && pool.Status.Warmup > 0
	says := func(why string) assessment {
		return assessment{why: fmt.Sprintf("pool %s%s", pool.Name, why), launch: room, coming: warming, zones: zones}
	}
	switch {
	case pool.DeletionTimestamp != nil:
		return assessment{why: fmt.Sprintf("pool %s is being deleted", pool.Name)}
	case fits.nodes == 0 && !serves:
		return says(": " + never.Explain())
	case fits.nodes == 0:
		return says(" has no node yet")
	case fits.fitting == 0:
		return says(": " + fits.refusal)
	case fits.apart != "" && fits.free == 0:
		return says(": " + fits.apart)
	case serves && !room:
		return says(fmt.Sprintf(" is at its poolSize of %d and none of its nodes has room", pool.Spec.PoolSize))
	}
	return says(" has no standby node with room now")
}

// poolFit counts the nodes of a pool: those that fit the pod when they are empty, and of these the
// standby ones that are free to take it now.
type poolFit struct {
	nodes, fitting, free int
	// refusal is the first reason why a node does not fit, apart the first why one that fits does not
	// take the pod now.
	refusal, apart string
}

func countFitting(judge *cluster.PodFit, pool *v1alpha1.NodePool, nodes []corev1.Node) poolFit {
	var fits poolFit
	for i := range nodes {
		n := judge.Empty(&nodes[i], pool)
		if n.Pool != v1alpha1.PoolName(pool.Name) {
			continue
		}
		fits.nodes++
		why := whyNotNode(judge, n)
		fits.refusal = cmp.Or(fits.refusal, why)
		if why != "" {
			continue
		}
		fits.fitting++
		if now := whyNotNow(judge, n); now != "" {
			fits.apart = cmp.Or(fits.apart, now)
		} else if n.State == v1alpha1.StateStandby {
			fits.free++
		}
	}
	return fits
}

// whyNotNode checks what does not depend on the other pods of the cluster.
func whyNotNode(judge *cluster.PodFit, n *decide.Node) string {
	if refusal := refusesEmpty(judge, n, true); refusal != nil {
		return refusal.Explain()
	}
	if n.State == v1alpha1.StateStandby && n.NotStartable != "" {
		return "its standby nodes are not startable: " + n.NotStartable
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
