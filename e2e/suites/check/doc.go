// Package check plays faults in a real cluster and before the EC2 test server, and reads what
// `stratos check` says of each.
package check
