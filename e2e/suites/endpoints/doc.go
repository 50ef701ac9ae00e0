// Package endpoints shows on a real control plane what becomes of the endpoints of a Service when a
// node under its pods stops.
package endpoints
