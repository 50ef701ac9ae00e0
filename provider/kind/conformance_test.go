package kind

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/providertest"
)

func testClass() *v1alpha1.KindNodeClass {
	return &v1alpha1.KindNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "small"},
		Spec: v1alpha1.KindNodeClassSpec{Cluster: testCluster}}
}

func TestProviderConforms(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		d := newDaemon(t)
		p := d.provider(t)
		return providertest.Subject{
			Provider: p,
			Launch: func(ctx context.Context, req provider.LaunchRequest) (*provider.Instance, error) {
				return p.LaunchInstance(ctx, testClass(), req)
			},
			WaitFor:  providertest.Poll(p),
			HoldStop: func(_ *testing.T, id v1alpha1.InstanceID) { d.set(string(id), func(b *box) { b.deaf = true }) },
		}
	})
}
