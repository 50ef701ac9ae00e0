// Package owners says how many pods a controller is still to create, as far as its spec and status
// tell, and how many of them the quotas of its namespace admit. It is pure: no client, no logger,
// no clock.
//
//   - ReplicaSet: its replicas less its active pods. None with the condition ReplicaFailure, or
//     while another ReplicaSet of its Deployment has replicas: a rollout frees room.
//   - StatefulSet: the same. None where one pod waits for the other (it is not Parallel), with
//     volumeClaimTemplates, or with two revisions, which is a rollout.
//   - Job: the smaller of its parallelism and the completions that are left, less its active pods.
//     None while it is suspended, finished, managed by another controller, or has a failed pod.
//   - Any other owner, and one that is deleted: none.
package owners

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Phase is what a pod counts for with its controller.
type Phase int

// The phases.
const (
	// Gone: the pod is being deleted, so that its controller makes another one.
	Gone Phase = iota
	Active
	Succeeded
	Failed
)

// PhaseOf returns what the pod counts for. One that has ended counts as that, also while it is
// being deleted.
func PhaseOf(pod *corev1.Pod) Phase {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return Succeeded
	case pod.Status.Phase == corev1.PodFailed:
		return Failed
	case pod.DeletionTimestamp != nil:
		return Gone
	}
	return Active
}

// Pods are the pods of a controller: how many there are of each phase.
type Pods [Failed + 1]int

// Of returns the pod's controller if it is one that this package knows; nil otherwise.
func Of(pod *corev1.Pod) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	switch owner.Kind + "." + owner.APIVersion {
	case "ReplicaSet.apps/v1", "StatefulSet.apps/v1", "Job.batch/v1":
		return owner
	}
	return nil
}

// DeploymentOf is the UID of what controls the ReplicaSet, "" where nothing does.
func DeploymentOf(owner metav1.Object) types.UID {
	if _, ok := owner.(*appsv1.ReplicaSet); !ok {
		return ""
	}
	if of := metav1.GetControllerOfNoCopy(owner); of != nil {
		return of.UID
	}
	return ""
}

// ToCome returns how many pods the controller is still to create, less than 0 where it has more
// than it wants. others are the other ReplicaSets of its Deployment.
func ToCome(owner metav1.Object, pods Pods, others []*appsv1.ReplicaSet) int {
	if owner.GetDeletionTimestamp() != nil {
		return 0
	}
	switch o := owner.(type) {
	case *appsv1.ReplicaSet:
		if slices.ContainsFunc(o.Status.Conditions, isReplicaFailure) || slices.ContainsFunc(others, hasReplicas) {
			return 0
		}
		return wanted(o.Spec.Replicas) - pods[Active]
	case *appsv1.StatefulSet:
		if o.Spec.PodManagementPolicy != appsv1.ParallelPodManagement || len(o.Spec.VolumeClaimTemplates) > 0 ||
			o.Status.CurrentRevision != o.Status.UpdateRevision {
			return 0
		}
		return wanted(o.Spec.Replicas) - pods[Active]
	case *batchv1.Job:
		return ofJob(o, pods)
	}
	return 0
}

// wanted is 1 where nothing is said: the API server's default.
func wanted(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

func isReplicaFailure(c appsv1.ReplicaSetCondition) bool {
	return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
}

func hasReplicas(set *appsv1.ReplicaSet) bool {
	return wanted(set.Spec.Replicas) > 0 || set.Status.Replicas > 0
}

func ofJob(job *batchv1.Job, pods Pods) int {
	suspended := job.Spec.Suspend != nil && *job.Spec.Suspend
	if suspended || isManagedElsewhere(job) || slices.ContainsFunc(job.Status.Conditions, isEnd) ||
		job.Status.Failed > 0 || pods[Failed] > 0 {
		return 0
	}
	// Its status is behind its pods, and knows of those that are deleted.
	succeeded := max(int(job.Status.Succeeded), pods[Succeeded])
	want := wanted(job.Spec.Parallelism)
	switch {
	case job.Spec.Completions != nil:
		want = min(want, int(*job.Spec.Completions)-succeeded)
	case succeeded > 0: // a work queue: once one has succeeded, none is made any more
		return 0
	}
	return want - pods[Active]
}

func isManagedElsewhere(job *batchv1.Job) bool {
	return job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName
}

// isEnd reports whether the Job makes no more pods. The two target conditions come before the
// others, while its pods end.
func isEnd(c batchv1.JobCondition) bool {
	switch c.Type {
	case batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget:
		return c.Status == corev1.ConditionTrue
	case batchv1.JobSuspended:
	}
	return false
}
