package fit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/extender/fit"
)

func sibling() *corev1.Pod {
	cpu := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{SchedulerName: "stratos-scheduler",
			Containers: []corev1.Container{{Name: "main", Image: "one", Resources: cpu}}},
	}
}

// TestShape has each field of a shape once: two pods that differ in it have not the same.
func TestShape(t *testing.T) {
	always, never, priority := corev1.ContainerRestartPolicyAlways, corev1.PreemptNever, int32(7)
	requests := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}}
	for name, change := range map[string]func(*corev1.Pod){
		"namespace":        func(p *corev1.Pod) { p.Namespace = "other" },
		"scheduler":        func(p *corev1.Pod) { p.Spec.SchedulerName = "other" },
		"priority":         func(p *corev1.Pod) { p.Spec.Priority = &priority },
		"preemptionPolicy": func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never },
		"nodeSelector":     func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} },
		"node affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		},
		"anti-affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		},
		"toleration": func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu"}} },
		"spread": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone"}}
		},
		"requests": func(p *corev1.Pod) { p.Spec.Containers[0].Resources = requests },
		"a second container": func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: requests})
		},
		"an init container": func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Resources: requests}} },
		"overhead":          func(p *corev1.Pod) { p.Spec.Overhead = requests.Requests },
		"pod-level":         func(p *corev1.Pod) { p.Spec.Resources = &requests },
		"a host port": func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := sibling()
			change(other)
			if fit.ShapeOf(other) == fit.ShapeOf(sibling()) {
				t.Error("the pods differ in it and have the same shape")
			}
			if again := sibling(); fit.ShapeOf(again) == (fit.Shape{}) {
				t.Error("the pod has no shape at all")
			}
		})
	}
	initial, sidecar := sibling(), sibling()
	initial.Spec.InitContainers = []corev1.Container{{Resources: requests}}
	sidecar.Spec.InitContainers = []corev1.Container{{Resources: requests, RestartPolicy: &always}}
	if fit.ShapeOf(initial) == fit.ShapeOf(sidecar) {
		t.Error("a sidecar and an init container have the same shape")
	}
}

// TestShapeReadsNothingElse: what no filter reads makes no difference.
func TestShapeReadsNothingElse(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"name":  func(p *corev1.Pod) { p.Name, p.UID = "b", "b" },
		"label": func(p *corev1.Pod) { p.Labels["job-name"] = "b" },
		"image": func(p *corev1.Pod) { p.Spec.Containers[0].Image = "two" },
		"a container port that is not the node's": func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		},
		"volumes that are everywhere": func(p *corev1.Pod) {
			for _, source := range []corev1.VolumeSource{
				{ConfigMap: &corev1.ConfigMapVolumeSource{}}, {Secret: &corev1.SecretVolumeSource{}},
				{EmptyDir: &corev1.EmptyDirVolumeSource{}}, {DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
				{Projected: &corev1.ProjectedVolumeSource{}}, {HostPath: &corev1.HostPathVolumeSource{}},
				{Image: &corev1.ImageVolumeSource{}},
			} {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: source})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := sibling()
			change(other)
			if fit.ShapeOf(other) != fit.ShapeOf(sibling()) {
				t.Error("the pods have not the same shape")
			}
		})
	}
}

// TestNoShape has the pods that are like no other.
func TestNoShape(t *testing.T) {
	group := "group"
	for name, change := range map[string]func(*corev1.Pod){
		"bound": func(p *corev1.Pod) { p.Spec.NodeName = "node" },
		"gated": func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} },
		"of a scheduling group": func(p *corev1.Pod) {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		},
		"with a resource claim": func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} },
		"with a volume claim": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		},
		"with a volume of a network": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := sibling()
			change(pod)
			if fit.ShapeOf(pod) != (fit.Shape{}) {
				t.Error("it has a shape")
			}
		})
	}
}

// TestSameLabels: only labels that a selector reads tell two pods apart.
func TestSameLabels(t *testing.T) {
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			LabelSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			MatchLabelKeys: []string{"revision"},
		}}
	}
	apart := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "tier", Operator: metav1.LabelSelectorOpExists}}},
			}},
		}}
	}
	for name, row := range map[string]struct {
		pod   func(*corev1.Pod)
		label string
		same  bool
	}{
		"a label that nothing reads":        {func(*corev1.Pod) {}, "app", true},
		"a label of the constraint":         {spread, "app", false},
		"a key that the constraint matches": {spread, "revision", false},
		"a label beside the constraint":     {spread, "job-name", true},
		"a label whose presence is read":    {apart, "tier", false},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := sibling(), sibling()
			row.pod(a)
			row.pod(b)
			b.Labels[row.label] = "other"
			if got := fit.ReadBy(a).SameLabels(a, b); got != row.same {
				t.Errorf("SameLabels is %t, want %t", got, row.same)
			}
		})
	}
	t.Run("a label that another pod keeps away", func(t *testing.T) {
		other := sibling()
		apart(other)
		keys := fit.ReadBy(sibling())
		keys.AddTerms(fit.NewPlaced(other).AntiAffinity)
		a, b := sibling(), sibling()
		b.Labels["tier"] = "db"
		if keys.SameLabels(a, b) {
			t.Error("the anti-affinity tells the pods apart")
		}
	})
}
