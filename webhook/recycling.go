package webhook

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// ratchet leaves the errors that the object did not have before; those it had become warnings.
func ratchet(before, now field.ErrorList) (field.ErrorList, admission.Warnings) {
	had := map[string]bool{}
	for _, err := range before {
		had[err.Error()] = true
	}
	var errs field.ErrorList
	var kept admission.Warnings
	for _, err := range now {
		if had[err.Error()] {
			kept = append(kept, err.Error())
			continue
		}
		errs = append(errs, err)
	}
	return errs, kept
}

// nodesOf counts the nodes that are not on their way out already.
func nodesOf(status *v1alpha1.NodePoolStatus) int32 { return max(status.Total-status.Terminating, 0) }

// sizeWarnings says what a poolSize below the nodes that there are takes down.
func sizeWarnings(old, pool *v1alpha1.NodePool) admission.Warnings {
	status := &old.Status
	surplus := nodesOf(status) - pool.Spec.PoolSize
	if surplus <= 0 || pool.Spec.PoolSize >= old.Spec.PoolSize {
		return nil
	}
	at := field.NewPath("spec", "poolSize")
	busy := status.Running + status.Starting + status.Stopping
	if busy > pool.Spec.PoolSize {
		return warn(
			at,
			"%d is below the %s in use: those stay until they are empty, all %s of standby are terminated at once",
			pool.Spec.PoolSize,
			countNodes(busy),
			countNodes(status.Standby),
		)
	}
	return warn(at, "%d is below the %s of the pool: %s of standby are terminated at once",
		pool.Spec.PoolSize, countNodes(nodesOf(status)), countNodes(min(surplus, status.Standby)))
}

// templateWarnings counts the nodes that a change of the template has replaced.
func templateWarnings(old, pool *v1alpha1.NodePool) admission.Warnings {
	nodes := nodesOf(&old.Status)
	if nodes == 0 || pool.Spec.Disruption.DriftOrDefault() == v1alpha1.DriftIgnore ||
		old.Spec.Template.Hash() == pool.Spec.Template.Hash() {
		return nil
	}
	return warn(
		field.NewPath("spec", "template"),
		"%s were launched from the template as it was and will be replaced (disruption.drift): standby ones at most %d at a time, running ones when they are empty",
		countNodes(nodes),
		pool.Spec.Disruption.BudgetOrDefault(pool.Spec.PoolSize),
	)
}

// specWarnings counts the nodes that a change of a class has replaced, over all pools that use it
// and follow its changes.
func specWarnings(old, class v1alpha1.NodeClass, pools []v1alpha1.NodePool) admission.Warnings {
	nodes, names := drifting(pools)
	if nodes == 0 || old.SpecHash() == class.SpecHash() {
		return nil
	}
	return warn(
		field.NewPath("spec"),
		"%s of NodePool %s were launched from the class as it was and will be replaced (disruption.drift): standby ones within disruption.budget, running ones when they are empty",
		countNodes(nodes),
		namesOf(names),
	)
}

// typeWarnings says which types the class no longer names. How many nodes are of them the status of
// a pool does not say.
func typeWarnings(old, class *v1alpha1.AWSNodeClass, pools []v1alpha1.NodePool) admission.Warnings {
	removed := slices.DeleteFunc(old.NamedTypes(), func(name string) bool {
		return slices.Contains(class.NamedTypes(), name)
	})
	nodes, names := drifting(pools)
	if nodes == 0 || len(removed) == 0 || old.SpecHash() != class.SpecHash() {
		return nil
	}
	return warn(
		field.NewPath("spec", "fallbackInstanceTypes"),
		"nodes of NodePool %s that are of type %s will be replaced (disruption.drift): standby ones within disruption.budget, running ones when they are empty",
		namesOf(names),
		namesOf(removed),
	)
}

// drifting are the nodes that drift would replace, and the pools that they are of.
func drifting(pools []v1alpha1.NodePool) (nodes int32, names []string) {
	for i := range pools {
		if n := nodesOf(&pools[i].Status); n > 0 && pools[i].Spec.Disruption.DriftOrDefault() == v1alpha1.DriftRecycle {
			nodes += n
			names = append(names, pools[i].Name)
		}
	}
	return nodes, names
}
