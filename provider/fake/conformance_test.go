package fake

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/providertest"
)

// quickTimes keep tests in real time short.
func quickTimes() Times {
	return Times{Boot: 15 * time.Millisecond, Stop: 5 * time.Millisecond, Retention: time.Hour}
}

func subjectOf(api API) providertest.Subject {
	class := nodeClass("m5.large")
	return providertest.Subject{
		Provider: api,
		Launch: func(ctx context.Context, req provider.LaunchRequest) (*provider.Instance, error) {
			return api.LaunchInstance(ctx, class, req)
		},
		WaitFor:   providertest.Poll(api),
		OtherType: "m5.xlarge",
		LoseAnswer: func(t *testing.T, id v1alpha1.InstanceID) {
			f := Fault{Kind: FaultLostAnswer, Op: OpChangeType, Instance: id, Count: 1}
			if _, err := api.AddFault(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		},
		HoldStop: func(t *testing.T, id v1alpha1.InstanceID) {
			if _, err := api.AddFault(t.Context(), Fault{Kind: FaultStopHangs, Instance: id, Count: 1}); err != nil {
				t.Fatal(err)
			}
		},
		Fallback: &providertest.Fallback{
			First: "m5.large", Next: "m6i.large",
			Launch: func(ctx context.Context, req provider.LaunchRequest) (*provider.Instance, error) {
				two := nodeClass("m5.large")
				two.Spec.FallbackInstanceTypes = []string{"m6i.large"}
				return api.LaunchInstance(ctx, two, req)
			},
			Dry: func(t *testing.T, kind, zone string) {
				f := Fault{Kind: FaultInsufficientCapacity, Op: OpLaunch, Type: kind, Zone: zone}
				if _, err := api.AddFault(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			},
		},
	}
}

func nodeClass(instanceType string) *v1alpha1.AWSNodeClass {
	return &v1alpha1.AWSNodeClass{Spec: v1alpha1.AWSNodeClassSpec{InstanceType: instanceType}}
}

func TestCloudConforms(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(*testing.T) providertest.Subject {
		return subjectOf(New(Options{Times: quickTimes()}))
	})
}

func TestClientConforms(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		return subjectOf(served(t, New(Options{Times: quickTimes()})))
	})
}

// served returns a client of the cloud over HTTP.
func served(t *testing.T, cloud *Cloud) *Client {
	t.Helper()
	server := httptest.NewServer(Handler(cloud))
	client := NewClient(server.URL)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client
}
