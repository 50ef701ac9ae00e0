package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/command"
	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/why"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// The pools. Each has one node but where said.
const (
	poolPlain    = "plain"
	poolHanging  = "hanging"  // its instance starts and never comes up
	poolFull     = "full"     // a pod fills its only node
	poolReserved = "reserved" // its template has a taint
	poolCordoned = "cordoned" // a person cordoned its node
	poolPaused   = "paused"
	poolBudget   = "budget"   // one start per minute, which is used up
	poolRefused  = "refused"  // the cloud has no capacity for its instance
	poolEmpty    = "empty"    // no node yet: its launches hang
	poolWithheld = "withheld" // a person keeps its node standby
	poolResting  = "resting"  // its node backs off after failed starts
)

const taintReserved = "example.com/reserved"

// claimElsewhere is of a volume in a zone without nodes, deviceClaim of a device that no node has.
const (
	claimElsewhere = "elsewhere"
	deviceClaim    = "gpu"
)

// four is what each type of instance has.
const four = "cpu:4,memory:16Gi,pods:110"

// situation is a pod and what why has to say of it.
type situation struct {
	pod   *corev1.Pod
	cause why.Cause
	// words stand in the first of the reasons; next in what happens next.
	words []string
	next  string
	// node: the pod's node is named, with its pool.
	node string
}

// TestWhy: each situation is explained to an administrator, to a user who may read the pods and
// events of one namespace alone, and by the command of Stratos itself.
func TestWhy(t *testing.T) {
	r := assert.NewRig(t, framework.Options{Cloud: []string{"--fake-boot-time=300ms", "--fake-stop-time=100ms",
		"--fake-instance-types=test.four=" + four + ";test.hanging=" + four + ";test.refused=" + four + ";test.empty=" + four}})
	plant(t, r)
	all := situations()
	for _, s := range all {
		if s.cause != why.Bound { // that one is there since plant
			assert.Create(t, r, s.pod)
		}
	}
	reader := readerOfOneNamespace(t, r)
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			check(t, s, awaitCause(t, r.ControlPlane.Kubeconfig(), s), true)
			t.Logf("%s", run(t, r.ControlPlane.Kubeconfig(), "why", s.pod.Name))
			check(t, s, awaitCause(t, reader, s), false)
		})
	}
	t.Run("a line for each pending pod", func(t *testing.T) { testLines(t, r, all) })
	t.Run("the user is told which permissions are missing", func(t *testing.T) {
		out := run(t, reader, "why", all["a node that starts"].pod.Name)
		if !strings.Contains(out, "You may not list nodes, or list nodepools.stratos.sh") {
			t.Errorf("no word of the missing permissions in\n%s", out)
		}
	})
	t.Run("names that are not known", func(t *testing.T) { testUnknown(t, r) })
	t.Run("pools", func(t *testing.T) { testPools(t, r) })
	t.Run("nodes", func(t *testing.T) { testNodes(t, r) })
	t.Run("starts", func(t *testing.T) { testStarts(t, r) })
	t.Run("check", func(t *testing.T) { testCheck(t, r) })
	t.Run("watch", func(t *testing.T) { testWatch(t, r) })
	t.Run("completion by kubectl", func(t *testing.T) { testCompletion(t, r) })
	t.Run("replace", func(t *testing.T) { testReplace(t, r) })
	t.Run("pause and resume", func(t *testing.T) { testPause(t, r) })
}

