// Package nomination shows that a stock scheduler, which asks no extender, gives pods the nodes
// that were started for them, because Stratos nominates the pods.
package nomination

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

const (
	// patient is the priority class of pods that the scheduler does not preempt for.
	patient = "patient"
	// important is one of pods that it does preempt for.
	important = "important"
	// fourCPU is an instance type of 4 cpu.
	fourCPU = "test.four"
)

// TestMain adds the flags.
func TestMain(m *testing.M) {
	flag.Int("rounds", 2, "rounds of each test that is about who is first")
	flag.Int("pods", 32, "pods of a burst; every four of them fill a node")
	flag.String("minor", "", "the Kubernetes minor to run; else the newest")
	flag.Parse()
	os.Exit(m.Run())
}

// newRig starts a rig with the default scheduler, and with the one that has the extender.
func newRig(t *testing.T, stratos ...string) *framework.Rig {
	t.Helper()
	r := assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{
			Minor: assert.Flag[string](t, "minor"), DefaultScheduler: true, AuditLog: controlplane.AuditLog{Enabled: true},
		},
		Cloud: []string{"--fake-boot-time=1s", "--fake-stop-time=100ms", "--fake-pull-time=0s",
			"--fake-instance-types=" + fourCPU + "=cpu:4,memory:16Gi,pods:110"},
		Stratos: stratos,
	})
	assert.Create(t, r,
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: patient},
			PreemptionPolicy: new(corev1.PreemptNever)},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: important}, Value: 1000})
	return r
}

// stock is a pod for the default scheduler that uses the pool's nodes alone.
func stock(name, pool, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := framework.PoolPod(name, pool, "cpu", cpu)
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	for _, f := range change {
		f(p)
	}
	return p
}

func ofClass(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

// startsNothing is a pod for which no node is started, so that it waits without a claim.
func startsNothing(p *corev1.Pod) {
	p.Annotations = map[string]string{v1alpha1.AnnotationIgnore: "true"}
}

// claimedNodes are the nodes that named a claim of the pod, in the order of its claims.
func claimedNodes(j *assert.Journal, pod types.UID) []string {
	var nodes []string
	for _, v := range j.AllNodes() {
		claims := strings.Split(v.Object.Annotations[v1alpha1.AnnotationClaims], ",")
		if slices.Contains(claims, string(pod)) && !slices.Contains(nodes, v.Object.Name) {
			nodes = append(nodes, v.Object.Name)
		}
	}
	return nodes
}

// nominations are the nodes to which the field manager has nominated the pod, one after another.
func nominations(j *assert.Journal, pod types.UID, manager string) []string {
	var nodes []string
	last := ""
	for _, v := range j.PodVersions(pod) {
		node := v.Object.Status.NominatedNodeName
		if node != "" && node != last && ownerOfNomination(v.Object) == manager {
			nodes = append(nodes, node)
		}
		last = node
	}
	return nodes
}

// awaitJournal waits until the journal shows all of the pods bound and their nodes running: what
// came before it shows too, because each watch is in order.
func awaitJournal(t *testing.T, j *assert.Journal, pods []*corev1.Pod, bound []string) {
	t.Helper()
	isBound := func(v assert.Version[*corev1.Pod]) bool { return v.Object.Spec.NodeName != "" }
	runs := func(v assert.Version[*corev1.Node]) bool { return assert.StateOf(v.Object) == v1alpha1.StateRunning }
	assert.Await(t, "the journal", func(context.Context) (bool, error) {
		for i, p := range pods {
			if !slices.ContainsFunc(j.PodVersions(p.UID), isBound) || !slices.ContainsFunc(j.NodeVersions(bound[i]), runs) {
				return false, fmt.Errorf("pod %s and its node %s are missing", p.Name, bound[i])
			}
		}
		return true, nil
	})
}

// history is what the pod's nomination was, and its node, one after another.
func history(j *assert.Journal, pod types.UID) []string {
	var out []string
	for _, v := range j.PodVersions(pod) {
		o := v.Object
		out = append(out, fmt.Sprintf("%d %s by %s, on %s", v.Revision, o.Status.NominatedNodeName, ownerOfNomination(o),
			o.Spec.NodeName))
	}
	return out
}

// losesNomination reports whether the scheduler took the pod's nomination away before it bound the
// pod.
func losesNomination(j *assert.Journal, pod types.UID) bool {
	nominated := false
	for _, v := range j.PodVersions(pod) {
		switch {
		case v.Object.Spec.NodeName != "":
			return false
		case v.Object.Status.NominatedNodeName != "":
			nominated = true
		case nominated:
			return true
		}
	}
	return false
}

// ownerOfNomination is the field manager that wrote the pod's nomination.
func ownerOfNomination(p *corev1.Pod) string {
	for _, f := range p.ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:nominatedNodeName"`) {
			return f.Manager
		}
	}
	return ""
}

// statusWrites counts Stratos's writes to the statuses of pods that were accepted, by pod.
func statusWrites(t *testing.T, r *framework.Rig) map[string]int {
	t.Helper()
	events, err := controlplane.ReadAuditLog(r.ControlPlane.AuditLogPath(), controlplane.AuditEvent.IsWrite,
		controlplane.ByUser(framework.UserStratos), controlplane.ByResource("pods", "status"), controlplane.Accepted())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, e := range events {
		out[e.Name]++
	}
	return out
}

// awaitWrites waits until the audit log has at least so many writes about each of the pods: a line
// is written after its answer.
func awaitWrites(t *testing.T, r *framework.Rig, least int, pods ...*corev1.Pod) map[string]int {
	t.Helper()
	return assert.Eventually(t, "writes in the audit log", func(context.Context) (map[string]int, error) {
		return statusWrites(t, r), nil
	}, func(writes map[string]int) bool {
		return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return writes[p.Name] < least })
	})
}

// results are what came of the nominations so far, by the metric.
func results(t *testing.T, r *framework.Rig) string {
	t.Helper()
	samples, err := framework.Samples(t.Context(), r.Metrics, "stratos_nominations_total{")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(samples)
}

// warm makes a pool of nodes of 4 cpu.
func warm(t *testing.T, r *framework.Rig, pool string, size int32) {
	t.Helper()
	assert.Warm(t, r, framework.Pool(pool, size), framework.Class(pool, fourCPU))
}

// remove deletes the pods, the pool and its class.
func remove(t *testing.T, r *framework.Rig, pool string, pods ...*corev1.Pod) {
	t.Helper()
	assert.Remove(t, r, assert.Objects(pods)...)
	assert.Remove(t, r, framework.Pool(pool, 0))
	assert.Remove(t, r, framework.Class(pool, fourCPU))
}

// distinct counts the different values.
func distinct(values []string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(values))))
}

// name of a thing of one round.
func inRound(name string, round int) string { return fmt.Sprintf("%s-%02d", name, round) }

func names(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
