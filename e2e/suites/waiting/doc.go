// Package waiting holds the tests of pending pods: those for which nothing starts, those whose node
// is on its way, and those that no scheduler asks about.
package waiting
