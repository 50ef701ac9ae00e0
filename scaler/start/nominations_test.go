package start

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// nominations writes what it is asked for to the log of a rig.
type nominations struct{ *rig }

func (n nominations) ClaimsWritten(node v1alpha1.NodeName) { n.note("claims written " + string(node)) }

func (n nominations) BeforeOpening(_ context.Context, node v1alpha1.NodeName) time.Duration {
	n.note("before opening " + string(node))
	return 0
}

func (n nominations) AtOpening(_ context.Context, node v1alpha1.NodeName) {
	n.note("at opening " + string(node))
}

func (n nominations) note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, what)
}

// TestNominationsComeInTheirTime: after the start intent, which they must not delay, and before the
// patch that opens a node whose drain is cancelled.
func TestNominationsComeInTheirTime(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		want []string
	}{
		"a start": {nodeIn(v1alpha1.StateStandby),
			[]string{"patch c starting claims a", "claims written c", "start i-c"}},
		"a cancelled drain": {draining(), []string{"at opening c", "patch c running claims "}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.node)
				r.starter.nominator = nominations{r}
				r.promise("a")
				r.run(func() { r.starter.StartNode("c") })
				r.want(c.want...)
			})
		})
	}
}
