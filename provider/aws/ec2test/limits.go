package ec2test

import (
	"time"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// Action is an operation of EC2's API.
type Action string

// The actions that the server knows.
const (
	RunInstances       Action = "RunInstances"
	StartInstances     Action = "StartInstances"
	StopInstances      Action = "StopInstances"
	TerminateInstances Action = "TerminateInstances"
	DescribeInstances  Action = "DescribeInstances"
	CreateTags         Action = "CreateTags"
	// ModifyInstanceAttribute is known for the instance type alone.
	ModifyInstanceAttribute                     Action = "ModifyInstanceAttribute"
	ModifyInstanceCapacityReservationAttributes Action = "ModifyInstanceCapacityReservationAttributes"

	DescribeCapacityReservations Action = "DescribeCapacityReservations"
	DescribeInstanceTypes        Action = "DescribeInstanceTypes"
	DescribeImages               Action = "DescribeImages"
	DescribeSubnets              Action = "DescribeSubnets"
	DescribeSecurityGroups       Action = "DescribeSecurityGroups"
	// DescribeCluster and DescribeAccessEntry are operations of EKS.
	DescribeCluster     Action = "DescribeCluster"
	DescribeAccessEntry Action = "DescribeAccessEntry"
	// GetCallerIdentity is an operation of STS, GetInstanceProfile one of IAM.
	GetCallerIdentity  Action = "GetCallerIdentity"
	GetInstanceProfile Action = "GetInstanceProfile"
)

// Limits are the token buckets of an account and region. An action without one is unlimited.
type Limits struct {
	// Requests lose a token per call; of the calls that describe, these are the filtered and paged
	// ones.
	Requests map[Action]simcloud.Limit
	// Resources lose a token per instance that a call names or launches.
	Resources map[Action]simcloud.Limit
	// Unpaged is shared by all calls that describe without a filter, ids or MaxResults.
	Unpaged simcloud.Limit
}

// Published returns the limits that AWS documents ("Request throttling for the Amazon EC2 API").
func Published() *Limits {
	describe := simcloud.Limit{Burst: 100, PerSecond: 20}
	return &Limits{
		Requests: map[Action]simcloud.Limit{
			RunInstances: {Burst: 5, PerSecond: 2}, StartInstances: {Burst: 5, PerSecond: 2},
			StopInstances: {Burst: 50, PerSecond: 5}, TerminateInstances: {Burst: 100, PerSecond: 5},
			ModifyInstanceAttribute:                     {Burst: 50, PerSecond: 5},
			ModifyInstanceCapacityReservationAttributes: {Burst: 50, PerSecond: 5},
			DescribeCapacityReservations:                describe,
			CreateTags:                                  {Burst: 100, PerSecond: 10},
			DescribeInstances:                           describe, DescribeInstanceTypes: describe,
			DescribeImages: describe, DescribeSubnets: describe, DescribeSecurityGroups: describe,
		},
		Resources: map[Action]simcloud.Limit{
			RunInstances: {Burst: 1000, PerSecond: 2}, StartInstances: {Burst: 1000, PerSecond: 2},
			StopInstances: {Burst: 1000, PerSecond: 20}, TerminateInstances: {Burst: 1000, PerSecond: 20},
		},
		Unpaged: simcloud.Limit{Burst: 50, PerSecond: 10},
	}
}

// buckets are Limits at work in one region.
type buckets struct {
	requests, resources map[Action]*simcloud.Bucket
	unpaged             *simcloud.Bucket
}

func newBuckets(l *Limits, now time.Time) *buckets {
	fill := func(limits map[Action]simcloud.Limit) map[Action]*simcloud.Bucket {
		full := map[Action]*simcloud.Bucket{}
		for action, limit := range limits {
			full[action] = simcloud.NewBucket(limit, now)
		}
		return full
	}
	b := &buckets{requests: fill(l.Requests), resources: fill(l.Resources)}
	if l.Unpaged.Burst > 0 {
		b.unpaged = simcloud.NewBucket(l.Unpaged, now)
	}
	return b
}

// take takes what the call costs, or reports that there is not enough. The request's own token is
// lost also where the resources' are missing.
func (b *buckets) take(c call, now time.Time) bool {
	bucket := b.requests[c.action]
	if c.unpaged && b.unpaged != nil {
		bucket = b.unpaged
	}
	if bucket != nil && !bucket.Take(now, 1) {
		return false
	}
	resources := b.resources[c.action]
	return resources == nil || resources.Take(now, c.resources)
}
