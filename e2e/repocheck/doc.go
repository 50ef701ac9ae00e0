// Package repocheck checks the rules that the project has for itself: which package may import
// which (the import law), that every acceptance point in docs/guarantees.yaml names a test which
// exists, cannot be skipped and really ran, and that the repository keeps its floor plan.
//
// It needs the go command, the standard library and a parser of YAML only, because it also runs
// before anything else is built. The command in repocheck/check gives the Makefile access to it;
// `go test ./repocheck` runs the checks on this repository.
package repocheck

// ModulePath is the import path of the root module; the path of a package of ours is
// ModulePath/<folder>, whichever of the repository's modules it belongs to.
const ModulePath = "github.com/stratos-sh/stratos"
