package owners

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func replicaSet(replicas int32, change ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
	for _, f := range change {
		f(set)
	}
	return set
}

func statefulSet(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &replicas,
		PodManagementPolicy: appsv1.ParallelPodManagement}}
	for _, f := range change {
		f(set)
	}
	return set
}

// job has parallelism and completions, -1 for none said.
func job(parallelism, completions int32, change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{}
	if parallelism >= 0 {
		j.Spec.Parallelism = &parallelism
	}
	if completions >= 0 {
		j.Spec.Completions = &completions
	}
	for _, f := range change {
		f(j)
	}
	return j
}

func jobIs(t batchv1.JobConditionType, is corev1.ConditionStatus) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: t, Status: is})
	}
}

func setIs(is corev1.ConditionStatus) func(*appsv1.ReplicaSet) {
	return func(s *appsv1.ReplicaSet) {
		s.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: is}}
	}
}

// TestToCome: how many pods each owner is still to create.
func TestToCome(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(1, 0))
	elsewhere, here := "example.com/controller", batchv1.JobControllerName
	for name, c := range map[string]struct {
		owner  metav1.Object
		pods   Pods
		others []*appsv1.ReplicaSet
		want   int
	}{
		"a ReplicaSet without pods": {owner: replicaSet(5), want: 5},
		"with some":                 {owner: replicaSet(5), pods: Pods{Active: 2}, want: 3},
		"with all":                  {owner: replicaSet(5), pods: Pods{Active: 5}},
		"with more than it wants":   {owner: replicaSet(5), pods: Pods{Active: 7}, want: -2},
		"pods that end count no more": {
			owner: replicaSet(5),
			pods:  Pods{Active: 2, Gone: 1, Failed: 1, Succeeded: 1},
			want:  3,
		},
		"that says no number":    {owner: &appsv1.ReplicaSet{}, want: 1},
		"that is refused a pod":  {owner: replicaSet(5, setIs(corev1.ConditionTrue))},
		"that was refused a pod": {owner: replicaSet(5, setIs(corev1.ConditionFalse)), want: 5},
		"that is deleted": {
			owner: replicaSet(5, func(s *appsv1.ReplicaSet) { s.DeletionTimestamp = &deleted }),
		},
		"the old set has gone": {owner: replicaSet(5), others: []*appsv1.ReplicaSet{replicaSet(0)}, want: 5},
		"the old set is to have pods": {
			owner:  replicaSet(5),
			others: []*appsv1.ReplicaSet{replicaSet(0), replicaSet(1)},
		},
		"the old set still has a pod": {
			owner:  replicaSet(5),
			others: []*appsv1.ReplicaSet{replicaSet(0, func(s *appsv1.ReplicaSet) { s.Status.Replicas = 1 })},
		},
		"a StatefulSet": {owner: statefulSet(5), pods: Pods{Active: 1}, want: 4},
		"one pod after the other": {
			owner: statefulSet(5, func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }),
		},
		"with volume claims": {
			owner: statefulSet(5, func(s *appsv1.StatefulSet) {
				s.Spec.VolumeClaimTemplates = make([]corev1.PersistentVolumeClaim, 1)
			}),
		},
		"between two revisions": {
			owner: statefulSet(5, func(s *appsv1.StatefulSet) { s.Status.CurrentRevision, s.Status.UpdateRevision = "a", "b" }),
		},
		"of one revision": {
			owner: statefulSet(5, func(s *appsv1.StatefulSet) { s.Status.CurrentRevision, s.Status.UpdateRevision = "a", "a" }),
			want:  5,
		},
		"a Job of one pod":         {owner: job(-1, -1), want: 1},
		"bound by its parallelism": {owner: job(4, 10), pods: Pods{Active: 1}, want: 3},
		"bound by its completions": {owner: job(4, 10, func(j *batchv1.Job) { j.Status.Succeeded = 8 }), want: 2},
		"its status is behind its pods": {
			owner: job(4, 10, func(j *batchv1.Job) { j.Status.Succeeded = 7 }),
			pods:  Pods{Succeeded: 8, Active: 1},
			want:  1,
		},
		"its pods were deleted": {
			owner: job(4, 10, func(j *batchv1.Job) { j.Status.Succeeded = 9 }),
			pods:  Pods{Succeeded: 1},
			want:  1,
		},
		"a queue of work":       {owner: job(4, -1), pods: Pods{Active: 1}, want: 3},
		"a queue that is empty": {owner: job(4, -1), pods: Pods{Active: 1, Succeeded: 1}},
		"suspended":             {owner: job(4, 4, func(j *batchv1.Job) { j.Spec.Suspend = new(true) })},
		"resumed": {
			owner: job(4, 4, func(j *batchv1.Job) { j.Spec.Suspend = new(false) }),
			want:  4,
		},
		"complete":                      {owner: job(4, 4, jobIs(batchv1.JobComplete, corev1.ConditionTrue))},
		"failed":                        {owner: job(4, 4, jobIs(batchv1.JobFailed, corev1.ConditionTrue))},
		"about to fail":                 {owner: job(4, 4, jobIs(batchv1.JobFailureTarget, corev1.ConditionTrue))},
		"about to be complete":          {owner: job(4, 4, jobIs(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue))},
		"not complete":                  {owner: job(4, 4, jobIs(batchv1.JobComplete, corev1.ConditionFalse)), want: 4},
		"was suspended":                 {owner: job(4, 4, jobIs(batchv1.JobSuspended, corev1.ConditionTrue)), want: 4},
		"of another controller":         {owner: job(4, 4, func(j *batchv1.Job) { j.Spec.ManagedBy = &elsewhere })},
		"of Kubernetes' own":            {owner: job(4, 4, func(j *batchv1.Job) { j.Spec.ManagedBy = &here }), want: 4},
		"a pod failed, says its status": {owner: job(4, 4, func(j *batchv1.Job) { j.Status.Failed = 1 })},
		"a pod failed":                  {owner: job(4, 4), pods: Pods{Failed: 1}},
		"an owner of another kind":      {owner: &corev1.ReplicationController{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ToCome(c.owner, c.pods, c.others); got != c.want {
				t.Errorf("%d to come, want %d", got, c.want)
			}
		})
	}
}

