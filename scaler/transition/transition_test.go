package transition

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	jsonpatch "gopkg.in/evanphx/json-patch.v4" // what the API server applies patches with
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func template(change ...func(*Template)) Template {
	t := Template{
		Pool: "p", Instance: "i-1", RemoveStartupTaints: true,
		Labels:        map[string]string{"team": "web", v1alpha1.LabelPool: "p"},
		Taints:        []corev1.Taint{taint("team", corev1.TaintEffectNoSchedule)},
		StartupTaints: []corev1.Taint{taint("cni", corev1.TaintEffectNoExecute)},
	}
	for _, f := range change {
		f(&t)
	}
	return t
}

func external(t *Template) { t.RemoveStartupTaints = false }

// registered is a Node as its kubelet first writes it.
func registered() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-1", Labels: map[string]string{"kubernetes.io/hostname": "c"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{taint("cni", corev1.TaintEffectNoExecute)}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "example.com/gpu": resource.MustParse("1")},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(epoch())},
			},
		},
	}
}

// try applies the patch as the API server would.
func try(n *corev1.Node, p Patch) (*corev1.Node, error) {
	document, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(p.JSON())
	if err != nil {
		return nil, err
	}
	changed, err := patch.Apply(document)
	if err != nil {
		return nil, err
	}
	out := &corev1.Node{}
	return out, json.Unmarshal(changed, out)
}

func apply(t *testing.T, n *corev1.Node, p Patch) *corev1.Node {
	t.Helper()
	out, err := try(n, p)
	if err != nil {
		t.Fatalf("patch %s\nof %v: %v", p.JSON(), n.ObjectMeta, err)
	}
	return out
}

func taintKeys(n *corev1.Node) []string {
	var out []string
	for i := range n.Spec.Taints {
		out = append(out, n.Spec.Taints[i].Key+":"+string(n.Spec.Taints[i].Effect))
	}
	slices.Sort(out)
	return out
}

func diff(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// A node that lives five lives carries in each of them exactly the marks of its state, as in the
// first.
func TestFiveLivesLeaveNoMarks(t *testing.T) {
	for name, tmpl := range map[string]Template{"startup taints are ours": template(),
		"startup taints are others'": template(external)} {
		t.Run(name, func(t *testing.T) {
			n := apply(t, registered(), Warmup(registered(), tmpl))
			n = apply(t, n, Warmed(n, epoch()))
			first := map[string]map[string]string{}
			now := epoch()
			for life := range 5 {
				see := func(step string, is *corev1.Node) {
					n = is
					marks := map[string]string{"taints": strings.Join(taintKeys(n), " "),
						"cordoned": map[bool]string{true: "yes"}[n.Spec.Unschedulable]}
					for k := range n.Annotations {
						marks[k] = "there" // times differ from life to life, marks must not
					}
					for k, v := range n.Labels {
						marks["label "+k] = v
					}
					if life == 0 {
						first[step] = marks
						return
					}
					diff(t, step+" in a later life", marks, first[step])
				}
				tick := func() time.Time { now = now.Add(time.Minute); return now }
				see("standby", apply(t, n, Standby(n, tmpl, true, "")))
				if life == 1 { // one life has a failed start, which must not show in the next
					n = apply(t, n, Starting(n, nil, []types.UID{"x"}, "", tick()))
					n = apply(t, n, StartFailed(n, tick()))
				}
				see("starting", apply(t, apply(t, n, clean(n)), Starting(apply(t, n, clean(n)), nil, []types.UID{"b", "a"}, "",
					tick())))
				see("claimed", apply(t, n, Claims(n, []types.UID{"a"})))
				see("running", apply(t, n, Running(n, tmpl, tick())))
				see("empty", apply(t, n, Empty(n, tick())))
				see("in use", apply(t, n, InUse(n)))
				see("empty again", apply(t, n, Empty(n, tick())))
				see("stopping", apply(t, n, Stopping(n, v1alpha1.StopEmpty, tick())))
				see("cancelled", apply(t, n, Running(n, tmpl, tick())))
				see("stopping again", apply(t, n, Stopping(n, v1alpha1.StopEmpty, tick())))
				see("stop intended", apply(t, n, StopIntent(n, tick())))
				if tmpl.RemoveStartupTaints == false {
					// Their owner has removed them while the node ran.
					n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == "cni" })
				}
			}
			see := first["standby"]
			for _, mark := range []string{
				v1alpha1.AnnotationScaleUpStarted, v1alpha1.AnnotationScaleDownCandidateSince, v1alpha1.AnnotationClaims,
				v1alpha1.AnnotationStopReason,
				v1alpha1.AnnotationStopIntent, v1alpha1.AnnotationStoppingSince, v1alpha1.AnnotationRunningSince,
				v1alpha1.AnnotationNudgedAt,
			} {
				if see[mark] != "" {
					t.Errorf("a standby node carries %s", mark)
				}
			}
			if first["running"][v1alpha1.AnnotationScaleDownCandidateSince] != "" ||
				first["running"][v1alpha1.AnnotationClaims] != "" {
				t.Error("a running node carries the marks of a start or of an earlier stop")
			}
		})
	}
}

