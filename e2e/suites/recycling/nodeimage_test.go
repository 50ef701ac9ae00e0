package recycling

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
)

// Two node images of the account of the EC2 test server, and their ids.
const (
	oldNodeImage, oldNodeAMI = "ubuntu-24.04-1.37.2-v1", "ami-0123456789abcdfa4"
	newNodeImage, newNodeAMI = "ubuntu-24.04-1.37.2-v2", "ami-0123456789abcdfa5"

	followingClass = "following"
)

// TestNodeImage: the label of three control-plane Nodes changes on one after the other. While they
// disagree the pool launches from the last image and replaces nothing. Then it replaces its stopped
// nodes within the budget, and the running one when it is empty. A pool with drift Ignore keeps all
// of its nodes.
func TestNodeImage(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Provider: framework.ProviderAWS, Cloud: assert.FastCloud()})
	j := assert.OpenJournal(t, r)
	assert.Join(t, r, controlPlaneNode("cp-1"), controlPlaneNode("cp-2"), controlPlaneNode("cp-3"))
	class := framework.Class(followingClass, instanceType)
	class.Spec.AMI, class.Spec.NodeImage = "", &v1alpha1.NodeImage{FromCluster: true}
	const pool, ignoring = "recycle", "ignore"
	assert.Warm(t, r, newFollowingPool(pool, 4, 3), class)
	p := newFollowingPool(ignoring, 2, 1)
	p.Spec.Disruption.Drift = v1alpha1.DriftIgnore
	assert.Warm(t, r, p)
	pod, ignored := bigPod("busy"), bigPod("ignored")
	busy := assert.Serve(t, r, framework.OnPool(pod, pool))
	assert.Serve(t, r, framework.OnPool(ignored, ignoring))
	awaitStandbyOf(t, r, pool, oldNodeAMI, 3)
	awaitStandbyOf(t, r, ignoring, oldNodeAMI, 1)
	ignoringBefore := assert.PoolNodes(t, r, ignoring)

	began := setNodeImage(t, r, "cp-1")
	awaitDisagreement(t, r, "cp-1 has "+newNodeImage+", cp-2 has "+oldNodeImage)
	setNodeImage(t, r, "cp-2")
	awaitDisagreement(t, r, "cp-1 has "+newNodeImage+", cp-3 has "+oldNodeImage)
	assert.ChangePool(t, r, pool, func(s *v1alpha1.NodePoolSpec) { s.PoolSize, s.MinStandby = 5, 4 })
	awaitStandbyOf(t, r, pool, oldNodeAMI, 4)
	before := assert.PoolNodes(t, r, pool)
	for _, n := range before { // events come late, but in order: then those of before are there too
		assert.AwaitEvent(t, r, n, v1alpha1.ReasonWarmupCompleted)
	}
	assert.MustHaveNoEvent(t, r, before[busy], v1alpha1.ReasonDrifted)

	agreed := setNodeImage(t, r, "cp-3")
	awaitStandbyOf(t, r, pool, newNodeAMI, 4)
	assert.AwaitEvent(t, r, before[busy], v1alpha1.ReasonDrifted, oldNodeAMI, newNodeAMI)
	if n := assert.PoolNodes(t, r, pool)[busy]; n == nil || assert.StateOf(n) != v1alpha1.StateRunning {
		t.Fatalf("node %s with its pod is %v, want running as it was", busy, n)
	}
	assert.MustRun(t, r, pod)
	assert.Remove(t, r, pod)
	assert.AwaitGone(t, r, assert.Node(busy))

	moments := history(j, pool, began)
	split := slices.IndexFunc(moments, func(m moment) bool { return m.revision >= agreed })
	checkBounds(t, moments[:split], 0, 3)
	checkBounds(t, moments[split:], 1, 3)
	checkSize(t, r, pool, 5)
	if ends := terminated(t, r, before); len(ends) != 5 || ends[4] != assert.InstanceOf(before[busy]) {
		t.Errorf("terminations %+v, want one of each of five, the running one's last", ends)
	}
	assert.MustRun(t, r, ignored)
	if ends := terminated(t, r, ignoringBefore); len(ends) > 0 {
		t.Errorf("terminations %+v of the pool with drift Ignore", ends)
	}
	checkLaunchedImages(t, r)
}

func newFollowingPool(name string, size, least int32) *v1alpha1.NodePool {
	p := newPool(name, size, least)
	p.Spec.Template.NodeClassRef.Name = followingClass
	return p
}

// controlPlaneNode names the old image, as Cluster API copies it from its Machine.
func controlPlaneNode(name string) *corev1.Node {
	n := assert.Ordinary(name, 2, corev1.Taint{Key: v1alpha1.LabelControlPlane, Effect: corev1.TaintEffectNoSchedule})
	n.Labels[v1alpha1.LabelControlPlane], n.Labels[v1alpha1.LabelNodeImage] = "", oldNodeImage
	return n
}

// setNodeImage makes the Node name the new image, and returns the revision of that write.
func setNodeImage(t *testing.T, r *framework.Rig, node string) int64 {
	t.Helper()
	return revisionOf(assert.Change(t, r, assert.Node(node), func(n *corev1.Node) {
		n.Labels[v1alpha1.LabelNodeImage] = newNodeImage
	}))
}

// awaitDisagreement waits until the class says who disagrees. It still has the old image.
func awaitDisagreement(t *testing.T, r *framework.Rig, words string) {
	t.Helper()
	class := assert.AwaitObject(t, r, framework.Class(followingClass, instanceType), words,
		func(c *v1alpha1.AWSNodeClass) bool {
			ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
			return ready != nil && ready.Reason == string(v1alpha1.ReasonNodeImageLabelsDiffer) &&
				strings.Contains(ready.Message, words)
		})
	if class.Status.NodeImage != oldNodeImage || class.Status.AMI != oldNodeAMI {
		t.Errorf("status has %s, %s, want the last image", class.Status.NodeImage, class.Status.AMI)
	}
}

// awaitStandbyOf waits until n nodes of the pool are standby that were launched from the image, and
// no others.
func awaitStandbyOf(t *testing.T, r *framework.Rig, pool, image string, n int) {
	t.Helper()
	assert.AwaitNodes(t, r, pool, "standby nodes of "+image, func(nodes map[string]*corev1.Node) bool {
		of := 0
		for _, node := range nodes {
			if assert.StateOf(node) == v1alpha1.StateStandby && node.Annotations[v1alpha1.AnnotationAMI] == image {
				of++
			}
		}
		return of == n && assert.In(nodes, v1alpha1.StateStandby) == n
	})
}

// checkLaunchedImages: EC2 was asked for the old image, and after the first of the new one for no
// other.
func checkLaunchedImages(t *testing.T, r *framework.Rig) {
	t.Helper()
	all, err := r.EC2Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var images []string
	for _, q := range all {
		if q.Action == ec2test.RunInstances {
			images = append(images, q.Params["ImageId"])
		}
	}
	if got := slices.Compact(images); !slices.Equal(got, []string{oldNodeAMI, newNodeAMI}) {
		t.Errorf("images of the launches in order: %q", got)
	}
}
