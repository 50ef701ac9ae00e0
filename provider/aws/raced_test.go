//go:build race

package aws

// stride leaves eight of fifty positions, the first and the last among them. The race detector
// makes each cost seven times the CPU, and all run the same goroutines beside each other: what
// differs is into which halves a refused call is split, which unraced_test.go goes through.
const stride = 7
