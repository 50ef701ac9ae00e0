// Package stacks holds the tests of `stratos stack` against a real OCI registry, that of the
// distribution project, over TLS. It is a module of its own because of what the registry requires.
package stacks
