package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/limiter"
)

// code is EC2's word for what went wrong.
type code string

// meaning is what Stratos takes a code for.
type meaning string

const (
	// meansMissing: an instance that was named does not exist.
	meansMissing meaning = "missing"
	// meansRate: refused for the rate of calls; nothing happened.
	meansRate meaning = "rate"
	// meansCapacity: the zone has no room for the type; another zone may have.
	meansCapacity meaning = "capacity"
	// meansQuota: the account may not have more in this region; no zone of it helps.
	meansQuota meaning = "quota"
	// meansAddresses: the subnet has no free address; another subnet may have.
	meansAddresses meaning = "addresses"
	// meansState: the instance's state forbids the operation.
	meansState meaning = "state"
	// meansForbidden: this instance is protected from the operation, or cannot do it.
	meansForbidden meaning = "forbidden"
	// meansWrong: what was asked for is wrong, and stays so until a person changes it.
	meansWrong meaning = "wrong"
	// meansOther: a failure of EC2 or of the network, or missing permissions: it may be gone at the
	// next call.
	meansOther meaning = "other"
)

// entry is a row of the table of codes. field is the part of the class's spec that a wrong launch
// is about.
type entry struct {
	means meaning
	field string
}

// table is the one place that knows EC2's error codes (AWS documentation, "Error codes for the
// Amazon EC2 API"). Codes that are not in it mean wrong where they begin with Invalid or Missing,
// and other else. Missing permissions and expired credentials are other on purpose: they say
// nothing about an instance or a class, and a start that meets them is to be made again.
func table() map[code]entry {
	codes := callCodes()
	maps.Copy(codes, classCodes())
	return codes
}

// callCodes are about the instance that a call is for, the account, or the cloud.
func callCodes() map[code]entry {
	return map[code]entry{
		"InvalidInstanceID.NotFound": {means: meansMissing},
		// The token of a launch whose instance has been terminated since.
		"IdempotentInstanceTerminated": {means: meansMissing},
		"InvalidInstanceID.Malformed":  {means: meansMissing},
		"InvalidInstanceID":            {means: meansMissing},
		"InvalidID":                    {means: meansMissing}, // CreateTags, for a resource that does not exist

		"RequestLimitExceeded":      {means: meansRate},
		"Throttling":                {means: meansRate},
		"ThrottlingException":       {means: meansRate},
		"RequestThrottled":          {means: meansRate},
		"RequestThrottledException": {means: meansRate},
		"TooManyRequestsException":  {means: meansRate},
		"EC2ThrottledException":     {means: meansRate},
		"BandwidthLimitExceeded":    {means: meansRate},
		"SlowDown":                  {means: meansRate},

		"InsufficientInstanceCapacity":         {means: meansCapacity},
		"InsufficientHostCapacity":             {means: meansCapacity},
		"InsufficientReservedInstanceCapacity": {means: meansCapacity},
		"InsufficientCapacity":                 {means: meansCapacity},
		"InsufficientVolumeCapacity":           {means: meansCapacity},
		"Unsupported":                          {means: meansCapacity}, // the zone does not have the type at all

		"InstanceLimitExceeded":     {means: meansQuota},
		"VcpuLimitExceeded":         {means: meansQuota},
		"VolumeLimitExceeded":       {means: meansQuota},
		"MaxIOPSLimitExceeded":      {means: meansQuota},
		"ResourceLimitExceeded":     {means: meansQuota},
		"PendingVerification":       {means: meansQuota},
		"AddressLimitExceeded":      {means: meansQuota},
		"SnapshotVolumesExceeded":   {means: meansQuota},
		"MaxConfigLimitExceeded":    {means: meansQuota},
		"VolumeTypeIOPSLimitExceed": {means: meansQuota},

		"InsufficientFreeAddressesInSubnet": {means: meansAddresses},
		"InsufficientAddressCapacity":       {means: meansAddresses},

		"IncorrectInstanceState": {means: meansState},
		"IncorrectState":         {means: meansState},

		"OperationNotPermitted":               {means: meansForbidden},
		"UnsupportedOperation":                {means: meansForbidden},
		"UnsupportedHibernationConfiguration": {means: meansForbidden},
		"UnsupportedInstanceAttribute":        {means: meansForbidden},
		"InvalidInstanceAttributeValue":       {means: meansForbidden},
		"UnsupportedOnOutposts":               {means: meansForbidden},

		"InvalidClientTokenId":                    {means: meansOther}, // of the credentials, not of the launch
		"InvalidAction":                           {means: meansOther},
		"InvalidSecurity.RequestHasExpired":       {means: meansOther},
		"MissingAuthenticationToken":              {means: meansOther},
		"InvalidIdentityToken":                    {means: meansOther},
		"InvalidAuthenticationCredentialsFailure": {means: meansOther},
	}
}

