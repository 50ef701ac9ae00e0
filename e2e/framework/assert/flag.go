package assert

import (
	"flag"
	"testing"
)

// Flag is the value of a flag of the suite, which its TestMain adds. It is looked up by name,
// because a variable for a flag would be a global one.
func Flag[T any](t *testing.T, name string) T {
	t.Helper()
	value, ok := flag.Lookup(name).Value.(flag.Getter).Get().(T)
	if !ok {
		t.Fatalf("flag %s is no %T", name, value)
	}
	return value
}
