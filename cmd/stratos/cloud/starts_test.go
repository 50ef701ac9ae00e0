package cloud

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/simcloud"
	"github.com/stratos-sh/stratos/scaler/start"
)

const (
	firstType, fallbackType = "m5.large", "m6i.large"
	standbyNodes, burst     = 250, 200
	// apiTime and cloudTime are what a write of a Node and a call of EC2 take.
	apiTime, cloudTime = 10 * time.Millisecond, 150 * time.Millisecond
	// atOnce is what the starts may take in addition to the limit of changes, of which Stratos leaves
	// the headroom to others.
	atOnce   = 2 * time.Second
	headroom = 0.05
	// refusalsMost are the refused calls of each zone that is dry: one for all zones, one for all
	// of the zone, and one each for two of its instances.
	refusalsMost = 4
)

// dryStarts is what starts nodes, before EC2's protocol and its limits, on a clock that is played.
type dryStarts struct {
	t      *testing.T
	sim    *simcloud.Cloud
	ec2    *ec2test.Server
	state  *cluster.State
	placer *start.Placer
	api    client.WithWatch
}

// TestABurstOfStartsAsAnotherType: 200 pods come at once for 250 standby nodes in three zones, and
// EC2 has none of their type in one zone, or in none. 200 nodes start, each by one accepted start,
// and after one change of its type at most. The last start leaves within 2 s of the first refusal,
// plus the time that the limit of changes takes.
func TestABurstOfStartsAsAnotherType(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	for name, zones := range map[string][]string{"one zone": {"us-east-1a"},
		"all zones": {"us-east-1a", "us-east-1b", "us-east-1c"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDryStarts(t)
				var limits []simcloud.Capacity
				for _, zone := range zones {
					limits = append(limits, simcloud.Capacity{Zone: zone, Type: firstType})
				}
				if err := d.sim.SetCapacity(t.Context(), limits); err != nil {
					t.Fatal(err)
				}
				d.burst()
				d.check(len(zones))
			})
		})
	}
}

func newDryStarts(t *testing.T) *dryStarts {
	t.Helper()
	sim := simcloud.New(simcloud.Options{ProviderPrefix: ec2test.ProviderPrefix})
	d := &dryStarts{t: t, sim: sim, ec2: ec2test.New(sim, ec2test.Options{}),
		state: cluster.New(decide.NewClaims(), time.Now)}
	config, err := aws.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config.HTTPClient, config.BaseEndpoint = d.ec2.HTTPClient(), new("http://ec2.test")
	calls, err := limiter.NewCalls("aws", limiter.New(nil), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	cloud := aws.New(aws.Options{Config: config, ClusterName: "e2e", Calls: calls, Limits: limiter.Default(),
		Resources: limiter.Resources()})

	class := resolvedClass()
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pool.Spec.PoolSize = standbyNodes
	pool.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: class.Name}
	nodes := d.standby(cloud, class)
	d.serve(cloud, append(nodes, pool))
	d.state.SetNodeClass(class)
	d.state.SetPool(pool)
	for _, n := range nodes {
		d.see(n.GetName())
	}
	for _, op := range []simcloud.Op{simcloud.OpStart, simcloud.OpChangeType} {
		d.fault(simcloud.Fault{Kind: simcloud.FaultLatency, Op: op, Delay: cloudTime})
	}
	return d
}

// resolvedClass has the subnets of three zones of the default account.
func resolvedClass() *v1alpha1.AWSNodeClass {
	c := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "k"}}
	c.Spec.InstanceType, c.Spec.FallbackInstanceTypes = firstType, []string{fallbackType}
	c.Status.AMI, c.Status.SecurityGroups = "ami-0123456789abcdef0", []string{"sg-12345678"}
	for i, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		id := fmt.Sprintf("subnet-%d", 12345678+i)
		c.Status.Subnets = append(c.Status.Subnets, v1alpha1.ResolvedSubnet{ID: id, Zone: zone})
	}
	for _, kind := range []string{firstType, fallbackType} {
		c.Status.InstanceTypes = append(c.Status.InstanceTypes, v1alpha1.InstanceTypeStatus{Type: kind, Usable: true})
	}
	return c
}

