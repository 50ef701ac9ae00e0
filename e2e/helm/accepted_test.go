package helm

import (
	"context"
	"flag"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/stratos-sh/stratos/e2e/controlplane"
)

// TestMain adds the flag. Tests look it up by name, because a variable for a flag would be a global
// one. Garbage is collected less often than by default, which takes a fifth off what it costs to
// render the chart.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	flag.Bool("all", false, "apply the chart on all minors, which `make matrix` builds; else on the newest")
	flag.Parse()
	os.Exit(m.Run())
}

// chosen are the minors on which the chart is applied.
func chosen(t *testing.T) []string {
	t.Helper()
	all, ok := flag.Lookup("all").Value.(flag.Getter).Get().(bool)
	if !ok {
		t.Fatal("flag all is no bool")
	}
	minors := controlplane.Minors()
	if all {
		return append(minors, controlplane.BeforeOldest)
	}
	return minors[len(minors)-1:]
}

// TestEveryRenderedObjectIsAccepted applies every object of every set to the API server, strictly,
// and once more: the second time changes nothing.
func TestEveryRenderedObjectIsAccepted(t *testing.T) {
	for _, minor := range chosen(t) {
		t.Run(minor, func(t *testing.T) {
			c := newClusterOf(t, minor)
			t.Run("an unknown field is refused", c.unknownFieldIsRefused)
			for _, s := range sets(t) {
				t.Run(s.Name, func(t *testing.T) { c.takesAll(t, onMinor(t, s, minor)) })
			}
		})
	}
}

// onMinor is the set as it is installed in a cluster of the minor.
func onMinor(t *testing.T, s Set, minor string) Set {
	t.Helper()
	minors := controlplane.Minors()
	if minor == minors[len(minors)-1] {
		return s // some sets are about versions
	}
	version, err := controlplane.VersionOf(minor)
	if err != nil {
		t.Fatal(err)
	}
	s.Kubernetes, s.Values = version, s.copyOfValues()
	if minor == controlplane.BeforeOldest {
		if err := unstructured.SetNestedField(s.Values, false, "scheduler", "enabled"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (c *cluster) takesAll(t *testing.T, s Set) {
	t.Helper()
	objects := objectsOf(t, s)
	c.namespace(t, s.Namespace)
	c.applyAll(t, objects)
	for _, object := range objects {
		c.changesNothing(t, object)
	}
	c.remove(t, objects)
}

// unknownFieldIsRefused shows that the validation is strict, also for kinds of others.
func (c *cluster) unknownFieldIsRefused(t *testing.T) {
	s := set(t, "everything-on")
	c.namespace(t, s.Namespace)
	for _, kind := range []string{"Deployment", "Certificate", "ServiceMonitor"} {
		object := find(objectsOf(t, s), kind)[0]
		if err := unstructured.SetNestedField(object.Object, "x", "spec", "nobodyKnowsThis"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.apply(t.Context(), object); err == nil || !strings.Contains(err.Error(), "nobodyKnowsThis") {
			t.Errorf("%s with an unknown field: error %v, want one that names it", kind, err)
		}
	}
}

// changesNothing applies an object that was applied before. Controllers write status into some
// kinds meanwhile, so it is asked again until no other writer came in between; an apply that
// does change something changes it each time.
func (c *cluster) changesNothing(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	resource, err := c.resource(object)
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, hang, true,
		func(ctx context.Context) (bool, error) {
			before, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			after, err := c.apply(ctx, object)
			if err != nil {
				return false, err
			}
			return before.GetResourceVersion() == after.GetResourceVersion(), nil
		})
	if err != nil {
		t.Errorf("a second apply of %s %s/%s: %v", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
}

// TestChartUpgradesFromThePreviousRender applies the chart over what the previous one rendered: no
// conflict, nothing immutable.
func TestChartUpgradesFromThePreviousRender(t *testing.T) {
	c := newCluster(t)
	text, err := os.ReadFile("../../charts/testdata/previous/default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	previous, err := Output{Manifest: string(text)}.Objects()
	if err != nil {
		t.Fatal(err)
	}
	s := set(t, "default")
	c.namespace(t, s.Namespace)
	c.applyAll(t, previous)
	c.applyAll(t, objectsOf(t, s))
}
