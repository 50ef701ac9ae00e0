package figures

import (
	"fmt"
	"strings"
)

// Insert puts the text between the markers of the name in the page, in place of what stood there:
// the lines "<!-- NAME:begin -->" and "<!-- NAME:end -->". A page that has not each of them once,
// in that order, is an error, and is returned as it was.
func Insert(page, name, text string) (string, error) {
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	if strings.Count(page, begin) != 1 || strings.Count(page, end) != 1 {
		return page, fmt.Errorf("the page must have the markers %q and %q once each", strings.TrimSpace(begin), end)
	}
	before, rest, _ := strings.Cut(page, begin)
	_, after, found := strings.Cut(rest, end)
	if !found {
		return page, fmt.Errorf("the page has the marker %q after %q", strings.TrimSpace(begin), end)
	}
	return before + begin + "\n" + strings.TrimSpace(text) + "\n\n" + end + after, nil
}
