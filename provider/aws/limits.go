package aws

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"

	"github.com/stratos-sh/stratos/provider/limiter"
)

const (
	// attempts is how often the SDK makes a call that was refused for its rate or failed on the way,
	// the first time included. What is still refused then comes back from above, where the reason for
	// it may have gone.
	attempts = 5
	// longestPause bounds the SDK's own pause between two attempts, which grows with jitter.
	longestPause = 5 * time.Second
	// attemptTime bounds one attempt, without the wait for the limit.
	attemptTime = 20 * time.Second
)

// retryer makes calls again with exponential backoff and jitter. It has no quota of retries of its
// own: our limits already hold each attempt, and a quota that an outage has used up would turn the
// first throttled call after it into an error.
func retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = attempts, longestPause
		o.RateLimiter = unlimited{}
		// EC2 says some of them with status 500, which the SDK would take for its trouble: each attempt
		// costs what others wait for.
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			if m := classify(err).means; m == meansRate || m == meansOther {
				return aws.UnknownTernary
			}
			return aws.FalseTernary
		})}, o.Retryables...)
	})
}

// unlimited is a quota of retries without an end.
type unlimited struct{}

// GetToken implements retry.RateLimiter.
func (unlimited) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}

// AddTokens implements retry.RateLimiter.
func (unlimited) AddTokens(uint) error { return nil }

// admitted is the key of a context whose first attempt the limit has let through already.
type admitted struct{}

// withAdmission returns a context for a call whose caller has waited for the limit: the first
// attempt does not wait once more.
func withAdmission(ctx context.Context) context.Context {
	return context.WithValue(ctx, admitted{}, new(true))
}

// limited lets every attempt of a call wait for its limit and measures it: EC2 counts attempts, not
// what a caller takes for one call. It stands between the SDK's retries and its signature, which
// must be fresh when the wait is over.
func limited(calls *limiter.Calls) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("StratosLimits",
			func(ctx context.Context, in middleware.FinalizeInput,
				next middleware.FinalizeHandler) (out middleware.FinalizeOutput, data middleware.Metadata, err error) {
				op := limiter.Operation(awsmiddleware.GetOperationName(ctx))
				if first, ok := ctx.Value(admitted{}).(*bool); ok && *first {
					*first = false
				} else if err := calls.Wait(ctx, op); err != nil {
					return out, data, err
				}
				_ = calls.Make(op, func() error {
					attempt, cancel := context.WithTimeout(ctx, attemptTime)
					defer cancel()
					out, data, err = next.HandleFinalize(attempt, in)
					return subject{operation: string(op)}.typed(err)
				})
				return out, data, err // EC2's own error, on which the retries decide
			}), "Retry", middleware.After)
	}
}

// reads are the calls that find what a class names. They have no flags of their own: what is set
// for DescribeInstances holds for each.
func reads() []limiter.Operation {
	return []limiter.Operation{"DescribeInstanceTypes", "DescribeImages", "DescribeSubnets", "DescribeSecurityGroups",
		"DescribeCapacityReservations"}
}

// headroom is what is left of each refill: the network brings calls closer together than they left,
// and one that EC2 refuses for it costs seconds.
const headroom = 0.05

// limitsOf are the limits of one region.
func limitsOf(given map[limiter.Operation]limiter.Limit) map[limiter.Operation]limiter.Limit {
	all := map[limiter.Operation]limiter.Limit{}
	for op, limit := range given {
		limit.PerSecond *= 1 - headroom
		all[op] = limit
	}
	for _, op := range reads() {
		all[op] = all[limiter.DescribeInstances]
	}
	return all
}
