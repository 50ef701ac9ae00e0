package ec2test

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// params are the form values of one request. What is read is crossed off, so that what is unknown
// remains.
type params struct {
	values map[string]string
	unread map[string]bool
	// err is the first value that could not be read.
	err error
}

func newParams(form url.Values) (*params, error) {
	p := &params{values: map[string]string{}, unread: map[string]bool{}}
	for key, values := range form {
		if len(values) != 1 {
			return nil, fail("InvalidParameterValue", "The parameter %s is given %d times", key, len(values))
		}
		p.values[key], p.unread[key] = values[0], true
	}
	return p, nil
}

// text returns the value; empty for none.
func (p *params) text(key string) string {
	delete(p.unread, key)
	return p.values[key]
}

func (p *params) has(key string) bool {
	_, ok := p.values[key]
	return ok
}

// flag returns the value of a boolean; false for none.
func (p *params) flag(key string) bool {
	switch text := p.text(key); text {
	case "", "false":
		return false
	case "true":
		return true
	default:
		p.refuse(fail("InvalidParameterValue", "Value (%s) for parameter %s is invalid. It must be true or false", text, key))
		return false
	}
}

// number returns the value of a whole number between the bounds; nil for none.
func (p *params) number(key string, least, most int) *int {
	if !p.has(key) {
		return nil
	}
	text := p.text(key)
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		p.refuse(fail("InvalidParameterValue",
			"Value (%s) for parameter %s is invalid. Expecting a whole number from %d to %d", text, key, least, most))
	}
	return &n
}

// oneOf returns the value, which is one of the words; empty for none.
func (p *params) oneOf(key string, words ...string) string {
	text := p.text(key)
	if text != "" && !slices.Contains(words, text) {
		p.refuse(fail("InvalidParameterValue", "Value (%s) for parameter %s is invalid. It must be one of: %s", text, key,
			strings.Join(words, ", ")))
	}
	return text
}

// list returns the values key.1, key.2 and so on.
func (p *params) list(key string) []string {
	var values []string
	for _, prefix := range p.items(key) {
		values = append(values, p.text(prefix))
	}
	return values
}

// items returns the prefixes of a list's items, key.1, key.2 and so on, in the order of their
// numbers.
func (p *params) items(key string) []string {
	numbers := map[int]bool{}
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		rest, ok := strings.CutPrefix(name, key+".")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); err == nil && n > 0 {
			numbers[n] = true
		}
	}
	var prefixes []string
	for _, n := range slices.SortedFunc(maps.Keys(numbers), cmp.Compare) {
		prefixes = append(prefixes, fmt.Sprintf("%s.%d", key, n))
	}
	return prefixes
}

func (p *params) refuse(err error) {
	if p.err == nil {
		p.err = err
	}
}

// end returns what is wrong with the parameters once an action has read those that it knows.
func (p *params) end() error {
	if p.err != nil {
		return p.err
	}
	if left := slices.Sorted(maps.Keys(p.unread)); len(left) > 0 {
		return fail("UnknownParameter", "The parameter %s is not recognized", left[0])
	}
	return nil
}
