package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// listLag is how long EC2's descriptions may lag behind a launch: "gradually up to five minutes"
// (AWS documentation, "Ensuring idempotency in Amazon EC2 API requests").
const listLag = 5 * time.Minute

// tokenKey is a launch request in one subnet, as one type: EC2 refuses a token that is used again
// with another subnet or type. kind is that of a fallback type, empty for the class's first type: a
// request that may have launched finds its instance again where the class names another first type
// since. onDemand: it is made after the reservation that the class names had no room.
type tokenKey struct {
	request, subnet, kind string
	onDemand              bool
}

// tokens remembers which client token a request has in a subnet. EC2 keeps the token of a refused
// launch with its parameters, so a refusal that surely launched nothing ends the token, and the
// request goes on under the next one. What it forgets with the process, EC2 tells again: a token
// that was used with other parameters is a mismatch.
type tokens struct {
	// mu guards known.
	mu    sync.Mutex
	known map[tokenKey]*tokenState
}

type tokenState struct {
	// number of the token among those of the request.
	number int
	// open: a call under the token ended without an answer that says whether it launched.
	open bool
	// mismatched is when EC2 first refused the token for its parameters and showed no instance of
	// it.
	mismatched time.Time
	// used is when the request was last made.
	used time.Time
}

func newTokens() *tokens { return &tokens{known: map[tokenKey]*tokenState{}} }

// at returns the state of the request. The caller holds mu.
func (t *tokens) at(key tokenKey) *tokenState {
	s := t.known[key]
	if s == nil {
		s = &tokenState{}
		t.known[key] = s
	}
	return s
}

// use returns the client token of the request. The SDK makes one up where the request has none.
func (t *tokens) use(key tokenKey, now time.Time) *string {
	if key.request == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.at(key)
	s.used = now
	return aws.String(key.token(s.number))
}

// token is the client token of that number.
func (k tokenKey) token(number int) string {
	text := k.request + "/" + k.subnet
	if k.kind != "" {
		text += "/" + k.kind
	}
	if k.onDemand {
		text += "/on-demand"
	}
	if number > 0 {
		text += "/" + strconv.Itoa(number)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// isOpen reports whether the request may have launched an instance that no answer has shown.
func (t *tokens) isOpen(key tokenKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.known[key]
	return s != nil && s.open
}

// openKinds are the fallback types as which the request may have launched an instance that no
// answer has shown, sorted.
func (t *tokens) openKinds(request string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kinds []string
	for key, s := range t.known {
		if key.request == request && s.open && key.kind != "" {
			kinds = append(kinds, key.kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// ended takes in how a call under the request's token ended; nil: it launched, or had launched
// before.
func (t *tokens) ended(key tokenKey, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.at(key)
	switch {
	case err == nil:
		s.open, s.mismatched = false, time.Time{}
	case launchedNothing(err, s.open):
		s.next()
	case isUnauthorized(err):
		// It launched nothing. The token stays: an earlier process may have launched under it.
	case classify(err).means == meansOther, classify(err).means == meansRate:
		s.open = true // the SDK may have made it several times, and one answer was lost
	}
}

// lapsed takes in that EC2 refused the token for its parameters and shows no instance of it. Once
// descriptions cannot lag any more it ends the token and reports true. until is when that is.
func (t *tokens) lapsed(key tokenKey, now time.Time) (until time.Time, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.at(key)
	if s.mismatched.IsZero() {
		s.mismatched = now
	}
	until = s.mismatched.Add(listLag)
	if now.Before(until) {
		return until, false
	}
	s.next()
	return until, true
}

func (s *tokenState) next() {
	s.number++
	s.open, s.mismatched = false, time.Time{}
}

// prune forgets requests that are not made any more.
func (t *tokens) prune(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, s := range t.known {
		if now.Sub(s.used) > forgetAfter {
			delete(t.known, key)
		}
	}
}

// launchedNothing reports whether the refusal of a launch proves that nothing was launched under
// its token. EC2 answers a token that has launched before it looks for room. It may look at the
// parameters first, so a refusal for those says nothing where an earlier answer is missing.
func launchedNothing(err error, open bool) bool {
	switch classify(err).means {
	case meansCapacity, meansReservation, meansQuota, meansAddresses:
		return true
	case meansWrong, meansForbidden:
		return !open && !isMismatch(err)
	case meansRate, meansOther, meansMissing, meansState:
	}
	return false
}
