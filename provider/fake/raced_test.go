//go:build race

package fake

// machines is a tenth of the number that unraced_test.go has. The race detector makes each cost
// eight times the CPU, and 200 run the same goroutines beside each other.
const machines = 200