// clean takes what counts failures off: only running does that in earnest.
func clean(n *corev1.Node) Patch {
	is := n.DeepCopy()
	delete(is.Annotations, v1alpha1.AnnotationStartFailures)
	delete(is.Annotations, v1alpha1.AnnotationUnavailableUntil)
	return patchFromTo(n, is)
}

func TestWhatEachStateLooksLike(t *testing.T) {
	warmup := apply(t, registered(), Warmup(registered(), template()))
	standby := apply(t, warmup, Standby(warmup, template(), true, ""))
	starting := apply(t, standby, Starting(standby, nil, []types.UID{"b", "a"}, "", epoch()))
	running := apply(t, starting, Running(starting, template(), epoch()))
	stopping := apply(t, running, Stopping(running, v1alpha1.StopEmpty, epoch()))
	shut := []string{"cni:NoExecute", "stratos.sh/standby:NoSchedule", "team:NoSchedule"}
	for name, c := range map[string]struct {
		node     *corev1.Node
		state    v1alpha1.NodeState
		taints   []string
		excluded bool
	}{
		"warmup":   {warmup, v1alpha1.StateWarmup, shut, true},
		"standby":  {standby, v1alpha1.StateStandby, shut, true},
		"starting": {starting, v1alpha1.StateStarting, shut, true},
		"running":  {running, v1alpha1.StateRunning, []string{"team:NoSchedule"}, false},
		"stopping": {stopping, v1alpha1.StateStopping, []string{"stratos.sh/standby:NoSchedule", "team:NoSchedule"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.node.Labels[v1alpha1.LabelState]; got != string(c.state) {
				t.Errorf("state %q, want %q", got, c.state)
			}
			diff(t, "taints", taintKeys(c.node), c.taints)
			if got := c.node.Labels[v1alpha1.LabelExcludeDisruption] == "true"; got != c.excluded {
				t.Errorf("excluded from disruption %v, want %v", got, c.excluded)
			}
			if c.node.Spec.Unschedulable != c.excluded ||
				(c.node.Annotations[v1alpha1.AnnotationCordoned] == "true") != c.excluded {
				t.Errorf("cordoned %v by %q, want ours: %v", c.node.Spec.Unschedulable,
					c.node.Annotations[v1alpha1.AnnotationCordoned], c.excluded)
			}
			if c.node.Labels["team"] != "web" || c.node.Labels[v1alpha1.LabelPool] != "p" {
				t.Errorf("labels of the pool are missing: %v", c.node.Labels)
			}
		})
	}
	if got := starting.Annotations[v1alpha1.AnnotationClaims]; got != "a,b" {
		t.Errorf("claims %q, want them sorted: a,b", got)
	}
	if got, want := starting.Annotations[v1alpha1.AnnotationScaleUpStarted], "2026-03-01T12:00:00Z"; got != want {
		t.Errorf("start time %q, want %q", got, want)
	}
}

func TestRunningTakesEveryLifecycleTaintAway(t *testing.T) {
	warm := apply(t, registered(), Warmup(registered(), template()))
	n := apply(t, warm, Standby(warm, template(), true, ""))
	n.Spec.Taints = append(n.Spec.Taints,
		taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), taint(corev1.TaintNodeUnreachable,
			corev1.TaintEffectNoExecute),
		taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
		taint("node.cloudprovider.kubernetes.io/shutdown", corev1.TaintEffectNoSchedule),
		taint(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule), taint("person", corev1.TaintEffectNoExecute))
	for name, c := range map[string]struct {
		template Template
		want     []string
	}{
		"WhenNetworkReady takes startup taints too": {template(), []string{"node.kubernetes.io/memory-pressure:NoSchedule",
			"person:NoExecute", "team:NoSchedule"}},
		"External leaves them to their owner": {template(external),
			[]string{"cni:NoExecute", "node.kubernetes.io/memory-pressure:NoSchedule", "person:NoExecute", "team:NoSchedule"}},
	} {
		t.Run(name, func(t *testing.T) { diff(t, "taints", taintKeys(apply(t, n, Running(n, c.template, epoch()))), c.want) })
	}
}

