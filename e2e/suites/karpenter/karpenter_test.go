package karpenter

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// Who says what.
const (
	karpenter       = "karpenter"
	stratosExtender = "stratos-extender"
	stratosScaler   = "stratos-scaler"
)

func TestKarpenterBesideStratos(t *testing.T) {
	t.Run("with the documented separation each serves its own pods", separated)
	t.Run("without it both launch for the same pods", unseparated)
	t.Run("nominated pods need no separation", nominatedPods)
}

// separated plays a burst for Stratos that Karpenter sees and refuses, and then a pod for
// Karpenter, which shows that Karpenter was there and able all the time.
func separated(t *testing.T) {
	t.Parallel()
	page := readPage(t)
	c := newCluster(t, page, 0)
	c.warm(t, page.take(t, "AWSNodeClass.stratos.sh/standby"), page.take(t, "NodePool.stratos.sh/standby"))

	stranger := c.createStranger(t)
	assert.HoldStarts(t, c.Rig, instanceType, 0)
	web, anyPool := page.take(t, "Deployment.apps/web"), page.take(t, "Deployment.apps/any-pool")
	assert.Create(t, c.Rig, web, anyPool)
	for _, pod := range c.pods(t, web) {
		t.Logf("Karpenter of %s: %s", pod.Name, assert.AwaitEventBy(t, c.Rig, karpenter, pod, refused,
			`label "stratos.sh/pool" does not have known values`))
	}
	// Six pods of 0.6 and one of 0.2 cpu need two nodes of two cpu.
	started := assert.Eventually(t, "two starts", func(context.Context) ([]v1alpha1.InstanceID, error) {
		return assert.Starts(t, c.Rig), nil
	}, func(ids []v1alpha1.InstanceID) bool { return len(ids) >= 2 })
	assert.Release(t, c.Rig, started...)
	ours := append(c.pods(t, web), c.pods(t, anyPool)...)
	assert.AwaitBound(t, c.Rig, ours...)
	c.mustRunOnStratosNodes(t, ours, 0)
	if n := c.nodeClaims(t); n != 0 {
		t.Errorf("Karpenter created %d NodeClaims for the pods of Stratos", n)
	}

	batch := page.take(t, "Deployment.apps/batch")
	assert.Create(t, c.Rig, batch)
	theirs := c.pods(t, batch)
	assert.AwaitEventBy(t, c.Rig, karpenter, theirs[0], nominated, "nodeclaim/general-")
	t.Logf("Stratos of %s: %s", theirs[0].Name, assert.AwaitEventBy(t, c.Rig, stratosScaler, theirs[0],
		v1alpha1.ReasonStandbyUnavailable, "stratos.sh/dedicated"))
	if n := c.nodeClaims(t); n != 1 {
		t.Errorf("Karpenter created %d NodeClaims, want the one for its own pod", n)
	}
	if now := assert.Starts(t, c.Rig); len(now) != 2 {
		t.Errorf("Stratos started %v, want the two nodes for its own pods", now)
	}
	c.mustBePassedOver(t, c.pods(t, anyPool))
	// It writes labels, taints and its finalizer when the node registers.
	node := &assert.Eventually(t, "a registered node of Karpenter", func(ctx context.Context) ([]corev1.Node, error) {
		list := &corev1.NodeList{}
		err := c.Client.List(ctx, list, client.MatchingLabels{"karpenter.sh/nodepool": "general",
			"karpenter.sh/registered": "true"})
		return list.Items, err
	}, func(nodes []corev1.Node) bool { return len(nodes) == 1 })[0]
	if on, err := c.AwaitBound(t.Context(), theirs...); err != nil || on[0] != node.Name {
		t.Errorf("the pod for Karpenter is on %q, want its node %s: %v", on, node.Name, err)
	}
	c.mustLeaveEachOtherAlone(t, []*corev1.Node{node, stranger}, ours)
	page.mustAllBeTaken(t, sharedPool, either, tooLarge)
}

// mustRunOnStratosNodes also sees to it that nothing was started in vain: each node that runs has
// one of the pods. Of the starts the first do not count, as many as before says.
func (c *cluster) mustRunOnStratosNodes(t *testing.T, pods []*corev1.Pod, before int) {
	t.Helper()
	nodes, used := c.stratosNodes(t), map[string]bool{}
	for _, p := range pods {
		now := assert.Now(t, c.Rig, p)
		if nodes[now.Spec.NodeName] == nil {
			t.Errorf("pod %s is on %q, which is no node of a pool of Stratos", p.Name, now.Spec.NodeName)
		}
		used[now.Spec.NodeName] = true
	}
	if started := len(assert.Starts(t, c.Rig)) - before; started != len(used) {
		t.Errorf("%d nodes were started, %d are used", started, len(used))
	}
}

