package userdata

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strconv"
	"strings"
)

// boundaryWord separates the parts. A text that has it in it gets a number after it.
const boundaryWord = "stratos-user-data"

// isMIME reports whether the text begins with the headers of MIME.
func isMIME(text string) bool {
	first, _, _ := strings.Cut(text, ":")
	if name := strings.ToLower(first); name == "mime-version" || name == "content-type" {
		return true
	}
	message, err := mail.ReadMessage(strings.NewReader(text))
	return err == nil && message.Header.Get(headerType) != ""
}

// readMIME returns the parts of a multipart text. Bodies keep their bytes.
func readMIME(text string) ([]part, error) {
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("its MIME headers cannot be read: %w", err)
	}
	mediaType, params, err := mime.ParseMediaType(message.Header.Get(headerType))
	if err != nil || !strings.HasPrefix(mediaType, "multipart/") {
		return nil, errors.New("it begins with MIME headers, but its Content-Type is not multipart/mixed with a boundary")
	}
	reader := multipart.NewReader(message.Body, params["boundary"])
	var parts []part
	for {
		p, err := nextPart(reader)
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("part %d of its MIME text cannot be read: %w", len(parts)+1, err)
		}
		more, err := expanded(p)
		if err != nil {
			return nil, fmt.Errorf("part %d of its MIME text is not allowed: %w", len(parts)+1, err)
		}
		parts = append(parts, more...)
	}
}

var errCutShort = errors.New("the last boundary is missing")

// nextPart reads one part as it stands. io.EOF is the end of a complete text.
func nextPart(reader *multipart.Reader) (part, error) {
	p, err := reader.NextRawPart()
	if err == io.EOF { //nolint:errorlint // wrapped it means that the last boundary is missing
		return part{}, err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return part{}, errCutShort
	}
	if err != nil {
		return part{}, err
	}
	body, err := io.ReadAll(p)
	if err != nil {
		return part{}, errCutShort
	}
	return part{header: p.Header, body: string(body)}, nil
}

// expanded is the part, or the documents of a NodeConfig part.
func expanded(p part) ([]part, error) {
	switch mediaType, err := p.mediaType(); {
	case err != nil:
		return nil, err
	case strings.HasPrefix(mediaType, "multipart/"):
		return nil, errors.New("it is multipart itself: put its parts beside the others")
	case mediaType == typeNodeConfig:
		return nodeConfigParts(p), nil
	}
	return []part{p}, nil
}

// writeMIME writes the parts with plain line feeds between them. A body ends where the line feed
// before the next boundary begins, so its own bytes stay as they are.
func writeMIME(parts []part) string {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, headerLines(p)+"\n"+p.body)
	}
	boundary := unusedBoundary(texts)
	var out strings.Builder
	fmt.Fprintf(&out, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n", boundary)
	for _, text := range texts {
		out.WriteString("\n--" + boundary + "\n" + text)
	}
	out.WriteString("\n--" + boundary + "--\n")
	return out.String()
}

func headerLines(p part) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.header)) {
		for _, value := range p.header[name] {
			lines.WriteString(name + ": " + value + "\n")
		}
	}
	return lines.String()
}

// unusedBoundary is in none of the texts: not even inside of a line, so that no reader of MIME can
// take another view of where lines end.
func unusedBoundary(texts []string) string {
	boundary := boundaryWord
	for n := 1; slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, boundary) }); n++ {
		boundary = boundaryWord + "-" + strconv.Itoa(n)
	}
	return boundary
}
