package exactstarts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

const (
	zoneB, zoneC = "us-east-1b", "us-east-1c"

	// Classes of a provisioner that is not there: the test makes the volumes.
	classLate  = "at-first-use-in-c"
	classEarly = "at-once"
	// annotationSelected is set by the scheduler when it has chosen where a volume is to be made.
	annotationSelected = "volume.kubernetes.io/selected-node"
)

// watchHonoursVolumes: a pool with two standby nodes in each of three zones, and pods whose volumes
// are, or can only be made, in one.
func watchHonoursVolumes(t *testing.T, r *framework.Rig) {
	late, early := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	create(t, r,
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: classLate}, Provisioner: "example.com/disks", VolumeBindingMode: &late,
			AllowedTopologies: []corev1.TopologySelectorTerm{{
				MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone,
					Values: []string{zoneC}}},
			}},
		},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: classEarly}, Provisioner: "example.com/disks",
			VolumeBindingMode: &early},
	)
	pools := []pool{{four, 6, 10}}
	warm(t, r, pools)
	defer tidy(t, r, row{pools: pools})

	t.Run("volumes in one zone", func(t *testing.T) {
		pods := pods(2, "cpu", "3")
		for i, p := range pods {
			create(t, r, framework.VolumeClaim(fmt.Sprintf("there-%d", i), ""), volumeFor(fmt.Sprintf("there-%d", i), "", zoneB))
			framework.Mount(p, fmt.Sprintf("there-%d", i))
		}
		startsIn(t, r, zoneB, pods, func() {})
	})
	t.Run("a volume to be made where its class allows it", func(t *testing.T) {
		pods := named("late", pods(1, "cpu", "3"))
		create(t, r, framework.VolumeClaim("late", classLate))
		framework.Mount(pods[0], "late")
		startsIn(t, r, zoneC, pods, func() {
			assert.AwaitObject(t, r, framework.VolumeClaim("late", ""), "the scheduler's choice",
				func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[annotationSelected] != "" })
			create(t, r, volumeFor("late", classLate, zoneC))
		})
	})
	t.Run("a claim that has no volume yet", func(t *testing.T) {
		pods := named("early", pods(1, "cpu", "3"))
		create(t, r, framework.VolumeClaim("early", classEarly))
		framework.Mount(pods[0], "early")
		before := starts(t, r)
		startsIn(t, r, zoneC, pods, func() {
			assert.AwaitEvent(t, r, pods[0], v1alpha1.ReasonStandbyUnavailable,
				"volume claim early cannot be used there: pod has unbound immediate PersistentVolumeClaims")
			if got := starts(t, r); len(got) != len(before) {
				t.Errorf("%d nodes were started for a pod whose volume does not exist", len(got)-len(before))
			}
			create(t, r, volumeFor("early", classEarly, zoneC))
		})
	})
}

// startsIn creates the pods, waits until they are bound, and checks that one node was started for
// each, in the zone.
func startsIn(t *testing.T, r *framework.Rig, zone string, pods []*corev1.Pod, meanwhile func()) {
	t.Helper()
	before := starts(t, r)
	for _, p := range pods {
		p.Spec.SchedulerName = corev1.DefaultSchedulerName
		create(t, r, p)
	}
	meanwhile()
	awaitBound(t, r, pods)
	started := starts(t, r)[len(before):]
	if len(started) != len(pods) {
		t.Errorf("%d nodes were started for %d pods", len(started), len(pods))
	}
	nodes := &corev1.NodeList{}
	if err := r.Client.List(t.Context(), nodes, client.HasLabels{v1alpha1.LabelPool}); err != nil {
		t.Fatal(err)
	}
	var zones []string
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if slices.ContainsFunc(started, func(id string) bool { return strings.HasSuffix(n.Spec.ProviderID, "/"+id) }) {
			zones = append(zones, n.Labels[corev1.LabelTopologyZone])
		}
	}
	if want := slices.Repeat([]string{zone}, len(pods)); !slices.Equal(zones, want) {
		t.Errorf("nodes were started in %v, want %v: the volumes are there", zones, want)
	}
}

func create(t *testing.T, r *framework.Rig, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := r.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// volumeFor is made for the claim of the same name, and reached from one zone only.
func volumeFor(name, class, zone string) *corev1.PersistentVolume {
	volume := framework.Volume(name, class, zone)
	volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim",
		Namespace: metav1.NamespaceDefault, Name: name}
	return volume
}
