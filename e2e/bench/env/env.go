// Package env is what the benchmarks run on: a real control plane, a played cloud and Stratos
// as processes, kube-schedulers that reach the extender without anything between, one that asks an
// extender which does nothing (the floor), and watches that note when what was seen.
package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/provider/fake"
)

// FloorScheduler is the schedulerName of the pods that the do-nothing extender is asked about,
// PlainScheduler of those that no extender is asked about, VerbScheduler of those about which
// Stratos is asked with prioritizeVerb too.
const (
	FloorScheduler = "floor-scheduler"
	PlainScheduler = "plain-scheduler"
	VerbScheduler  = "verb-scheduler"
	// SlowScheduler and SlowFloorScheduler are the schedulerNames of the pods about which Stratos and
	// the do-nothing extender are asked by schedulers at the client's default rate.
	SlowScheduler      = "slow-scheduler"
	SlowFloorScheduler = "slow-floor-scheduler"
)

// The played machines: one type of four cpu, and times that keep out of the way.
const (
	InstanceType = "bench.four"
	NodeCPU      = 4
	// BootTime and StopTime are the machines' own.
	BootTime = 500 * time.Millisecond
	StopTime = 200 * time.Millisecond
	// EmptyTTL is how long a node of Pool stays up empty.
	EmptyTTL = time.Second
)

// DefaultQPS and defaultBurst are kube-scheduler's own defaults for its client.
const (
	DefaultQPS   = 50
	defaultBurst = 100
)

// unthrottled is far above what any scheduler here sends, so that no client waits for a limit of
// its own.
const unthrottled = 100_000

// Options of New.
type Options struct {
	// Provider is ProviderFake where it is empty. On ProviderAWS everything but StartInstances is
	// without a rate limit on both sides, so that to warm up costs no minutes; starts have the
	// published one.
	Provider framework.Provider
	// ControlPlane, Cloud and Stratos are more of what framework.Options has.
	ControlPlane controlplane.Options
	Cloud        []string
	Stratos      []string
	// Load: AddNodes will be called. No new node gets the taint by which admission keeps pods away
	// until kube-controller-manager has seen it: on one machine thousands of nodes would wait minutes
	// for that, and it is not what is measured. Nor is the garbage collector there: the owners of
	// AddPods' pods are names only.
	Load bool
	// NoStratos leaves it to the caller to start it.
	NoStratos bool
	// Profiles is the folder for profiles of Stratos and of the schedulers; empty for none. To take
	// them costs a little of what is measured.
	Profiles string
	Progress io.Writer
}

// Env is a running whole.
type Env struct {
	*framework.Rig
	// Ours is the Stratos process and where it serves.
	Ours framework.Running
	// Floor is the extender that does nothing.
	Floor *Floor
	Seen  *Seen

	provider   framework.Provider
	floorProxy *httptest.Server
	profiler   *profiler
	// pprof is where Stratos serves its profiles, if at all.
	pprof string
}

// BootsIn is the cloud's option by which machines boot so long.
func BootsIn(d time.Duration) []string { return []string{"--fake-boot-time=" + d.String()} }

