package waiting

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// What a version of a Node says that Stratos has written.
const (
	writeIntent = "intent"
	writeClaims = "claims"
	writeOpens  = "opening"
	writeNudge  = "nudge"
	writeUse    = "in use"
)

// TestWritesOfAStart: in a burst Stratos writes one intent and one opening for each start. In
// addition there are only claims that were made after the intent, the mark that a node is in use,
// and nudges. Each write has the scheduler ask about every pending pod, so there is no other.
func TestWritesOfAStart(t *testing.T) {
	const nodes, perNode = 25, 4
	r := assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{AuditLog: controlplane.AuditLog{Enabled: true}},
		Cloud:        append(assert.FastCloud(), "--fake-instance-types=burst.four=cpu:4,memory:16Gi,pods:110"),
	})
	assert.Warm(t, r, framework.Pool("burst", nodes+2), framework.Class("burst", "burst.four"))
	bystander := assert.Node("bystander")
	assert.Create(t, r, bystander)
	versions := watchNodes(t, r)
	markNode(t, r, bystander, "first")
	pods := framework.Pods(nodes*perNode, "burst", "cpu", "1")
	assert.Create(t, r, assert.Objects(pods)...)
	assert.AwaitRunning(t, r, pods...)
	markNode(t, r, bystander, "last")

	written := writesIn(versions(bystander.Name, "last"))
	audited, statuses := 0, 0
	for _, e := range between(t, r, bystander, "first", "last") {
		switch {
		case e.User != framework.UserStratos || e.Resource != "nodes" || e.Code >= 400:
		case e.Subresource == "":
			audited++
		default:
			statuses++
		}
	}
	starts, all := len(assert.Starts(t, r)), 0
	for _, what := range slices.Sorted(maps.Keys(written)) {
		t.Logf("%.2f x %s for each of %d starts", float64(written[what])/float64(starts), what, starts)
		all += written[what]
	}
	t.Logf("by the audit log %.2f writes of Stratos for each start, and %.2f to the status", float64(audited)/float64(starts),
		float64(statuses)/float64(starts))
	for _, once := range []string{writeIntent, writeOpens} {
		if written[once] != nodes {
			t.Errorf("%d writes of kind %q, want one for each of %d nodes", written[once], once, nodes)
		}
	}
	for what := range written {
		if !slices.Contains([]string{writeIntent, writeClaims, writeOpens, writeNudge, writeUse}, what) {
			t.Errorf("a start also wrote %s, %d times", what, written[what])
		}
	}
	if all != audited {
		t.Errorf("%d writes by what the Nodes say, %d by the audit log", all, audited)
	}
}

// markNode writes a label to the node under a field manager of the mark's name, which between looks
// for.
func markNode(t *testing.T, r *framework.Rig, n *corev1.Node, mark string) {
	t.Helper()
	body := fmt.Sprintf(`{"metadata":{"labels":{"example.com/mark":%q}}}`, mark)
	err := r.Client.Patch(t.Context(), n.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)),
		client.FieldOwner(mark))
	if err != nil {
		t.Fatal(err)
	}
}

// watchNodes follows all Nodes from now on. The function that it returns gives the versions that
// each has had, in order, until the node of the name has the mark.
func watchNodes(t *testing.T, r *framework.Rig) func(name, mark string) map[string][]*corev1.Node {
	t.Helper()
	list := &corev1.NodeList{}
	if err := r.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	w, err := r.Client.Watch(t.Context(), &corev1.NodeList{}, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	versions := map[string][]*corev1.Node{}
	for i := range list.Items {
		versions[list.Items[i].Name] = []*corev1.Node{&list.Items[i]}
	}
	return func(name, mark string) map[string][]*corev1.Node {
		t.Helper()
		assert.Await(t, "mark "+mark+" on node "+name, func(ctx context.Context) (bool, error) {
			for {
				select {
				case <-ctx.Done():
					return false, ctx.Err()
				case event, open := <-w.ResultChan():
					n, isNode := event.Object.(*corev1.Node)
					if !open || !isNode || event.Type == watch.Error {
						return false, fmt.Errorf("the watch ended: %+v", event)
					}
					versions[n.Name] = append(versions[n.Name], n)
					if n.Name == name && n.Labels["example.com/mark"] == mark {
						return true, nil
					}
				}
			}
		})
		return versions
	}
}

// writesIn counts what Stratos has written by what has changed from one version of each Node to the
// next.
func writesIn(versions map[string][]*corev1.Node) map[string]int {
	written := map[string]int{}
	for _, of := range versions {
		for i := 1; i < len(of); i++ {
			if what := writeOf(of[i-1], of[i]); what != "" {
				written[what]++
			}
		}
	}
	return written
}

// writeOf names what Stratos wrote, by the keys of its own that have changed; "" where another
// wrote.
func writeOf(was, is *corev1.Node) string {
	switch state := is.Labels[v1alpha1.LabelState]; {
	case state == was.Labels[v1alpha1.LabelState]:
	case state == string(v1alpha1.StateStarting):
		return writeIntent
	case state == string(v1alpha1.StateRunning):
		return writeOpens
	default:
		return "state " + state
	}
	var changed []string
	for _, maps := range [][2]map[string]string{{was.Annotations, is.Annotations}, {is.Annotations, was.Annotations},
		{was.Labels, is.Labels}, {is.Labels, was.Labels}} {
		for key, value := range maps[0] {
			if other, there := maps[1][key]; strings.HasPrefix(key, "stratos.sh/") && (!there || other != value) &&
				!slices.Contains(changed, key) {
				changed = append(changed, key)
			}
		}
	}
	slices.Sort(changed)
	switch all := strings.Join(changed, ", "); all {
	case v1alpha1.AnnotationClaims:
		return writeClaims
	case v1alpha1.AnnotationNudgedAt:
		return writeNudge
	case v1alpha1.AnnotationScaleDownCandidateSince:
		return writeUse
	default:
		return all
	}
}
