package options

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/limiter"
)

type limits = map[limiter.Operation]limiter.Limit

func TestRateLimits(t *testing.T) {
	half := limiter.Default()
	for _, op := range []limiter.Operation{limiter.StartInstances, limiter.DescribeInstances,
		limiter.ModifyInstanceAttribute, limiter.ModifyInstanceCapacityReservationAttributes} {
		half[op] = half[op].Share(0.5)
	}
	slow := limiter.Default()
	slow[limiter.StartInstances] = limiter.Limit{Burst: 1, PerSecond: 0.5}
	slow[limiter.DescribeInstances] = limiter.Limit{}
	for name, c := range map[string]struct {
		cloud       string
		args        []string
		environment map[string]string
		want        limits
	}{
		"the fake cloud has none": {v1alpha1.CloudFake, nil, nil, limits{}},
		"Docker has none":         {v1alpha1.CloudKind, nil, nil, limits{}},
		"nor by a share of none":  {v1alpha1.CloudFake, []string{"--rate-limit-share=0.5"}, nil, limits{}},
		"unless one is given": {v1alpha1.CloudFake, []string{"--rate-limit-start-instances=5/2"}, nil,
			limits{limiter.StartInstances: {Burst: 5, PerSecond: 2}}},
		"of what is given one takes its share": {v1alpha1.CloudFake, []string{"--rate-limit-start-instances=9/3",
			"--rate-limit-share=0.5"}, nil, limits{limiter.StartInstances: {Burst: 4, PerSecond: 1.5}}},
		"and the whole of what the leader alone calls": {v1alpha1.CloudFake, []string{"--rate-limit-run-instances=9/3",
			"--rate-limit-share=0.5"}, nil, limits{limiter.RunInstances: {Burst: 9, PerSecond: 3}}},
		"a real cloud has the published ones": {"aws", nil, nil, limiter.Default()},
		"of which one may take a part":        {"aws", []string{"--rate-limit-share=0.5"}, nil, half},
		"each can be changed or turned off": {"aws", []string{"--rate-limit-start-instances=1/0.5",
			"--rate-limit-describe-instances=off"}, nil, slow},
		"also by the environment": {"aws", nil, map[string]string{"STRATOS_RATE_LIMIT_START_INSTANCES": "1/0.5",
			"STRATOS_RATE_LIMIT_DESCRIBE_INSTANCES": "off"}, slow},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, c.environment, valid(c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := o.RateLimits.Limits(c.cloud)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResourcesFollowTheShareAndWhatIsOff(t *testing.T) {
	o, err := parse(t, nil, valid("--rate-limit-share=0.5", "--rate-limit-stop-instances=off")...)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := o.RateLimits.Limits(v1alpha1.CloudAWS)
	if err != nil {
		t.Fatal(err)
	}
	want := limits{
		limiter.StartInstances:     {Burst: 500, PerSecond: 1},
		limiter.TerminateInstances: {Burst: 1000, PerSecond: 20}, // by the leader alone
	}
	if diff := cmp.Diff(want, o.RateLimits.Resources(calls)); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestWrongRateLimitsAreNamed(t *testing.T) {
	for arg, allowed := range map[string]string{
		"--rate-limit-run-instances=5":       "such as 5/2",
		"--rate-limit-create-tags=0/2":       "a whole number from 1 to 10000",
		"--rate-limit-stop-instances=5/-1":   "a number above 0",
		"--rate-limit-terminate-instances=x": "and not off",
		"--rate-limit-share=0":               "above 0 and at most 1",
		"--rate-limit-share=1.5":             "above 0 and at most 1",
		"--rate-limit-share=NaN":             "above 0 and at most 1",
	} {
		t.Run(arg, func(t *testing.T) {
			o, err := parse(t, nil, valid(arg)...)
			if err != nil {
				t.Fatal(err)
			}
			flag, _, _ := strings.Cut(arg, "=")
			if err := o.Validate(); err == nil || !strings.Contains(err.Error(), flag) ||
				!strings.Contains(err.Error(), allowed) {
				t.Errorf("error %v, want one that names %s and says %q", err, flag, allowed)
			}
		})
	}
}
