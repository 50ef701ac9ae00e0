package slim

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/extender/owners"
)

// TestSlimOwnersKeepWhatIsToCome: what is cached of an owner says the same as the owner itself, and
// no more.
func TestSlimOwnersKeepWhatIsToCome(t *testing.T) {
	spec := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "bulky"}}}}
	meta := func(change ...func(*metav1.ObjectMeta)) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: "o", UID: "o", Labels: map[string]string{"a": "bulky"},
			Annotations:     map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "bulky"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", UID: "d", Controller: new(true)}}}
		for _, f := range change {
			f(&m)
		}
		return m
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "bulky"}}
	condition := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	for name, object := range map[string]client.Object{
		"a ReplicaSet": &appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(7)),
			Selector: selector, Template: spec}},
		"one that is refused pods": &appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(7)),
			Template: spec}, Status: appsv1.ReplicaSetStatus{Conditions: []appsv1.ReplicaSetCondition{{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue}}}},
		"a StatefulSet": &appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(7)),
			PodManagementPolicy: appsv1.ParallelPodManagement, Selector: selector, Template: spec}},
		"one with volume claims": &appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(7)),
			PodManagementPolicy: appsv1.ParallelPodManagement, Template: spec,
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "bulky"}}}}},
		"one of two revisions": &appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(7)),
			PodManagementPolicy: appsv1.ParallelPodManagement},
			Status: appsv1.StatefulSetStatus{CurrentRevision: "a", UpdateRevision: "b"}},
		"a Job": &batchv1.Job{ObjectMeta: meta(), Spec: batchv1.JobSpec{Parallelism: new(int32(4)), Completions: new(int32(9)),
			Selector: selector, Template: spec}, Status: batchv1.JobStatus{Succeeded: 7}},
		"a suspended Job": &batchv1.Job{ObjectMeta: meta(), Spec: batchv1.JobSpec{Parallelism: new(int32(4)),
			Suspend: new(true), Template: spec}},
		"a Job of another controller": &batchv1.Job{ObjectMeta: meta(), Spec: batchv1.JobSpec{Parallelism: new(int32(4)),
			ManagedBy: new("example.com/another"), Template: spec}},
		"a Job that had a failure": &batchv1.Job{ObjectMeta: meta(), Spec: batchv1.JobSpec{Parallelism: new(int32(4))},
			Status: batchv1.JobStatus{Failed: 1}},
		"a Job that has ended": &batchv1.Job{ObjectMeta: meta(), Spec: batchv1.JobSpec{Parallelism: new(int32(4))},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{condition}}},
		"an owner that is deleted": &appsv1.ReplicaSet{ObjectMeta: meta(func(m *metav1.ObjectMeta) {
			m.DeletionTimestamp = &metav1.Time{}
		}), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(7)), Template: spec}},
	} {
		t.Run(name, func(t *testing.T) {
			slim, ok := object.DeepCopyObject().(client.Object)
			if !ok {
				t.Fatalf("%T is no object", object)
			}
			for kind, by := range CacheOptions().ByObject {
				if sameKind(kind, slim) {
					if _, err := by.Transform(slim); err != nil {
						t.Fatal(err)
					}
				}
			}
			pods := owners.Pods{owners.Active: 1}
			if got, want := owners.ToCome(slim, pods, nil), owners.ToCome(object, pods, nil); got != want {
				t.Errorf("%d to come by what is cached, want %d", got, want)
			}
			if got, want := owners.DeploymentOf(slim), owners.DeploymentOf(object); got != want {
				t.Errorf("of %q by what is cached, want %q", got, want)
			}
			text, err := json.Marshal(slim)
			if err != nil || strings.Contains(string(text), "bulky") {
				t.Errorf("cached is %s, %v", text, err)
			}
		})
	}
}

func sameKind(a, b client.Object) bool {
	switch a.(type) {
	case *appsv1.ReplicaSet:
		_, ok := b.(*appsv1.ReplicaSet)
		return ok
	case *appsv1.StatefulSet:
		_, ok := b.(*appsv1.StatefulSet)
		return ok
	case *batchv1.Job:
		_, ok := b.(*batchv1.Job)
		return ok
	}
	return false
}