// classCodes are about what the class asks for.
func classCodes() map[code]entry {
	return map[code]entry{
		"InvalidAMIID.NotFound":                  {meansWrong, fieldImage},
		"InvalidAMIID.Malformed":                 {meansWrong, fieldImage},
		"InvalidAMIID.Unavailable":               {meansWrong, fieldImage},
		"InvalidAMIName.Malformed":               {meansWrong, fieldImage},
		"InvalidSubnetID.NotFound":               {meansWrong, fieldSubnets},
		"InvalidSubnetID.Malformed":              {meansWrong, fieldSubnets},
		"InvalidSubnet":                          {meansWrong, fieldSubnets},
		"InvalidGroup.NotFound":                  {meansWrong, fieldGroups},
		"InvalidGroupId.Malformed":               {meansWrong, fieldGroups},
		"InvalidSecurityGroupID.NotFound":        {meansWrong, fieldGroups},
		"InvalidSecurityGroupID.Malformed":       {meansWrong, fieldGroups},
		"SecurityGroupLimitExceeded":             {meansWrong, fieldGroups},
		"InvalidInstanceType":                    {meansWrong, fieldType},
		"AttachmentLimitExceeded":                {meansWrong, fieldType},
		"PrivateIpAddressLimitExceeded":          {meansWrong, fieldType},
		"InvalidIamInstanceProfileArn.Malformed": {meansWrong, fieldProfile},
		"InvalidBlockDeviceMapping":              {meansWrong, fieldVolumes},
		"InvalidSnapshot.NotFound":               {meansWrong, fieldVolumes},
		"InvalidSnapshotID.Malformed":            {meansWrong, fieldVolumes},
		"InvalidVolume.ZoneMismatch":             {meansWrong, fieldVolumes},
		"InvalidUserData.Malformed":              {meansWrong, fieldUserData},
		"TagLimitExceeded":                       {meansWrong, fieldTags},
		"IdempotentParameterMismatch":            {meansWrong, fieldToken},
		"UnknownVolumeType":                      {meansWrong, fieldVolumes},
		"VolumeTypeNotAvailableInZone":           {meansWrong, fieldVolumes},
		"OptInRequired":                          {means: meansWrong},
		"VPCIdNotSpecified":                      {meansWrong, fieldSubnets},
		"UnsupportedTenancy":                     {means: meansWrong},
		"UnknownParameter":                       {means: meansWrong},
	}
}

// The fields of an AWSNodeClass that errors name.
const (
	fieldImage     = "spec.ami"
	fieldSelector  = "spec.amiSelector"
	fieldNodeImage = "spec.nodeImage"
	fieldSubnets   = "spec.subnetIds"
	fieldGroups    = "spec.securityGroupIds"
	fieldType      = "spec.instanceType"
	fieldProfile   = "spec.iamInstanceProfile"
	fieldVolumes   = "spec.blockDeviceMappings"
	fieldUserData  = "spec.userData"
	fieldTags      = "spec.tags"
	fieldRegion    = "spec.region"
	fieldToken     = "client token"
)

