// Package plugin pins the CNI plugins that flannel's configuration names. flannel's own plugin is
// now in a module that the Go module proxy does not serve; v0.9.1 of the CNI project's plugins is
// the last version with it.
package plugin
