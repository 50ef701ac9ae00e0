package waiting

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/bench/env"
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
)

// TestAThousandWaitingPodsCostLittle: a thousand pods wait for nodes that boot, and the scheduler
// asks about them again and again, because something happens to some node all the time. What
// Stratos spends on that is read from the kernel's own account, which counts no other process.
func TestAThousandWaitingPodsCostLittle(t *testing.T) {
	r := assert.NewRig(t, framework.Options{Cloud: []string{"--fake-boot-time=500ms", "--fake-stop-time=200ms"}})
	const size = crowd/crowdPerNode + 2
	assert.Warm(t, r, framework.Pool("waiting", size), framework.Class("waiting", "m5.4xlarge"))
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultKubeletSilent})
	bystander := assert.Node("bystander")
	assert.Create(t, r, bystander)
	for i := range crowd {
		assert.Create(t, r, framework.Pod(fmt.Sprintf("crowd-%04d", i), "cpu", "100m"))
	}
	assert.AwaitMetric(t, r.Metrics, "stratos_claims", `pool="waiting"`, func(n float64) bool { return n == crowd })

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
	used, err := env.UsageOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return used.CPU
}
