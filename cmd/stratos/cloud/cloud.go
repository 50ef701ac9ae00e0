// Package cloud makes the cloud that the flags choose.
package cloud

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/price"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
)

// Cloud is the chosen cloud, its calls limited and measured.
type Cloud struct {
	Provider provider.CloudProvider
	// Classes are the kinds of node classes that it launches from.
	Classes []nodeclass.Kind
	// Beside is what has to run together with it, nil where nothing has.
	Beside manager.Runnable
}

// Kinds are the names of the kinds of node classes.
func (c *Cloud) Kinds() []string {
	var names []string
	for _, kind := range c.Classes {
		names = append(names, kind.Name)
	}
	return names
}

// New makes the chosen cloud. The context is for reading its configuration.
func New(
	ctx context.Context, o *options.Options, config *rest.Config, registerer prometheus.Registerer,
) (*Cloud, error) {
	limits, err := o.RateLimits.Limits(o.CloudProvider)
	if err != nil {
		return nil, err
	}
	prices, err := readPrices(o.PricesFile)
	if err != nil {
		return nil, fmt.Errorf("--prices-file: %w", err)
	}
	calls, err := limiter.NewCalls(o.CloudProvider, limiter.New(limits), registerer)
	if err != nil {
		return nil, err
	}
	log := ctrl.Log.WithName("cloud")
	calls.ReportFailures(func(op limiter.Operation, took time.Duration, err error) {
		log.V(1).Info("A call to the cloud failed", "operation", op, "took", took.String(), "error", err.Error())
	})
	switch o.CloudProvider {
	case v1alpha1.CloudAWS:
		return ec2(ctx, o.ClusterName, config, prices, limits, o.RateLimits.Resources(limits), calls, registerer)
	case v1alpha1.CloudKind:
		return kindCloud(calls)
	}
	api, beside, err := fakeCloud(&o.Fake, config)
	if err != nil {
		return nil, err
	}
	cloud := limiter.Wrap(priced{api, prices}, calls)
	return &Cloud{Provider: cloud, Classes: []nodeclass.Kind{nodeclass.AWSNodeClasses(cloud)}, Beside: beside}, nil
}

// readPrices reads the file; "" is none.
func readPrices(file string) (*price.Book, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // no prices are no error
	}
	text, err := os.ReadFile(file) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	return price.Parse(text)
}

// priced gives the node classes of the fake cloud their price. Its images have no volumes.
type priced struct {
	fake.API
	prices *price.Book
}

// ResolveNodeClass implements fake.API.
func (p priced) ResolveNodeClass(ctx context.Context, class *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus,
	error) {
	found, err := p.API.ResolveNodeClass(ctx, class)
	if err != nil {
		return found, err
	}
	var volumes []price.Volume
	for i := range class.Spec.BlockDeviceMappings {
		m := &class.Spec.BlockDeviceMappings[i]
		v := price.Volume{Type: m.VolumeTypeOrDefault()}
		if m.VolumeSize != nil {
			v.GiB = int64(*m.VolumeSize)
		}
		volumes = append(volumes, v)
	}
	found.Price = p.prices.Of(class.Spec.InstanceType, volumes)
	for i := range found.InstanceTypes {
		t := &found.InstanceTypes[i]
		t.Price = p.prices.Of(t.Type, volumes)
	}
	return found, nil
}

// fakeCloud is the fake cloud, in this process or over HTTP, and in the first case the machines
// to run beside it.
func fakeCloud(f *options.Fake, config *rest.Config) (fake.API, manager.Runnable, error) {
	if f.Endpoint != "" {
		return fake.NewClient(f.Endpoint), nil, nil
	}
	cloud, machines, err := InProcess(f, config)
	if err != nil {
		return nil, nil, err
	}
	return cloud, machines, nil
}

// InProcess makes a fake cloud and its machines.
func InProcess(f *options.Fake, config *rest.Config) (*fake.Cloud, *fake.Machines, error) {
	o, err := f.Cloud()
	if err != nil {
		return nil, nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS = "stratos-fake-machines", -1 // told apart from Stratos in an audit log
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("fake machines: %w", err)
	}
	cloud := fake.New(o)
	return cloud, fake.NewMachines(cloud, fake.MachinesOptions{Client: clientset,
		Log: ctrl.Log.WithName("fake-machines")}), nil
}