func situations() map[string]situation {
	on := func(pool, name, cpu string) *corev1.Pod { return framework.PoolPod(name, pool, "cpu", cpu) }
	ignored := on(poolPlain, "ignored", "1")
	ignored.Annotations = map[string]string{v1alpha1.AnnotationIgnore: "true"}
	gated := on(poolPlain, "gated", "1")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/not-yet"}}
	unscheduled := on(poolPlain, "unscheduled", "1")
	unscheduled.Spec.SchedulerName = "absent-scheduler"
	elsewhere := framework.Pod("elsewhere", "cpu", "1")
	elsewhere.Spec.NodeSelector = map[string]string{"example.com/disk": "tape"}
	apart := on(poolPlain, "apart", "100m")
	apart.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "filler"}},
			TopologyKey:   corev1.LabelTopologyZone,
		}}}}
	social := on(poolPlain, "social", "100m")
	social.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "absent"}},
			TopologyKey:   corev1.LabelTopologyZone,
		}}}}
	reading := on(poolPlain, "reading", "100m")
	framework.Mount(reading, claimElsewhere)
	allocating := on(poolPlain, "allocating", "100m")
	allocating.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new(deviceClaim)}}
	return map[string]situation{
		"a node that starts":          {on(poolHanging, "starting", "1"), why.Claimed, nil, "the scheduler binds it when", poolHanging},
		"a pod that is bound":         {assert.Pod("filler"), why.Bound, nil, "nothing", poolFull},
		"larger than any node":        {on(poolPlain, "large", "64"), why.Unavailable, []string{"pool plain: needs 64 cpu, node has 4 left"}, "tries again", ""},
		"a taint of the pool":         {on(poolReserved, "intolerant", "1"), why.Unavailable, []string{"pool reserved: does not tolerate taint", taintReserved}, "", ""},
		"a selector without any node": {elsewhere, why.Unavailable, []string{"selector"}, "", ""},
		"a person's cordon":           {on(poolCordoned, "for-cordoned", "1"), why.Unavailable, []string{"pool cordoned", "not startable", "cordoned by another client"}, "", ""},
		"a paused pool":               {on(poolPaused, "for-paused", "1"), why.Unavailable, []string{"pool paused is paused"}, "", ""},
		"a pool at its poolSize":      {on(poolFull, "too-many", "4"), why.Unavailable, []string{"pool full is at its poolSize of 1"}, "", ""},
		"a start budget that is used": {on(poolBudget, "over-budget", "4"), why.Unavailable, []string{"start budget of 1"}, "", ""},
		"a zone without capacity":     {on(poolRefused, "no-capacity", "1"), why.Unavailable, []string{"pool refused: zone us-east-1a has no capacity for test.refused"}, "", ""},
		"anti-affinity to other pods": {apart, why.Unavailable, []string{"pool plain", "anti-affinity"}, "", ""},
		"a launch for the pod":        {on(poolEmpty, "cold", "1"), why.Launching, []string{"pool empty has no node yet"}, "launching a new instance in pool empty", ""},
		"a node kept standby":         {on(poolWithheld, "for-withheld", "1"), why.Unavailable, []string{"pool withheld", "not startable", v1alpha1.AnnotationDoNotStart}, "", ""},
		"a backoff":                   {on(poolResting, "for-resting", "1"), why.Unavailable, []string{"pool resting: its standby nodes back off after failed starts until 2"}, "", ""},
		"affinity to no pod":          {social, why.Unavailable, []string{"pool plain: pod affinity finds no partner"}, "", ""},
		"a volume in another zone":    {reading, why.Unavailable, []string{"pool plain: volume claim " + claimElsewhere + " cannot be used there"}, "", ""},
		"a resource claim":            {allocating, why.StartsNoNode, []string{"resource claims"}, "", ""},
		"opted out":                   {ignored, why.StartsNoNode, []string{v1alpha1.AnnotationIgnore}, "", ""},
		"a scheduling gate":           {gated, why.Gated, []string{"example.com/not-yet"}, "removes the gates", ""},
		"a scheduler that is not":     {unscheduled, why.NotScheduled, []string{"no scheduler"}, `"absent-scheduler"`, ""},
	}
}

