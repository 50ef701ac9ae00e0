// Package capi pins Cluster API, whose managers make machines of the cluster class. It is a module
// of its own, because Cluster API requires other Kubernetes libraries than Stratos. No package
// imports it.
package capi
