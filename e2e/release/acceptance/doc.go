// Package acceptance builds a release from two clones of this commit, compares both, pushes one to
// a registry on loopback, verifies it and installs it on a real API server.
package acceptance
