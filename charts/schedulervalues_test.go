package charts

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
)

// TestSchedulerValues: the values reach the scheduler, and what the extender relies on stays.
func TestSchedulerValues(t *testing.T) {
	configs := schedulerConfigurations(t)
	profile := configs["scheduler-values"].Profiles[0]
	if got := *profile.PercentageOfNodesToScore; got != 50 {
		t.Errorf("percentageOfNodesToScore %d", got)
	}
	wantPlugins := &schedulerv1.Plugins{
		Filter: schedulerv1.PluginSet{Disabled: []schedulerv1.Plugin{{Name: "TaintToleration"},
			{Name: "NodeUnschedulable"}, {Name: "NodePorts"}}},
		Score: schedulerv1.PluginSet{Enabled: []schedulerv1.Plugin{{Name: "NodeAffinity", Weight: new(int32(5))}},
			Disabled: []schedulerv1.Plugin{{Name: "ImageLocality"}}},
	}
	if diff := cmp.Diff(wantPlugins, profile.Plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	args := pluginArgs(t, configs["scheduler-values"])
	if fit, ok := args["NodeResourcesFit"].(*schedulerv1.NodeResourcesFitArgs); !ok ||
		fit.ScoringStrategy.Type != schedulerv1.LeastAllocated {
		t.Errorf("NodeResourcesFit: %v", args["NodeResourcesFit"])
	}
	if preemption, ok := args["DefaultPreemption"].(*schedulerv1.DefaultPreemptionArgs); !ok ||
		*preemption.MinCandidateNodesAbsolute != 10 || *preemption.MinCandidateNodesPercentage != 100 {
		t.Errorf("DefaultPreemption: %v", args["DefaultPreemption"])
	}
	if spread, ok := args["PodTopologySpread"].(*schedulerv1.PodTopologySpreadArgs); !ok ||
		len(spread.DefaultConstraints) != 1 {
		t.Errorf("PodTopologySpread: %v", args["PodTopologySpread"])
	}
	for _, o := range ofKind(t, "Deployment") {
		if o.set != "scheduler-values" {
			continue
		}
		scheduler := containers(deployment(t, o))["scheduler"]
		if n := len(scheduler.Command); !slices.Equal(scheduler.Command[n-2:], []string{"--v=4", "--kube-api-qps=500"}) {
			t.Errorf("%s: command %q", o, scheduler.Command)
		}
	}
}

// TestSchedulersPackPods: by default a scheduler fills the nodes that run, so that others become
// empty and stop.
func TestSchedulersPackPods(t *testing.T) {
	for set, config := range schedulerConfigurations(t) {
		args := pluginArgs(t, config)
		fit, ok := args["NodeResourcesFit"].(*schedulerv1.NodeResourcesFitArgs)
		if set != "scheduler-values" && (!ok || fit.ScoringStrategy.Type != schedulerv1.MostAllocated) {
			t.Errorf("%s: NodeResourcesFit %v", set, args["NodeResourcesFit"])
		}
	}
}

// pluginArgs decodes the arguments of the plugins strictly, by their names.
func pluginArgs(t *testing.T, config *schedulerv1.KubeSchedulerConfiguration) map[string]runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := schedulerv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	if err := config.DecodeNestedObjects(decoder); err != nil {
		t.Fatal(err)
	}
	found := map[string]runtime.Object{}
	for _, plugin := range config.Profiles[0].PluginConfig {
		found[plugin.Name] = plugin.Args.Object
	}
	return found
}
