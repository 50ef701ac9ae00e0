package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Workload is an app of pods that fit the nodes of one pool only.
type Workload struct {
	Name, Namespace, Pool, Image, CPU string
	Replicas                          int32
	// Selector takes the place of the pool's label.
	Selector map[string]string
}

// Namespace creates one whose pods Stratos's scheduler takes, by its label.
func (l *Cluster) Namespace(t *testing.T, name string) {
	t.Helper()
	l.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{v1alpha1.LabelScheduler: v1alpha1.SchedulerEnabled}}})
}

// Deployment of the workload. Its pods go at once when they are deleted.
func (w Workload) Deployment() *appsv1.Deployment {
	labels := map[string]string{"app": w.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &w.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: w.pod()},
		},
	}
}

func (w Workload) pod() corev1.PodSpec {
	second := int64(1)
	selector := w.Selector
	if selector == nil {
		selector = map[string]string{v1alpha1.LabelPool: w.Pool}
	}
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &second,
		NodeSelector:                  selector,
		Containers: []corev1.Container{{
			Name: "web", Image: w.Image, ImagePullPolicy: corev1.PullIfNotPresent,
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(w.CPU)}},
		}},
	}
}

// Everywhere is a DaemonSet on a pool's nodes, as a node agent is one: it tolerates everything, and
// by the documented affinity is not due on standby nodes.
func Everywhere(name, namespace, pool, image string) *appsv1.DaemonSet {
	w := Workload{Name: name, Namespace: namespace, Pool: pool, Image: image, CPU: "10m"}
	labels := map[string]string{"app": name}
	pod := w.pod()
	pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	pod.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: v1alpha1.LabelState, Operator: corev1.NodeSelectorOpNotIn, Values: []string{string(v1alpha1.StateStandby)},
			}}}},
		}},
	}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}

// Roll gives a DaemonSet another image.
func (l *Cluster) Roll(t *testing.T, d *appsv1.DaemonSet, image string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`,
		d.Spec.Template.Spec.Containers[0].Name, image)
	if err := l.Client.Patch(t.Context(), d, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		t.Fatalf("roll %s: %v", d.Name, err)
	}
}

// AwaitRolledOut waits until the DaemonSet controller counts every pod that is due as updated and
// available, and has that many of them.
func (l *Cluster) AwaitRolledOut(t *testing.T, d *appsv1.DaemonSet, due int32) {
	t.Helper()
	Await(t, fmt.Sprintf("DaemonSet %s rolled out on %d nodes", d.Name, due), func(ctx context.Context) (bool, error) {
		now := &appsv1.DaemonSet{}
		if err := l.Client.Get(ctx, client.ObjectKeyFromObject(d), now); err != nil {
			return false, err
		}
		s := now.Status
		ok := s.ObservedGeneration == now.Generation && s.DesiredNumberScheduled == due && s.UpdatedNumberScheduled == due &&
			s.NumberAvailable == due && s.NumberUnavailable == 0
		return ok, problem(ok, "generation %d, status %+v", now.Generation, s)
	})
}

// Scale sets the number of the workload's pods.
func (l *Cluster) Scale(t *testing.T, w Workload, replicas int32) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if err := l.Client.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatalf("scale %s: %v", w.Name, err)
	}
}

// AnswersHTTP asks each pod, by the API server's proxy, and wants the pod's own name back.
func (l *Cluster) AnswersHTTP(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(l.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		Await(t, "HTTP answer of pod "+p.Name, func(ctx context.Context) (bool, error) {
			body, err := clients.CoreV1().RESTClient().Get().Namespace(p.Namespace).Resource("pods").Name(p.Name +
				":8080").SubResource("proxy").DoRaw(ctx)
			if err != nil {
				return false, err
			}
			got := strings.TrimSpace(string(body))
			return got == p.Name, problem(got == p.Name, "pod %s answered %q", p.Name, got)
		})
	}
}
