package stratosdown

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// kubelet plays one part of a kubelet: it asks the liveness probe of the scheduler's container as
// the chart has it, and restarts the container where the probe fails as often as that says.
type kubelet struct {
	probe     *corev1.Probe
	url       string
	container *controlplane.Process
	restarts  atomic.Int32
	// pause is before the next restart: none before the first, then longer each time.
	pause time.Duration
}

// firstPause is a kubelet's after the first restart.
const firstPause = 10 * time.Second

// newKubelet reads the probe. It asks a port of the pod, which must be the one that Stratos's
// container calls its probes'.
func newKubelet(t *testing.T, chart *assert.Chart, of *assert.Replica) *kubelet {
	t.Helper()
	probe := chart.Container(t, assert.SchedulerContainer).LivenessProbe
	if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Scheme == corev1.URISchemeHTTPS {
		t.Fatalf("the scheduler's liveness probe is %+v", probe)
	}
	isAsked := func(p corev1.ContainerPort) bool {
		return p.Name == "probes" && p.ContainerPort == probe.HTTPGet.Port.IntVal
	}
	if ports := chart.Container(t, assert.StratosContainer).Ports; !slices.ContainsFunc(ports, isAsked) {
		t.Fatalf("the scheduler's liveness probe asks port %s, Stratos serves its probes at one of %v",
			probe.HTTPGet.Port.String(), ports)
	}
	return &kubelet{probe: probe, url: of.Probe + probe.HTTPGet.Path, container: of.Scheduler}
}

// watch probes until the test ends.
func (k *kubelet) watch(t *testing.T) {
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	wg.Go(func() {
		ticker := time.NewTicker(time.Duration(k.probe.PeriodSeconds) * time.Second)
		defer ticker.Stop()
		for failures := int32(0); ; {
			select {
			case <-t.Context().Done():
				return
			case <-ticker.C:
			}
			if k.ask(t.Context()) == nil {
				failures = 0
				continue
			}
			if failures++; failures >= k.probe.FailureThreshold {
				failures = 0
				k.restart(t)
			}
		}
	})
}

// ask is nil where the probe succeeds: any answer from 200 to 399.
func (k *kubelet) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(1, k.probe.TimeoutSeconds))*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("status %s", answer.Status)
	}
	return nil
}

// restart ends the container and starts it again after the pause, as a kubelet does with one that
// crashes again and again.
func (k *kubelet) restart(t *testing.T) {
	if t.Context().Err() != nil {
		return
	}
	k.restarts.Add(1)
	if err := k.container.Stop(); err != nil {
		t.Error(err)
	}
	pause := time.NewTimer(k.pause)
	defer pause.Stop()
	k.pause = max(firstPause, 2*k.pause)
	select {
	case <-t.Context().Done():
		return
	case <-pause.C:
	}
	if err := k.container.Start(t.Context()); err != nil && t.Context().Err() == nil {
		t.Error(err)
	}
}