func TestAPersonsCordonAndTaintsOutliveEveryStep(t *testing.T) {
	warm := apply(t, registered(), Warmup(registered(), template()))
	standby := apply(t, warm, Standby(warm, template(), true, ""))
	n := apply(t, standby, Running(standby, template(), epoch()))
	n.Spec.Unschedulable = true // kubectl cordon
	n.Spec.Taints = append(n.Spec.Taints, taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
		taint("person", corev1.TaintEffectNoSchedule))
	steps := []struct {
		name string
		step func(*corev1.Node) Patch
	}{
		{"stopping", func(n *corev1.Node) Patch { return Stopping(n, v1alpha1.StopEmpty, epoch()) }},
		{"cancelled", func(n *corev1.Node) Patch { return Running(n, template(), epoch()) }},
		{"stopping again", func(n *corev1.Node) Patch { return Stopping(n, v1alpha1.StopEmpty, epoch()) }},
		{"intended", func(n *corev1.Node) Patch { return StopIntent(n, epoch()) }},
		{"standby", func(n *corev1.Node) Patch { return Standby(n, template(), true, "") }},
		{"starting", func(n *corev1.Node) Patch { return Starting(n, nil, nil, "", epoch()) }},
		{"failed", func(n *corev1.Node) Patch { return StartFailed(n, epoch()) }},
		{"starting again", func(n *corev1.Node) Patch { return Starting(n, nil, nil, "", epoch()) }},
		{"running", func(n *corev1.Node) Patch { return Running(n, template(), epoch()) }},
		{"terminating", func(n *corev1.Node) Patch { return Terminating(n, v1alpha1.StopDeleted, epoch()) }},
	}
	for _, s := range steps {
		n = apply(t, n, s.step(n))
		if !n.Spec.Unschedulable || n.Annotations[v1alpha1.AnnotationCordoned] != "" {
			t.Errorf("%s: cordon %v, marked ours %q", s.name, n.Spec.Unschedulable, n.Annotations[v1alpha1.AnnotationCordoned])
		}
		for _, want := range []string{"person:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"} {
			if !slices.Contains(taintKeys(n), want) {
				t.Errorf("%s: taint %s is gone, left are %v", s.name, want, taintKeys(n))
			}
		}
	}
}

// Max runtime counts from the time the node last came from standby, not from a stop that was called
// off.
func TestACancelledStopKeepsTheRuntime(t *testing.T) {
	warm := apply(t, registered(), Warmup(registered(), template()))
	standby := apply(t, warm, Standby(warm, template(), true, ""))
	running := apply(t, standby, Running(standby, template(), epoch()))
	stopping := apply(t, running, Stopping(running, v1alpha1.StopEmpty, epoch().Add(time.Hour)))
	cancelled := apply(t, stopping, Running(stopping, template(), epoch().Add(2*time.Hour)))
	if got, want := cancelled.Annotations[v1alpha1.AnnotationRunningSince], "2026-03-01T12:00:00Z"; got != want {
		t.Errorf("running since %s after a cancelled stop, want %s", got, want)
	}
	again := apply(t, cancelled, Standby(cancelled, template(), true, ""))
	again = apply(t, again, Running(again, template(), epoch().Add(3*time.Hour)))
	if got, want := again.Annotations[v1alpha1.AnnotationRunningSince], "2026-03-01T15:00:00Z"; got != want {
		t.Errorf("running since %s in the next life, want %s", got, want)
	}
}