// plant makes the pools and what is wrong with them.
func plant(t *testing.T, r *framework.Rig) {
	t.Helper()
	types := map[string]string{poolHanging: "test.hanging", poolRefused: "test.refused", poolEmpty: "test.empty"}
	var warm []string
	for _, name := range []string{poolPlain, poolHanging, poolFull, poolReserved, poolCordoned, poolPaused, poolBudget,
		poolRefused, poolEmpty, poolWithheld, poolResting} {
		pool, kind := framework.Pool(name, 1), types[name]
		if kind == "" {
			kind = "test.four"
		}
		switch name {
		case poolReserved:
			pool.Spec.Template.Taints = []corev1.Taint{{Key: taintReserved, Effect: corev1.TaintEffectNoSchedule}}
		case poolBudget:
			pool.Spec.PoolSize, pool.Spec.MinStandby, pool.Spec.ScaleUp.StartBudget = 2, 2, new(int32)
			*pool.Spec.ScaleUp.StartBudget = 1
		case poolEmpty:
			pool.Spec.MinStandby = 0
			assert.AddFault(t, r, fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpLaunch, Type: kind})
		}
		assert.Create(t, r, framework.Class(name, kind), pool)
		if name != poolEmpty {
			warm = append(warm, name)
		}
	}
	for _, name := range warm {
		assert.AwaitPool(t, r, name, "warm", func(s v1alpha1.NodePoolStatus) bool { return s.Warmup == 0 && s.Standby > 0 })
	}
	filler := framework.PoolPod("filler", poolFull, "cpu", "3")
	filler.Labels = map[string]string{"app": "filler"}
	assert.Serve(t, r, filler)
	assert.Serve(t, r, framework.PoolPod("within-budget", poolBudget, "cpu", "4"))
	assert.Change(t, r, assert.OnlyNode(t, r, poolCordoned), func(n *corev1.Node) {
		delete(n.Annotations, v1alpha1.AnnotationCordoned)
	})
	assert.Change(t, r, assert.OnlyNode(t, r, poolWithheld), func(n *corev1.Node) {
		n.Annotations[v1alpha1.AnnotationDoNotStart] = "true"
	})
	assert.Change(t, r, assert.OnlyNode(t, r, poolResting), func(n *corev1.Node) {
		n.Annotations[v1alpha1.AnnotationUnavailableUntil] = time.Now().Add(20 * time.Minute).UTC().Format(time.RFC3339)
	})
	assert.Create(t, r, framework.Volume("elsewhere", "manual", "us-west-9z"),
		framework.VolumeClaim(claimElsewhere, "manual"))
	device := &resourcev1.ResourceClaim{}
	device.Namespace, device.Name = metav1.NamespaceDefault, deviceClaim
	device.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
	assert.Create(t, r, device)
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpStart, Type: "test.hanging"})
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultInsufficientCapacity, Op: fake.OpStart, Type: "test.refused"})
	run(t, r.ControlPlane.Kubeconfig(), "pause", poolPaused)
	assert.AwaitCondition(t, r, poolPaused, v1alpha1.ConditionPaused, metav1.ConditionTrue)
}

// readerOfOneNamespace returns the kubeconfig of a user who may read pods and events of the
// namespace default and nothing else.
func readerOfOneNamespace(t *testing.T, r *framework.Rig) string {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "pods-and-events"}
	assert.Create(t, r,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"list"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}}})
	path, err := r.ControlPlane.UserKubeconfig("reader")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// execute runs the plugin and returns all that it prints.
func execute(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command.New("v0.0.0-test", strings.NewReader(""), &out, &out)
	// Its discovery cache would outlive the plane.
	cmd.SetArgs(append(args, "--kubeconfig="+kubeconfig, "--cache-dir="+t.TempDir()))
	err := cmd.ExecuteContext(t.Context())
	if err != nil {
		fmt.Fprintln(&out, command.Words(err))
	}
	return out.String(), err
}

func run(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	out, err := execute(t, kubeconfig, args...)
	if err != nil {
		t.Fatalf("kubectl stratos %q: %v\n%s", args, err, out)
	}
	return out
}

// explained runs why with -o json. The line about missing permissions goes to standard error, which
// is the same buffer here.
func explained(t *testing.T, kubeconfig, pod string) why.Explanation {
	t.Helper()
	out := run(t, kubeconfig, "why", pod, "-o", "json")
	var got struct{ Pods []why.Explanation }
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&got); err != nil || len(got.Pods) != 1 {
		t.Fatalf("%v, %d pods in\n%s", err, len(got.Pods), out)
	}
	return got.Pods[0]
}

// awaitCause waits until Stratos has answered, and why has the cause and the words.
func awaitCause(t *testing.T, kubeconfig string, s situation) why.Explanation {
	t.Helper()
	return assert.Eventually(t, "explanation of pod "+s.pod.Name, func(context.Context) (why.Explanation, error) {
		return explained(t, kubeconfig, s.pod.Name), nil
	}, func(e why.Explanation) bool { return e.Cause == s.cause && says(e, s.words) })
}

func says(e why.Explanation, words []string) bool {
	first := strings.Join(e.Reasons[:min(1, len(e.Reasons))], "")
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(first, w) })
}

// check compares the explanation with the situation. Who may not read nodes gets their names and
// pools, and the usual time of a start, from events; not the name of the node's pool where the pod
// is bound.
func check(t *testing.T, s situation, got why.Explanation, readsNodes bool) {
	t.Helper()
	if got.Cause != s.cause || !says(got, s.words) || !strings.Contains(got.Next, s.next) {
		t.Errorf("reads nodes: %v: %+v, want cause %s with %q and next %q", readsNodes, got, s.cause, s.words, s.next)
	}
	if s.node == "" {
		return
	}
	switch n := got.Node; {
	case n == nil || n.Name == "":
		t.Errorf("reads nodes: %v: no node", readsNodes)
	case readsNodes && (string(n.Pool) != s.node || n.State == ""):
		t.Errorf("node %+v, want one of pool %s with its state", *n, s.node)
	case readsNodes && s.cause == why.Claimed && (n.Since == nil || n.Deadline == nil):
		t.Errorf("node %+v, want since when it starts, and until when", *n)
	}
}

