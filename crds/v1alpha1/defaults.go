package v1alpha1

import (
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// The defaults of the API. The CRD carries them too, so that they hold without Stratos running; a
// test compares both. What a field means that is unset and has no default here follows from others.
const (
	DefaultWeight int32 = 10

	DefaultPreWarmTimeout      = 10 * time.Minute
	DefaultTimeoutAction       = TimeoutStop
	DefaultImagePullPolicy     = ImagesRequired
	DefaultStartupTaintRemoval = RemoveWhenNetworkReady

	DefaultReadyTimeout = 5 * time.Minute
	DefaultAnticipate   = AnticipateReplicas

	DefaultScaleDownEnabled  = true
	DefaultEmptyNodeTTL      = 5 * time.Minute
	DefaultDrainTimeout      = 5 * time.Minute
	DefaultStandbySurplusTTL = 24 * time.Hour

	// DefaultBudget is a percentage of poolSize.
	DefaultBudget = "10%"
	DefaultDrift  = DriftRecycle

	// DefaultNodeImageOwner is the account that Stratos runs with.
	DefaultNodeImageOwner = "self"

	DefaultVolumeType                    = "gp3"
	DefaultDeleteOnTermination           = true
	DefaultHTTPTokens                    = "required"
	DefaultHTTPPutResponseHopLimit int32 = 2
	DefaultHTTPEndpoint                  = "enabled"
)

// The functions below return what a field says, or its default where it is unset: objects read from
// the API server have their defaults, those made in Go may not.

// WeightOrDefault returns the pool's weight, 0 to 100.
func (s *NodePoolSpec) WeightOrDefault() int32 { return valueOr(s.Weight, DefaultWeight) }

// RuntimeLimit returns how long a node may run since it last became running; 0 means without limit.
// A value that the API server would have refused counts as 0: a node is never taken down for a
// limit that cannot be read.
func (s *NodePoolSpec) RuntimeLimit() time.Duration {
	if s.MaxNodeRuntime == nil || s.MaxNodeRuntime.Type == intstr.Int {
		return 0
	}
	limit, err := time.ParseDuration(s.MaxNodeRuntime.StrVal)
	if err != nil || limit < 0 {
		return 0
	}
	return limit
}

// StartupTaintRemovalOrDefault returns who removes startup taints.
func (t *NodeTemplate) StartupTaintRemovalOrDefault() StartupTaintRemoval {
	return textOr(t.StartupTaintRemoval, DefaultStartupTaintRemoval)
}

// TimeoutOrDefault returns how long a warm-up may take.
func (p *PreWarm) TimeoutOrDefault() time.Duration {
	return durationOr(p.Timeout, DefaultPreWarmTimeout)
}

// TimeoutActionOrDefault returns what becomes of an instance that is not warm in time.
func (p *PreWarm) TimeoutActionOrDefault() TimeoutAction {
	return textOr(p.TimeoutAction, DefaultTimeoutAction)
}

// CompletionModeOf returns who stops an instance of the class at the end of warm-up. Unless the
// pool says it, that is Stratos where it writes the user data, which then has no power-off. nil is
// a class that is not known.
func (p *PreWarm) CompletionModeOf(class NodeClass) CompletionMode {
	if own, ok := class.(*AWSNodeClass); ok && own != nil && own.Spec.Bootstrap != nil {
		return textOr(p.CompletionMode, ControllerStop)
	}
	return textOr(p.CompletionMode, SelfStop)
}

// ImagePullPolicyOrDefault returns whether an image that cannot be pulled keeps a node from
// standby.
func (p *PreWarm) ImagePullPolicyOrDefault() ImagePullPolicy {
	return textOr(p.ImagePullPolicy, DefaultImagePullPolicy)
}

// ReadyTimeoutOrDefault returns how long a start may take.
func (u *ScaleUp) ReadyTimeoutOrDefault() time.Duration {
	return durationOr(u.ReadyTimeout, DefaultReadyTimeout)
}

// StartBudgetOrDefault returns the largest number of starts in 5 minutes: poolSize where it is
// unset.
func (u *ScaleUp) StartBudgetOrDefault(poolSize int32) int32 { return valueOr(u.StartBudget, poolSize) }

// AnticipateOrDefault returns for which pods room is claimed before their scheduler asks.
func (u *ScaleUp) AnticipateOrDefault() Anticipate { return textOr(u.Anticipate, DefaultAnticipate) }

// EnabledOrDefault returns whether empty nodes return to standby.
func (d *ScaleDown) EnabledOrDefault() bool { return valueOr(d.Enabled, DefaultScaleDownEnabled) }

// EmptyNodeTTLOrDefault returns how long a node must have been empty before it is stopped. 0 means
// at once.
func (d *ScaleDown) EmptyNodeTTLOrDefault() time.Duration {
	return durationOr(d.EmptyNodeTTL, DefaultEmptyNodeTTL)
}

// DrainTimeoutOrDefault returns how long an empty node may be drained before it returns to running.
func (d *ScaleDown) DrainTimeoutOrDefault() time.Duration {
	return durationOr(d.DrainTimeout, DefaultDrainTimeout)
}

// StandbySurplusTTLOrDefault returns how long standby nodes above minStandby are kept. 0 means
// forever .
func (d *ScaleDown) StandbySurplusTTLOrDefault() time.Duration {
	return durationOr(d.StandbySurplusTTL, DefaultStandbySurplusTTL)
}

// DriftOrDefault returns what becomes of drifted nodes.
func (d *Disruption) DriftOrDefault() DriftPolicy { return textOr(d.Drift, DefaultDrift) }

// BudgetOrDefault returns how many nodes of a pool may be under replacement at once: the count, or
// the percentage of poolSize rounded up; at least 1. A value that the API server would have refused
// counts as the default.
func (d *Disruption) BudgetOrDefault(poolSize int32) int32 {
	if d.Budget != nil && d.Budget.Type == intstr.Int {
		return max(d.Budget.IntVal, 1)
	}
	text := DefaultBudget
	if d.Budget != nil {
		text = d.Budget.StrVal
	}
	percent, ok := percentage(text)
	if !ok {
		percent, _ = percentage(DefaultBudget)
	}
	// 64 bits, because nothing here bounds poolSize.
	count := (int64(poolSize)*percent + 99) / 100
	return int32(min(max(count, 1), math.MaxInt32))
}

// SetDefaults writes out every default that is a value of its own; calling it again changes
// nothing. What EC2 itself fills in (the iops and throughput of gp3, encryption) is left to EC2,
// because it differs between accounts.
func (s *AWSNodeClassSpec) SetDefaults() {
	if s.NodeImage != nil {
		s.NodeImage.Owner = s.NodeImage.OwnerOrDefault()
	}
	for i := range s.BlockDeviceMappings {
		mapping := &s.BlockDeviceMappings[i]
		mapping.VolumeType = mapping.VolumeTypeOrDefault()
		mapping.DeleteOnTermination = new(mapping.DeleteOnTerminationOrDefault())
	}
	metadata := &s.MetadataOptions
	metadata.HTTPTokens = metadata.HTTPTokensOrDefault()
	metadata.HTTPPutResponseHopLimit = new(metadata.HTTPPutResponseHopLimitOrDefault())
	metadata.HTTPEndpoint = metadata.HTTPEndpointOrDefault()
}

// OwnerOrDefault returns the owner of the cluster's node images.
func (i *NodeImage) OwnerOrDefault() string { return textOr(i.Owner, DefaultNodeImageOwner) }

// VolumeTypeOrDefault returns the EBS volume type.
func (m *BlockDeviceMapping) VolumeTypeOrDefault() string {
	return textOr(m.VolumeType, DefaultVolumeType)
}

// DeleteOnTerminationOrDefault returns whether the volume goes with its instance.
func (m *BlockDeviceMapping) DeleteOnTerminationOrDefault() bool {
	return valueOr(m.DeleteOnTermination, DefaultDeleteOnTermination)
}

// HTTPTokensOrDefault returns whether the metadata service needs a session token.
func (m *MetadataOptions) HTTPTokensOrDefault() string {
	return textOr(m.HTTPTokens, DefaultHTTPTokens)
}

// HTTPPutResponseHopLimitOrDefault returns the number of network hops a metadata token may travel.
func (m *MetadataOptions) HTTPPutResponseHopLimitOrDefault() int32 {
	return valueOr(m.HTTPPutResponseHopLimit, DefaultHTTPPutResponseHopLimit)
}

// HTTPEndpointOrDefault returns whether the metadata service is on.
func (m *MetadataOptions) HTTPEndpointOrDefault() string {
	return textOr(m.HTTPEndpoint, DefaultHTTPEndpoint)
}

// HibernationEnabled reports whether instances hibernate in place of a plain stop.
func (s *AWSNodeClassSpec) HibernationEnabled() bool {
	return s.Hibernation != nil && s.Hibernation.Enabled
}

func percentage(text string) (int64, bool) {
	number, ok := strings.CutSuffix(text, "%")
	if !ok {
		return 0, false
	}
	percent, err := strconv.ParseInt(number, 10, 64)
	return percent, err == nil && percent >= 1 && percent <= 100
}

func durationOr(d *Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}

func valueOr[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

func textOr[T ~string](v, otherwise T) T {
	if v == "" {
		return otherwise
	}
	return v
}

// StateBound is how long a node of the pool may be in the state, without what the cloud takes; 0
// where it may for any time. A node that is terminated may also wait for pods that are not to be
// disrupted, for scaleDown.drainTimeout, or for disruption.terminationGracePeriod where that is
// set.
func (s *NodePoolSpec) StateBound(state NodeState) time.Duration {
	switch state {
	case StateWarmup:
		return s.PreWarm.TimeoutOrDefault()
	case StateStarting:
		return s.ScaleUp.ReadyTimeoutOrDefault()
	case StateStopping:
		return s.PreWarm.TimeoutOrDefault() + s.ScaleDown.DrainTimeoutOrDefault()
	case StateTerminating:
		bound := s.ScaleDown.DrainTimeoutOrDefault()
		if grace := s.Disruption.TerminationGracePeriod; grace != nil {
			bound = max(bound, grace.Duration)
		}
		return bound
	case StateStandby, StateRunning:
	}
	return 0
}
