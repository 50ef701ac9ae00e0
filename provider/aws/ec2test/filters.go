package ec2test

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// filter is one Filter of a request: a name and the values of which one has to match.
type filter struct {
	name   string
	values []*regexp.Regexp
}

// attributes are what a resource can be filtered by. Tags are filtered by tag:KEY and tag-key.
type attributes struct {
	values map[string]string
	tags   map[string]string
}

const (
	tagFilter    = "tag:"
	tagKeyFilter = "tag-key"
	// maxFilterValues is EC2's bound on the values of all filters of a request.
	maxFilterValues = 200
)

// filters reads Filter.N. names are those that the action knows in addition to tags.
func (p *params) filters(names ...string) []filter {
	var filters []filter
	total := 0
	for _, prefix := range p.items("Filter") {
		f := filter{name: p.text(prefix + ".Name")}
		if !strings.HasPrefix(f.name, tagFilter) && f.name != tagKeyFilter && !slices.Contains(names, f.name) {
			p.refuse(fail(codeInvalid, "The filter '%s' is invalid", f.name))
		}
		values := p.list(prefix + ".Value")
		if len(values) == 0 {
			p.refuse(fail(codeInvalid, "The filter '%s' has no values", f.name))
		}
		total += len(values)
		for _, value := range values {
			f.values = append(f.values, wildcard(value))
		}
		filters = append(filters, f)
	}
	if total > maxFilterValues {
		p.refuse(fail("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d",
			maxFilterValues))
	}
	return filters
}

// wildcard is a filter's value: * stands for any text, ? for one character, and a backslash takes
// that meaning away.
func wildcard(value string) *regexp.Regexp {
	var pattern strings.Builder
	pattern.WriteString("^(?s)")
	escaped := false
	for _, r := range value {
		switch {
		case escaped:
			pattern.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '*':
			pattern.WriteString(".*")
		case r == '?':
			pattern.WriteString(".")
		default:
			pattern.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return regexp.MustCompile(pattern.String() + "$")
}

// match reports whether the resource satisfies every filter.
func match(filters []filter, a attributes) bool {
	return !slices.ContainsFunc(filters, func(f filter) bool { return !f.holds(a) })
}

func (f filter) holds(a attributes) bool {
	any := func(text string) bool {
		return slices.ContainsFunc(f.values, func(v *regexp.Regexp) bool { return v.MatchString(text) })
	}
	if key, ok := strings.CutPrefix(f.name, tagFilter); ok {
		value, has := a.tags[key]
		return has && any(value)
	}
	if f.name == tagKeyFilter {
		for key := range a.tags {
			if any(key) {
				return true
			}
		}
		return false
	}
	return any(a.values[f.name])
}

// page is the part of a description that a request asks for.
type page struct {
	size int
	// after is the id of the last one that the client has seen; empty: from the beginning.
	after string
}

// page reads MaxResults and NextToken.
func (p *params) page(least, most int) page {
	var pg page
	if size := p.number("MaxResults", least, most); size != nil {
		pg.size = *size
	}
	if token := p.text("NextToken"); token != "" {
		after, err := base64.URLEncoding.DecodeString(token)
		if err != nil || len(after) == 0 {
			p.refuse(fail("InvalidNextToken", "The token '%s' is invalid", token))
		}
		pg.after = string(after)
	}
	return pg
}

// cut returns the page of the items, which are sorted by id, and the token of the next one; empty
// for none.
func cut[T any](pg page, items []T, id func(T) string) ([]T, string) {
	if pg.after != "" {
		items = slices.DeleteFunc(items, func(i T) bool { return id(i) <= pg.after })
	}
	if pg.size == 0 || len(items) <= pg.size {
		return items, ""
	}
	items = items[:pg.size]
	return items, base64.URLEncoding.EncodeToString([]byte(id(items[len(items)-1])))
}

func boolText(b bool) string { return strconv.FormatBool(b) }
