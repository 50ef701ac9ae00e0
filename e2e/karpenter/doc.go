// Package karpenter pins the Karpenter that Stratos is tested and measured beside: go.mod names its
// version and, as a tool, the command with the provider that needs no cloud (kwok). It is a module
// of its own, so that no module inherits Karpenter's dependencies, nor Karpenter ours: it is built
// with just those that it was released with. e2e/framework builds it into the cache and starts it.
package karpenter
