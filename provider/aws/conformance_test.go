package aws

import (
	"context"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/providertest"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestAWSConforms holds the provider, over EC2's own protocol, to what is asked of every provider.
func TestAWSConforms(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		r := newRig(t, simcloud.Options{Times: simcloud.Times{Boot: 15 * time.Millisecond, Stop: 5 * time.Millisecond,
			Retention: time.Hour}},
			unlimitedCalls)
		cloud := r.cloud(t, func(o *Options) { o.Limits, o.Resources = nil, nil })
		return providertest.Subject{
			Provider: cloud,
			Launch: func(ctx context.Context, req provider.LaunchRequest) (*provider.Instance, error) {
				return cloud.LaunchInstance(ctx, class(), req)
			},
			WaitFor: providertest.Poll(cloud),
			HoldStop: func(t *testing.T, id v1alpha1.InstanceID) {
				r.fault(t, simcloud.Fault{Kind: simcloud.FaultStopHangs, Instance: id, Count: 1})
			},
			OtherType: "m5.xlarge",
			Reserves:  true,
			LoseAnswer: func(t *testing.T, id v1alpha1.InstanceID) {
				r.fault(t, simcloud.Fault{Kind: simcloud.FaultLostAnswer, Op: simcloud.OpChangeType, Instance: id, Count: 1})
			},
			FailRegion: func(t *testing.T) string {
				launched(t, cloud, far())
				r.server.Script(denied())
				return "eu-west-1"
			},
			Fallback: &providertest.Fallback{
				First: "m5.large", Next: "m6i.large", Dry: r.dry,
				Launch: func(ctx context.Context, req provider.LaunchRequest) (*provider.Instance, error) {
					return cloud.LaunchInstance(ctx, withFallback("m6i.large"), req)
				},
			},
		}
	})
}
