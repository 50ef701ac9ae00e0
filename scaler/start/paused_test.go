package start

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// pause annotates pool p.
func (r *rig) pause() {
	r.t.Helper()
	p := &v1alpha1.NodePool{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Name: "p"}, p); err != nil {
		r.t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationPaused, "true")
	if err := r.api.Update(r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
}

// TestAPoolIsPausedBeforeAnIntent: the claims end and their pods are placed anew. One that is
// paused after the intent has the instance started.
func TestAPoolIsPausedBeforeAnIntent(t *testing.T) {
	for name, c := range map[string]struct {
		steps    int
		log      []string
		homeless []string
	}{
		"before":                          {steps: 0, homeless: []string{"a"}},
		"after it, the cache lags behind": {steps: 1, log: []string{"patch c starting claims a", "start i-c"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateStandby))
				r.promise("a")
				r.starter.StartNode("c")
				if c.steps > 0 {
					r.starter.Step(t.Context())
				}
				r.pause()
				r.starter.PoolPaused([]v1alpha1.NodeName{"c"})
				r.run(func() { <-time.After(time.Second) })
				r.want(c.log...)
				if diff := cmp.Diff(c.homeless, r.homeless); diff != "" {
					t.Errorf("pods to be placed anew (-want +got):\n%s", diff)
				}
			})
		})
	}
}