// Each patch fails where the Node has moved on in a way that its step relies on, and passes where
// it has not.
func TestPatchesFailOnANodeThatHasMovedOn(t *testing.T) {
	warm := apply(t, registered(), Warmup(registered(), template()))
	standby := apply(t, warm, Standby(warm, template(), true, ""))
	claimed := apply(t, standby, Starting(standby, nil, []types.UID{"a"}, "", epoch()))
	backsOff := apply(t, claimed, StartFailed(claimed, epoch()))
	running := apply(t, standby, Running(standby, template(), epoch()))
	stopping := apply(t, running, Stopping(running, v1alpha1.StopEmpty, epoch()))
	plain := standby.DeepCopy()
	plain.Annotations = nil
	tainted := running.DeepCopy()
	tainted.Spec.Taints = append(tainted.Spec.Taints, taint("person", corev1.TaintEffectNoSchedule))
	for name, c := range map[string]struct {
		from  *corev1.Node
		patch Patch
		moved func(*corev1.Node)
		fails bool
	}{
		"nothing has changed": {standby, Starting(standby, nil, nil, "", epoch()), func(*corev1.Node) {}, false},
		"a kubelet wrote something else": {standby, Starting(standby, nil, nil, "", epoch()),
			func(n *corev1.Node) { n.Annotations["x"] = "y"; n.ResourceVersion = "9" }, false},
		"the state is another": {standby, Starting(standby, nil, nil, "", epoch()),
			func(n *corev1.Node) { n.Labels[v1alpha1.LabelState] = "running" }, true},
		"a start failed since": {standby, Starting(standby, nil, nil, "", epoch()),
			func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationUnavailableUntil] = "2026-01-01T00:03:00Z" }, true},
		"one more start failed since": {backsOff, Starting(backsOff, nil, nil, "", epoch()),
			func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationUnavailableUntil] = "2026-01-01T00:06:00Z" }, true},
		"it starts although it backs off": {backsOff, Starting(backsOff, nil, nil, "", epoch()),
			func(*corev1.Node) {}, false},
		"a start failed on a Node that had no annotations": {plain, Starting(plain, nil, nil, "", epoch()),
			func(n *corev1.Node) {
				n.Annotations = map[string]string{v1alpha1.AnnotationUnavailableUntil: "2026-01-01T00:03:00Z"}
			}, true},
		"it has no annotations": {plain, Starting(plain, nil, nil, "", epoch()), func(*corev1.Node) {}, false},
		"the state is gone": {standby, Starting(standby, nil, nil, "", epoch()),
			func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelState) }, true},
		"it is another Node of that name": {standby, Starting(standby, nil, nil, "", epoch()),
			func(n *corev1.Node) { n.UID = "uid-2" }, true},
		"taints that it replaces": {standby, Running(standby, template(), epoch()),
			func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] }, true},
		"taints that it leaves alone": {standby, Starting(standby, nil, nil, "", epoch()),
			func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] }, false},
		"claims that it changes": {claimed, Claims(claimed, []types.UID{"b"}),
			func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationClaims] = "a,c" }, true},
		"a claim came before the intent": {stopping, StopIntent(stopping, epoch()),
			func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationClaims] = "a" }, true},
		"a cancel came before the intent": {stopping, StopIntent(stopping, epoch()),
			func(n *corev1.Node) { n.Labels[v1alpha1.LabelState] = "running" }, true},
		"nothing came before the intent": {stopping, StopIntent(stopping, epoch()), func(*corev1.Node) {}, false},
		"somebody uncordoned meanwhile": {standby, Running(standby, template(), epoch()),
			func(n *corev1.Node) { n.Spec.Unschedulable = false }, true},
		"a taint came where there was none": {
			bare(), Warmup(bare(), template()), func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{taint("person",
					corev1.TaintEffectNoSchedule)}
			}, true,
		},
		"a taint that is not ours came beside those it adds to": {running, Stopping(running, v1alpha1.StopEmpty, epoch()),
			func(n *corev1.Node) {
				n.Spec.Taints = append([]corev1.Taint{taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)},
					n.Spec.Taints...)
			}, false},
		"one of those it adds to went": {tainted, Stopping(tainted, v1alpha1.StopEmpty, epoch()),
			func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] }, false},
		"all those it adds to went": {running, Stopping(running, v1alpha1.StopEmpty, epoch()),
			func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"none came": {bare(), Warmup(bare(), template()), func(*corev1.Node) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			moved := c.from.DeepCopy()
			c.moved(moved)
			if _, err := try(moved, c.patch); (err != nil) != c.fails {
				t.Errorf("error %v, want one: %v\npatch %s", err, c.fails, c.patch.JSON())
			}
		})
	}
}

// bare is a Node without labels, annotations or taints.
func bare() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-1"}} }

