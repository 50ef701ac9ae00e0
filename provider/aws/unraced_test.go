//go:build !race

package aws

// stride of TestOneOfFiftyWithoutCapacity is from one position to the next. `make test` goes
// through all of them without the race detector too.
const stride = 1
