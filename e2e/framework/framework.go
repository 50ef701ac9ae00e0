// Package framework puts the whole of Stratos together on a real control plane: a fake cloud in a
// process of its own, one or more Stratos processes, and a kube-scheduler with the generated
// profile that reaches the extender through a recording proxy. The suites and the demo use it.
package framework

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/provider/fake"
)

// Names of the identities, so that an audit log tells who wrote what.
const (
	UserStratos = "stratos"
	UserCloud   = "fake-cloud"
)

// Provider is the cloud provider that Stratos runs with.
type Provider string

// The providers.
const (
	ProviderFake Provider = "fake"
	// ProviderAWS runs against the EC2 test server, with the same machines behind it.
	ProviderAWS Provider = "aws"
)

// Namespace is Stratos's own, which exists before it starts, as with a release.
const Namespace = "stratos-system"

// Options of New. The zero value is one Stratos with the fake cloud's default times, and a
// scheduler with the generated profile.
type Options struct {
	ControlPlane controlplane.Options
	// Provider is ProviderFake where it is empty.
	Provider Provider
	// Cloud are arguments of the cloud's process, for example --fake-boot-time=1s.
	Cloud []string
	// Stratos are arguments of stratos in addition to those that the rig sets.
	Stratos []string
	// NoStratos leaves it to the caller to start one (see StartStratos), NoScheduler to start a
	// scheduler (see StartScheduler).
	NoStratos, NoScheduler bool
	// Progress takes what the build reports; may be nil.
	Progress io.Writer
}

// Rig is a running whole.
type Rig struct {
	ControlPlane *controlplane.ControlPlane
	// Client is the administrator's, without a cache.
	Client client.WithWatch
	// Cloud is the API of the played cloud, whatever Stratos calls it by.
	Cloud *fake.Client
	// Recorder stands between the scheduler and the extender.
	Recorder *Recorder
	// Stratos is the first Stratos process, nil with NoStratos; Metrics is where it serves its
	// metrics.
	Stratos *controlplane.Process
	Metrics string

	options      Options
	binary       string
	dir          string
	cloudProcess *controlplane.Process
	companions   []*controlplane.Process
	proxy        *httptest.Server
}

// New builds what is missing and starts everything. On an error nothing stays behind.
func New(ctx context.Context, o Options) (_ *Rig, err error) {
	r := &Rig{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.dir, err = os.MkdirTemp("", "stratos-rig-"); err != nil {
		return nil, err
	}
	if r.binary, err = build(ctx, filepath.Base(r.dir), stratosProgram(), o.Progress); err != nil {
		return nil, err
	}
	o.ControlPlane.Progress = o.Progress
	if r.ControlPlane, err = controlplane.Start(ctx, o.ControlPlane); err != nil {
		return nil, err
	}
	if r.Client, err = NewClient(r.ControlPlane.Kubeconfig(), nil); err != nil {
		return nil, err
	}
	if err := r.Client.Create(ctx, releaseNamespace()); err != nil {
		return nil, err
	}
	if err := r.startCloud(ctx); err != nil {
		return nil, err
	}
	r.Recorder = NewRecorder()
	r.proxy = httptest.NewServer(r.Recorder)
	if !o.NoStratos {
		s, err := r.StartStratos(ctx, "stratos", o.Stratos...)
		if err != nil {
			return nil, err
		}
		r.Stratos, r.Metrics = s.Process, s.Metrics
		r.Recorder.Forward(s.Extender)
	}
	if !o.NoScheduler {
		if _, err := r.StartScheduler(ctx, "stratos-scheduler", r.proxy.URL); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// releaseNamespace is where Stratos keeps its lease and the pods that pull images.
func releaseNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
}

// Close ends everything, in reverse order.
func (r *Rig) Close() error {
	var errs []error
	for _, p := range slices.Backward(r.companions) {
		errs = append(errs, p.Stop())
	}
	if r.proxy != nil {
		r.proxy.Close()
	}
	if r.Cloud != nil {
		r.Cloud.Close()
	}
	if r.ControlPlane != nil {
		errs = append(errs, r.ControlPlane.Stop())
	}
	if r.binary != "" {
		errs = append(errs, os.RemoveAll(filepath.Dir(r.binary)))
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}

// Running is one Stratos process and where it serves. The addresses are URLs without a trailing
// slash.
type Running struct {
	Process                  *controlplane.Process
	Extender, Metrics, Probe string
}

// StartStratos starts a Stratos process and waits until it is ready. It may be started again after
// Stop or Kill, at the same addresses.
func (r *Rig) StartStratos(ctx context.Context, name string, args ...string) (Running, error) {
	kubeconfig, err := r.ControlPlane.UserKubeconfig(UserStratos, "system:masters")
	if err != nil {
		return Running{}, err
	}
	addresses := [3]string{}
	for i := range addresses {
		if addresses[i], err = controlplane.FreeAddress(); err != nil {
			return Running{}, err
		}
	}
	s := Running{Extender: "http://" + addresses[0], Metrics: "http://" + addresses[1], Probe: "http://" + addresses[2]}
	s.Process, err = r.start(ctx, controlplane.Companion{
		Name: name, Path: r.binary, URL: s.Probe, ReadyPath: "/readyz", Env: r.providerEnv(),
		Args: slices.Concat(r.providerArgs(), []string{
			"--cluster-name=e2e", "--kubeconfig=" + kubeconfig,
			"--extender-bind-address=" + addresses[0], "--metrics-bind-address=" + addresses[1], "--health-probe-bind-address=" +
				addresses[2],
			"--zap-devel",
		}, args),
	})
	return s, err
}

// start starts a process beside the control plane, which ends with Close.
func (r *Rig) start(ctx context.Context, o controlplane.Companion) (*controlplane.Process, error) {
	p := r.ControlPlane.NewCompanion(o)
	r.companions = append(r.companions, p)
	err := p.Start(ctx)
	return p, err
}

// StartScheduler starts a kube-scheduler with the profile generated for the control plane's minor,
// which calls the extender at the given URL.
func (r *Rig) StartScheduler(ctx context.Context, name, extenderURL string) (*controlplane.Process, error) {
	config, err := extender.SchedulerConfig(extender.SchedulerConfigOptions{
		Wiring: extender.WiringDedicated, KubernetesMinor: r.ControlPlane.KubernetesVersion(),
		Kubeconfig: controlplane.KubeconfigPlaceholder, ExtenderURL: extenderURL,
	})
	if err != nil {
		return nil, err
	}
	return r.ControlPlane.StartScheduler(ctx, controlplane.SchedulerOptions{Name: name, ConfigYAML: config})
}

// CloudURL is where the fake cloud serves its API.
func (r *Rig) CloudURL() string { return r.cloudProcess.URL() }

// ExtenderURL is where a scheduler reaches the extender through the Recorder.
func (r *Rig) ExtenderURL() string { return r.proxy.URL }

// NewClient is one without a cache and without a limit of its own that knows the types of
// Kubernetes and Stratos. configure may be nil.
func NewClient(kubeconfig string, configure func(*rest.Config)) (client.WithWatch, error) {
	config, scheme, err := ClientConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	if configure != nil {
		configure(config)
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// ClientConfig is what NewClient makes its clients of.
func ClientConfig(kubeconfig string) (*rest.Config, *apiruntime.Scheme, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	scheme := apiruntime.NewScheme()
	return config, scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}
