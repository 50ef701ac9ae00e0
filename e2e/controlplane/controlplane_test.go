package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startPlane starts a control plane that ends with the test.
func startPlane(t *testing.T, options Options) *ControlPlane {
	t.Helper()
	options.Progress = os.Stderr // the first run on a machine builds for minutes
	plane, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane
}

func pids(plane *ControlPlane) []int {
	ids := []int{plane.Etcd().PID(), plane.APIServer().PID(), plane.ControllerManager().PID()}
	for _, scheduler := range plane.Schedulers() {
		ids = append(ids, scheduler.PID())
	}
	return ids
}

// planeFolders are the data folders in the folder for temporary files, which each test sets.
func planeFolders(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// nodeManifest is a Node as a kubelet registers it, ready and with a fresh heartbeat.
func nodeManifest(name string) string {
	now := time.Now().UTC().Format(time.RFC3339)
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q}, "status": {
		"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
		"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": %q, "lastTransitionTime": %q}]}}`, name, now, now)
}

func podManifest(name, scheduler string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"schedulerName": %q,
		"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}}`, name, scheduler)
}

// TestControlPlane shares one control plane, because each costs seconds; its parts do not depend on
// each other's objects.
func TestControlPlane(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	plane := startPlane(t, Options{DefaultScheduler: true, NodeMonitorPeriod: time.Second,
		AuditLog: AuditLog{Enabled: true}})
	mustKubectl(t, plane, nodeManifest("ready"), "create", "-f", "-")

	t.Run("a deployment gets its pods and a scheduled node", func(t *testing.T) { testDeployment(t, plane) })
	t.Run("a second scheduler works beside the default one", func(t *testing.T) { testSecondScheduler(t, plane) })
	t.Run("the audit log tells users apart", func(t *testing.T) { testAudit(t, plane) })
	t.Run("an outage of the API server keeps data and address", func(t *testing.T) { testOutage(t, plane) })
	t.Run("a crash of etcd keeps the data", func(t *testing.T) { testEtcdCrash(t, plane) })
	t.Run("stop leaves neither process nor folder, even when one hangs", func(t *testing.T) { testStop(t, plane) })
}

func testDeployment(t *testing.T, plane *ControlPlane) {
	version := mustKubectl(t, plane, "", "version")
	for _, want := range []string{"Client Version: " + plane.KubernetesVersion(), "Server Version: " +
		plane.KubernetesVersion()} {
		if !strings.Contains(version, want) {
			t.Errorf("kubectl version says %q, want %q", version, want)
		}
	}
	mustKubectl(t, plane, "", "create", "deployment", "web", "--image=web", "--replicas=2")
	wantOutput(t, plane, "ready ready ", "get", "pods", "-l", "app=web", "-o",
		`jsonpath={range .items[*]}{.spec.nodeName} {end}`)
	// Admission plugins of the default set: DefaultTolerationSeconds, ServiceAccount, Priority.
	wantOutput(
		t,
		plane,
		"300 default 0",
		"get",
		"pods",
		"-l",
		"app=web",
		"-o",
		`jsonpath={.items[0].spec.tolerations[0].tolerationSeconds} {.items[0].spec.serviceAccountName} {.items[0].spec.priority}`,
	)
}

