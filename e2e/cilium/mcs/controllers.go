// Package controllers has the one name that Cilium takes from the module
// sigs.k8s.io/mcs-api/controllers, which the Go module proxy does not serve.
package controllers

// DerivedServiceAnnotation is on a ServiceImport.
const DerivedServiceAnnotation = "multicluster.kubernetes.io/derived-service"
