package waiting

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

const (
	// crowd are pods of 100m each, of which at least crowdPerNode fit on a node of 16 cpu.
	crowd        = 1000
	crowdPerNode = 150
	// crowdWaits is how long they wait while they are asked about. It may cost crowdCPU of a core, or
	// as much as the scheduler itself spends on the same pods meanwhile: the more of a core the
	// scheduler gets, and the slower the core is, the more both cost.
	crowdWaits = 20 * time.Second
	crowdCPU   = 0.2
	// ticksPerSecond is the unit of /proc/<pid>/stat, the same on every Linux that Go runs on.
	ticksPerSecond = 100
)

// TestAThousandWaitingPodsCostLittle: a thousand pods wait for nodes that boot, and the scheduler
// asks about them again and again, because something happens to some node all the time. What
// Stratos spends on that is read from the kernel's own account, which counts no other process.
func TestAThousandWaitingPodsCostLittle(t *testing.T) {
	r := assert.NewRig(t, framework.Options{Cloud: []string{"--fake-boot-time=500ms", "--fake-stop-time=200ms"}})
	const size = crowd/crowdPerNode + 2
	if err := r.Warm(t.Context(), framework.Pool("waiting", size), framework.Class("waiting", "m5.4xlarge")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Cloud.AddFault(t.Context(), fake.Fault{Kind: fake.FaultKubeletSilent}); err != nil {
		t.Fatal(err)
	}
	bystander := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bystander"}}
	assert.Create(t, r, bystander)
	for i := range crowd {
		assert.Create(t, r, framework.Pod(fmt.Sprintf("crowd-%04d", i), "cpu", "100m"))
	}
	until(t, func(ctx context.Context) error {
		promised, err := assert.Metric(ctx, r.Metrics, "stratos_claims", `pool="waiting"`)
		if err != nil || promised != crowd {
			return fmt.Errorf("%v pods are promised a node, %w", promised, err)
		}
		return nil
	})

	scheduler := r.ControlPlane.Schedulers()[0].PID()
	asked, began := len(r.Recorder.Asked(framework.Filter)), time.Now()
	used, floor := cpuTime(t, r.Stratos.PID()), cpuTime(t, scheduler)
	for i := 0; time.Since(began) < crowdWaits; i++ {
		body := fmt.Sprintf(`{"metadata":{"labels":{"example.com/mark":"%d"}}}`, i)
		if err := r.Client.Patch(t.Context(), bystander.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(body))); err != nil {
			t.Fatal(err)
		}
		select {
		case <-time.After(2 * time.Second):
		case <-t.Context().Done():
		}
	}
	took := time.Since(began)
	asks := len(r.Recorder.Asked(framework.Filter)) - asked
	share := (cpuTime(t, r.Stratos.PID()) - used).Seconds() / took.Seconds()
	least := (cpuTime(t, scheduler) - floor).Seconds() / took.Seconds()
	t.Logf("%d asks in %s cost %.3f of a core, and the scheduler %.3f", asks, took.Round(time.Millisecond), share, least)
	if asks < 2*crowd {
		t.Errorf("the scheduler asked %d times, want each pod asked about at least twice", asks)
	}
	if most := max(crowdCPU, least); share > most {
		t.Errorf("Stratos used %.3f of a core for %d asks in %s, want %.3f at most", share, asks, took, most)
	}
}

// cpuTime is what the process has used of the cpu, in its own code and in the kernel.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The name, in parentheses, may hold spaces; utime and stime are fields 14 and 15 of the whole.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
