// Package release builds a release of Stratos into a folder and pushes it to a registry: the image
// by ko, the charts by Helm, archives of the kubectl plugin, checksums, signatures by cosign, the
// krew manifest and release notes. docs/release.md says how it is used.
package release
