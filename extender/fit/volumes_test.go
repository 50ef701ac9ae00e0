package fit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// disks is a small world of storage objects.
type disks struct {
	claims  []*corev1.PersistentVolumeClaim
	volumes []*corev1.PersistentVolume
	classes []*storagev1.StorageClass
}

func (d disks) storage() Storage {
	return Storage{
		Claim: func(namespace, name string) *corev1.PersistentVolumeClaim {
			return find(d.claims, func(c *corev1.PersistentVolumeClaim) bool {
				return c.Namespace == namespace &&
					c.Name == name
			})
		},
		Volume: func(name string) *corev1.PersistentVolume {
			return find(d.volumes, func(v *corev1.PersistentVolume) bool { return v.Name == name })
		},
		Class: func(name string) *storagev1.StorageClass {
			return find(d.classes, func(c *storagev1.StorageClass) bool { return c.Name == name })
		},
		Volumes: func(class string) []*corev1.PersistentVolume {
			var out []*corev1.PersistentVolume
			for _, v := range d.volumes {
				if volume.GetPersistentVolumeClass(v) == class {
					out = append(out, v)
				}
			}
			return out
		},
	}
}

func find[T any](all []*T, is func(*T) bool) *T {
	for _, one := range all {
		if is(one) {
			return one
		}
	}
	return nil
}

func using(claims ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
}

func usingEphemeral(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name,
			VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
	}
}

func claim(name, class, size string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
			Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: list("storage", size)},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func boundToVolume(name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = name
		c.Annotations[volume.AnnBindCompleted] = "yes"
	}
}

func diskIn(name, class, size, zoneName string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: list("storage", size),
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	if zoneName != "" {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{expressions(requirement(zone, "In", zoneName))},
		}}
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func labelled(pairs ...string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Labels = set(pairs...) }
}

func classNamed(name, provisioner string, mode storagev1.VolumeBindingMode,
	zoneNames ...string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
		VolumeBindingMode: &mode}
	if len(zoneNames) > 0 {
		c.AllowedTopologies = []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: zone, Values: zoneNames}},
		}}
	}
	return c
}

const (
	late  = storagev1.VolumeBindingWaitForFirstConsumer
	early = storagev1.VolumeBindingImmediate
)

