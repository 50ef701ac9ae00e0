package suite

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// podCPU is what each pod of a workload asks for: a node of the suite has room for one of them.
const podCPU = "150m"

// poolOf returns a pool of nodes with room for one pod each, which stop as soon as they are seen
// empty.
func poolOf(name string, size, standby int32, images ...string) *v1alpha1.NodePool {
	budget := int32(1000)
	return &v1alpha1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodePoolSpec{
			PoolSize: size, MinStandby: standby,
			Template: v1alpha1.NodeTemplate{NodeClassRef: v1alpha1.NodeClassRef{Kind: "KindNodeClass", Name: name}},
			PreWarm:  v1alpha1.PreWarm{CompletionMode: v1alpha1.ControllerStop, ImagesToPull: images},
			// Rounds follow each other faster than pods of a healthy cluster come and go.
			ScaleUp:   v1alpha1.ScaleUp{StartBudget: &budget},
			ScaleDown: v1alpha1.ScaleDown{EmptyNodeTTL: duration(time.Second)},
		},
	}
}

// disturbance is held by TestBurstSurvives, which ends schedulers, Stratos and nodes, and for
// reading by the other tests that run in parallel.
var disturbance sync.RWMutex //nolint:gochecknoglobals // the tests share the cluster

// places are those of the tests that run side by side, as many as kind.sh says.
var places = sync.OnceValue(func() chan struct{} { //nolint:gochecknoglobals // the tests share the machine
	said := os.Getenv("STRATOS_KIND_AT_ONCE")
	n, err := strconv.Atoi(said)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("STRATOS_KIND_AT_ONCE is %q; it must be a number, at least 1", said))
	}
	return make(chan struct{}, n)
})

// takePlace waits for a place, and gives it back when the test ends.
func takePlace(t *testing.T) {
	t.Helper()
	places() <- struct{}{}
	t.Cleanup(func() { <-places() })
}

// undisturbed makes the test a parallel one with a place, and keeps TestBurstSurvives waiting until
// the test ends or calls what is returned. It takes the lock before the test is parallel, because
// all tests must hold it when TestBurstSurvives asks for it.
func undisturbed(t *testing.T) (end func()) {
	t.Helper()
	disturbance.RLock()
	end = sync.OnceFunc(disturbance.RUnlock)
	t.Cleanup(end)
	t.Parallel()
	takePlace(t)
	return end
}

// warmedAtOnce is how many nodes of a pool warm up at the same time: more starve each other on a
// slow machine.
const warmedAtOnce = 3

// makePool makes a class and a pool of it once Stratos is idle, and waits until all its nodes are
// standby. Both go when the test ends, the pool first.
func makePool(t *testing.T, l *cluster.Cluster, pool *v1alpha1.NodePool) []string {
	t.Helper()
	l.AwaitRelease(t)
	want := pool.Spec.MinStandby
	pool.Spec.MinStandby = min(want, warmedAtOnce)
	l.Create(t, l.Class(pool.Name, reserve(t, l)), pool)
	for pool.Spec.MinStandby < want {
		l.AwaitStandby(t, pool.Name, int(pool.Spec.MinStandby))
		before := pool.DeepCopy()
		pool.Spec.MinStandby = min(want, pool.Spec.MinStandby+warmedAtOnce)
		if err := l.Client.Patch(t.Context(), pool, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	return l.AwaitStandby(t, pool.Name, int(want))
}

// reserve is what a class must keep from pods so that about 250m of cpu are left beside flannel's
// pod, where that is the network: every node reports the whole machine.
func reserve(t *testing.T, l *cluster.Cluster) string {
	t.Helper()
	left := int64(250)
	agents := &appsv1.DaemonSetList{}
	if err := l.Client.List(t.Context(), agents, client.InNamespace("kube-flannel")); err != nil {
		t.Fatal(err)
	}
	for i := range agents.Items {
		for _, c := range agents.Items[i].Spec.Template.Spec.Containers {
			left += c.Resources.Requests.Cpu().MilliValue()
		}
	}
	return fmt.Sprintf("%dm", l.MachineCPU(t)-left)
}

func duration(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }
