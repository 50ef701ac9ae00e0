package waiting

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/crds"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
)

// startInProcess runs a Stratos in this process, wired as cmd/stratos does, but for the extender's
// lagging watch and the nudges, which pass through the given gate. The watch ends with it. There
// can be one in a test binary: the metrics are registered for the process.
func startInProcess(t *testing.T, r *framework.Rig, watch *lagging, nudges *nudgeGate) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	t.Cleanup(ended.Wait)
	t.Cleanup(cancel)
	mgr := newManager(t, r, nudges)
	seen := cluster.New(decide.NewClaims(), time.Now)
	watch.Informers, watch.done = mgr.GetCache(), ctx.Done()
	if err := seen.SetupWithManager(mgr, watch); err != nil {
		t.Fatal(err)
	}
	starter, err := scaler.SetupWithManager(ctx, mgr, scaler.Setup{
		Cloud: r.Cloud, Classes: []nodeclass.Kind{nodeclass.AWSNodeClasses(r.Cloud)},
		Cluster: "e2e", State: seen, ExtenderSchedulers: []string{v1alpha1.SchedulerName},
	})
	if err != nil {
		t.Fatal(err)
	}
	address := assert.FreeAddress(t)
	_, err = extender.SetupWithManager(mgr, extender.Setup{
		State: seen, Starter: starter, Server: extender.Options{BindAddress: address},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("Stratos in this process: %v", err)
		}
	})
	r.Recorder.Forward("http://" + address)
}

func newManager(t *testing.T, r *framework.Rig, nudges *nudgeGate) manager.Manager {
	t.Helper()
	path, err := r.ControlPlane.UserKubeconfig(framework.UserStratos, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config, scheme, err := framework.ClientConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := crds.Install(t.Context(), r.Client); err != nil {
		t.Fatal(err)
	}
	o := (&options.Options{MetricsBindAddress: "0", ProbeBindAddress: "0"}).Manager(scheme)
	o.NewClient = nudges.client
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// nudgeGate drops the first nudges, and answers their writer with success.
type nudgeGate struct {
	// swallow is how many are swallowed.
	swallow int
	// mu guards the times.
	mu sync.Mutex
	// swallowed and passed are when nudges arrived here, in order.
	swallowed, passed []time.Time
}

func (g *nudgeGate) client(config *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.NewWithWatch(config, o)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(c, interceptor.Funcs{Patch: g.patch}), nil
}

func (g *nudgeGate) patch(ctx context.Context, c client.WithWatch, object client.Object, p client.Patch,
	opts ...client.PatchOption) error {
	data, err := p.Data(object)
	if err != nil {
		return err
	}
	if strings.Contains(string(data), `"`+v1alpha1.AnnotationNudgedAt+`":`) && !g.opens() {
		return nil
	}
	return c.Patch(ctx, object, p, opts...)
}

// opens counts one nudge and reports whether it may pass.
func (g *nudgeGate) opens() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.swallowed) < g.swallow {
		g.swallowed = append(g.swallowed, time.Now())
		return false
	}
	g.passed = append(g.passed, time.Now())
	return true
}

func (g *nudgeGate) times() (swallowed, passed []time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]time.Time(nil), g.swallowed...), append([]time.Time(nil), g.passed...)
}