func (c *cluster) stratosNodes(t *testing.T) map[string]*corev1.Node {
	t.Helper()
	list := &corev1.NodeList{}
	if err := c.Client.List(t.Context(), list, client.HasLabels{v1alpha1.LabelPool, v1alpha1.LabelState}); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes
}

// nodeClaims counts all that Karpenter ever created, those that are gone again too.
func (c *cluster) nodeClaims(t *testing.T) int {
	t.Helper()
	return len(c.written(t, framework.UserKarpenter, controlplane.ByVerb("create"),
		controlplane.ByResource("nodeclaims", ""),
		controlplane.Accepted()))
}

func (c *cluster) written(t *testing.T, user string, filters ...controlplane.AuditFilter) []controlplane.AuditEvent {
	t.Helper()
	events, err := controlplane.ReadAuditLog(c.ControlPlane.AuditLogPath(),
		append(filters, controlplane.AuditEvent.IsWrite, controlplane.ByUser(user))...)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// mustBePassedOver wants no event of Karpenter about pods that rule its nodes out by name.
func (c *cluster) mustBePassedOver(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		said, err := assert.EventsAbout(t.Context(), c.Rig, karpenter, p)
		if err != nil {
			t.Fatal(err)
		}
		if len(said) > 0 {
			t.Errorf("Karpenter of pod %s, which rules out its nodes: %v", p.Name, said)
		}
	}
}

// createStranger creates a Node of another owner that bears the label of Stratos's pool, as a
// NodePool of Karpenter's that names the label would make them. It has no room.
func (c *cluster) createStranger(t *testing.T) *corev1.Node {
	t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger", Labels: map[string]string{v1alpha1.LabelPool: "standby"}},
		Spec:       corev1.NodeSpec{ProviderID: "kwok://stranger"},
	}
	assert.Create(t, c.Rig, n)
	return n
}

// mustLeaveEachOtherAlone looks at the nodes of both, and reads in the audit log who wrote to what.
func (c *cluster) mustLeaveEachOtherAlone(t *testing.T, theirs []*corev1.Node, pods []*corev1.Pod) {
	t.Helper()
	ours, foreign, podNames := c.stratosNodes(t), map[string]bool{}, map[string]bool{}
	for _, n := range theirs {
		c.mustStand(t, n)
		foreign[n.Name] = true
	}
	for name, node := range ours {
		if marks := marksOf(node, "karpenter"); len(marks) > 0 {
			t.Errorf("node %s of Stratos carries %q", name, marks)
		}
	}
	for _, p := range pods {
		podNames[p.Name] = true
	}
	byKarpenter, byStratos := c.written(t, framework.UserKarpenter), c.written(t, framework.UserStratos)
	if len(byKarpenter) == 0 || len(byStratos) == 0 {
		t.Fatalf("the audit log has %d writes of Karpenter and %d of Stratos", len(byKarpenter), len(byStratos))
	}
	for _, w := range byKarpenter {
		if w.Group == v1alpha1.GroupVersion().Group || w.Resource == "nodes" && ours[w.Name] != nil || w.Resource == "pods" &&
			podNames[w.Name] {
			t.Errorf("Karpenter: %s", described(w))
		}
	}
	for _, w := range byStratos {
		if strings.HasPrefix(w.Group, "karpenter.") || w.Resource == "nodes" && foreign[w.Name] {
			t.Errorf("Stratos: %s", described(w))
		}
	}
}

// mustStand wants the Node there still, without a mark of Stratos's but the label that it was
// created with.
func (c *cluster) mustStand(t *testing.T, n *corev1.Node) {
	t.Helper()
	now := &corev1.Node{}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(n), now); err != nil || now.UID != n.UID ||
		now.DeletionTimestamp != nil {
		t.Errorf("node %s, which is not of Stratos: deletion %v, %v", n.Name, now.DeletionTimestamp, err)
	}
	delete(now.Labels, v1alpha1.LabelPool)
	if marks := marksOf(now, "stratos"); len(marks) > 0 {
		t.Errorf("node %s, which is not of Stratos, carries %q", n.Name, marks)
	}
}

