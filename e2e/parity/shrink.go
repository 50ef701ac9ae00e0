package parity

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"
)

// Shrink returns, as YAML that ReadWorld reads, a world that still shows what the given one shows,
// and from which nothing more can be taken: no node, no pod, no field. shows is asked about each
// attempt.
func Shrink(world *World, shows func(*World) bool) ([]byte, error) {
	text, err := json.Marshal(world)
	if err != nil {
		return nil, fmt.Errorf("write the world: %w", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("read the world: %w", err)
	}
	s := shrinking{tree: tree, shows: shows}
	if !s.still() {
		return nil, errors.New("the world does not show it in the first place")
	}
	for s.object(tree) { // until a whole pass takes nothing: one thing may only go after another has
	}
	// The tree and not the world, which would write each field that must not be left out in Go.
	return yaml.Marshal(tree)
}

// shrinking works on the world as a tree, so that it needs to know none of its types.
type shrinking struct {
	tree  map[string]any
	shows func(*World) bool
}

// still reports whether the tree, as it stands, is a world that shows the same.
func (s *shrinking) still() bool {
	text, err := json.Marshal(s.tree)
	if err != nil {
		return false
	}
	world := &World{}
	return json.Unmarshal(text, world) == nil && world.whole() == nil && s.shows(world)
}

// object takes fields away, whole ones first; it reports whether any could go.
func (s *shrinking) object(fields map[string]any) (smaller bool) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		delete(fields, name)
		if s.still() {
			smaller = true
			continue
		}
		fields[name] = value
		if s.inside(value, func(v any) { fields[name] = v }) {
			smaller = true
		}
	}
	return smaller
}

// list takes elements away, from the back so that those before keep their places.
func (s *shrinking) list(elements []any, store func(any)) (smaller bool) {
	for i := len(elements) - 1; i >= 0; i-- {
		shorter := slices.Delete(slices.Clone(elements), i, i+1)
		store(shorter)
		if s.still() {
			elements, smaller = shorter, true
			continue
		}
		store(elements)
		if s.inside(elements[i], func(v any) { elements[i] = v }) {
			smaller = true
		}
	}
	return smaller
}

func (s *shrinking) inside(value any, store func(any)) (smaller bool) {
	switch value := value.(type) {
	case map[string]any:
		return s.object(value)
	case []any:
		return s.list(value, store)
	default:
		return false
	}
}
