// Package fake is a cloud that needs no cloud: instances in memory, with the times, limits and
// faults of a real one, and machines that behave towards Kubernetes as kubelets do. Machines is the
// second half and optional.
//
// The cloud is a library (New), an HTTP API in front of it (Handler, Serve) and a client of that
// API (NewClient). Cloud and Client both implement API, so that a test which kills Stratos and a
// test in process read the same.
package fake
