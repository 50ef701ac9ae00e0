// Package stratosdown proves what goes on while Stratos is gone, what comes back by itself, and
// what happens when it is back, in each way that a cluster can use it.
package stratosdown
