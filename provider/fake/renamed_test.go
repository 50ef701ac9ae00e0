package fake

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/provider"
)

// TestAKubeletRegistersUnderAnotherName from the second boot on: two Nodes have one providerID, and
// one of them reports.
func TestAKubeletRegistersUnderAnotherName(t *testing.T) {
	inWorld(t, Options{}, MachinesOptions{PlayNodeController: true}, func(t *testing.T, w *world) {
		w.class.Spec.UserData = eksUserData + "hostnamectl set-hostname worker\n"
		instance := w.launch()
		w.after(time.Minute)
		w.stopped(instance)
		w.start(instance)
		w.after(5 * time.Minute)
		nodes, err := w.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ready := map[string]corev1.ConditionStatus{}
		for i := range nodes.Items {
			n := &nodes.Items[i]
			if n.Spec.ProviderID != instance.ProviderID {
				t.Errorf("%s has providerID %s", n.Name, n.Spec.ProviderID)
			}
			ready[n.Name] = readyStatus(n)
		}
		name := instance.PrivateDNSName
		if len(ready) != 2 || ready[name] != corev1.ConditionUnknown || ready[name+"-renamed"] != corev1.ConditionTrue {
			t.Errorf("Ready of the Nodes: %v, want %s Unknown and its second name True", ready, name)
		}
	})
}

// TestAnInstanceShutsDownBeforeItIsTerminated: its kubelet goes on meanwhile.
func TestAnInstanceShutsDownBeforeItIsTerminated(t *testing.T) {
	times := Times{ShuttingDown: 12 * time.Minute}
	inWorld(t, Options{Times: times}, MachinesOptions{PlayNodeController: true}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(time.Minute)
		if err := w.cloud.TerminateInstance(t.Context(), string(instance.ID)); err != nil {
			t.Fatal(err)
		}
		w.after(11 * time.Minute)
		w.isState(instance, provider.InstanceShuttingDown)
		if n := w.node(instance); n == nil || readyStatus(n) != corev1.ConditionTrue {
			t.Errorf("Node %v, want one whose kubelet reports", n)
		}
		if err := w.cloud.StartInstance(t.Context(), string(instance.ID)); !provider.IsIncorrectState(err) {
			t.Errorf("start: %v, want an IncorrectStateError", err)
		}
		w.after(time.Minute)
		w.isState(instance, provider.InstanceTerminated)
		w.after(2 * time.Minute)
		if n := w.node(instance); n != nil {
			t.Errorf("Node %s is there after the end of its instance", n.Name)
		}
	})
}
