package ec2test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// Error is an error as EC2 answers it.
type Error struct {
	Code, Message string
	// Status is the HTTP status; 400 where it is 0.
	Status int
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func fail(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// The codes that more than one place answers.
const (
	codeNotFound      = "InvalidInstanceID.NotFound"
	codeMalformed     = "InvalidInstanceID.Malformed"
	codeState         = "IncorrectInstanceState"
	codeCapacity      = "InsufficientInstanceCapacity"
	codeThrottled     = "RequestLimitExceeded"
	codeInvalid       = "InvalidParameterValue"
	codeCombination   = "InvalidParameterCombination"
	codeMissing       = "MissingParameter"
	codeDryRun        = "DryRunOperation"
	codeUnavailable   = "Unavailable"
	codeInternalError = "InternalError"
	codeAttribute     = "InvalidInstanceAttributeValue"
	codeAttachments   = "AttachmentLimitExceeded"
	codeUnsupported   = "UnsupportedOperation"
	codeNoOffering    = "Unsupported"
	codeUnauthorized  = "UnauthorizedOperation"
	codeNotPermitted  = "OperationNotPermitted"
	codeMismatch      = "IdempotentParameterMismatch"
	codeEnded         = "IdempotentInstanceTerminated"
)

// answerTo is what EC2 says for an error of the played cloud.
func answerTo(err error) *Error {
	var (
		own      *Error
		notFound *provider.InstanceNotFoundError
		rate     *provider.RateLimitError
		capacity *provider.InsufficientCapacityError
		config   *provider.InvalidConfigError
		state    *provider.IncorrectStateError
		denied   *provider.UnauthorizedError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &notFound):
		return fail(codeNotFound, "The instance ID '%s' does not exist", notFound.ID)
	case errors.As(err, &rate):
		return throttled()
	case errors.As(err, &capacity):
		return noRoom(capacity)
	case errors.As(err, &config):
		// A fault carries its code in front of its words: "UnauthorizedOperation: You are not
		// authorized".
		if code, words, ok := strings.Cut(config.Reason, ": "); ok && !strings.Contains(code, " ") {
			return fail(code, "%s", words)
		}
		return fail(codeInvalid, "%s", config.Reason)
	case errors.As(err, &state):
		return wrongState(state)
	case errors.As(err, &denied):
		return &Error{Code: codeUnauthorized, Message: denied.Reason, Status: http.StatusForbidden}
	case errors.Is(err, simcloud.ErrUnavailable):
		return &Error{Code: codeUnavailable, Message: "The service is unavailable. Please try again shortly.",
			Status: http.StatusServiceUnavailable}
	}
	return &Error{Code: codeInternalError, Message: err.Error(), Status: http.StatusInternalServerError}
}

func throttled() *Error {
	return &Error{Code: codeThrottled, Message: "Request limit exceeded.", Status: http.StatusServiceUnavailable}
}

func noRoom(e *provider.InsufficientCapacityError) *Error {
	if e.Err != nil && e.Err.Error() == simcloud.NoAddresses {
		return fail(simcloud.NoAddresses,
			"There are not enough free addresses in the subnet to satisfy the requested number of instances.")
	}
	return &Error{
		Code: codeCapacity, Status: http.StatusInternalServerError, // EC2 answers its own shortages as errors of the server
		Message: fmt.Sprintf("We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).",
			e.Type, e.Zone),
	}
}

func wrongState(e *provider.IncorrectStateError) *Error {
	verb := map[string]string{"start": "started", "stop": "stopped"}[e.Op]
	if verb == "" {
		verb = "used"
	}
	return fail(codeState, "The instance '%s' is not in a state from which it can be %s.", e.ID, verb)
}
