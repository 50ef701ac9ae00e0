package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	requestsca "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	requestsselfsigned "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	// Each makes itself known to the issuers' controllers by being imported.
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"golang.org/x/sync/errgroup"
)

// workers of each controller, as many as cert-manager's own program has.
const workers = 5

// controllerNames are the controllers that run, by the names under which their packages register
// them.
func controllerNames() []string {
	return []string{
		issuers.ControllerName, clusterissuers.ControllerName,
		trigger.ControllerName, keymanager.ControllerName, requestmanager.ControllerName,
		issuing.ControllerName, readiness.ControllerName, revisionmanager.ControllerName,
		approver.ControllerName, requestsca.CRControllerName, requestsselfsigned.CRControllerName,
	}
}

// runControllers blocks until the context ends or a controller fails.
func runControllers(ctx context.Context, o *options) error {
	factory, err := controller.NewContextFactory(ctx, controllerOptions(o))
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range controllerNames() {
		loop, err := newController(factory, name)
		if err != nil {
			return err
		}
		group.Go(func() error { return loop.Run(workers, ctx) })
	}
	// Informers exist only once the controllers have asked for them; the loops wait until these are in
	// step.
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return group.Wait()
}

func newController(factory *controller.ContextFactory, name string) (controller.Interface, error) {
	construct, known := controller.Known()[name]
	if !known {
		return nil, fmt.Errorf("cert-manager has no controller %q", name)
	}
	loop, err := construct(factory)
	if err != nil {
		return nil, fmt.Errorf("set up controller %s: %w", name, err)
	}
	return loop, nil
}

// controllerOptions are cert-manager's defaults where they matter here.
func controllerOptions(o *options) controller.ContextOptions {
	return controller.ContextOptions{
		Kubeconfig:    o.kubeconfig,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: o.namespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	}
}