// testLines wants a line for each pending pod, in both commands.
func testLines(t *testing.T, r *framework.Rig, all map[string]situation) {
	lines := run(t, r.ControlPlane.Kubeconfig(), "why")
	wide := run(t, r.ControlPlane.Kubeconfig(), "why", "-A", "-o", "wide")
	for name, s := range all {
		line := lineOf(lines, s.pod.Name)
		switch {
		case s.cause == why.Bound && line != "":
			t.Errorf("%s: a line of a pod that is bound: %s", name, line)
		case s.cause != why.Bound && !strings.Contains(line, string(s.cause)):
			t.Errorf("%s: want the cause %s in the line %q", name, s.cause, line)
		case s.cause != why.Bound && !strings.Contains(wide, s.pod.Spec.SchedulerName):
			t.Errorf("%s: no scheduler in the wide output", name)
		}
	}
	t.Logf("\n%s\n%s", lines, wide)
}

// lineOf is the line whose first word is this one, "" for none.
func lineOf(text, first string) string {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == first {
			return line
		}
	}
	return ""
}

func testUnknown(t *testing.T, r *framework.Rig) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"why", "no-such-pod"}, `Error from server (NotFound): pods "no-such-pod" not found`},
		{[]string{"pools", "no-such-pool"}, `Error from server (NotFound): nodepools.stratos.sh "no-such-pool" not found`},
		{[]string{"nodes", "no-such-node"}, `Error from server (NotFound): nodes "no-such-node" not found`},
		{[]string{"pause", "no-such-pool"}, `Error from server (NotFound): nodepools.stratos.sh "no-such-pool" not found`},
		{[]string{"replace", "no-such-node"}, `Error from server (NotFound): nodes "no-such-node" not found`},
		{[]string{"replace"}, "error: requires at least 1 arg"},
		{[]string{"resume"}, "error: name the pools, or give --all"},
		{[]string{"why", "-o", "table"}, `error: --output: "table" is not one of wide, json, yaml and name`},
		{[]string{"why", "filler", "-A"}, "error: a pod is named"},
		{[]string{"nodes", "-l", "a in b"}, "error: --selector"},
	} {
		if out, err := execute(t, r.ControlPlane.Kubeconfig(), c.args...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%q prints %q, want %q", c.args, out, c.want)
		}
	}
}

func testPools(t *testing.T, r *framework.Rig) {
	kubeconfig := r.ControlPlane.Kubeconfig()
	out := run(t, kubeconfig, "pools")
	t.Logf("\n%s", out)
	for pool, want := range map[string]string{poolPlain: "Ready", poolPaused: "Paused"} {
		if line := lineOf(out, pool); !strings.Contains(line, want) {
			t.Errorf("the line of pool %s is %q, want %q in it", pool, line, want)
		}
	}
	if words := strings.Fields(lineOf(out, poolFull)); len(words) < 8 || words[7] != "1s" {
		t.Errorf("the words of pool %s are %q, want the usual start of 1s in the eighth", poolFull, words)
	}
	if got := run(t, kubeconfig, "pools", poolPlain, poolFull, "-o", "name"); got !=
		"nodepool.stratos.sh/plain\nnodepool.stratos.sh/full\n" {
		t.Errorf("names %q", got)
	}
	pool := &v1alpha1.NodePool{}
	if err := json.Unmarshal([]byte(run(t, kubeconfig, "pools", poolFull, "-o", "json")), pool); err != nil ||
		pool.Name != poolFull || pool.Kind != "NodePool" || pool.Status.StartSeconds == nil {
		t.Errorf("as JSON: %v, %+v", err, pool)
	}
}

