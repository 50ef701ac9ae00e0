package parity

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	testingframework "k8s.io/kubernetes/pkg/scheduler/testing/framework"
)

// moved are the filters that the dedicated profile moves into the extender.
func moved() []string { return []string{names.NodeUnschedulable, names.TaintToleration} }

// filters are the in-tree filters that package fit stands for, in the order of the default profile:
// the first that refuses is the one that is reported.
func filters() []string {
	return []string{names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts,
		names.NodeResourcesFit, names.VolumeBinding, names.VolumeZone, names.PodTopologySpread, names.InterPodAffinity}
}

// Scheduler is kube-scheduler's own filters, put together by its own framework, looking at one
// world.
type Scheduler struct {
	framework framework.Framework
	snapshot  *internalcache.Snapshot
	nodes     []string
}

// NewScheduler builds the named filters with the arguments and feature gates of a default profile.
// They live until ctx ends.
func NewScheduler(ctx context.Context, world *World, filters []string) (*Scheduler, error) {
	metrics.Register() // the framework observes every call, and does not check whether there is anything to observe with
	client := fake.NewClientset()
	factory, err := informersOf(world, client)
	if err != nil {
		return nil, err
	}
	snapshot := internalcache.NewSnapshot(world.occupants(), world.Nodes)
	f, err := testingframework.NewFramework(ctx, registrations(filters), corev1.DefaultSchedulerName,
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithClientSet(client))
	if err != nil {
		return nil, err
	}
	s := &Scheduler{framework: f, snapshot: snapshot}
	for _, node := range world.Nodes {
		s.nodes = append(s.nodes, node.Name)
	}
	return s, nil
}

func registrations(filters []string) []testingframework.RegisterPluginFunc {
	registry := plugins.NewInTreeRegistry()
	all := []testingframework.RegisterPluginFunc{ // without these two there is no framework; they are not called here
		testingframework.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		testingframework.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
	}
	for _, name := range filters {
		points := []string{"PreFilter", "Filter"}
		if slices.Contains([]string{names.NodeUnschedulable, names.NodeName, names.TaintToleration}, name) {
			points = []string{"Filter"}
		}
		all = append(all, testingframework.RegisterPluginAsExtensions(name, registry[name], points...))
	}
	return all
}

// Judge goes through the steps of a scheduling attempt up to the last filter.
func (s *Scheduler) Judge(ctx context.Context, pod *corev1.Pod) ([]Verdict, error) {
	state := framework.NewCycleState()
	narrowed, early, _ := s.framework.RunPreFilterPlugins(ctx, state, pod)
	verdicts := make([]Verdict, 0, len(s.nodes))
	for _, name := range s.nodes {
		if !early.IsSuccess() {
			verdicts = append(verdicts, earlyVerdict(early))
			continue
		}
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			verdicts = append(verdicts, passedOver())
			continue
		}
		node, err := s.snapshot.NodeInfos().Get(name)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		verdicts = append(verdicts, verdictOf(s.framework.RunFilterPlugins(ctx, state, pod, node)))
	}
	return verdicts, nil
}

// passedOver: the pod named other nodes, in a way that spares the scheduler looking at this one.
// Its words for that are about itself and not about the node, so that fit's are better.
func passedOver() Verdict {
	return Verdict{Messages: []string{messagePassedOver}, Unresolvable: true, Early: true}
}

const messagePassedOver = "node is filtered out by the prefilter result"

func earlyVerdict(status *fwk.Status) Verdict {
	verdict := verdictOf(status)
	verdict.Early = true
	return verdict
}

// verdictOf: after an error the scheduler does not preempt either.
func verdictOf(status *fwk.Status) Verdict {
	if status.IsSuccess() {
		return Verdict{}
	}
	return Verdict{
		Messages: status.Reasons(), Plugin: status.Plugin(),
		Unresolvable: status.Code() != fwk.Unschedulable, Failed: status.Code() == fwk.Error,
	}
}
