// Package kind keeps nodes that are containers of a kind cluster: a cloud on one machine with real
// kubelets. docs/kind.md tells how.
//
// An instance is a node container, its id the container's name, which is also the Node's. The
// container's labels are the instance's tags as it was launched with; what changed since is kept in
// volumes without content (tags.go), because Docker cannot change a container's labels.
package kind
