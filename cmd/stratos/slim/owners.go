package slim

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// slimReplicaSet keeps what tells how many pods are to come. A Deployment leaves ten old ones.
func slimReplicaSet(set *appsv1.ReplicaSet) {
	slimMeta(&set.ObjectMeta)
	set.Annotations, set.Labels = nil, nil
	set.Spec = appsv1.ReplicaSetSpec{Replicas: set.Spec.Replicas}
	set.Status = appsv1.ReplicaSetStatus{Replicas: set.Status.Replicas, Conditions: set.Status.Conditions}
}

// slimStatefulSet is slimReplicaSet for a StatefulSet. Of its volume claims it keeps that there are
// some.
func slimStatefulSet(set *appsv1.StatefulSet) {
	slimMeta(&set.ObjectMeta)
	set.Annotations, set.Labels = nil, nil
	set.Spec = appsv1.StatefulSetSpec{
		Replicas: set.Spec.Replicas, PodManagementPolicy: set.Spec.PodManagementPolicy,
		VolumeClaimTemplates: make([]corev1.PersistentVolumeClaim, min(len(set.Spec.VolumeClaimTemplates), 1)),
	}
	set.Status = appsv1.StatefulSetStatus{
		CurrentRevision: set.Status.CurrentRevision, UpdateRevision: set.Status.UpdateRevision,
	}
}

// slimJob is slimReplicaSet for a Job.
func slimJob(job *batchv1.Job) {
	slimMeta(&job.ObjectMeta)
	job.Annotations, job.Labels = nil, nil
	job.Spec = batchv1.JobSpec{
		Parallelism: job.Spec.Parallelism, Completions: job.Spec.Completions, Suspend: job.Spec.Suspend,
		ManagedBy: job.Spec.ManagedBy,
	}
	job.Status = batchv1.JobStatus{
		Succeeded: job.Status.Succeeded, Failed: job.Status.Failed, Conditions: job.Status.Conditions,
	}
}