func TestVolumes(t *testing.T) {
	const (
		wrongNode = "node(s) didn't match PersistentVolume's node affinity"
		noVolume  = "node(s) didn't find available persistent volumes to bind"
		wrongZone = "node(s) had no available volume zone"
		unbound   = "pod has unbound immediate PersistentVolumeClaims"
	)
	ebs, ebsInA := classNamed("ebs", "ebs.csi.aws.com", late), classNamed("ebs-a", "ebs.csi.aws.com", late, "a", "c")
	local := classNamed("local", "kubernetes.io/no-provisioner", late)
	onlyIn := func(message string) map[string]string { return map[string]string{"in-b": message} }
	nowhere := func(message string) map[string]string { return map[string]string{"in-a": message, "in-b": message} }

	cases := map[string]struct {
		pod   *corev1.Pod
		disks disks
		want  map[string]string // refusing nodes of in-a, in-b, and what they say
	}{
		"a pod without claims": {pod: podWith("p", nil)},
		"a bound volume ties the pod to its zone": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi", boundToVolume("v"))},
				volumes: []*corev1.PersistentVolume{diskIn("v", "ebs", "1Gi", "a")}},
			want: onlyIn(wrongNode),
		},
		"a bound volume without affinity goes everywhere": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "nfs", "1Gi", boundToVolume("v"))},
				volumes: []*corev1.PersistentVolume{diskIn("v", "nfs", "1Gi", "")}},
		},
		"two volumes in two zones fit nowhere": {
			pod: podWith("p", nil, using("x", "y")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("x", "ebs", "1Gi", boundToVolume("v")),
				claim("y", "ebs", "1Gi", boundToVolume("w"))},
				volumes: []*corev1.PersistentVolume{diskIn("v", "ebs", "1Gi", "a"), diskIn("w", "ebs", "1Gi", "b")}},
			want: nowhere(wrongNode),
		},
		"a zone label ties the pod as well": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "old", "1Gi", boundToVolume("v"))},
				volumes: []*corev1.PersistentVolume{diskIn("v", "old", "1Gi", "", labelled(zone, "a"))}},
			want: onlyIn(wrongZone),
		},
		"the beta label of an old volume is compared with today's label": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "old", "1Gi", boundToVolume("v"))},
				volumes: []*corev1.PersistentVolume{diskIn("v", "old", "1Gi", "",
					labelled(corev1.LabelFailureDomainBetaZone, "a"))}},
			want: onlyIn(wrongZone),
		},
		"a volume in several zones": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "old", "1Gi", boundToVolume("v"))},
				volumes: []*corev1.PersistentVolume{diskIn("v", "old", "1Gi", "", labelled(zone, "c__ a"))}},
			want: onlyIn(wrongZone),
		},
		"a zone label that cannot be read is ignored": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "old", "1Gi", boundToVolume("v"))},
				volumes: []*corev1.PersistentVolume{diskIn("v", "old", "1Gi", "", labelled(zone, "a__"))}},
		},
		"a claim that waits for its consumer goes where its class makes volumes": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs-a", "1Gi")},
				classes: []*storagev1.StorageClass{ebsInA}},
			want: onlyIn(noVolume),
		},
		"everywhere where the class does not say": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi")},
				classes: []*storagev1.StorageClass{ebs}},
		},
		"a volume that is being made on a node stays there": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi",
				func(c *corev1.PersistentVolumeClaim) {
					c.Annotations[volume.AnnSelectedNode] = "in-a"
				})}, classes: []*storagev1.StorageClass{ebs}},
			want: onlyIn(noVolume),
		},
		"an existing local volume is where it is": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "local", "5Gi")},
				classes: []*storagev1.StorageClass{local},
				volumes: []*corev1.PersistentVolume{diskIn("small", "local", "1Gi", "b"), diskIn("large", "local", "9Gi", "a")}},
			want: onlyIn(noVolume),
		},
		"two claims need two volumes": {
			pod: podWith("p", nil, using("big", "little")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("big", "local", "5Gi"), claim("little", "local", "1Gi")},
				classes: []*storagev1.StorageClass{local},
				volumes: []*corev1.PersistentVolume{diskIn("l", "local", "9Gi", "a"), diskIn("s", "local", "1Gi", "a"),
					diskIn("only", "local", "9Gi", "b")}},
			want: onlyIn(noVolume),
		},
		"the small claim chooses first, and may take what only the large one can use": {
			pod: podWith("p", nil, using("big", "little")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("little", "local", "1Gi"),
				claim("big", "local", "2Gi", func(c *corev1.PersistentVolumeClaim) {
					c.Spec.Selector = selector("tier", "fast")
				})}, classes: []*storagev1.StorageClass{local},
				volumes: []*corev1.PersistentVolume{diskIn("x", "local", "2Gi", "a", labelled("tier", "fast")),
					diskIn("y", "local", "3Gi", "a")}},
			want: nowhere(noVolume),
		},
		"an existing volume is no must where the class makes new ones": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi")},
				classes: []*storagev1.StorageClass{ebs},
				volumes: []*corev1.PersistentVolume{diskIn("v", "ebs", "1Gi", "a")}},
		},
		"a claim bound at once must be bound before": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "now", "1Gi")},
				classes: []*storagev1.StorageClass{classNamed("now", "x", early)}},
			want: nowhere(unbound),
		},
		"a claim without class, too": {
			pod:   podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "", "1Gi")}},
			want:  nowhere(unbound),
		},
		"a claim of a class that is gone, too": {
			pod:   podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "gone", "1Gi")}},
			want:  nowhere(unbound),
		},
		"a claim that names its volume and is not bound yet, too": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi", boundToVolume("v"),
				func(c *corev1.PersistentVolumeClaim) {
					delete(c.Annotations, volume.AnnBindCompleted)
				})}, classes: []*storagev1.StorageClass{ebs}, volumes: []*corev1.PersistentVolume{diskIn("v", "ebs", "1Gi", "a")}},
			want: nowhere(unbound),
		},
		"a claim that is not there": {
			pod: podWith("p", nil, using("data")), want: nowhere(`persistentvolumeclaim "data" not found`),
		},
		"a claim of another namespace is not there": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi",
				func(c *corev1.PersistentVolumeClaim) {
					c.Namespace = "other"
				})}, classes: []*storagev1.StorageClass{ebs}},
			want: nowhere(`persistentvolumeclaim "data" not found`),
		},
		"a claim that is being deleted": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi",
				func(c *corev1.PersistentVolumeClaim) {
					c.DeletionTimestamp = &metav1.Time{}
				})}},
			want: nowhere(`persistentvolumeclaim "data" is being deleted`),
		},
		"a claim that lost its volume": {
			pod: podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi", boundToVolume("v"),
				func(c *corev1.PersistentVolumeClaim) {
					c.Status.Phase = corev1.ClaimLost
				})}},
			want: nowhere(`persistentvolumeclaim "data" bound to non-existent persistentvolume "v"`),
		},
		"a claim whose volume is gone": {
			pod:   podWith("p", nil, using("data")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi", boundToVolume("v"))}},
			want:  nowhere(`persistentvolume "v" not found`),
		},
		"an ephemeral volume whose claim is not made yet": {
			pod:  podWith("p", nil, usingEphemeral("scratch")),
			want: nowhere(`waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"`),
		},
		"an ephemeral volume's claim that belongs to somebody else": {
			pod: podWith("p", nil, usingEphemeral("scratch")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("p-scratch", "ebs", "1Gi")},
				classes: []*storagev1.StorageClass{ebs}},
			want: nowhere("PVC default/p-scratch was not created for pod default/p (pod is not owner)"),
		},
		"an ephemeral volume of the pod's own": {
			pod: podWith("p", nil, usingEphemeral("scratch")),
			disks: disks{claims: []*corev1.PersistentVolumeClaim{claim("p-scratch", "ebs-a", "1Gi",
				func(c *corev1.PersistentVolumeClaim) {
					yes := true
					c.OwnerReferences = []metav1.OwnerReference{{UID: "p", Controller: &yes}}
				})}, classes: []*storagev1.StorageClass{ebsInA}},
			want: onlyIn(noVolume),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := NewPod(c.pod, nil)
			pod.Volumes = VolumesOf(c.pod, c.disks.storage())
			got := map[string]string{}
			for _, node := range []*Node{nodeIn("in-a", "a"), nodeIn("in-b", "b")} {
				if r := CheckVolumes(pod, node); r != nil {
					got[string(node.Name)] = r.Message
					if r.Reason != ReasonVolume || !r.Unresolvable || r.Subject == "" {
						t.Errorf("refusal %+v", r)
					}
				}
			}
			if len(c.want) == 0 {
				c.want = map[string]string{}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("refusals by node (-want +got):\n%s", diff)
			}
		})
	}
}

