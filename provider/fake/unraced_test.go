//go:build !race

package fake

// machines is how many TestTwoThousandMachines plays. `make test` plays them without the race
// detector too.
const machines = 2000
