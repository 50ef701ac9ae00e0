package scaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
)

// TestStartupPathOfAPodInDemand: a pod waits for a new instance of the pool, and is bound to node
// "c" when that opens at the end of its warm-up.
func TestStartupPathOfAPodInDemand(t *testing.T) {
	launched := func(after time.Duration) func(*provider.Instance) {
		return func(i *provider.Instance) { i.LaunchTime = epoch().Add(after) }
	}
	for name, c := range map[string]struct {
		launched  time.Duration
		waits     bool
		nominated bool
		claims    bool
		warm      bool
		want      decide.Path
	}{
		"the instance was launched for it":        {launched: 3 * time.Second, waits: true, warm: true, want: decide.PathCold},
		"within the second of the pod's creation": {waits: true, warm: true, want: decide.PathCold},
		"the instance was warming up already": {launched: -time.Second, waits: true, warm: true,
			want: decide.PathPromoted},
		"it was nominated first": {launched: 3 * time.Second, waits: true, nominated: true, warm: true,
			want: decide.PathCold},
		"it has not waited":                   {launched: 3 * time.Second, warm: true},
		"its claim is measured":               {launched: 3 * time.Second, waits: true, claims: true, warm: true},
		"its node was not opened for anybody": {launched: 3 * time.Second, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := unschedulable(needing("1"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(epoch()) })
			warm := warming(seenUp, markedAt(v1alpha1.AnnotationWarmedAt, epoch()))
			r := newRig(t, pod, warm, nodePool(5, 0,
				func(p *v1alpha1.NodePool) { p.Spec.PreWarm.CompletionMode = v1alpha1.ControllerStop }))
			r.now = epoch().Add(time.Minute)
			r.sweep(instance(provider.InstanceRunning, launched(c.launched)))
			watch := r.looksAfter()
			var got []decide.Path
			watch.State.Listen(cluster.Listener{PodServed: func(c decide.Claim, p *corev1.Pod) {
				if p.Name != "a" || c.Pool != "p" {
					t.Errorf("claim %+v of pod %s", c, p.Name)
				}
				got = append(got, c.Path)
			}})
			if c.waits {
				r.demand.Add(pod, "p")
			}
			if c.warm {
				r.demand.Add(waits("other", "1"), "p") // opens the node in any case
				r.reconcile()
				r.want("patch c running")
			}
			if c.claims {
				r.promise("a", "c")
				r.look(watch)
			}
			if c.nominated {
				r.write(t, func(p *corev1.Pod) { p.Status.NominatedNodeName = "c" })
				r.look(watch)
			}
			r.write(t, func(p *corev1.Pod) { p.Spec.NodeName = "c" })
			r.look(watch)
			r.look(watch)
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0] != c.want) {
				t.Errorf("measured by %q, want %q, once", got, c.want)
			}
		})
	}
}

// write changes pod "a" on the rig's API server.
func (r *rig) write(t *testing.T, change func(*corev1.Pod)) {
	t.Helper()
	p := &corev1.Pod{}
	if err := r.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, p); err != nil {
		t.Fatal(err)
	}
	change(p)
	status := p.DeepCopy()
	if err := r.api.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	status.ResourceVersion = p.ResourceVersion
	if err := r.api.Status().Update(t.Context(), status); err != nil {
		t.Fatal(err)
	}
}
