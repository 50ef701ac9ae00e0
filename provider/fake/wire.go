package fake

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// What goes over the wire. Durations are nanoseconds, times RFC 3339.
type (
	launchBody struct {
		Class   *v1alpha1.AWSNodeClass `json:"class"`
		Request provider.LaunchRequest `json:"request"`
	}
	classBody struct {
		Class *v1alpha1.AWSNodeClass `json:"class"`
	}
	stopBody struct {
		Force bool `json:"force"`
	}
	tagsBody struct {
		Tags map[string]string `json:"tags"`
	}
	typeBody struct {
		Type string `json:"type"`
	}
	actionBody struct {
		Action Action `json:"action"`
	}
	stateBody struct {
		State provider.InstanceState `json:"state"`
	}
	idBody struct {
		ID string `json:"id"`
	}
)

// code names an error on the wire.
type code string

const (
	codeNotFound     code = "NotFound"
	codeRateLimit    code = "RateLimit"
	codeCapacity     code = "InsufficientCapacity"
	codeConfig       code = "InvalidConfig"
	codeState        code = "IncorrectState"
	codeUnauthorized code = "Unauthorized"
	codeUnavailable  code = "Unavailable"
	codeBadRequest   code = "BadRequest"
	codeInternal     code = "Internal"
	statusThrottled       = http.StatusTooManyRequests
	statusNoCapacity      = http.StatusInsufficientStorage
	statusClientGone      = 499
)

// errorBody is an error on the wire: its code, its text, and the fields of the typed error that it
// was.
type errorBody struct {
	Code    code   `json:"code"`
	Message string `json:"message"`
	// Cause is the text of the wrapped error.
	Cause     string                 `json:"cause,omitempty"`
	ID        string                 `json:"id,omitempty"`
	State     provider.InstanceState `json:"state,omitempty"`
	Operation string                 `json:"operation,omitempty"`
	Type      string                 `json:"type,omitempty"`
	Zone      string                 `json:"zone,omitempty"`
	Field     string                 `json:"field,omitempty"`
	Reason    string                 `json:"reason,omitempty"`
}

// encodeError returns the HTTP status and body for an error of the cloud.
func encodeError(err error) (int, errorBody) {
	body := errorBody{Message: err.Error(), Code: codeInternal}
	if inner := errors.Unwrap(err); inner != nil {
		body.Cause = inner.Error()
	}
	var (
		notFound *provider.InstanceNotFoundError
		rate     *provider.RateLimitError
		capacity *provider.InsufficientCapacityError
		config   *provider.InvalidConfigError
		state    *provider.IncorrectStateError
		denied   *provider.UnauthorizedError
	)
	switch {
	case errors.As(err, &notFound):
		body.Code, body.ID = codeNotFound, notFound.ID
		return http.StatusNotFound, body
	case errors.As(err, &rate):
		body.Code, body.Operation = codeRateLimit, rate.Operation
		return statusThrottled, body
	case errors.As(err, &capacity):
		body.Code, body.Type, body.Zone = codeCapacity, capacity.Type, capacity.Zone
		return statusNoCapacity, body
	case errors.As(err, &config):
		body.Code, body.Field, body.Reason = codeConfig, config.Field, config.Reason
		return http.StatusUnprocessableEntity, body
	case errors.As(err, &state):
		body.Code, body.ID, body.State, body.Operation = codeState, state.ID, state.State, state.Op
		return http.StatusConflict, body
	case errors.As(err, &denied):
		body.Code, body.Operation, body.Reason = codeUnauthorized, denied.Operation, denied.Reason
		return http.StatusForbidden, body
	case errors.Is(err, ErrUnavailable):
		body.Code = codeUnavailable
		return http.StatusServiceUnavailable, body
	}
	return http.StatusInternalServerError, body
}

// decode returns the error that the body stood for.
func (b errorBody) decode(status int) error {
	cause := errors.New(b.Cause)
	switch b.Code {
	case codeNotFound:
		return &provider.InstanceNotFoundError{ID: b.ID}
	case codeRateLimit:
		return &provider.RateLimitError{Operation: b.Operation, Err: cause}
	case codeCapacity:
		return &provider.InsufficientCapacityError{Type: b.Type, Zone: b.Zone, Err: cause}
	case codeConfig:
		return &provider.InvalidConfigError{Field: b.Field, Reason: b.Reason}
	case codeState:
		return &provider.IncorrectStateError{ID: b.ID, State: b.State, Op: b.Operation}
	case codeUnauthorized:
		return &provider.UnauthorizedError{Operation: b.Operation, Reason: b.Reason}
	case codeUnavailable:
		if b.Message == ErrUnavailable.Error() {
			return ErrUnavailable
		}
		return fmt.Errorf("%w: %s", ErrUnavailable, b.Message)
	case codeBadRequest, codeInternal:
	}
	return fmt.Errorf("fake cloud answered %d %s: %s", status, http.StatusText(status), b.Message)
}