// New starts control plane, cloud and Stratos, and begins to watch. No scheduler runs yet. On an
// error nothing stays behind.
func New(ctx context.Context, o Options) (_ *Env, err error) {
	s := &Env{Floor: NewFloor(), provider: o.Provider}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	// Hand-made nodes have no kubelet, so their leases are not renewed.
	o.ControlPlane.NodeMonitorGracePeriod = time.Hour
	if o.Load {
		o.ControlPlane.APIServerArgs = append(o.ControlPlane.APIServerArgs,
			"--disable-admission-plugins=TaintNodesByCondition")
		o.ControlPlane.ControllerManagerArgs = append(o.ControlPlane.ControllerManagerArgs,
			"--controllers=*,-garbage-collector-controller")
	}
	cloud := []string{
		"--fake-boot-time=" + BootTime.String(), "--fake-stop-time=" + StopTime.String(), "--fake-pull-time=0s",
		"--fake-instance-types=" + InstanceType + fmt.Sprintf("=cpu:%d,memory:16Gi,pods:110", NodeCPU),
	}
	if o.Provider == framework.ProviderAWS {
		cloud = append(cloud, "--unlimited=RunInstances,StopInstances,TerminateInstances,CreateTags")
	}
	s.Rig, err = framework.New(ctx, framework.Options{
		ControlPlane: o.ControlPlane, Provider: o.Provider, Cloud: append(cloud, o.Cloud...),
		NoStratos: true, NoScheduler: true, Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	s.floorProxy = httptest.NewServer(s.Floor)
	if o.Profiles != "" {
		if err := s.takeProfiles(o.Profiles); err != nil {
			return nil, err
		}
	}
	if !o.NoStratos {
		if s.Ours, err = s.StartStratos(ctx, "stratos", s.StratosArgs(o.Stratos...)...); err != nil {
			return nil, err
		}
	}
	s.Seen, err = watchAll(ctx, s.Client)
	return s, err
}

// StratosArgs are those of the Stratos that New starts. Pods of the floor's scheduler count as
// asked about, so that the pending-pod watch starts nothing for them.
func (s *Env) StratosArgs(more ...string) []string {
	// The rig's Stratos tells everything that it does; here it tells what a release's does.
	args := []string{"--zap-devel=false", "--extender-scheduler-names=" + strings.Join([]string{v1alpha1.SchedulerName,
		FloorScheduler, PlainScheduler, VerbScheduler, SlowScheduler, SlowFloorScheduler}, ",")}
	if s.provider == framework.ProviderAWS {
		for _, op := range []string{"run-instances", "stop-instances", "terminate-instances", "create-tags"} {
			args = append(args, "--rate-limit-"+op+"=off")
		}
	}
	if s.pprof != "" {
		args = append(args, "--pprof="+s.pprof)
	}
	return append(args, more...)
}

// takeProfiles begins with the profiles of Stratos, whenever it runs.
func (s *Env) takeProfiles(folder string) (err error) {
	if s.profiler, err = newProfiler(folder, s.ControlPlane.Kubeconfig()); err != nil {
		return err
	}
	if s.pprof, err = controlplane.FreeAddress(); err != nil {
		return err
	}
	s.profiler.watch("stratos", "http://"+s.pprof)
	return nil
}

// KeepHeap writes what lives in Stratos's memory now, on an environment that takes profiles.
func (s *Env) KeepHeap() error {
	if s.profiler == nil {
		return nil
	}
	return s.profiler.heap("stratos", "http://"+s.pprof)
}

// Close ends everything.
func (s *Env) Close() error {
	if s.Seen != nil {
		s.Seen.stop()
	}
	var err error
	if s.profiler != nil {
		err = s.profiler.close()
	}
	if s.Rig != nil {
		err = errors.Join(err, s.Rig.Close())
	}
	if s.floorProxy != nil {
		s.floorProxy.Close()
	}
	return err
}

// StartOurs starts a kube-scheduler with the generated profile that asks Stratos.
func (s *Env) StartOurs(ctx context.Context) (*controlplane.Process, error) {
	return s.startAsking(ctx, v1alpha1.SchedulerName, s.Ours.Extender)
}

// StartFloor starts one with the same profile that asks the do-nothing extender.
func (s *Env) StartFloor(ctx context.Context) (*controlplane.Process, error) {
	return s.startAsking(ctx, FloorScheduler, s.floorProxy.URL)
}

// StartSlow starts one that asks Stratos and one that asks the do-nothing extender, both at the
// client's default rate.
func (s *Env) StartSlow(ctx context.Context) (ours, floor *controlplane.Process, err error) {
	ours, err = s.startAsking(ctx, SlowScheduler, s.Ours.Extender, atDefaultRate)
	if err != nil {
		return nil, nil, err
	}
	floor, err = s.startAsking(ctx, SlowFloorScheduler, s.floorProxy.URL, atDefaultRate)
	return ours, floor, err
}

func atDefaultRate(o *extender.SchedulerConfigOptions) { o.QPS, o.Burst = DefaultQPS, defaultBurst }

func (s *Env) startAsking(ctx context.Context, name, url string,
	changes ...func(*extender.SchedulerConfigOptions)) (*controlplane.Process, error) {
	config, err := s.schedulerConfig(name, url, changes...)
	if err != nil {
		return nil, err
	}
	return s.startScheduler(ctx, name, config)
}

func (s *Env) startScheduler(ctx context.Context, name string, config []byte) (*controlplane.Process, error) {
	process, err := s.ControlPlane.StartScheduler(ctx, controlplane.SchedulerOptions{Name: name, ConfigYAML: config})
	if err == nil && s.profiler != nil {
		s.profiler.watch(name, process.URL())
	}
	return process, err
}

func (s *Env) schedulerConfig(name, url string, changes ...func(*extender.SchedulerConfigOptions)) ([]byte, error) {
	o := extender.SchedulerConfigOptions{
		Wiring: extender.WiringDedicated, KubernetesMinor: s.ControlPlane.KubernetesVersion(), SchedulerName: name,
		Kubeconfig: controlplane.KubeconfigPlaceholder, ExtenderURL: url, QPS: unthrottled, Burst: unthrottled,
	}
	for _, change := range changes {
		change(&o)
	}
	return extender.SchedulerConfig(o)
}

// StartWithVerb starts one with the generated profile that asks Stratos with prioritizeVerb too.
func (s *Env) StartWithVerb(ctx context.Context) (*controlplane.Process, error) {
	config, err := s.schedulerConfig(VerbScheduler, s.Ours.Extender)
	if err != nil {
		return nil, err
	}
	if config, err = WithVerb(config); err != nil {
		return nil, err
	}
	return s.startScheduler(ctx, VerbScheduler, config)
}

// WithVerb has a generated configuration ask the extender for scores as well.
func WithVerb(config []byte) ([]byte, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal(config, &fields); err != nil {
		return nil, err
	}
	extenders, _ := fields["extenders"].([]any)
	for _, e := range extenders {
		if asked, ok := e.(map[string]any); ok {
			asked["prioritizeVerb"], asked["weight"] = "prioritize", 1
			return yaml.Marshal(fields)
		}
	}
	return nil, errors.New("the generated configuration has no extenders")
}

// StartPlain starts one with the same profile but for the extender, so that the filters that the
// extender has taken over are its own again.
func (s *Env) StartPlain(ctx context.Context) (*controlplane.Process, error) {
	config, err := s.schedulerConfig(PlainScheduler, s.floorProxy.URL)
	if err != nil {
		return nil, err
	}
	if config, err = WithoutExtender(config); err != nil {
		return nil, err
	}
	return s.startScheduler(ctx, PlainScheduler, config)
}

// WithoutExtender takes the extender out of a generated configuration, and with it what is disabled
// because the extender does it.
func WithoutExtender(config []byte) ([]byte, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal(config, &fields); err != nil {
		return nil, err
	}
	profiles, ok := fields["profiles"].([]any)
	if !ok || fields["extenders"] == nil {
		return nil, errors.New("the generated configuration has no profiles or no extenders")
	}
	delete(fields, "extenders")
	for _, p := range profiles {
		if profile, ok := p.(map[string]any); ok {
			delete(profile, "plugins")
		}
	}
	return yaml.Marshal(fields)
}

// Warm makes a pool of the size, of the environment's instance type, with the changes, and waits
// until all of it is standby.
func (s *Env) Warm(ctx context.Context, name string, size int, changes ...func(*v1alpha1.NodePool)) error {
	pool, class := framework.Pool(name, int32(size)),
		framework.Class(name, InstanceType) //nolint:gosec // a pool has 1000 nodes at most
	pool.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: EmptyTTL}
	for _, change := range changes {
		change(pool)
	}
	for _, o := range []client.Object{class, pool} {
		if err := s.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T %s: %w", o, name, err)
		}
	}
	return s.AwaitStandby(ctx, name, size)
}