func testSecondScheduler(t *testing.T, plane *ControlPlane) {
	options := SchedulerOptions{Name: "second", ConfigYAML: []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles: [{schedulerName: second}]
`)}
	mustKubectl(t, plane, podManifest("for-second", "second"), "create", "-f", "-")
	if _, err := plane.StartScheduler(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, plane, "ready", "get", "pod", "for-second", "-o", "jsonpath={.spec.nodeName}")
	if _, err := plane.StartScheduler(t.Context(), options); err == nil {
		t.Error("a second scheduler of the same name was started; it would share its log")
	}
	broken := SchedulerOptions{Name: "third", ConfigYAML: []byte("kind: Nonsense\n")}
	if _, err := plane.StartScheduler(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "Nonsense") {
		t.Errorf("StartScheduler: %v, want what kube-scheduler said", err)
	}
	if got := len(plane.Schedulers()); got != 2 {
		t.Errorf("%d schedulers, want the default one and the second", got)
	}
}

func testAudit(t *testing.T, plane *ControlPlane) {
	alice, err := plane.UserKubeconfig("alice@example.com", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	bob, err := plane.UserKubeconfig("bob")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := kubectl(t, plane, alice, "", "create", "configmap", fmt.Sprintf("alice-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kubectl(t, plane, bob, "", "create", "configmap", "bob"); err == nil ||
		!strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a user without rights: %v, want Forbidden", err)
	}
	for name, want := range map[string]struct {
		count   int
		filters []AuditFilter
	}{
		"alice": {3, []AuditFilter{ByUser("alice@example.com"),
			ByUserAgent("kubectl/" + plane.KubernetesVersion())}},
		"bob, refused":  {1, []AuditFilter{ByUser("bob")}},
		"bob, accepted": {0, []AuditFilter{ByUser("bob"), Accepted()}},
		"pods of a controller": {2, []AuditFilter{ByUser("system:serviceaccount:kube-system:replicaset-controller"),
			ByResource("pods", "")}},
		"bindings": {3, []AuditFilter{ByUser(schedulerUser), ByResource("pods", "binding")}},
	} {
		eventually(t, name, func() error {
			got, err := CountWrites(plane.AuditLogPath(), want.filters...)
			if err == nil && got != want.count {
				err = fmt.Errorf("%d writes, want %d", got, want.count)
			}
			return err
		})
	}
	if reads, err := ReadAuditLog(plane.AuditLogPath(), ByVerb("get", "list", "watch")); err != nil || len(reads) > 0 {
		t.Errorf("%d reads were recorded, %v; want none unless asked for", len(reads), err)
	}
}

func testOutage(t *testing.T, plane *ControlPlane) {
	mustKubectl(t, plane, "", "create", "configmap", "before")
	if err := plane.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	if plane.APIServer().PID() != 0 {
		t.Error("the API server has a PID after its stop")
	}
	if _, err := kubectl(t, plane, plane.Kubeconfig(), "", "get", "configmap", "before"); err == nil ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("kubectl during the outage: %v, want connection refused", err)
	}
	if err := plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := plane.StartAPIServer(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("second start: %v, want %v", err, ErrRunning)
	}
	mustKubectl(t, plane, "", "get", "configmap", "before")
	// The other components find their way back.
	mustKubectl(t, plane, "", "create", "deployment", "after", "--image=after")
	wantOutput(t, plane, "ready", "get", "pods", "-l", "app=after", "-o", "jsonpath={.items[*].spec.nodeName}")
}

func testEtcdCrash(t *testing.T, plane *ControlPlane) {
	mustKubectl(t, plane, "", "create", "configmap", "before-crash")
	plane.Etcd().Kill()
	if err := plane.Etcd().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, plane, "configmap/before-crash\n", "get", "configmap", "before-crash", "-o", "name")
}

func testStop(t *testing.T, plane *ControlPlane) {
	ids := pids(plane)
	if got := len(planeFolders(t)); got != 1 {
		t.Errorf("%d folders before the stop, want 1", got)
	}
	if err := plane.ControllerManager().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := plane.Stop(); err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		if id == 0 {
			t.Error("a component did not run before the stop")
		} else if err := processGone(id); err != nil {
			t.Errorf("after the stop: %v", err)
		}
	}
	if folders := planeFolders(t); len(folders) > 0 {
		t.Errorf("the stop left %q", folders)
	}
	if err := plane.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if err := plane.StartAPIServer(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("start after the stop: %v, want %v", err, ErrStopped)
	}
	if _, err := plane.StartScheduler(t.Context(), SchedulerOptions{Name: "late"}); err == nil {
		t.Error("a scheduler was started after the stop")
	}
}

func TestTwoControlPlanesSideBySide(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	logs := t.TempDir()
	first := startPlane(t, Options{LogDir: logs})
	second := startPlane(t, Options{NodeMonitorPeriod: time.Second, NodeMonitorGracePeriod: 2 * time.Second,
		NodeAuthorizer: true})
	mustKubectl(t, first, "", "create", "configmap", "mine")
	if _, err := kubectl(t, second, second.Kubeconfig(), "", "get", "configmap", "mine"); err == nil ||
		!strings.Contains(err.Error(), "NotFound") {
		t.Errorf("the other's object: %v, want NotFound", err)
	}

	// The grace period is the one asked for: this node's heartbeat is not renewed.
	mustKubectl(t, second, nodeManifest("silent"), "create", "-f", "-")
	wantOutput(t, second, "Unknown", "get", "node", "silent", "-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
	testNodeAuthorizer(t, second)

	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	mustKubectl(t, second, "", "get", "--raw", "/readyz")
	if _, err := os.Stat(filepath.Join(logs, "kube-apiserver.log")); err != nil {
		t.Errorf("the log folder of the caller: %v", err)
	}
}

// testNodeAuthorizer lets a kubelet's user touch its own Node and no other.
func testNodeAuthorizer(t *testing.T, plane *ControlPlane) {
	t.Helper()
	kubelet, err := plane.UserKubeconfig("system:node:silent", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	mustKubectl(t, plane, nodeManifest("other"), "create", "-f", "-")
	if _, err := kubectl(t, plane, kubelet, "", "annotate", "node", "silent", "a=b"); err != nil {
		t.Errorf("its own node: %v", err)
	}
	if _, err := kubectl(t, plane, kubelet, "", "annotate", "node", "other", "a=b"); err == nil ||
		!strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("another's node: %v, want Forbidden", err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := Start(t.Context(), Options{APIServerArgs: []string{"--no-such-flag"}, Progress: os.Stderr})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("Start: %v, want what kube-apiserver said", err)
	}
	if folders := planeFolders(t); len(folders) > 0 {
		t.Errorf("the failed start left %q", folders)
	}
}

func TestSweepRemovesFoldersOfTheDeadOnly(t *testing.T) {
	temporary := t.TempDir()
	now := time.Now()
	for _, folder := range []struct {
		name string
		age  time.Duration
	}{{"dead", time.Hour}, {"alive", time.Hour}, {"young", time.Second}} {
		path := filepath.Join(temporary, folderPrefix+folder.name, "lock")
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		lock, err := tryLock(path)
		if err != nil || lock == nil {
			t.Fatal(lock, err)
		}
		if err := os.Chtimes(path, now, now.Add(-folder.age)); err != nil {
			t.Fatal(err)
		}
		if folder.name == "alive" {
			t.Cleanup(func() { _ = lock.Close() }) // the folder counts as alive while it is held
		} else if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepFolders(temporary, now); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(temporary, "*"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(temporary, folderPrefix+"alive"), filepath.Join(temporary, folderPrefix+"young")}
	if strings.Join(left, " ") != strings.Join(want, " ") {
		t.Errorf("left %q, want %q", left, want)
	}
}
