package parity

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudnode "k8s.io/cloud-provider/controllers/node"
	fakecloud "k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestCloudControllersKeepTheInstanceType: the node controller that all cloud controller managers
// run leaves the type of a Node as Stratos writes it, which is why Stratos writes both labels. Of a
// type that stands in the stable label alone it makes the old one again.
func TestCloudControllersKeepTheInstanceType(t *testing.T) {
	for name, c := range map[string]struct {
		write func(labels map[string]string)
		// want is the type in both labels once the controller has seen the Node.
		want string
	}{
		"both labels": {func(l map[string]string) { v1alpha1.SetInstanceType(l, "m6i.large") }, "m6i.large"},
		"the stable label alone": {
			func(l map[string]string) { l[corev1.LabelInstanceTypeStable] = "m6i.large" }, "m5.large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}}
				v1alpha1.SetInstanceType(n.Labels, "m5.large")
				nodes := controlled(t, n).CoreV1().Nodes()
				c.write(n.Labels)
				if _, err := nodes.Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				settle()
				is, err := nodes.Get(t.Context(), n.Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]string{}
				v1alpha1.SetInstanceType(want, c.want)
				if diff := cmp.Diff(want, is.Labels); diff != "" {
					t.Errorf("labels (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// controlled is an API with a Node and the running node controller, which has seen the Node.
func controlled(t *testing.T, n *corev1.Node) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset(n.DeepCopy())
	factory := informers.NewSharedInformerFactory(client, 0)
	cloud := &fakecloud.Cloud{EnableInstancesV2: true}
	controller, err := cloudnode.NewCloudNodeController(factory.Core().V1().Nodes(), client, cloud, time.Hour, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		factory.Shutdown()
	})
	factory.StartWithContext(ctx)
	running.Go(func() { controller.RunWithContext(ctx, controllers.NewControllerManagerMetrics("parity")) })
	settle()
	return client
}

// settle has the controller and its informers do all that they have begun. They look once in 100 ms
// whether caches have synced, and so the clock has to go on.
func settle() {
	<-time.After(time.Minute)
	synctest.Wait()
}
