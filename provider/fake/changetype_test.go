package fake

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/provider"
)

// TestAMachineOfAnotherType: after a change of its type the Node has what the new type has, pods
// find that room, and the label of the type is as it was, or as another client has written it.
func TestAMachineOfAnotherType(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{PlayNodeController: true}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(time.Minute)
		for _, c := range []struct {
			kind, label string
			cpu, pods   int64
			pod         string // the CPUs of one more pod: the first two fill the largest type
		}{
			{"m5.xlarge", "m5.large", 4, 58, "4"}, {"m5.2xlarge", "m5.2xlarge", 8, 58, "4"},
			{"m5.large", "m5.large", 2, 29, "0"},
		} {
			w.stopped(instance)
			if err := w.cloud.ChangeInstanceType(t.Context(), string(instance.ID), c.kind); err != nil {
				t.Fatal(err)
			}
			patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, corev1.LabelInstanceTypeStable, c.label)
			if _, err := w.client.CoreV1().Nodes().Patch(t.Context(), instance.PrivateDNSName, types.MergePatchType, patch,
				metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			w.start(instance)
			w.after(time.Minute)
			node := w.node(instance)
			got := []any{node.Labels[corev1.LabelInstanceTypeStable], node.Status.Capacity.Cpu().Value(),
				node.Status.Allocatable.Cpu().Value(), node.Status.Allocatable.Pods().Value(), readyStatus(node)}
			if diff := cmp.Diff([]any{c.label, c.cpu, c.cpu, c.pods, corev1.ConditionTrue}, got); diff != "" {
				t.Errorf("as %s (-want +got):\n%s", c.kind, diff)
			}
			w.bind(instance, c.kind, requests(map[corev1.ResourceName]string{"cpu": c.pod}))
			w.after(time.Second)
			if phase := w.pod(c.kind).Status.Phase; phase != corev1.PodRunning {
				t.Errorf("a pod of %s CPUs on a %s is %s", c.pod, c.kind, phase)
			}
		}
	})
}

func TestRefusedChangesOfTypes(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{}, func(t *testing.T, a *account) {
		i := a.standby()
		change := func(kind string) error { return a.cloud.ChangeInstanceType(t.Context(), string(i.ID), kind) }
		for _, kind := range []string{"m5.huge", "m7g.large"} {
			if err := change(kind); !provider.IsInvalidConfig(err) {
				t.Errorf("%s: %v", kind, err)
			}
		}
		for kind, is := range map[FaultKind]func(error) bool{
			FaultUnauthorized: provider.IsUnauthorized, FaultRateLimit: provider.IsRateLimit,
			FaultNotFound: provider.IsNotFound, FaultIncorrectState: provider.IsIncorrectState,
		} {
			a.arm(Fault{Kind: kind, Op: OpChangeType, Count: 1})
			if err := change("m5.xlarge"); !is(err) {
				t.Errorf("%s: %v", kind, err)
			}
		}
		got, err := a.cloud.GetInstance(t.Context(), string(i.ID))
		if err != nil || got.Type != "m5.large" {
			t.Errorf("after refusals the type is %s, %v", got.Type, err)
		}
	})
}

// TestAStartAsAnotherTypeMeetsItsRoom and not that of the type before.
func TestAStartAsAnotherTypeMeetsItsRoom(t *testing.T) {
	t.Parallel()
	capacity := []Capacity{{Zone: "*", Type: "m5.xlarge"}}
	inCloud(t, Options{Capacity: capacity}, func(t *testing.T, a *account) {
		i := a.standby()
		a.must(a.cloud.ChangeInstanceType(t.Context(), string(i.ID), "m5.xlarge"))
		if err := a.start(i); !provider.IsInsufficientCapacity(err) {
			t.Errorf("start as a type without room: %v", err)
		}
		a.must(a.cloud.ChangeInstanceType(t.Context(), string(i.ID), "m5.2xlarge"))
		a.must(a.start(i))
	})
}

func TestChangesOfTypesAreLimited(t *testing.T) {
	t.Parallel()
	inCloud(t, Options{Limits: PublishedLimits()}, func(t *testing.T, a *account) {
		i := a.standby()
		done := 0
		for a.cloud.ChangeInstanceType(t.Context(), string(i.ID), "m5.xlarge") == nil {
			done++
		}
		if done != 50 {
			t.Errorf("%d changes at once, want 50", done)
		}
	})
}
