// Package definitions holds the tests of the API types on a real API server: what it accepts, fills
// in, refuses and explains.
package definitions
