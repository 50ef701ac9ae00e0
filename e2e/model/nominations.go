package model

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// Pods of a scheduler without the extender are nominated to the nodes of their claims. The
// scheduler tries that node first, and clears the field at a failed attempt, but for pods with
// preemptionPolicy Never. Its own nominations are those of slow pods, see annotationSlow.

// schedulerManager is the field manager of the scheduler's writes.
const schedulerManager = "kube-scheduler"

// nominations are how the cluster deals with them.
type nominations struct {
	// enabled is the flag --nominate of processes that begin.
	enabled bool
	// clearedAtBinding: the API server does that, from Kubernetes 1.35 on.
	clearedAtBinding bool
	// ofReplicas: ReplicaSets that are made name the scheduler without the extender.
	ofReplicas bool
	// policies is which pods of the scheduler without the extender have preemptionPolicy Never: none,
	// each second one, all.
	policies int
}

func nominationOperations() map[string]kindOfOperation {
	return map[string]kindOfOperation{
		"nominate": {2, [4]int{3, 1, 2, 2}, (*World).setNominations},
	}
}

// setNominations rolls Stratos out with or without --nominate, on an older or a newer Kubernetes.
// The third number says whether ReplicaSets go without the extender, the fourth which of the pods
// without it have preemptionPolicy Never.
func (w *World) setNominations(a [4]int) {
	w.nominations = nominations{enabled: a[0] > 0, clearedAtBinding: a[1] == 1, ofReplicas: a[2] > 0, policies: a[3]}
	w.kill([4]int{})
}

// never reports whether the pod of the number has preemptionPolicy Never.
func (n nominations) never(number int) bool {
	return n.policies == 2 || n.policies == 1 && number%2 == 0
}

// scheduler is that of ReplicaSets which are made.
func (n nominations) scheduler() string {
	if n.ofReplicas {
		return plainScheduler
	}
	return ourScheduler
}

// keepsNomination reports whether the scheduler leaves the field at a failed attempt.
func keepsNomination(p *corev1.Pod) bool {
	return p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == corev1.PreemptNever
}

// losesNomination reports whether a pending pod was nominated and is no more: all others are tried
// again then.
func losesNomination(old, p *corev1.Pod) bool {
	return old != nil && old.Status.NominatedNodeName != "" && p.Status.NominatedNodeName == "" && p.Spec.NodeName == ""
}

// setNomination writes the field as the API server does: the client that changes it owns it alone.
func setNomination(p *corev1.Pod, node, manager string) {
	if p.Status.NominatedNodeName == node {
		return
	}
	p.Status.NominatedNodeName, p.ManagedFields = node, nil
	if node != "" {
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager}}
	}
}

// nominate applies a nomination by Stratos.
func (c *apiClient) nominate(at key, data []byte) error {
	b := struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
		Status struct {
			NominatedNodeName *string `json:"nominatedNodeName"`
		} `json:"status"`
	}{}
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	node := ""
	if b.Status.NominatedNodeName != nil {
		node = *b.Status.NominatedNodeName
	}
	return c.p.write(fmt.Sprintf("nominate %s to %q", at.Name, node), func() error {
		found := c.p.w.api.pod(at)
		switch {
		case found == nil:
			return notFound(kindPod, at.Name)
		case found.UID != b.Metadata.UID || found.ResourceVersion != b.Metadata.ResourceVersion:
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, at.Name,
				fmt.Errorf("the object has been modified"))
		}
		c.p.w.rules.nominated(found, node)
		c.p.w.api.editPod(at, func(p *corev1.Pod) { setNomination(p, node, v1alpha1.FieldManagerNomination) })
		return nil
	})
}

// nominated checks a nomination by Stratos: only a pod of a scheduler without the extender that
// waits, and never over what another program has written.
func (r *rules) nominated(p *corev1.Pod, node string) {
	switch {
	case p.Spec.SchedulerName == ourScheduler && node != "":
		r.w.breaks("nomination", "%s of the scheduler with the extender is nominated to %s", p.Name, node)
	case p.Spec.NodeName != "":
		r.w.breaks("nomination", "%s is bound to %s and nominated to %q", p.Name, p.Spec.NodeName, node)
	case p.Status.NominatedNodeName != "" && !decide.IsOwnNomination(p.ManagedFields):
		r.w.breaks("nomination", "%s was nominated to %s by others, and is to %q now", p.Name,
			p.Status.NominatedNodeName, node)
	}
}

// staleNomination is the node to which Stratos has nominated the pod though it has no claim there;
// "" for none.
func (w *World) staleNomination(p *corev1.Pod) string {
	n := decide.OwnNomination(p)
	if n == "" || slices.ContainsFunc(w.processes, func(o *process) bool {
		claim, _ := o.state.ClaimOf(p.UID)
		return claim.Node == n
	}) {
		return ""
	}
	return string(n)
}
