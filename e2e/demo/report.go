package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// report is what came of the play.
type report struct {
	// Missing are the steps that did not come to their end.
	Missing []string
	// Pods were to run, Ran did.
	Pods, Ran int
	// PerNode is how many of the pods fit a node, 0 if that is not known. Started counts the starts
	// that the cloud accepted.
	PerNode, Started int
	// PoolSize nodes were to be there at the end: Standby says Stratos, Stopped says the cloud.
	PoolSize, Standby, Stopped int
	// ToStart is "pod created -> start requested", SinceAsked the part of it after the scheduler's
	// question, ToBound "node Ready -> pod bound"; one sample per start each.
	ToStart, SinceAsked, ToBound []time.Duration
}

// needed is the smallest number of equal nodes that holds all pods.
func (r report) needed() int {
	if r.PerNode == 0 {
		return 0
	}
	return (r.Pods + r.PerNode - 1) / r.PerNode
}

// verdict is an error that names each thing that did not happen, nil if everything did.
func (r report) verdict() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(len(r.Missing) == 0, "steps not finished: %s", strings.Join(r.Missing, ", "))
	require(r.Pods > 0 && r.Ran == r.Pods, "%d of %d pods ran", r.Ran, r.Pods)
	require(r.needed() > 0, "how many nodes are needed is not known")
	require(r.Started == r.needed(), "%d nodes started, %d needed", r.Started, r.needed())
	require(len(r.ToStart) == r.Started, "the pod is known of %d of %d starts", len(r.ToStart), r.Started)
	require(len(r.ToBound) == r.Started, "Ready and a pod were seen of %d of %d started nodes", len(r.ToBound), r.Started)
	require(r.Standby == r.PoolSize, "%d of %d nodes are standby at the end", r.Standby, r.PoolSize)
	require(r.Stopped == r.PoolSize, "%d of %d instances are stopped at the end", r.Stopped, r.PoolSize)
	return errors.Join(errs...)
}

// summary is for people.
func (r report) summary() []string {
	lines := []string{"Summary"}
	add := func(label, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("  %-32s", label)+fmt.Sprintf(format, args...))
	}
	add("pods", "%d created, %d ran", r.Pods, r.Ran)
	add("nodes", "%d started, %d needed (%d pods, %d per node)", r.Started, r.needed(), r.Pods, r.PerNode)
	add("pod created -> start requested", "%s", percentiles(r.ToStart))
	add("  since the scheduler asked", "%s", percentiles(r.SinceAsked))
	add("node Ready -> pod bound", "%s", percentiles(r.ToBound))
	add("at the end", "%d of %d nodes standby, %d instances stopped", r.Standby, r.PoolSize, r.Stopped)
	result := "PASS: all of it happened"
	if r.verdict() != nil {
		result = "FAIL"
	}
	add("result", "%s", result)
	return append(lines, "")
}

func percentiles(samples []time.Duration) string {
	if len(samples) == 0 {
		return "not measured"
	}
	return fmt.Sprintf("p50 %8s   p99 %8s   (n=%d)", milliseconds(percentile(samples, 50)),
		milliseconds(percentile(samples, 99)), len(samples))
}

// percentile is the nearest rank: the smallest sample that p percent of the samples do not surpass;
// of few samples p99 is the largest. p is 1 to 100. Without samples it is 0.
func percentile(samples []time.Duration, p int) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[(len(sorted)*p+99)/100-1]
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// perNode is how many pods of the size fit a node of the size, by cpu.
func perNode(pod, node resource.Quantity) (int, error) {
	if pod.MilliValue() <= 0 || node.MilliValue() < pod.MilliValue() {
		return 0, fmt.Errorf("no pod of %s cpu fits a node of %s, or the nodes differ", &pod, &node)
	}
	return int(node.MilliValue() / pod.MilliValue()), nil
}