func described(w controlplane.AuditEvent) string {
	return fmt.Sprintf("%s %s.%s/%s %s, answered %d", w.Verb, w.Resource, w.Group, w.Name, w.Subresource, w.Code)
}

// marksOf are the labels, annotations, taints and finalizers of a Node whose key has the word in
// it.
func marksOf(n *corev1.Node, word string) []string {
	keys := append([]string{}, n.Finalizers...)
	for key := range n.Labels {
		keys = append(keys, key)
	}
	for key := range n.Annotations {
		keys = append(keys, key)
	}
	for _, taint := range n.Spec.Taints {
		keys = append(keys, taint.Key)
	}
	var marks []string
	for _, key := range keys {
		if strings.Contains(key, word) {
			marks = append(marks, key)
		}
	}
	return marks
}

// unseparated leaves out one part of the separation after another. No node of either side comes up
// in the meantime, so that each finds all pods waiting: which would be first is not the question.
func unseparated(t *testing.T) {
	t.Parallel()
	page := readPage(t)
	c := newCluster(t, page, time.Hour)
	c.warm(t, page.take(t, "AWSNodeClass.stratos.sh/standby"), page.take(t, "NodePool.stratos.sh/standby"))
	c.warm(t, page.take(t, "NodePool.stratos.sh/standby", named("untainted"), without(t, "spec", "template", "taints")))
	assert.HoldStarts(t, c.Rig, instanceType, 0)

	selector, tolerations := []string{"spec", "template", "spec", "nodeSelector"},
		[]string{"spec", "template", "spec", "tolerations"}
	one := set(int64(1), "spec", "replicas")
	rows := map[string]struct {
		deployment *unstructured.Unstructured
		starter    string
	}{
		"without the label": {page.take(t, "Deployment.apps/web", labelled("unlabelled"), one, without(t, selector...)),
			stratosExtender},
		"without label and taint": {page.take(t, "Deployment.apps/web", labelled("plain"), one,
			without(t, selector...), without(t, tolerations...)), stratosExtender},
		"without the taint": {page.take(t, "Deployment.apps/batch"), stratosScaler},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) { c.mustLaunchTwice(t, row.deployment, row.starter, "general") })
	}
	t.Run("with a NodePool of Karpenter that names the label", func(t *testing.T) {
		assert.Create(t, c.Rig, page.take(t, "NodePool.karpenter.sh/general", ofKwok(), named("greedy"), set([]any{
			map[string]any{"key": v1alpha1.LabelPool, "operator": "Exists"}}, "spec", "template", "spec", "requirements")))
		c.mustLaunchTwice(t, page.take(t, "Deployment.apps/web", one), stratosExtender, "greedy")
	})
	if n := len(assert.Starts(t, c.Rig)); n == 0 {
		t.Error("Stratos started nothing, so nothing was launched twice")
	}
}

// mustLaunchTwice wants a node started and a NodeClaim of the NodePool created for the Deployment's
// first pod.
func (c *cluster) mustLaunchTwice(t *testing.T, deployment *unstructured.Unstructured, starter, nodePool string) {
	t.Helper()
	before := c.nodeClaims(t)
	assert.Create(t, c.Rig, deployment)
	pod := c.pods(t, deployment)[0]
	t.Logf("Stratos: %s", assert.AwaitEventBy(t, c.Rig, starter, pod, v1alpha1.ReasonStandbyStarting))
	claim := assert.AwaitEventBy(t, c.Rig, karpenter, pod, nominated, "nodeclaim/"+nodePool+"-")
	t.Logf("Karpenter: %s", claim)
	if after := c.nodeClaims(t); after <= before {
		t.Errorf("Karpenter has created %d NodeClaims, %d before this pod", after, before)
	}
	c.mustExist(t, claim)
}

// mustExist wants the NodeClaim that the event names, for example "Pod should schedule on:
// nodeclaim/general-x7k2p, node/...".
func (c *cluster) mustExist(t *testing.T, event string) {
	t.Helper()
	_, rest, _ := strings.Cut(event, "nodeclaim/")
	name, _, _ := strings.Cut(rest, ",")
	claim := &unstructured.Unstructured{}
	claim.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"})
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, claim); err != nil {
		t.Errorf("NodeClaim of %q: %v", event, err)
	}
}
