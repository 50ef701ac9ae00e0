// Package minors says with which minor versions of Kubernetes Stratos is tested.
package minors

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Supported are the Kubernetes minor versions that Stratos is tested with, oldest first. A
// scheduler configuration is generated for them and for the next one, which gets that of the
// newest: a cluster shall not have to wait with its upgrade until Stratos was tested with it.
func Supported() []string { return []string{"1.34", "1.35", "1.36", "1.37"} }

// IsUntested reports whether the Kubernetes version is of the one minor after the newest of
// Supported.
func IsUntested(kubernetes string) bool {
	supported := Supported()
	minor := Of(kubernetes)
	return minor != "" && minor == next(supported[len(supported)-1])
}

// next is the minor after a minor.
func next(minor string) string {
	v := version.MustParseGeneric(minor)
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor()+1)
}

// Of returns major.minor of a version such as 1.36, v1.36.3 or 1.36+, or "" for none.
func Of(text string) string {
	parsed, err := version.ParseGeneric(strings.TrimSuffix(text, "+"))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", parsed.Major(), parsed.Minor())
}