// TestANodeWithoutLocationTakesZoneLabelledVolumes: a cluster in one zone need not say so.
func TestANodeWithoutLocationTakesZoneLabelledVolumes(t *testing.T) {
	pod := podWith("p", nil, using("data"))
	d := disks{claims: []*corev1.PersistentVolumeClaim{claim("data", "old", "1Gi", boundToVolume("v"))},
		volumes: []*corev1.PersistentVolume{diskIn("v", "old", "1Gi", "", labelled(zone, "a"))}}
	digest := NewPod(pod, nil)
	digest.Volumes = VolumesOf(pod, d.storage())
	node := nodeIn("n", "b")
	node.Labels = set(hostname, "n")
	if r := CheckVolumes(digest, node); r != nil {
		t.Errorf("refused: %s", r.Message)
	}
}

// TestExistingVolumesAreChosenAsComponentHelpersChooses compares with the function that
// kube-scheduler calls, over random volumes and claims. The package keeps its own because that one
// brings client-go along.
func TestExistingVolumesAreChosenAsComponentHelpersChooses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	node := nodeIn("n", "a")
	full := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: node.Labels}}
	matched := 0
	for round := range 4000 {
		c := claim("data", "local", pick("1Gi", "2Gi"))
		if random.IntN(4) == 0 {
			c.Spec.Selector = selector("tier", "fast")
		}
		if random.IntN(4) == 0 {
			block := corev1.PersistentVolumeBlock
			c.Spec.VolumeMode = &block
		}
		if random.IntN(6) == 0 {
			attributes := "gold"
			c.Spec.VolumeAttributesClassName = &attributes
		}
		var volumes []*corev1.PersistentVolume
		excluded := map[string]*corev1.PersistentVolume{}
		own := false
		for i := range random.IntN(6) {
			v := diskIn(fmt.Sprintf("v%d", i), pick("local", "local", "local", "other"), pick("1Gi", "2Gi", "3Gi", "4Gi"),
				pick("a", "a", "b", ""))
			// Equal sizes are chosen from by the order of a cache; make each size its own.
			v.Spec.Capacity = list("storage", fmt.Sprintf("%d", 512<<20*(1+random.IntN(6))+i))
			v.Labels = set("tier", pick("fast", "slow"))
			switch random.IntN(8) {
			case 0:
				v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "somebody"}
			case 1:
				if !own { // of two, the cache's order would decide
					own = true
					v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data",
						UID: types.UID(pick("", "data", "data-before"))}
				}
			case 2:
				v.Status.Phase = corev1.VolumePending
			case 3:
				v.DeletionTimestamp = &metav1.Time{}
			case 4:
				v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
			case 5:
				block := corev1.PersistentVolumeBlock
				v.Spec.VolumeMode = &block
			case 6:
				excluded[v.Name] = v
			}
			volumes = append(volumes, v)
		}
		pv, err := volume.FindMatchingVolume(c, volumes, full, excluded, true, true)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if pv != nil {
			want = pv.Name
			matched++
		}
		var taken []string
		for name := range excluded {
			taken = append(taken, name)
		}
		u := &unbound{existing: candidates(c, "local", volumes)}
		if got, _ := u.take(node, taken); got != want {
			t.Fatalf("round %d: took %q, kube-scheduler takes %q", round, got, want)
		}
	}
	if matched < 500 {
		t.Errorf("only %d rounds had a match: the comparison says little", matched)
	}
}