func testNodes(t *testing.T, r *framework.Rig) {
	kubeconfig := r.ControlPlane.Kubeconfig()
	out := run(t, kubeconfig, "nodes", "-o", "wide")
	t.Logf("\n%s", out)
	for pool, want := range map[string][]string{
		poolPlain: {"standby", "test.four"}, poolHanging: {"starting"}, poolFull: {"running"},
		poolRefused: {"standby", "backs off until"},
	} {
		node := assert.PoolNodes(t, r, pool)
		for name := range node {
			line := lineOf(out, name)
			if slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(line, w) }) {
				t.Errorf("the line of a node of pool %s is %q, want %q in it", pool, line, want)
			}
		}
	}
	node := assert.OnlyNode(t, r, poolHanging).Name
	if got := run(t, kubeconfig, "nodes", "--pool", poolHanging, "--no-headers"); lineOf(got, node) == "" ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("the nodes of pool %s are %q, want a line of %s alone", poolHanging, got, node)
	}
	if got := run(t, kubeconfig, "nodes", node, "-o", "name"); got != "node/"+node+"\n" {
		t.Errorf("name %q", got)
	}
}

// testStarts: the start of the full pool's only node has phases, and its pod tells the rest.
func testStarts(t *testing.T, r *framework.Rig) {
	kubeconfig := r.ControlPlane.Kubeconfig()
	out := run(t, kubeconfig, "starts")
	t.Logf("\n%s", out)
	if words := strings.Fields(lineOf(out, poolFull)); len(words) != 12 || words[1] != "1" || words[9] == "-" {
		t.Errorf("the words of pool %s are %q, want one start with all phases", poolFull, words)
	}
	if words := strings.Fields(lineOf(out, poolPlain)); len(words) != 12 || words[1] != "0" || words[9] != "-" {
		t.Errorf("the words of pool %s are %q, want no start", poolPlain, words)
	}
	node := assert.OnlyNode(t, r, poolFull)
	out = run(t, kubeconfig, "starts", node.Name)
	t.Logf("\n%s", out)
	for _, want := range []string{"Pool:        full\n", "Slowest:     ", "\nopen      ", "in whole seconds",
		"pod default/filler created", "pod default/filler bound", "pod default/filler: first container started"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	last, ok := v1alpha1.LastStartOf(node)
	took := last.Took()
	if !ok || took <= 0 || took > time.Minute {
		t.Errorf("the last start of the node: %+v, %v", last, ok)
	}
	if out, err := execute(t, kubeconfig, "starts", "no-such"); err == nil ||
		!strings.Contains(out, `error: "no-such" is neither a pool nor a node`) {
		t.Errorf("of neither a pool nor a node it prints %q", out)
	}
}

// following runs a command that goes on until the test ends, and returns what it has printed so
// far.
func following(t *testing.T, kubeconfig string, args ...string) func() string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &output{}, make(chan error, 1)
	cmd := command.New("v0.0.0-test", strings.NewReader(""), out, out)
	cmd.SetArgs(append(args, "--kubeconfig="+kubeconfig, "--cache-dir="+t.TempDir()))
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%q ends with %v", args, err)
		}
	})
	return out.String
}

// output is a buffer for a command that goes on.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// testWatch: each command that goes on prints what there is, and then what changes.
func testWatch(t *testing.T, r *framework.Rig) {
	kubeconfig := r.ControlPlane.Kubeconfig()
	all := map[string]func() string{}
	for _, args := range []string{"pools -w", "nodes -w -o wide", "why -w", "top"} {
		all[args] = following(t, kubeconfig, strings.Fields(args)...)
	}
	until := func(args, object, words string) {
		t.Helper()
		assert.Eventually(t, args+" prints "+object+" with "+words, func(context.Context) (string, error) {
			return all[args](), nil
		}, func(text string) bool {
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, object) && strings.Contains(line, words) {
					return true
				}
			}
			return false
		})
	}
	until("pools -w", poolPlain, "Ready")
	until("nodes -w -o wide", assert.OnlyNode(t, r, poolHanging).Name, "starting")
	until("why -w", "cold", "Launching")
	until("top", "pool/"+poolFull, "1 running, 0 starting, 0 standby, 0 warming up, 0 other, poolSize 1")
	until("top", "pod/default/large", "pool plain: needs 64 cpu")

	pod := framework.PoolPod("arriving", poolPlain, "cpu", "1")
	assert.Create(t, r, pod)
	all["why arriving -w"] = following(t, kubeconfig, "why", pod.Name, "-w")
	node := assert.OnlyNode(t, r, poolPlain).Name
	assert.AwaitBound(t, r, pod)
	until("why arriving -w", pod.Name, "Bound")
	until("nodes -w -o wide", node, "running")
	assert.Delete(t, r, assert.Pod("large"))
	until("why -w", "large", "NotPending")
	until("top", "pod/default/large", "ended")
	for args, printed := range all {
		t.Logf("%s\n%s", args, printed())
	}
}

