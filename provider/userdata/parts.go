package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
	"unicode"
)

const (
	typeNodeConfig  = "application/node.eks.aws"
	headerType      = "Content-Type"
	headerEncoding  = "Content-Transfer-Encoding"
	gzipMagic       = "\x1f\x8b"
	nodeConfigGroup = "node.eks.aws"
)

// maxDecompressed bounds what is read of a compressed part.
const maxDecompressed = 1 << 20

// part is one part of the user data.
type part struct {
	header textproto.MIMEHeader
	// body is what is sent, byte for byte.
	body string
}

func newPart(mediaType, body string) part {
	return part{header: textproto.MIMEHeader{headerType: {mediaType}}, body: body}
}

// mediaType is text/plain where there is no Content-Type, as for cloud-init.
func (p part) mediaType() (string, error) {
	header := p.header.Get(headerType)
	if header == "" {
		return "text/plain", nil
	}
	mediaType, _, err := mime.ParseMediaType(header)
	if err != nil { // nodeadm gives up at such a part, even where it can tell the type
		return "", fmt.Errorf("its Content-Type %q cannot be read: %w", header, err)
	}
	return mediaType, nil
}

// text is what the part says, for reading. What cannot be decoded is returned as it is.
func (p part) text() string {
	switch strings.ToLower(strings.TrimSpace(p.header.Get(headerEncoding))) {
	case "base64":
		return decoded(p.body)
	case "quoted-printable":
		if plain, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(p.body))); err == nil {
			return string(plain)
		}
	}
	if mediaType, err := p.mediaType(); err == nil && mediaType == typeNodeConfig {
		return decoded(p.body) // nodeadm looks at the content alone
	}
	return decompressed(p.body)
}

// decoded undoes base64 and gzip where the text is such.
func decoded(text string) string {
	if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil {
		text = string(plain)
	}
	return decompressed(text)
}

func decompressed(text string) string {
	if !strings.HasPrefix(text, gzipMagic) {
		return text
	}
	r, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return text
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxDecompressed+1))
	if err != nil || len(plain) > maxDecompressed {
		return text
	}
	return string(plain)
}

// partsOf splits the user's text into parts, in their order. The error says which texts are
// allowed.
func partsOf(user string) ([]part, error) {
	text := strings.TrimLeftFunc(user, unicode.IsSpace)
	switch mediaType := beginningType(text); {
	case text == "":
		return nil, nil
	case isEncoded(user):
		return nil, errors.New("it is encoded with base64 or gzip, so Stratos cannot merge it: write plain text")
	case isMIME(text):
		return readMIME(text)
	case mediaType != "":
		return []part{scriptPart(mediaType, user)}, nil
	case strings.Contains(text, nodeConfigGroup):
		return nodeConfigParts(newPart(typeNodeConfig, user)), nil
	}
	return nil, errors.New("it is none of what can be merged: MIME multipart, a script that begins with #!, " +
		"a text of cloud-init that begins with #cloud-config, or for AL2023 a NodeConfig of node.eks.aws")
}

// isEncoded reports whether all of the text is base64 or gzip. A text that can be merged has a
// character that base64 does not have.
func isEncoded(user string) bool {
	_, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(user), ""))
	return err == nil || strings.HasPrefix(user, gzipMagic)
}

// beginningType is the type that cloud-init gives to a text by its first line, or empty.
func beginningType(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	first = strings.ToLower(first)
	for _, known := range []struct{ beginning, mediaType string }{ // the longer one first
		{"#cloud-config-archive", "text/cloud-config-archive"},
		{"#cloud-config-jsonp", "text/cloud-config-jsonp"},
		{"#cloud-config", "text/cloud-config"},
		{"#cloud-boothook", "text/cloud-boothook"},
		{"#include-once", "text/x-include-once-url"},
		{"#include", "text/x-include-url"},
		{"#part-handler", "text/part-handler"},
		{"## template: jinja", "text/jinja2"},
		{"#!", "text/x-shellscript"},
	} {
		if strings.HasPrefix(first, known.beginning) {
			return known.mediaType
		}
	}
	return ""
}

// scriptPart is a part that cloud-init reads. In MIME cloud-init turns characters beyond ASCII into
// other bytes, and takes a carriage return for the end of a line: base64 keeps both as they are.
func scriptPart(mediaType, body string) part {
	if !strings.ContainsFunc(body, func(r rune) bool { return r == '\r' || r > unicode.MaxASCII }) {
		return newPart(mediaType, body)
	}
	p := newPart(mediaType, inLines(base64.StdEncoding.EncodeToString([]byte(body))))
	p.header.Set(headerEncoding, "base64")
	return p
}

// inLines breaks base64 into lines of 76 characters, the most that MIME allows.
func inLines(encoded string) string {
	const width = 76
	var lines bytes.Buffer
	for len(encoded) > width {
		lines.WriteString(encoded[:width] + "\n")
		encoded = encoded[width:]
	}
	lines.WriteString(encoded)
	return lines.String()
}

// nodeConfigParts makes one part per YAML document, because nodeadm reads the first of a part only.
// A part with one document stays as it is.
func nodeConfigParts(p part) []part {
	found := documents(p.text())
	if len(found) < 2 {
		return []part{p}
	}
	var parts []part
	for _, document := range found {
		parts = append(parts, newPart(typeNodeConfig, document))
	}
	return parts
}

// documents splits YAML at the lines that begin a document. Documents without content are left out.
func documents(text string) []string {
	var found []string
	var document strings.Builder
	end := func() {
		if hasContent(document.String()) {
			found = append(found, document.String())
		}
		document.Reset()
	}
	for line := range strings.Lines(text) {
		if beginsDocument(line) {
			end()
		}
		document.WriteString(line)
	}
	end()
	return found
}

func beginsDocument(line string) bool {
	rest, found := strings.CutPrefix(line, "---")
	return found && (rest == "" || unicode.IsSpace(rune(rest[0])))
}

// hasContent reports whether a line of the document is more than a comment.
func hasContent(document string) bool {
	for line := range strings.Lines(document) {
		if beginsDocument(line) {
			line = line[len("---"):]
		}
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}
