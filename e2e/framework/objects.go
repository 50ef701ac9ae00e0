package framework

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/fake"
)

// SelfStopUserData is user data that powers the machine off at the end of its first boot. Its
// network is Calico's, which reports at each boot.
const SelfStopUserData = "#!/bin/bash\nCNI=calico\n/etc/eks/bootstrap.sh e2e\nuntil curl -sf http://localhost:10248/healthz; do sleep 5; done\npoweroff\n"

// StayUpUserData is user data that lets the machine run on after its first boot.
const StayUpUserData = "#!/bin/bash\n/etc/eks/bootstrap.sh e2e\n"

// Class is an AWSNodeClass of the instance type whose machines stop themselves after their first
// boot.
func Class(name, instanceType string) *v1alpha1.AWSNodeClass {
	return &v1alpha1.AWSNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.AWSNodeClassSpec{
			Region: "us-east-1", InstanceType: instanceType, AMI: "ami-0123456789abcdef0",
			SubnetIDs: []string{"subnet-12345678"}, SecurityGroupIDs: []string{"sg-12345678"},
			IAMInstanceProfile: "arn:aws:iam::123456789012:instance-profile/node-role",
			UserData:           SelfStopUserData,
		},
	}
}

// BootstrapClass is an AWSNodeClass of the instance type whose user data Stratos writes. Stratos
// stops its machines after their first boot.
func BootstrapClass(name, instanceType string) *v1alpha1.AWSNodeClass {
	class := Class(name, instanceType)
	class.Spec.AMI, class.Spec.AMISelector = "", []v1alpha1.SelectorTerm{{Alias: "al2023@latest"}}
	class.Spec.UserData, class.Spec.Bootstrap = "", &v1alpha1.Bootstrap{}
	return class
}

// Pool is a NodePool of the class of the same name, all of whose nodes are warmed up. Its empty
// nodes stop after an hour and its start budget is large, so that no test meets a stop or a limit
// that it did not ask for.
func Pool(name string, size int32) *v1alpha1.NodePool {
	budget := int32(10000)
	return &v1alpha1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodePoolSpec{
			PoolSize: size, MinStandby: size,
			Template:  v1alpha1.NodeTemplate{NodeClassRef: v1alpha1.NodeClassRef{Kind: "AWSNodeClass", Name: name}},
			ScaleUp:   v1alpha1.ScaleUp{StartBudget: &budget},
			ScaleDown: v1alpha1.ScaleDown{EmptyNodeTTL: &metav1.Duration{Duration: time.Hour}},
		},
	}
}

// Pod is a pod for the scheduler with the extender. requests are pairs of resource and quantity:
// "cpu", "1".
func Pod(name string, requests ...string) *corev1.Pod {
	list := corev1.ResourceList{}
	for i := 0; i+1 < len(requests); i += 2 {
		list[corev1.ResourceName(requests[i])] = resource.MustParse(requests[i+1])
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName,
			// The default of 30 s would have every deletion wait for nothing.
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "main", Image: PodImage, Resources: corev1.ResourceRequirements{Requests: list},
			}},
		},
	}
}

// Warm creates the objects, among them one pool, and waits until the pool has that many standby
// nodes.
func (r *Rig) Warm(ctx context.Context, pool *v1alpha1.NodePool, objects ...client.Object) error {
	for _, o := range append(objects, pool) {
		if err := r.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
		}
	}
	return r.AwaitPool(ctx, pool.Name, func(s v1alpha1.NodePoolStatus) bool { return s.Standby >= pool.Spec.MinStandby })
}

// AwaitPool waits until the pool's status satisfies the condition. The error holds the last status.
func (r *Rig) AwaitPool(ctx context.Context, name string, ok func(v1alpha1.NodePoolStatus) bool) error {
	return Until(ctx, HangGuard, func(ctx context.Context) (bool, error) {
		pool, err := Read(ctx, r, &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil || ok(pool.Status) {
			return err == nil, err
		}
		return false, fmt.Errorf("status of pool %s: %+v", name, pool.Status)
	})
}

// AwaitBound waits until every pod is bound and returns their nodes, in order.
func (r *Rig) AwaitBound(ctx context.Context, pods ...*corev1.Pod) ([]string, error) {
	nodes := make([]string, len(pods))
	for i, p := range pods {
		err := Until(ctx, HangGuard, func(ctx context.Context) (bool, error) {
			got, err := Read(ctx, r, p)
			if nodes[i] = got.Spec.NodeName; err != nil || nodes[i] != "" {
				return err == nil, err
			}
			return false, fmt.Errorf("pod %s is not bound: %s", p.Name, WhyPending(got))
		})
		if err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// WhyPending is what the scheduler last said of the pod.
func WhyPending(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return "no scheduler has said why"
}

// Starts are the ids of the instances that were started, in order, once for each call that the
// cloud accepted.
func (r *Rig) Starts(ctx context.Context) ([]string, error) {
	calls, err := r.Cloud.Calls(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, c := range calls {
		if c.Op == fake.OpStart && c.Err == "" {
			ids = append(ids, string(c.Instance))
		}
	}
	return ids, nil
}

// PodImage is what the pods of Pod run.
const PodImage = "registry.example/app:1"

// StayUp has Stratos end the warm-ups of the pool, whose nodes pull the images meanwhile. A node
// that powered itself off before it had its images would be started once more for them, and tests
// that count starts would see that.
func StayUp(pool *v1alpha1.NodePool, class *v1alpha1.AWSNodeClass, images ...string) {
	pool.Spec.PreWarm.CompletionMode, pool.Spec.PreWarm.ImagesToPull = v1alpha1.ControllerStop, images
	class.Spec.UserData = StayUpUserData
}
