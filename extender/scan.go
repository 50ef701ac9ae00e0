package extender

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// envelope is one ExtenderArgs taken apart. pod and nodes are raw JSON; nodeNames is nil where the
// field is absent or null, and not nil where it is an empty list.
type envelope struct {
	pod, nodes []byte
	nodeNames  []string
}

// scanArgs takes the outer object of ExtenderArgs apart without reflection. A request carries
// thousands of names and one small pod, and encoding/json spends several times longer on the names
// than the decision takes; so the names are read here and the rest is left to encoding/json.
// It accepts what encoding/json accepts, except duplicate fields and null among the names.
func scanArgs(body []byte) (envelope, error) {
	s := &scanner{data: body}
	var found envelope
	seen := map[string]bool{}
	err := s.object(func(key string) error {
		name := fieldName(key)
		if name != "" && seen[name] {
			return fmt.Errorf("duplicate field %s", name)
		}
		seen[name] = true
		var err error
		switch name {
		case fieldPod:
			found.pod, err = s.raw()
		case fieldNodes:
			found.nodes, err = s.raw()
		case fieldNodeNames:
			found.nodeNames, err = s.strings()
		default:
			_, err = s.raw()
		}
		return err
	})
	if err != nil {
		return envelope{}, err
	}
	if s.next() != 0 || s.pos < len(s.data) {
		return envelope{}, s.errorf("something follows the object")
	}
	return found, nil
}

// The fields of extenderv1.ExtenderArgs, which has no JSON tags.
const (
	fieldPod       = "Pod"
	fieldNodes     = "Nodes"
	fieldNodeNames = "NodeNames"
)

// fieldName maps a key to its field as encoding/json does, without regard to case; "" for none.
func fieldName(key string) string {
	for _, name := range []string{fieldPod, fieldNodes, fieldNodeNames} {
		if strings.EqualFold(key, name) {
			return name
		}
	}
	return ""
}

// scanner walks over JSON text. It never goes past data, and its depth is a number, not a call stack.
type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) errorf(format string, args ...any) error {
	if s.pos >= len(s.data) {
		return errors.New("unexpected end of JSON input")
	}
	return fmt.Errorf("at byte %d: %s", s.pos, fmt.Sprintf(format, args...))
}

// next skips white space and returns the byte there without taking it; 0 at the end.
func (s *scanner) next() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) take(want byte) error {
	if s.next() != want {
		return s.errorf("expected %q", want)
	}
	s.pos++
	return nil
}

// object calls value for each key, with the scanner at the key's value.
func (s *scanner) object(value func(key string) error) error {
	return s.sequence('{', '}', func() error {
		key, err := s.string()
		if err != nil {
			return err
		}
		if err := s.take(':'); err != nil {
			return err
		}
		return value(key)
	})
}

// sequence reads open, elements between commas, and closing.
func (s *scanner) sequence(open, closing byte, element func() error) error {
	if err := s.take(open); err != nil {
		return err
	}
	if s.next() == closing {
		s.pos++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.next() != ',' {
			return s.take(closing)
		}
		s.pos++
	}
}

// strings reads null as nil and a list of strings.
func (s *scanner) strings() ([]string, error) {
	if s.next() == 'n' {
		_, err := s.raw()
		return nil, err
	}
	list := []string{}
	err := s.sequence('[', ']', func() error {
		element, err := s.string()
		list = append(list, element)
		return err
	})
	return list, err
}

// string copies, so that a name kept in a claim does not keep the request in memory. Escapes
// and bytes beyond ASCII, which no node name has, are left to encoding/json.
func (s *scanner) string() (string, error) {
	if s.next() != '"' {
		return "", s.errorf("expected a string")
	}
	start := s.pos + 1
	for i := start; i < len(s.data); i++ {
		c := s.data[i]
		if c == '"' {
			s.pos = i + 1
			return string(s.data[start:i]), nil
		}
		if c == '\\' || c < ' ' || c >= 0x80 {
			return s.unusualString()
		}
	}
	s.pos = len(s.data)
	return "", s.errorf("")
}

func (s *scanner) unusualString() (string, error) {
	raw, err := s.raw()
	if err != nil {
		return "", err
	}
	var value string
	return value, json.Unmarshal(raw, &value)
}

// raw takes one value of any kind and returns its text, which is valid JSON.
func (s *scanner) raw() ([]byte, error) {
	s.next()
	start := s.pos
	if err := s.skip(); err != nil {
		return nil, err
	}
	text := s.data[start:s.pos]
	if !json.Valid(text) {
		s.pos = start
		return nil, s.errorf("not a JSON value")
	}
	return bytes.TrimSpace(text), nil
}

// skip finds the end of the value by counting brackets; whether it is valid is raw's question.
func (s *scanner) skip() error {
	depth := 0
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case '"':
			if err := s.skipString(); err != nil {
				return err
			}
		case '{', '[':
			depth++
			s.pos++
		case '}', ']':
			if depth == 0 {
				return nil
			}
			depth--
			s.pos++
		case ',':
			if depth == 0 {
				return nil
			}
			s.pos++
			continue
		default:
			s.pos++
			continue
		}
		if depth == 0 {
			return nil
		}
	}
	if depth > 0 {
		return s.errorf("")
	}
	return nil
}

// skipString stands on the opening quote and goes past the closing one.
func (s *scanner) skipString() error {
	for i := s.pos + 1; i < len(s.data); i++ {
		step := bytes.IndexAny(s.data[i:], `"\`)
		if step < 0 {
			break
		}
		i += step
		if s.data[i] == '"' {
			s.pos = i + 1
			return nil
		}
		i++ // the escaped byte
	}
	s.pos = len(s.data)
	return s.errorf("")
}