// TestPhaseOf: what a pod counts for.
func TestPhaseOf(t *testing.T) {
	now := metav1.NewTime(time.Unix(1, 0))
	for name, c := range map[string]struct {
		phase   corev1.PodPhase
		deleted *metav1.Time
		want    Phase
	}{
		"waits":                      {phase: corev1.PodPending, want: Active},
		"runs":                       {phase: corev1.PodRunning, want: Active},
		"is being deleted":           {phase: corev1.PodRunning, deleted: &now, want: Gone},
		"has ended":                  {phase: corev1.PodSucceeded, want: Succeeded},
		"has failed":                 {phase: corev1.PodFailed, want: Failed},
		"has ended, and is deleted":  {phase: corev1.PodSucceeded, deleted: &now, want: Succeeded},
		"has failed, and is deleted": {phase: corev1.PodFailed, deleted: &now, want: Failed},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: c.deleted}}
			pod.Status.Phase = c.phase
			if got := PhaseOf(pod); got != c.want {
				t.Errorf("phase %d, want %d", got, c.want)
			}
		})
	}
}

// TestOf: whose pods are watched.
func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		ref  metav1.OwnerReference
		want bool
	}{
		"a ReplicaSet": {
			metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)}, true,
		},
		"a StatefulSet": {
			metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Controller: new(true)}, true,
		},
		"a Job": {
			metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Controller: new(true)}, true,
		},
		"a DaemonSet": {
			metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: new(true)}, false,
		},
		"an owner that controls none": {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet"}, false},
		"a ReplicaSet of others": {
			metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "ReplicaSet", Controller: new(true)}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{c.ref}}}
			if got := Of(pod) != nil; got != c.want {
				t.Errorf("known: %t, want %t", got, c.want)
			}
		})
	}
}

// TestDeploymentOf: only ReplicaSets share what controls them.
func TestDeploymentOf(t *testing.T) {
	set := replicaSet(1)
	if of := DeploymentOf(set); of != "" {
		t.Errorf("of %q, want none", of)
	}
	set.OwnerReferences = []metav1.OwnerReference{{UID: "deployment", Controller: new(true)}}
	if of := DeploymentOf(set); of != "deployment" {
		t.Errorf("of %q, want deployment", of)
	}
	if of := DeploymentOf(job(1, 1)); of != "" {
		t.Errorf("a Job is of %q, want none", of)
	}
}
