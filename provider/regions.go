package provider

import (
	"errors"
	"fmt"
	"strings"
)

// FailedRegion is a region that did not answer a list.
type FailedRegion struct {
	// Name is the region, as Instance.Region names it.
	Name string
	// Default: classes that name no region mean this one.
	Default bool
	// Unknown: the region has not answered since the process began, so it is not known what is in it.
	// It must not be taken for empty.
	Unknown bool
	// Err holds the cloud's words.
	Err error
}

// PartialListError comes with a list: some regions did not answer, and the list lacks their
// instances. It says nothing about those.
type PartialListError struct {
	// Failed are the regions that did not answer, sorted by name; at least one.
	Failed []FailedRegion
	// Answered is the number of the regions that answered. Where it is 0 the list is nil.
	Answered int
}

func (e *PartialListError) Error() string {
	words := make([]string, 0, len(e.Failed))
	for _, f := range e.Failed {
		words = append(words, fmt.Sprintf("region %s: %v", f.Name, f.Err))
	}
	return strings.Join(words, "; ")
}

// Unwrap returns the errors of the regions.
func (e *PartialListError) Unwrap() []error {
	errs := make([]error, 0, len(e.Failed))
	for _, f := range e.Failed {
		errs = append(errs, f.Err)
	}
	return errs
}

// AsPartialList returns the error that says which regions a list lacks; false for any other error,
// with which no list comes.
func AsPartialList(err error) (*PartialListError, bool) {
	var partial *PartialListError
	ok := errors.As(err, &partial)
	return partial, ok
}
