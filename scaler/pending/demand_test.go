package pending

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// TestDemandForgetsAPodThatIsBound: what is remembered of a pod ends with its wait.
func TestDemandForgetsAPodThatIsBound(t *testing.T) {
	d := NewDemand()
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	d.Add(pod("a"), "p")
	d.Add(pod("other"), "p")
	d.settle(pod("a"), scalertest.Epoch())
	if _, kept := d.waited[podKey{Namespace: "default", Name: "other"}]; len(d.waited) != 1 || !kept {
		t.Errorf("%v are remembered, want the pod that still waits", d.waited)
	}
}