// The stop intent relies on a test for nothing. It has to refuse also a Node that was seen with a
// claim on it.
func TestStopIntentRefusesANodeWithClaims(t *testing.T) {
	n := apply(t, bare(), Warmup(bare(), template()))
	n = apply(t, n, Stopping(n, v1alpha1.StopEmpty, epoch()))
	n.Annotations[v1alpha1.AnnotationClaims] = "a"
	if _, err := try(n, StopIntent(n, epoch())); err == nil {
		t.Error("the intent went through")
	}
}

// What taintOps and StopIntent take for granted of the API server's library.
func TestATestForNothing(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		passes   bool
	}{
		"nothing there":          {`{"a":{}}`, true},
		"null there":             {`{"a":{"b":null}}`, true},
		"something there":        {`{"a":{"b":"x"}}`, false},
		"an empty string there":  {`{"a":{"b":""}}`, false},
		"an empty list there":    {`{"a":{"b":[]}}`, false},
		"not even the parent is": {`{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := jsonpatch.DecodePatch(Patch{{Op: "test", Path: "/a/b"}}.JSON())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := patch.Apply([]byte(c.document)); (err == nil) != c.passes {
				t.Errorf("error %v, want it to pass: %v", err, c.passes)
			}
		})
	}
}

func TestEmpty(t *testing.T) {
	n := apply(t, registered(), Warmup(registered(), template()))
	if p := Warmup(n, template()); !p.Empty() {
		t.Errorf("adopting twice writes %s", p.JSON())
	}
	if p := Claims(n, nil); !p.Empty() {
		t.Errorf("publishing no claims writes %s", p.JSON())
	}
	if p := Claims(n, []types.UID{"a"}); p.Empty() {
		t.Error("publishing a claim writes nothing")
	}
	if (Patch{}).Empty() != true || (Patch{{Op: "test"}}).Empty() != true ||
		(Patch{{Op: "test"}, {Op: "remove"}}).Empty() != false {
		t.Error("Empty is about what a patch changes, not about what it tests")
	}
}

func TestEscape(t *testing.T) {
	for key, want := range map[string]string{"plain": "plain", "stratos.sh/state": "stratos.sh~1state", "a~b": "a~0b",
		"~/~1": "~0~1~01"} {
		if got := escape(key); got != want {
			t.Errorf("escape(%q) = %q, want %q", key, got, want)
		}
	}
	n := bare()
	n.Labels = map[string]string{"odd~key/x": "1"}
	is := n.DeepCopy()
	is.Labels["odd~key/x"] = "2"
	if got := apply(t, n, patchFromTo(n, is)).Labels["odd~key/x"]; got != "2" {
		t.Errorf("label %q, want 2", got)
	}
}

func TestFresh(t *testing.T) {
	at := func(d time.Duration) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(epoch().Add(d))}
	}
	recorded := FormatHeartbeats([]corev1.NodeCondition{at(0), {Type: v1alpha1.ConditionStandby,
		LastHeartbeatTime: metav1.NewTime(epoch())}})
	if want := `{"Ready":"2026-03-01T12:00:00Z"}`; recorded != want {
		t.Errorf("recorded %s, want %s: our own condition is no heartbeat", recorded, want)
	}
	for name, c := range map[string]struct {
		record string
		cond   corev1.NodeCondition
		want   bool
	}{
		"the heartbeat that was recorded":      {recorded, at(0), false},
		"an older one":                         {recorded, at(-time.Second), false},
		"a newer one":                          {recorded, at(time.Second), true},
		"a condition first reported since":     {recorded, corev1.NodeCondition{Type: "NetworkingReady"}, true},
		"never stopped by us":                  {"", at(0), true},
		"a record that somebody else garbled":  {"{", at(0), true},
		"a record of something else":           {`["a"]`, at(0), true},
		"a record with a time that is no time": {`{"Ready":"soon"}`, at(0), true},
		"an empty record":                      {`{}`, at(0), true},
	} {
		t.Run(name, func(t *testing.T) {
			n := bare()
			n.Annotations = map[string]string{v1alpha1.AnnotationHeartbeatAtStop: c.record}
			if got := Fresh(n, &c.cond); got != c.want {
				t.Errorf("fresh %v, want %v", got, c.want)
			}
		})
	}
}

func TestStandbyRecordsWhatAStartMustReach(t *testing.T) {
	n := apply(t, registered(), Warmup(registered(), template()))
	whole := apply(t, n, Standby(n, template(), true, ""))
	if got, want := whole.Annotations[v1alpha1.AnnotationAllocatableAtStop],
		`{"cpu":"4","example.com/gpu":"1"}`; got != want {
		t.Errorf("allocatable recorded as %s, want %s", got, want)
	}
	whole.Status.Allocatable["example.com/gpu"] = resource.MustParse("0") // its start failed before the plugin was back
	part := apply(t, whole, Standby(whole, template(), false, ""))
	if got, want := part.Annotations[v1alpha1.AnnotationAllocatableAtStop],
		`{"cpu":"4","example.com/gpu":"1"}`; got != want {
		t.Errorf("after a failed start %s stands, want %s", got, want)
	}
	if Fresh(whole, &whole.Status.Conditions[0]) {
		t.Error("the Ready from before the stop counts as fresh")
	}
}

func TestStartFailedCounts(t *testing.T) {
	n := apply(t, registered(), Warmup(registered(), template()))
	n = apply(t, n, Standby(n, template(), true, ""))
	for want := 1; want <= 3; want++ {
		n = apply(t, n, Starting(n, nil, []types.UID{"a"}, "", epoch()))
		n = apply(t, n, StartFailed(n, epoch().Add(time.Minute)))
		if Failures(n) != want || n.Labels[v1alpha1.LabelState] != "standby" ||
			n.Annotations[v1alpha1.AnnotationClaims] != "" {
			t.Errorf("after %d failures: %d counted, state %s, claims %q", want, Failures(n), n.Labels[v1alpha1.LabelState],
				n.Annotations[v1alpha1.AnnotationClaims])
		}
		if got := n.Annotations[v1alpha1.AnnotationUnavailableUntil]; got != "2026-03-01T12:01:00Z" {
			t.Errorf("unavailable until %s", got)
		}
	}
	n = apply(t, n, Running(n, template(), epoch()))
	if Failures(n) != 0 || n.Annotations[v1alpha1.AnnotationUnavailableUntil] != "" {
		t.Errorf("a running node carries %d failures", Failures(n))
	}
	for _, garbled := range []string{"many", "-3", ""} {
		n.Annotations[v1alpha1.AnnotationStartFailures] = garbled
		if Failures(n) != 0 {
			t.Errorf("%q counts as %d failures, want 0", garbled, Failures(n))
		}
	}
}

func TestCounting(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"bound here":      {corev1.Pod{Spec: corev1.PodSpec{NodeName: "c"}}, true},
		"bound elsewhere": {corev1.Pod{Spec: corev1.PodSpec{NodeName: "d"}}, false},
		"on its way here": {corev1.Pod{Status: corev1.PodStatus{NominatedNodeName: "c"}}, true},
		"nominated by Stratos: its claim counts": {corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: v1alpha1.FieldManagerNomination}}},
			Status: corev1.PodStatus{NominatedNodeName: "c"},
		}, false},
		"bound elsewhere, nominated here": {corev1.Pod{Spec: corev1.PodSpec{NodeName: "d"},
			Status: corev1.PodStatus{NominatedNodeName: "c"}}, false},
		"neither": {corev1.Pod{}, false},
		"finished": {corev1.Pod{Spec: corev1.PodSpec{NodeName: "c"},
			Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, false},
		"failed": {corev1.Pod{Spec: corev1.PodSpec{NodeName: "c"},
			Status: corev1.PodStatus{Phase: corev1.PodFailed}}, false},
		"of a DaemonSet": {corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: &yes}}},
			Spec:       corev1.PodSpec{NodeName: "c"},
		}, false},
		"static": {corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
			Spec:       corev1.PodSpec{NodeName: "c"},
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(WorkloadPods("c", "stratos", []corev1.Pod{c.pod})) == 1; got != c.want {
				t.Errorf("counts %v, want %v", got, c.want)
			}
		})
	}
}

func TestAStartThatIsGivenUpStopsByAnIntent(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "u", Labels: map[string]string{v1alpha1.LabelState: "starting"},
		Annotations: map[string]string{v1alpha1.AnnotationStartFailures: "1", v1alpha1.AnnotationScaleUpStarted: "x",
			v1alpha1.AnnotationClaims: "a"},
	}}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	is := apply(t, n, StartGivenUp(n, true, now, now.Add(time.Hour)))
	if is.Labels[v1alpha1.LabelState] != "stopping" || is.Annotations[v1alpha1.AnnotationStopIntent] == "" ||
		is.Annotations[v1alpha1.AnnotationStopReason] != "failed" {
		t.Errorf("labels %v, annotations %v, want stopping, by an intent, for a failure", is.Labels, is.Annotations)
	}
	if Failures(is) != 2 || is.Annotations[v1alpha1.AnnotationUnavailableUntil] == "" ||
		is.Annotations[v1alpha1.AnnotationClaims] != "" {
		t.Errorf("annotations %v, want a second strike, a rest and no claims", is.Annotations)
	}
	stopped := apply(t, n, WarmStop(n, now))
	if again := apply(t, stopped, WarmAgain(stopped, Template{}, "",
		now)); again.Annotations[v1alpha1.AnnotationStopIntent] != "" {
		t.Error("the second warm-up carries the stop intent of the first")
	}
}

// TestACordonThatIsReliedUponIsTested: a person's cordon closes the node, and goes before the node
// is shut.
func TestACordonThatIsReliedUponIsTested(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	running := func(cordoned bool) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u",
			Labels: map[string]string{v1alpha1.LabelState: "running"}}}
		n.Spec.Unschedulable = cordoned
		return n
	}
	shut := Stopping(running(true), v1alpha1.StopEmpty, now)
	if is := apply(t, running(true), shut); is.Annotations[v1alpha1.AnnotationCordoned] != "" {
		t.Error("the person's cordon is taken for ours")
	}
	if is, err := try(running(false), shut); err == nil {
		t.Errorf("the node is stopping and open: %+v", is.Spec)
	}
}

// TestStopMarks: a process that asks again relies on the intent. One that cancels the stop relies
// on no process asking again meanwhile.
func TestStopMarks(t *testing.T) {
	const first, second = "2026-03-01T11:00:00Z", "2026-03-01T11:59:00Z"
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stopping := func(asked string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "u", Labels: map[string]string{v1alpha1.LabelState: "stopping"},
			Annotations: map[string]string{v1alpha1.AnnotationStopIntent: first, v1alpha1.AnnotationStopReason: "empty"},
		}}
		if asked != "" {
			n.Annotations[v1alpha1.AnnotationStopAsked] = asked
		}
		return n
	}
	is := apply(t, stopping(""), StopAsked(stopping(""), now))
	if is.Annotations[v1alpha1.AnnotationStopAsked] == "" || is.Annotations[v1alpha1.AnnotationStopIntent] != first {
		t.Errorf("annotations %v, want the intent as it was, and when it was asked for again", is.Annotations)
	}
	for _, asked := range []string{"", first} {
		back := apply(t, stopping(asked), StopCancelled(stopping(asked)))
		diff(t, "after the intent was taken back", back.Annotations,
			map[string]string{v1alpha1.AnnotationStopReason: "empty"})
		if _, err := try(stopping(second), StopCancelled(stopping(asked))); err == nil {
			t.Errorf("taken back although somebody has asked again since %q", asked)
		}
		if _, err := try(back, StopAsked(stopping(asked), now)); err == nil {
			t.Error("asked again for a stop that was taken back")
		}
	}
	if left := apply(t, is, Standby(is, Template{}, true, "")); left.Annotations[v1alpha1.AnnotationStopAsked] != "" {
		t.Error("the next life of the node carries the mark")
	}
}

func TestAStandbyNodeThatSomebodyStartedStopsByAnIntent(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "u", Labels: map[string]string{v1alpha1.LabelState: "standby"},
		Annotations: map[string]string{v1alpha1.AnnotationHeartbeatAtStop: "{}"},
	}}
	is := apply(t, n, StopAstray(n, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
	if is.Labels[v1alpha1.LabelState] != "stopping" || is.Annotations[v1alpha1.AnnotationStopIntent] == "" ||
		is.Annotations[v1alpha1.AnnotationStopReason] != "failed" {
		t.Errorf("labels %v, annotations %v, want stopping, by an intent, for a failure", is.Labels, is.Annotations)
	}
	if is.Annotations[v1alpha1.AnnotationHeartbeatAtStop] != "{}" || Failures(is) != 0 {
		t.Errorf("annotations %v, want no strike, and what was recorded at the last stop", is.Annotations)
	}
	promised := n.DeepCopy()
	promised.Annotations[v1alpha1.AnnotationClaims] = "pod"
	if _, err := try(promised, StopAstray(n, epoch())); err == nil {
		t.Error("stopped although room on it was promised since")
	}
}
