package options

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/limiter"
)

// RateLimits are the settings of the limits on calls to the cloud.
type RateLimits struct {
	// Of holds what was given for each operation; "" takes the default.
	Of map[limiter.Operation]*string
	// Share is the part that this replica may use of the limits on calls that every replica makes.
	Share float64
}

// AddFlags registers --rate-limit-share and a flag for each operation.
func (r *RateLimits) AddFlags(fs *pflag.FlagSet) {
	fs.Float64Var(&r.Share, "rate-limit-share", 1,
		"part of the cloud's rate limits that this replica may use where every replica makes the call, such as 0.5 of two")
	r.Of = map[limiter.Operation]*string{}
	defaults := limiter.Default()
	for _, op := range limiter.Operations() {
		r.Of[op] = fs.String(rateLimitFlag(op), "", fmt.Sprintf(
			"limit on %s calls as burst/perSecond, or off; default %s, with --cloud-provider=fake or kind off", op,
			defaults[op]))
	}
}

// rateLimitFlag is the name of an operation's flag: rate-limit-start-instances.
func rateLimitFlag(op limiter.Operation) string {
	var name strings.Builder
	name.WriteString("rate-limit")
	for _, letter := range string(op) {
		if unicode.IsUpper(letter) {
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(letter))
	}
	return name.String()
}

// madeByEveryReplica tells what is divided among the replicas: each starts nodes for the scheduler
// that asks it, as another type or without its reservation where it has to, and looks at an
// instance whose start was refused. The leader alone makes the other calls, and would leave unused
// what it did not get.
func madeByEveryReplica(op limiter.Operation) bool {
	return op == limiter.StartInstances || op == limiter.ModifyInstanceAttribute ||
		op == limiter.ModifyInstanceCapacityReservationAttributes || op == limiter.DescribeInstances
}

// Limits are the limits of this process. The fake cloud and Docker have none but those that were
// given: they refuse nothing for its rate (the fake cloud unless it is told to), and a
// demonstration or test would only wait.
func (r *RateLimits) Limits(cloudProvider string) (map[limiter.Operation]limiter.Limit, error) {
	limits := map[limiter.Operation]limiter.Limit{}
	if cloudProvider != v1alpha1.CloudFake && cloudProvider != v1alpha1.CloudKind {
		limits = limiter.Default()
	}
	var errs []error
	for _, op := range limiter.Operations() {
		if r.Of[op] == nil || *r.Of[op] == "" {
			continue
		}
		limit, err := limiter.Parse(*r.Of[op])
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", rateLimitFlag(op), err))
		}
		limits[op] = limit
	}
	if !(r.Share > 0 && r.Share <= 1) {
		errs = append(errs, fmt.Errorf("--rate-limit-share %v is not allowed: it is above 0 and at most 1", r.Share))
	}
	for op, limit := range maps.All(limits) {
		if madeByEveryReplica(op) {
			limits[op] = limit.Share(r.Share)
		}
	}
	return limits, errors.Join(errs...)
}

// Resources bound the instances that EC2's calls name, for this process's share. An operation
// without a limit has no such bound either.
func (r *RateLimits) Resources(limits map[limiter.Operation]limiter.Limit) map[limiter.Operation]limiter.Limit {
	resources := limiter.Resources()
	for op, bound := range resources {
		if limits[op] == (limiter.Limit{}) {
			delete(resources, op)
			continue
		}
		if madeByEveryReplica(op) {
			resources[op] = bound.Share(r.Share)
		}
	}
	return resources
}
