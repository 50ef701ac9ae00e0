package ec2test

import (
	"maps"
	"regexp"
	"slices"
)

// metadataTagsOn: the instance shows its tags in its metadata.
const metadataTagsOn = "enabled"

// metadataTagKey is what a tag key must look like to be a path segment of the instance's metadata.
var metadataTagKey = regexp.MustCompile(`^[0-9a-zA-Z\-_+=,.@:]{1,255}$`)

// showsTags reports whether instances with these options show their tags in their metadata.
func (s *Server) showsTags(m metadataOptions) bool {
	return m.Tags == metadataTagsOn || m.Tags == "" && s.account.MetadataTags
}

// refuseMetadataTags is EC2's refusal of tag keys that the metadata cannot show.
func refuseMetadataTags(tags map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if !metadataTagKey.MatchString(key) || key == "." || key == ".." || key == "_index" {
			return fail(codeInvalid, "'%s' is not a valid tag key. Tag keys must match pattern "+
				"([0-9a-zA-Z\\-_+=,.@:]{1,255}), and must not be a reserved name ('.', '..', '_index')", key)
		}
	}
	return nil
}
