package format

import "regexp"

// Document is an object in a template. Kind and Name are as the template has them, with what Helm
// fills in; "" where the document is no object.
type Document struct{ Kind, Name, Text string }

var (
	documentLine = regexp.MustCompile(`(?m)^---.*$`)
	objectKind   = regexp.MustCompile(`(?m)^kind: *(.+?) *$`)
	objectName   = regexp.MustCompile(`(?m)^  name: *(.+?) *$`)
)

// Documents returns the documents of a template, in order.
func Documents(template string) []Document {
	var all []Document
	for _, text := range documentLine.Split(template, -1) {
		d := Document{Text: text}
		kind, name := objectKind.FindStringSubmatch(text), objectName.FindStringSubmatch(text)
		if kind != nil && name != nil {
			d.Kind, d.Name = kind[1], name[1]
		}
		all = append(all, d)
	}
	return all
}