// testCompletion has kubectl complete names, for which it calls the plugin by a name of its own.
func testCompletion(t *testing.T, r *framework.Rig) {
	folder := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubectl-stratos", "kubectl_complete-stratos"} {
		if err := os.Symlink(program, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"pools", "ful"}, poolFull},
		{[]string{"po"}, "pools"},
		{[]string{"why", "gat"}, "gated"},
	} {
		out, err := assert.Kubectl(t, r.ControlPlane, append([]string{"__complete", "stratos"}, c.args...)...)
		if err != nil || lineOf(out, c.want) == "" {
			t.Errorf("%q completes to %q (%v), want %q", c.args, out, err, c.want)
		}
	}
	out, err := assert.Kubectl(t, r.ControlPlane, "stratos", "pools", poolFull, "-o", "name")
	if err != nil || out != "nodepool.stratos.sh/full\n" {
		t.Errorf("kubectl stratos prints %q (%v)", out, err)
	}
}

// TestMain is the plugin where kubectl calls this program by the plugin's names.
func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl") {
		os.Exit(command.Main(context.Background(), "v0.0.0-test", os.Args))
	}
	os.Exit(m.Run())
}

// testCheck: the lines about the cluster, as suites/check has them of Stratos itself. Stratos has
// no Deployment here, so something is wrong.
func testCheck(t *testing.T, r *framework.Rig) {
	out, err := execute(t, r.ControlPlane.Kubeconfig(), "check")
	t.Logf("\n%s", out)
	for _, want := range []string{`(?m)^ok +kubernetes +API server v1\.`, `(?m)^ok +crds +established`, `(?m)^wrong +leases +`, `(?m)^(ok|wrong|not checked) +pools +`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no line %s (%v)", want, err)
		}
	}
	if err == nil || strings.Contains(out, "RunInstances") {
		t.Errorf("error %v, or lines about the cloud", err)
	}
}

// testReplace: a running node in use is drained, terminated and replaced, but not while that is
// cancelled.
func testReplace(t *testing.T, r *framework.Rig) {
	kubeconfig, old := r.ControlPlane.Kubeconfig(), assert.OnlyNode(t, r, poolFull)
	protect := func(value string) {
		assert.Change(t, r, assert.OnlyNode(t, r, poolFull), func(n *corev1.Node) {
			n.Annotations[v1alpha1.AnnotationDoNotDisrupt] = value
		})
	}
	protect("true")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"replace", old.Name}, "is to be replaced"},
		{[]string{"replace", old.Name, "--cancel"}, "is not to be replaced"},
		{[]string{"replace", old.Name}, "is to be replaced"},
	} {
		if got, want := run(t, kubeconfig, c.args...), "node/"+old.Name+" "+c.want+"\n"; got != want {
			t.Errorf("%q prints %q, want %q", c.args, got, want)
		}
		line := lineOf(run(t, kubeconfig, "nodes", old.Name), old.Name)
		if is := strings.Contains(line, "to be replaced"); is != (len(c.args) == 2) {
			t.Errorf("after %q the line of the node is %q", c.args, line)
		}
	}
	protect("false")
	assert.Eventually(t, "another node in pool full", func(context.Context) (map[string]*corev1.Node, error) {
		return assert.PoolNodes(t, r, poolFull), nil
	}, func(nodes map[string]*corev1.Node) bool {
		_, is := nodes[old.Name]
		return !is && len(nodes) == 1
	})
	assert.AwaitBound(t, r, assert.Pod("too-many")) // the pod that did not fit beside the one that was evicted
}

// testPause: the pod of the paused pool is served as soon as that is over.
func testPause(t *testing.T, r *framework.Rig) {
	kubeconfig := r.ControlPlane.Kubeconfig()
	if got := run(t, kubeconfig, "resume", poolPaused); got != "nodepool.stratos.sh/paused resumed\n" {
		t.Errorf("resume prints %q", got)
	}
	assert.AwaitBound(t, r, assert.Pod("for-paused"))
	run(t, kubeconfig, "pause", "--all")
	pools := &v1alpha1.NodePoolList{}
	if err := r.Client.List(t.Context(), pools, &client.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range pools.Items {
		if !pools.Items[i].IsPaused() {
			t.Errorf("pool %s is not paused", pools.Items[i].Name)
		}
	}
}
