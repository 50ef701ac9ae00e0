package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StratosPods are those of the release that are not ending.
func (l *Cluster) StratosPods(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := l.Client.List(ctx, pods, client.InNamespace(ReleaseNamespace),
		client.MatchingLabels{"app.kubernetes.io/name": Release}); err != nil {
		return nil, err
	}
	var live []corev1.Pod
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			live = append(live, p)
		}
	}
	return live, nil
}

// Image is the image of Stratos in the release's pods.
func (l *Cluster) Image(t *testing.T) string {
	t.Helper()
	pods, err := l.StratosPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) { // first where a scheduler is in the pod
			if c.Name == Release {
				return c.Image
			}
		}
	}
	t.Fatalf("no container of Stratos in %d pods", len(pods))
	return ""
}

// Metric is the sum of a counter's series that have the label, over all Stratos pods.
func (l *Cluster) Metric(t *testing.T, name, label string) float64 {
	t.Helper()
	clients, err := kubernetes.NewForConfig(l.Config)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := l.StratosPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, p := range pods {
		text, err := clients.CoreV1().RESTClient().Get().Namespace(p.Namespace).Resource("pods").Name(p.Name +
			":8080").SubResource("proxy").Suffix("metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatalf("metrics of pod %s: %v", p.Name, err)
		}
		for line := range strings.Lines(string(text)) {
			series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !strings.HasPrefix(series, name+"{") || !strings.Contains(series, label) {
				continue
			}
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			sum += number
		}
	}
	return sum
}

// hostname is what a container of the pod has as its own.
func hostname(p corev1.Pod) string {
	if p.Spec.HostNetwork {
		return p.Spec.NodeName
	}
	return p.Name
}

// Holder is the hostname of the pod that holds a lease of the release, by the lease's name.
func (l *Cluster) Holder(ctx context.Context, name string) (string, error) {
	lease := &coordinationv1.Lease{}
	if err := l.Client.Get(ctx, client.ObjectKey{Namespace: ReleaseNamespace, Name: name}, lease); err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil {
		return "", nil
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod, nil
}

// RunHelm runs Helm 4 on the cluster and returns what it prints.
func (l *Cluster) RunHelm(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, l.Helm, args...).CombinedOutput()
	return string(out), err
}

// AwaitRelease waits until all replicas of the Deployment are there and Ready, no older one is, one
// of them leads, and the API server gets answers from the webhooks: a Pod that is Ready is behind
// its Service only once kube-proxy has seen it, on the node that the API server runs on too.
func (l *Cluster) AwaitRelease(t *testing.T) {
	t.Helper()
	Await(t, "the release's Deployment", func(ctx context.Context) (bool, error) {
		d := &appsv1.Deployment{}
		if err := l.Client.Get(ctx, client.ObjectKey{Namespace: ReleaseNamespace, Name: Release}, d); err != nil {
			return false, err
		}
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.ReadyReplicas != *d.Spec.Replicas ||
			s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas {
			return false, fmt.Errorf("status %+v", s)
		}
		leader, err := l.Holder(ctx, Release)
		if err != nil {
			return false, err
		}
		pods, err := l.StratosPods(ctx)
		ok := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return hostname(p) == leader })
		return ok, errors.Join(err, problem(ok, "%q leads", leader))
	})
	inARow := 0
	Await(t, "answers of the webhooks", func(ctx context.Context) (bool, error) {
		err := l.Client.Create(ctx, l.Class("asks-the-webhooks", "1m"), client.DryRunAll)
		if err != nil {
			inARow = 0
			return false, err
		}
		inARow++
		return inARow >= webhookAnswers, nil
	})
}

// webhookAnswers is how many calls in a row must be answered: the Service spreads them over two
// replicas, each of which is asked but with a chance of 1 in 500.
const webhookAnswers = 10
