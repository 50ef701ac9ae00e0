package ec2

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
)

const (
	reservationID = "cr-0123456789abcdef0"
	// targetParam is where a request names the reservation.
	targetParam = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
)

// TestReservations: a reservation has room for one of two nodes. Both serve pods, one of them
// On-Demand. After their stop both are set to the reservation. When it ends, they are set to none,
// and serve pods again.
func TestReservations(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Provider: framework.ProviderAWS, Cloud: assert.FastCloud()})
	one := ec2test.CapacityReservation{ID: reservationID, Type: "m5.large", Zone: "us-east-1a", Count: 1, Targeted: true}
	reserve(t, r, one)
	const nodes = 2
	pool, class := framework.Pool("reserved", nodes), framework.Class("reserved", "m5.large")
	pool.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
	class.Spec.CapacityReservation = &v1alpha1.CapacityReservation{ID: reservationID}
	assert.Warm(t, r, pool, class)
	awaitSetTo(t, r, pool.Name, reservationID)

	pods := framework.Pods(nodes, "burst", "cpu", "1500m")
	assert.Create(t, r, assert.Objects(pods)...)
	assert.AwaitRunning(t, r, pods...)
	checkRefusedOnce(t, r)
	assert.Remove(t, r, assert.Objects(pods)...)
	assert.AwaitAllStandby(t, r, pool.Name, nodes)
	awaitSetTo(t, r, pool.Name, reservationID)

	one.State = "expired"
	reserve(t, r, one)
	// A change of the class has EC2 asked at once.
	assert.Change(t, r, class, func(c *v1alpha1.AWSNodeClass) { c.Spec.FallbackInstanceTypes = []string{"m6i.large"} })
	awaitSetTo(t, r, pool.Name, "")
	for _, node := range assert.PoolNodes(t, r, pool.Name) {
		assert.AwaitEvent(t, r, node, v1alpha1.ReasonReservationChanged, "has ended")
	}
	pods = framework.Pods(nodes, "again", "cpu", "1500m")
	assert.Create(t, r, assert.Objects(pods)...)
	assert.AwaitRunning(t, r, pods...)
	checkRefusedOnce(t, r)
}

func reserve(t *testing.T, r *framework.Rig, c ec2test.CapacityReservation) {
	t.Helper()
	if err := r.Reserve(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// awaitSetTo waits until the last word on each instance of the pool, that of its launch or a later
// one, is the reservation, "" for none.
func awaitSetTo(t *testing.T, r *framework.Rig, pool, want string) {
	t.Helper()
	assert.AwaitNodes(t, r, pool, "instances set to reservation "+want, func(nodes map[string]*corev1.Node) bool {
		last := map[v1alpha1.InstanceID]string{}
		for _, action := range []ec2test.Action{ec2test.RunInstances, ec2test.ModifyInstanceCapacityReservationAttributes} {
			for _, q := range requests(t, r, action) {
				for _, id := range q.Instances {
					if q.Code == "" {
						last[id] = q.Params[targetParam]
					}
				}
			}
		}
		for _, n := range nodes {
			if last[assert.InstanceOf(n)] != want {
				return false
			}
		}
		return len(nodes) > 0
	})
}

// checkRefusedOnce: no start and no launch is refused for the reservation after EC2 has shown that
// it is full. A call for both instances may be halved.
func checkRefusedOnce(t *testing.T, r *framework.Rig) {
	t.Helper()
	for action, most := range map[ec2test.Action]int{ec2test.StartInstances: 2, ec2test.RunInstances: 1} {
		refused := 0
		for _, q := range requests(t, r, action) {
			if q.Code == "ReservationCapacityExceeded" {
				refused++
			}
		}
		if refused > most {
			t.Errorf("%d calls of %s were refused for the reservation, want at most %d", refused, action, most)
		}
	}
}
