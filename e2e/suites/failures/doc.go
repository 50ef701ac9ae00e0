// Package failures plays on a real control plane the faults of the failure list that one can show
// (docs/reliability.md): starts that the cloud refuses or that come to nothing, drains that cannot
// end, and what people do behind Stratos's back.
package failures
