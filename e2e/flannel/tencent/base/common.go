// Package common has what flannel's backend for Tencent's cloud takes from Tencent's package of the
// same name. The Go module proxy does not serve that one, and flannel cannot be built without it.
package common

// StringPtr returns a pointer to the string.
func StringPtr(s string) *string { return &s }

// StringPtrs returns a pointer to each string.
func StringPtrs(all []string) []*string {
	pointers := make([]*string, len(all))
	for i := range all {
		pointers[i] = &all[i]
	}
	return pointers
}

// BoolPtr returns a pointer to the value.
func BoolPtr(b bool) *bool { return &b }
