package scaler

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/nominate"
)

// replicaNews reports what becomes of the claims for replicas to come: on their owner once for each
// burst, and on each pod that takes one. What another replica of Stratos has claimed, that reports.
func replicaNews(recorder events.EventRecorder, m *metrics.Metrics, nominator *nominate.Nominator) cluster.Listener {
	return cluster.Listener{
		ReplicasClaimed: func(c cluster.ReplicasClaimed) {
			m.ReplicaClaims.WithLabelValues("claimed").Add(float64(c.Claims))
			if c.Starts > 0 {
				recorder.Eventf(c.Owner, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonStandbyStarting), "Start",
					"%s for %s to come", counted(c.Starts, "node starts", "nodes start"), counted(c.Claims, "replica", "replicas"))
			}
		},
		ReplicaCame: func(c decide.Claim, pod *corev1.Pod) {
			nominator.ClaimsWritten(c.Node)
			if !c.Adopted {
				m.ReplicaClaims.WithLabelValues("used").Inc()
				recorder.Eventf(pod, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonStandbyStarting), "Start", "%s", c.Message)
			}
		},
		ReplicasEnded: func(c cluster.ReplicasEnded) {
			if c.Adopted {
				return
			}
			m.ReplicaClaims.WithLabelValues("released").Add(float64(c.Claims))
			if len(c.Nodes) > 0 {
				recorder.Eventf(c.Owner, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonFutileStart), "Start",
					"%s for replicas that did not come; starting none ahead until %s",
					counted(len(c.Nodes), "node was started", "nodes were started"), c.Until.UTC().Format(time.RFC3339))
			}
		},
	}
}

// counted words a number of things.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
