package exactstarts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
)

const (
	zoneB, zoneC = "us-east-1b", "us-east-1c"

	// Classes of a provisioner that is not there: the test makes the volumes.
	classLate  = "at-first-use-in-c"
	classEarly = "at-once"
	// annotationSelected is set by the scheduler when it has chosen where a volume is to be made.
	annotationSelected = "volume.kubernetes.io/selected-node"
)

// TestWatchHonoursVolumes: a pool with two standby nodes in each of three zones, and pods whose
// volumes are, or can only be made, in one.
func TestWatchHonoursVolumes(t *testing.T) {
	t.Parallel()
	r := newRig(t, framework.Options{NoScheduler: true}, corev1.PreemptNever)
	startStock(t, r)
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
			create(t, r, claimOf(fmt.Sprintf("there-%d", i), ""), volumeFor(fmt.Sprintf("there-%d", i), "", zoneB))
			mount(p, fmt.Sprintf("there-%d", i))
		}
		startsIn(t, r, zoneB, pods, func() {})
	})
	t.Run("a volume to be made where its class allows it", func(t *testing.T) {
		pods := named("late", pods(1, "cpu", "3"))
		create(t, r, claimOf("late", classLate))
		mount(pods[0], "late")
		startsIn(t, r, zoneC, pods, func() {
			await(t, "the scheduler's choice", func(ctx context.Context) (bool, error) {
				got := &corev1.PersistentVolumeClaim{}
				err := r.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "late"}, got)
				return got.Annotations[annotationSelected] != "", err
			})
			create(t, r, volumeFor("late", classLate, zoneC))
		})
	})
	t.Run("a claim that has no volume yet", func(t *testing.T) {
		pods := named("early", pods(1, "cpu", "3"))
		create(t, r, claimOf("early", classEarly))
		mount(pods[0], "early")
		before := starts(t, r)
		startsIn(t, r, zoneC, pods, func() {
			awaitReason(
				t,
				r,
				pods[0],
				"volume claim early cannot be used there: pod has unbound immediate PersistentVolumeClaims",
			)
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

func awaitReason(t *testing.T, r *framework.Rig, pod *corev1.Pod, words string) {
	t.Helper()
	await(t, "an event that says "+words, func(ctx context.Context) (bool, error) {
		events := &corev1.EventList{}
		err := r.Client.List(ctx, events, client.InNamespace(metav1.NamespaceDefault))
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == pod.UID && e.Reason == string(v1alpha1.ReasonStandbyUnavailable) &&
				strings.Contains(e.Message, words)
		}), err
	})
}

func await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := framework.Until(t.Context(), longGuard, done); err != nil {
		t.Fatalf("%s: %v", what, err)
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

func claimOf(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// volumeFor is made for the claim of the same name, and reached from one zone only.
func volumeFor(name, class, zone string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              class,
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim",
				Namespace: metav1.NamespaceDefault, Name: name},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone,
						Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
				}}},
			},
		},
	}
}

func mount(p *corev1.Pod, claim string) {
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
}
