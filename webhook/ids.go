package webhook

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var (
	// hexID is the second part of EC2's ids: 8 digits in old ones, 17 since 2016.
	hexID     = regexp.MustCompile(`^([0-9a-f]{8}|[0-9a-f]{17})$`)
	accountID = regexp.MustCompile(`^[0-9]{12}$`)
	// keyID is a UUID, or the id of a multi-Region key; keyAlias an alias with its prefix.
	keyID    = regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|mrk-[0-9a-f]{32})$`)
	keyAlias = regexp.MustCompile(`^alias/[A-Za-z0-9/_-]{1,250}$`)
)

// validateID wants prefix and a hyphen, then 8 or 17 hexadecimal digits. Empty is unset.
func validateID(id, prefix string, at *field.Path) field.ErrorList {
	rest, ok := strings.CutPrefix(id, prefix+"-")
	if id == "" || ok && hexID.MatchString(rest) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, id,
		fmt.Sprintf("must be %s- and 8 or 17 hexadecimal digits, such as %s-0123456789abcdef0", prefix, prefix))}
}

// arn is an Amazon resource name in its parts.
type arn struct{ partition, region, account, resource string }

func parseARN(text string) (arn, bool) {
	parts := strings.SplitN(text, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" {
		return arn{}, false
	}
	return arn{partition: parts[1], region: parts[3], account: parts[4], resource: parts[5]}, true
}

// accountWarnings: an odd account number is surely wrong and harmless to store, and an example of
// ours has one.
func (a arn) accountWarnings(at *field.Path) admission.Warnings {
	if accountID.MatchString(a.account) {
		return nil
	}
	return warn(at, "the account number %q has %d digits; AWS account numbers have 12", a.account, len(a.account))
}

// validateProfile: the pattern of the CRD has told names from ARNs already.
func validateProfile(profile, region string, at *field.Path) (field.ErrorList, admission.Warnings) {
	parsed, isARN := parseARN(profile)
	if !isARN {
		return nil, nil
	}
	name := parsed.resource[strings.LastIndex(parsed.resource, "/")+1:]
	if name == "" || len(name) > 128 {
		return field.ErrorList{field.Invalid(at, profile,
			"must end with the name of an instance profile, 1 to 128 characters")}, nil
	}
	warnings := parsed.accountWarnings(at)
	if want := partitionOf(region); want != "" && parsed.partition != want {
		warnings = append(warnings, warn(at, "the ARN is of the partition %s, but region %s is of %s", parsed.partition,
			region, want)...)
	}
	return nil, warnings
}

func validateKey(key, region string, at *field.Path) (field.ErrorList, admission.Warnings) {
	const allowed = "must be the id of a KMS key (a UUID or mrk-...), alias/<name>, or the ARN of either"
	parsed, isARN := parseARN(key)
	if !isARN {
		if key == "" || keyID.MatchString(key) || keyAlias.MatchString(key) {
			return nil, nil
		}
		return field.ErrorList{field.Invalid(at, key, allowed)}, nil
	}
	id, isKey := strings.CutPrefix(parsed.resource, "key/")
	if isKey && !keyID.MatchString(id) || !isKey && !keyAlias.MatchString(parsed.resource) {
		return field.ErrorList{field.Invalid(at, key, allowed)}, nil
	}
	if region != "" && parsed.region != region {
		return field.ErrorList{field.Invalid(at, key,
			fmt.Sprintf("must be a key of region %s: volumes cannot use a key of another region", region))}, nil
	}
	return nil, parsed.accountWarnings(at)
}

// partitionOf is the part of AWS that a region belongs to, "" where that is not known.
func partitionOf(region string) string {
	area, _, _ := strings.Cut(region, "-")
	switch {
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	case area == "cn":
		return "aws-cn"
	case strings.HasPrefix(region, "us-iso"), strings.HasPrefix(region, "eu-iso"), area == "eusc":
		return ""
	case knownArea(area):
		return "aws"
	}
	return ""
}

func knownArea(area string) bool {
	switch area {
	case "af", "ap", "ca", "cn", "eu", "eusc", "il", "me", "mx", "sa", "us":
		return true
	}
	return false
}

func regionWarnings(region string, at *field.Path) admission.Warnings {
	if area, _, _ := strings.Cut(region, "-"); region == "" || knownArea(area) {
		return nil
	}
	return warn(at, "no region of AWS that is known here begins like %s; regions are such as us-east-1 or eu-central-1",
		region)
}