// Grow has the pool have so many nodes, and waits until all of them are standby.
func (s *Env) Grow(ctx context.Context, name string, size int) error {
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Appendf(nil, `{"spec":{"poolSize":%d,"minStandby":%d}}`, size, size)
	if err := s.Client.Patch(ctx, pool, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("grow the pool: %w", err)
	}
	return s.AwaitStandby(ctx, name, size)
}

// AwaitStandby waits until so many nodes of the pool are standby and no node is anything else.
func (s *Env) AwaitStandby(ctx context.Context, pool string, size int) error {
	return s.Seen.Await(ctx, fmt.Sprintf("%d standby nodes in pool %s", size, pool), func(v *View) bool {
		states := v.States[pool]
		return states[v1alpha1.StateStandby] == size && sum(states) == size
	})
}

// AwaitAllBound waits until so many pods are bound.
func (s *Env) AwaitAllBound(ctx context.Context, pods int) error {
	return s.Seen.Await(ctx, "every pod bound", func(v *View) bool { return v.BoundPods == pods })
}

func sum(states map[v1alpha1.NodeState]int) int {
	n := 0
	for _, count := range states {
		n += count
	}
	return n
}

// Start is one instance that was asked to start, and when the cloud got the request.
type Start struct {
	At       time.Time
	Instance v1alpha1.InstanceID
	// Attempt is the SDK's id of the call and the number of the attempt; "" where the cloud is none of
	// the SDK's.
	Attempt string
}

// Starts are the accepted starts so far, oldest first, and the requests that asked for them,
// refused ones included.
func (s *Env) Starts(ctx context.Context) (starts []Start, requests []time.Time, err error) {
	if s.provider == framework.ProviderAWS {
		return s.ec2Starts(ctx)
	}
	calls, err := s.Cloud.Calls(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range calls {
		if c.Op != fake.OpStart {
			continue
		}
		requests = append(requests, c.At)
		if c.Err == "" {
			starts = append(starts, Start{At: c.At, Instance: c.Instance})
		}
	}
	return starts, requests, nil
}

func (s *Env) ec2Starts(ctx context.Context) (starts []Start, requests []time.Time, err error) {
	all, err := s.EC2Requests(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, q := range all {
		if q.Action != startInstances {
			continue
		}
		requests = append(requests, q.At)
		for _, id := range q.Instances {
			if q.Code == "" {
				starts = append(starts, Start{q.At, id, q.Attempt})
			}
		}
	}
	return starts, requests, nil
}

// RemovePods deletes all pods of the namespace default at once and waits until they are gone.
func (s *Env) RemovePods(ctx context.Context) error {
	err := s.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault),
		client.GracePeriodSeconds(0))
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	if err := s.Seen.Await(ctx, "no pod", func(v *View) bool { return len(v.Pods) == 0 }); err != nil {
		return err
	}
	s.Floor.Reset()
	return nil
}

// Pods are n of the scheduler, each of so much cpu.
func Pods(prefix, scheduler, cpu string, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = framework.Pod(fmt.Sprintf("%s-%05d", prefix, i), "cpu", cpu)
		pods[i].Spec.SchedulerName = scheduler
	}
	return pods
}

// Names are those of the pods.
func Names(pods []*corev1.Pod) []string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Name
	}
	return slices.Clip(names)
}