// standby launches instances and stops them; the Nodes are theirs.
func (d *dryStarts) standby(cloud *aws.Cloud, class *v1alpha1.AWSNodeClass) []client.Object {
	d.t.Helper()
	nodes := make([]client.Object, standbyNodes)
	for i := range nodes {
		instance, err := cloud.LaunchInstance(d.t.Context(), class, provider.LaunchRequest{
			ClientToken: fmt.Sprintf("token-%d", i), Number: int64(i)})
		if err != nil {
			d.t.Fatal(err)
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: instance.PrivateDNSName, UID: types.UID(instance.ID),
			Labels: map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelState: string(v1alpha1.StateStandby),
				corev1.LabelTopologyZone: instance.Zone}}}
		v1alpha1.SetInstanceType(n.Labels, firstType)
		n.Spec.ProviderID = instance.ProviderID
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
		nodes[i] = n
	}
	<-time.After(time.Minute)
	var stops sync.WaitGroup
	for _, n := range nodes {
		stops.Go(func() {
			if err := cloud.StopInstance(d.t.Context(), string(n.GetUID()), false); err != nil {
				d.t.Error(err)
			}
		})
	}
	stops.Wait()
	<-time.After(10 * time.Minute) // until the limits are as before
	return nodes
}

// serve makes what starts nodes, with an API server that takes its time for each write.
func (d *dryStarts) serve(cloud *aws.Cloud, objects []client.Object) {
	d.t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		d.t.Fatal(err)
	}
	d.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{Patch: d.patch}).Build()
	starter := start.New(start.Options{Reader: d.api, Live: d.api, Writer: d.api, Cloud: cloud, State: d.state,
		Events: &events.FakeRecorder{}, Now: time.Now, Log: logr.Discard(),
		Count:   func(v1alpha1.PoolName, start.Trigger) {},
		Refused: func(v1alpha1.PoolName, start.Refusal) {}})
	d.placer = start.NewPlacer(d.state, starter, &events.FakeRecorder{}, time.Now)
	d.state.Listen(cluster.Listener{ClaimsLost: d.placer.Reschedule})
	ctx, stop := context.WithCancel(context.WithoutCancel(d.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = starter.Start(ctx) })
	running.Go(func() { _ = d.placer.Start(ctx) })
	d.t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

func (d *dryStarts) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
	opts ...client.PatchOption) error {
	<-time.After(apiTime)
	if err := c.Patch(ctx, o, p, opts...); err != nil {
		return err
	}
	d.see(o.GetName())
	return nil
}

func (d *dryStarts) see(node string) {
	n := &corev1.Node{}
	if err := d.api.Get(d.t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		d.t.Error(err)
		return
	}
	d.state.SetNode(n)
}

func (d *dryStarts) fault(f simcloud.Fault) {
	d.t.Helper()
	if _, err := d.sim.AddFault(d.t.Context(), f); err != nil {
		d.t.Fatal(err)
	}
}

// burst has the pods ask, again every 3 s as a scheduler does with those that it has not bound, and
// waits until nothing is left to be done.
func (d *dryStarts) burst() {
	pods := make([]*corev1.Pod, burst)
	for i := range pods {
		name := fmt.Sprintf("pod-%d", i)
		pods[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		d.state.SetPod(pods[i])
	}
	for range 60 {
		for _, p := range pods {
			d.placer.Place(p)
		}
		<-time.After(3 * time.Second)
	}
}

func (d *dryStarts) check(dry int) {
	d.t.Helper()
	var first, last time.Time
	started := map[v1alpha1.InstanceID]int{}
	changed := map[v1alpha1.InstanceID]int{}
	accepted, refused := 0, 0
	for _, q := range d.ec2.Requests() {
		switch {
		case q.Action == ec2test.StartInstances && q.Code == "":
			accepted++
			last = q.At
			for _, id := range q.Instances {
				started[id]++
			}
		case q.Action == ec2test.StartInstances:
			if refused++; refused == 1 {
				first = q.At
			}
		case q.Action == ec2test.ModifyInstanceAttribute && q.Code == "":
			changed[q.Instances[0]]++
		}
	}
	limit := limiter.Default()[limiter.ModifyInstanceAttribute]
	rate := limit.PerSecond * (1 - headroom)
	limited := time.Duration(float64(max(0, len(changed)-limit.Burst)) / rate * float64(time.Second))
	d.t.Logf("%d starts, %d changes of type, %d start calls accepted and %d refused; the last start left %s after the "+
		"first refusal, of which the limit of changes is %s", len(started), len(changed), accepted, refused,
		last.Sub(first), limited)
	switch {
	case len(started) != burst || !once(started) || !once(changed):
		d.t.Errorf("%d nodes started, each once: %t; %d changed, each once: %t; want %d starts", len(started),
			once(started), len(changed), once(changed), burst)
	case refused == 0:
		d.t.Error("no start was refused")
	case refused > refusalsMost*dry:
		d.t.Errorf("%d start calls were refused until it was known that %d zones are dry, want at most %d each", refused,
			dry, refusalsMost)
	case last.Sub(first) > atOnce+limited:
		d.t.Errorf("the last start left %s after the first refusal, want at most %s", last.Sub(first), atOnce+limited)
	}
}

// once reports whether there was one call for each instance.
func once(calls map[v1alpha1.InstanceID]int) bool {
	for _, n := range calls {
		if n != 1 {
			return false
		}
	}
	return true
}
