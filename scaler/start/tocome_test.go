package start

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
)

// TestNodesStartForReplicasToCome: their Nodes name the claims by slots, no event is written on a
// pod that does not exist, and nothing is written when the pods come.
func TestNodesStartForReplicasToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replica := func(name string) *corev1.Pod {
			p := waiter(name)
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", UID: "set",
				Controller: new(true)}}
			return p
		}
		r := newPlacerRig(t, ofOneCPU("a"), ofOneCPU("b"), ofOneCPU("d"), ofOneCPU("e"))
		pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}}
		pool.Spec.PoolSize, pool.Spec.ScaleUp.StartBudget = 10, new(int32(100))
		pool.Spec.ScaleUp.Anticipate = v1alpha1.AnticipateReplicas
		r.view.SetPool(pool)
		r.view.Listen(cluster.Listener{SiblingsWait: r.placer.AddSiblings})
		r.view.SetOwner(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "set", UID: "set"},
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3))}})
		r.view.SetPod(replica("x"))
		r.runBoth(func() {
			r.placer.Place(replica("x"))
			synctest.Wait()
		})
		var starts []string
		for _, line := range r.log {
			if strings.HasPrefix(line, "patch") {
				starts = append(starts, line)
			}
		}
		slices.Sort(starts)
		want := []string{"patch a starting claims x", "patch b starting claims set*0", "patch d starting claims set*1"}
		if !slices.Equal(starts, want) {
			t.Errorf("written: %q, want %q", starts, want)
		}
		said := 0
		for len(r.events.Events) > 0 {
			if strings.Contains(<-r.events.Events, "starting standby node") {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%d events on pods, want that of the one which exists", said)
		}
		r.log = nil
		r.view.SetPod(replica("y"))
		r.view.SetPod(replica("z"))
		r.runBoth(func() {
			r.starter.StartNode("b")
			r.starter.StartNode("d")
			synctest.Wait()
		})
		r.want()
		if c, _ := r.view.ClaimOf("z"); c.Node != "d" {
			t.Errorf("the claim of the last is on %q, want d", c.Node)
		}
	})
}