// classify looks an error up. What EC2 did not say itself (the network, an ended context) means
// other.
func classify(err error) entry {
	var said smithy.APIError
	if !errors.As(err, &said) {
		return entry{means: meansOther}
	}
	word := said.ErrorCode()
	if known, ok := table()[code(word)]; ok {
		return known
	}
	if strings.HasPrefix(word, "Invalid") || strings.HasPrefix(word, "Missing") {
		return entry{means: meansWrong, field: "spec"}
	}
	return entry{means: meansOther}
}

// aboutOne reports whether a call for many instances was refused for one of them: the others can
// have what was asked.
func aboutOne(err error) bool {
	if isUnauthorized(err) {
		return true // a policy bound to tags does not hold for an instance that has lost them
	}
	switch classify(err).means {
	case meansMissing, meansCapacity, meansQuota, meansState, meansForbidden, meansAddresses:
		return true
	case meansWrong:
		// A start tells only of an instance that has become another type what its image lacks for it.
		return len(named(err)) > 0
	case meansRate, meansOther:
	}
	return false
}

// isUnauthorized reports whether a policy does not allow the call.
func isUnauthorized(err error) bool {
	var said smithy.APIError
	return errors.As(err, &said) && said.ErrorCode() == "UnauthorizedOperation"
}

// unauthorized is the error of a call that a policy does not allow. What EC2 says after its words
// is kilobytes that only another call decodes.
func unauthorized(op limiter.Operation, err error) error {
	plain := ""
	var said smithy.APIError
	if errors.As(err, &said) {
		plain, _, _ = strings.Cut(said.ErrorMessage(), " Encoded authorization failure message:")
	}
	return &provider.UnauthorizedError{Operation: string(op), Reason: plain}
}

// instanceIDs are EC2's ids in its messages.
var instanceIDs = regexp.MustCompile(`\bi-[0-9a-z]+`)

// named returns the ids that the refusal names.
func named(err error) []string {
	var said smithy.APIError
	if !errors.As(err, &said) {
		return nil
	}
	return instanceIDs.FindAllString(said.ErrorMessage(), -1)
}

// subject is what a call was about, for its typed error.
type subject struct {
	operation string
	// id of the instance; empty for a launch.
	id string
	// kind and zone are the offering, where it is known.
	kind, zone string
}

// typed returns the contract's error for EC2's. An ended context and the network's errors stay what
// they are.
func (s subject) typed(err error) error {
	if err == nil {
		return nil
	}
	found := classify(err)
	plain := words(err)
	switch found.means {
	case meansMissing:
		return &provider.InstanceNotFoundError{ID: s.id}
	case meansRate:
		return &provider.RateLimitError{Operation: s.operation, Err: plain}
	case meansCapacity, meansQuota, meansAddresses:
		return &provider.InsufficientCapacityError{Type: s.kind, Zone: s.zone, Quota: found.means == meansQuota, Err: plain}
	case meansState:
		return &provider.IncorrectStateError{ID: s.id, State: provider.InstanceUnknown, Op: s.operation}
	case meansForbidden:
		return &provider.InvalidConfigError{Field: "instance " + s.id, Reason: plain.Error()}
	case meansWrong:
		return &provider.InvalidConfigError{Field: found.field, Reason: plain.Error()}
	case meansOther:
	}
	return fmt.Errorf("%s: %w", s.operation, plain)
}

// words keeps what the cloud said and drops what differs from call to call, such as the request's
// id: conditions show it.
func words(err error) error {
	var said smithy.APIError
	var name *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: the caller gave up", context.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer in time", context.DeadlineExceeded)
	case errors.As(err, &said):
		return fmt.Errorf("%s: %s", said.ErrorCode(), said.ErrorMessage())
	case errors.As(err, &name):
		return name // the endpoint of a region that does not exist
	}
	return err
}
