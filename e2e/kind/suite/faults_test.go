package suite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestBurstSurvives: whatever is taken away in mid-burst, the burst completes: each pod runs and
// answers, on the pool's nodes. It begins when all tests have ended that count starts or call
// webhooks.
func TestBurstSurvives(t *testing.T) {
	const nodes = 3
	t.Parallel()
	disturbance.Lock()
	t.Cleanup(disturbance.Unlock)
	takePlace(t)
	l := cluster.New(t)
	image := l.Push(t, "faults/web:1")
	makePool(t, l, poolOf("faults", nodes, nodes, image))
	l.Namespace(t, "faults")
	w := cluster.Workload{Name: "web", Namespace: "faults", Pool: "faults", Image: image, CPU: podCPU}
	l.Create(t, w.Deployment())
	faults := []struct {
		name   string
		inject func(*testing.T, *cluster.Cluster, *cluster.Events)
	}{
		{"a helm upgrade", upgrade},
		{"the death of the leading scheduler", func(t *testing.T, l *cluster.Cluster,
			_ *cluster.Events) {
			killLeading(t, l, "scheduler", "stratos-scheduler")
		}},
		{"the death of the leading Stratos", func(t *testing.T, l *cluster.Cluster,
			_ *cluster.Events) {
			killLeading(t, l, "stratos", "stratos")
		}},
		{"the death of a node that starts", killStartingNode},
		{"a Docker that answers nobody for 20 s", pauseDocker},
	}
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			l.AwaitRelease(t)
			l.AwaitStandby(t, "faults", nodes)
			events := l.WatchContainers(t)
			l.Scale(t, w, nodes)
			fault.inject(t, l, events)
			pods := l.AwaitReady(t, "faults", "web", nodes)
			l.AnswersHTTP(t, pods)
			if got := cluster.Nodes(pods); len(got) != nodes {
				t.Errorf("the pods run on %v, want one on each of %d nodes", got, nodes)
			}
			l.Scale(t, w, 0)
			l.AwaitStandby(t, "faults", nodes)
		})
	}
}

func upgrade(t *testing.T, l *cluster.Cluster, _ *cluster.Events) {
	out, err := l.RunHelm(t.Context(), "upgrade", cluster.Release, "../../../charts/stratos", "--namespace",
		cluster.ReleaseNamespace, "--reset-then-reuse-values",
		"--set-string", "podAnnotations.upgraded="+strconv.FormatInt(time.Now().Unix(), 10), "--wait", "--timeout=10m")
	if err != nil {
		t.Fatalf("helm upgrade: %v\n%s", err, out)
	}
}

// killLeading kills a container of the pod that holds the lease.
func killLeading(t *testing.T, l *cluster.Cluster, container, lease string) {
	t.Helper()
	holder, err := l.Holder(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := l.StratosPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if p.Name != holder {
			continue
		}
		id := containerID(p, container)
		if id == "" {
			t.Fatalf("pod %s has no running container %s", p.Name, container)
		}
		cluster.MustDocker(t, "exec", p.Spec.NodeName, "ctr", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", id)
		return
	}
	t.Fatalf("lease %s is held by %q, which is no pod of the release", lease, holder)
}

func containerID(p corev1.Pod, container string) string {
	for _, status := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if status.Name == container && status.State.Running != nil {
			return strings.TrimPrefix(status.ContainerID, "containerd://")
		}
	}
	return ""
}

// killStartingNode waits for the first container of the burst to start, and kills it before its
// kubelet can be Ready.
func killStartingNode(t *testing.T, l *cluster.Cluster, events *cluster.Events) {
	t.Helper()
	cluster.Await(t, "the first start", func(context.Context) (bool, error) {
		return len(events.Of("start", "faults")) > 0,
			nil
	})
	cluster.MustDocker(t, "kill", events.Of("start", "faults")[0].Node)
}

// pauseDocker stops the daemon's process, not the containers, which run on. Where the daemon is not
// ours, the test may not stop it, and says that it could not show this.
func pauseDocker(t *testing.T, l *cluster.Cluster, _ *cluster.Events) {
	t.Helper()
	if l.DaemonPID == "" {
		t.Log("not shown: the Docker daemon is not ours, so it is left alone")
		return
	}
	pid, err := strconv.Atoi(l.DaemonPID)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	paused := time.NewTimer(20 * time.Second)
	defer paused.Stop()
	<-paused.C // the fault itself: how long it lasts
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(fmt.Errorf("the Docker daemon stays stopped: %w", err))
	}
}
