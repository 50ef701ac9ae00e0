package fit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const gi = 1 << 30

func TestRequestsCountWhatTheSchedulerCounts(t *testing.T) {
	cases := map[string]struct {
		spec     corev1.PodSpec
		defaults corev1.ResourceList
		want     Resources
	}{
		"containers run together, so they add up": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", "1500m", "memory", "1Gi"),
				container("cpu", "1")}},
			want: Resources{MilliCPU: 2500, Memory: gi, Pods: 1},
		},
		"init containers run one after another, so the largest counts where it exceeds the containers": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{container("cpu", "3", "memory", "1Gi"), container("cpu", "2", "memory", "3Gi")},
				Containers:     []corev1.Container{container("cpu", "2", "memory", "1Gi"), container("cpu", "2", "memory", "1Gi")},
			},
			want: Resources{MilliCPU: 4000, Memory: 3 * gi, Pods: 1},
		},
		"a sidecar adds to the containers": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{sidecar("cpu", "500m")},
				Containers:     []corev1.Container{container("cpu", "1")},
			},
			want: Resources{MilliCPU: 1500, Pods: 1},
		},
		"a sidecar adds to init containers after it, not to those before it": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{container("cpu", "4"), sidecar("cpu", "1"), container("cpu", "5")},
				Containers:     []corev1.Container{container("cpu", "1")},
			},
			want: Resources{MilliCPU: 6000, Pods: 1},
		},
		"overhead of the runtime class adds to everything": {
			spec: corev1.PodSpec{
				Containers: []corev1.Container{container("cpu", "1")},
				Overhead:   list("cpu", "250m", "memory", "1Gi"),
			},
			want: Resources{MilliCPU: 1250, Memory: gi, Pods: 1},
		},
		"pod-level requests replace the containers' sum, and overhead still adds": {
			spec: corev1.PodSpec{
				Containers: []corev1.Container{container("cpu", "1", "memory", "1Gi"), container("cpu", "1")},
				Resources:  &corev1.ResourceRequirements{Requests: list("cpu", "5")},
				Overhead:   list("cpu", "100m"),
			},
			want: Resources{MilliCPU: 5100, Memory: gi, Pods: 1},
		},
		"extended resources, huge pages and ephemeral storage count": {
			spec: corev1.PodSpec{Containers: []corev1.Container{
				container("nvidia.com/gpu", "2", "hugepages-2Mi", "1Gi", "ephemeral-storage", "10Gi", "example.com/fpga", "1"),
			}},
			want: Resources{
				EphemeralStorage: 10 * gi, Pods: 1,
				Scalar: map[corev1.ResourceName]int64{"nvidia.com/gpu": 2, "hugepages-2Mi": gi, "example.com/fpga": 1},
			},
		},
		"a fraction of a millicore is rounded up once, after adding": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", "100u"), container("cpu", "100u")}},
			want: Resources{MilliCPU: 1, Pods: 1},
		},
		"limits alone are no requests: the API server has copied them already where they count": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: list("cpu",
				"4")}}}},
			want: Resources{Pods: 1},
		},
		"a pod without requests needs its place only": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container()}},
			want: Resources{Pods: 1},
		},
		"defaults stand in for a pod without requests": {
			spec:     corev1.PodSpec{Containers: []corev1.Container{container()}},
			defaults: list("cpu", "500m", "memory", "1Gi"),
			want:     Resources{MilliCPU: 500, Memory: gi, Pods: 1},
		},
		"requests of zero are no requests": {
			spec:     corev1.PodSpec{Containers: []corev1.Container{container("cpu", "0", "nvidia.com/gpu", "0")}},
			defaults: list("cpu", "500m"),
			want:     Resources{MilliCPU: 500, Pods: 1},
		},
		"defaults do not fill in what a pod with requests leaves out": {
			spec:     corev1.PodSpec{Containers: []corev1.Container{container("memory", "1Gi")}},
			defaults: list("cpu", "500m", "memory", "8Gi"),
			want:     Resources{Memory: gi, Pods: 1},
		},
		"defaults cannot claim more than one pod": {
			spec:     corev1.PodSpec{Containers: []corev1.Container{container()}},
			defaults: list("cpu", "1", "pods", "7"),
			want:     Resources{MilliCPU: 1000, Pods: 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Requests(&corev1.Pod{Spec: c.spec}, c.defaults)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOccupiedFollowsAnInPlaceResize(t *testing.T) {
	pod := podWith("resized", nil, requesting("cpu", "1"))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:               "main",
		AllocatedResources: list("cpu", "3"),
		Resources:          &corev1.ResourceRequirements{Requests: list("cpu", "2")},
	}}
	if got := Occupied(pod).MilliCPU; got != 3000 {
		t.Errorf("a pod whose kubelet still grants 3 cpu occupies %dm, want 3000m", got)
	}
	if got := Requests(pod, nil).MilliCPU; got != 1000 {
		t.Errorf("its spec requests %dm, want 1000m", got)
	}
}

func TestFromListLeavesOutWhatTheSchedulerDoesNotCount(t *testing.T) {
	got := FromList(list(
		"cpu", "2", "memory", "4Gi", "pods", "29", "ephemeral-storage", "20Gi",
		"storage", "5Gi", // a claim's resource, not a node's
		"gpus", "4", // unprefixed: native by name, and unknown
		"requests.nvidia.com/gpu", "4", // a quota's name
		"bad name.com/x", "4", // not a qualified name
		"nvidia.com/gpu", "4",
		"kubernetes.io/odd", "3", // prefixed native names count
		"hugepages-1Gi", "2Gi",
		"attachable-volumes-aws-ebs", "25",
	))
	want := Resources{
		MilliCPU: 2000, Memory: 4 * gi, Pods: 29, EphemeralStorage: 20 * gi,
		Scalar: map[corev1.ResourceName]int64{
			"nvidia.com/gpu": 4, "kubernetes.io/odd": 3, "hugepages-1Gi": 2 * gi, "attachable-volumes-aws-ebs": 25,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestShortNamesTheFirstResourceThatIsExceeded(t *testing.T) {
	gpus := func(n int64) map[corev1.ResourceName]int64 { return map[corev1.ResourceName]int64{"nvidia.com/gpu": n} }
	cases := map[string]struct {
		left, need Resources
		want       corev1.ResourceName
	}{
		"exactly what is left fits": {left: Resources{MilliCPU: 2, Pods: 1}, need: Resources{MilliCPU: 2, Pods: 1}},
		"one more does not": {left: Resources{MilliCPU: 2, Pods: 1}, need: Resources{MilliCPU: 3, Pods: 1},
			want: "cpu"},
		"pods come first": {need: Resources{MilliCPU: 1, Memory: 1, Pods: 1}, want: "pods"},
		"cpu comes before memory": {left: Resources{Pods: 1}, need: Resources{MilliCPU: 1, Memory: 1, Pods: 1},
			want: "cpu"},
		"memory before ephemeral":  {need: Resources{Memory: 1, EphemeralStorage: 1}, want: "memory"},
		"ephemeral before scalars": {need: Resources{EphemeralStorage: 1, Scalar: gpus(1)}, want: "ephemeral-storage"},
		"scalars by name": {need: Resources{Scalar: map[corev1.ResourceName]int64{"b.io/x": 1, "a.io/x": 1,
			"c.io/x": 1}}, want: "a.io/x"},
		"a scalar that is not there": {left: Resources{Pods: 1}, need: Resources{Scalar: gpus(1)}, want: "nvidia.com/gpu"},
		"a scalar that is":           {left: Resources{Scalar: gpus(1)}, need: Resources{Scalar: gpus(1)}},
		"debt in what is not asked for does not matter": {
			left: Resources{MilliCPU: -1000, Memory: 5, Scalar: gpus(-1)}, need: Resources{Memory: 5, Scalar: gpus(0)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for range 20 { // a map's order must not decide
				if got := c.left.Short(c.need); got != c.want {
					t.Fatalf("short of %q, want %q", got, c.want)
				}
			}
		})
	}
}

func TestCloneSharesNothing(t *testing.T) {
	original := FromList(list("cpu", "1", "nvidia.com/gpu", "1"))
	clone := original.Clone()
	clone.Sub(FromList(list("nvidia.com/gpu", "1")))
	if original.Scalar["nvidia.com/gpu"] != 1 || clone.Scalar["nvidia.com/gpu"] != 0 {
		t.Errorf("original %v, clone %v", original, clone)
	}
}

func TestResourcesRefuseSaysWhetherEvictionsCanHelp(t *testing.T) {
	node := nodeIn("n", "a", podWith("there", nil, requesting("cpu", "14", "memory", "1Gi")))
	full := nodeIn("full", "a")
	full.Allocatable.Pods, full.Used.Pods = 1, 1
	cases := map[string]struct {
		node *Node
		pod  *corev1.Pod
		want *Refusal
		says string
	}{
		"room is left": {node: node, pod: podWith("p", nil, requesting("cpu", "2"))},
		"room could be made": {
			node: node, pod: podWith("p", nil, requesting("cpu", "3")),
			want: &Refusal{Reason: ReasonResources, Message: "Insufficient cpu", Subject: "cpu", Need: 3000, Have: 2000},
			says: "needs 3 cpu, node has 2 left",
		},
		"the node is too small": {
			node: node, pod: podWith("p", nil, requesting("cpu", "16500m")),
			want: &Refusal{Reason: ReasonResources, Message: "Insufficient cpu", Subject: "cpu", Need: 16500, Have: 2000,
				Unresolvable: true},
			says: "needs 16500m cpu, node has 2 left",
		},
		"short of cpu for now and of memory forever": {
			node: node, pod: podWith("p", nil, requesting("cpu", "3", "memory", "65Gi")),
			want: &Refusal{Reason: ReasonResources, Message: "Insufficient cpu", Subject: "cpu", Need: 3000, Have: 2000,
				Unresolvable: true},
			says: "needs 3 cpu, node has 2 left",
		},
		"memory is told in binary units": {
			node: node, pod: podWith("p", nil, requesting("memory", "64Gi")),
			want: &Refusal{Reason: ReasonResources, Message: "Insufficient memory", Subject: "memory", Need: 64 * gi,
				Have: 63 * gi},
			says: "needs 64Gi memory, node has 63Gi left",
		},
		"a device that no kubelet reports": {
			node: node, pod: podWith("p", nil, requesting("nvidia.com/gpu", "1")),
			want: &Refusal{Reason: ReasonResources, Message: "Insufficient nvidia.com/gpu", Subject: "nvidia.com/gpu", Need: 1,
				Unresolvable: true},
			says: "needs 1 nvidia.com/gpu, node has 0 left",
		},
		"too many pods, which an eviction helps": {
			node: full, pod: podWith("p", nil),
			want: &Refusal{Reason: ReasonResources, Message: "Too many pods", Subject: "pods", Need: 1},
			says: "needs 1 pods, node has 0 left",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := CheckResources(NewPod(c.pod, nil), c.node)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
			if got != nil && got.Explain() != c.says {
				t.Errorf("words %q, want %q", got.Explain(), c.says)
			}
		})
	}
}

func FuzzResourcesAddSubShort(f *testing.F) {
	f.Add(int64(4000), int64(8), int64(2), int64(1000), int64(9), int64(2))
	f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), int64(1))
	f.Add(int64(-5), int64(3), int64(-1), int64(5), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, haveCPU, haveMemory, haveGPU, needCPU, needMemory, needGPU int64) {
		const bound = 1 << 50 // beyond what quantities hold sums wrap, in the scheduler as well
		for _, v := range []int64{haveCPU, haveMemory, haveGPU, needCPU, needMemory, needGPU} {
			if v > bound || v < -bound {
				return
			}
		}
		have := Resources{MilliCPU: haveCPU, Memory: haveMemory, Pods: 1,
			Scalar: map[corev1.ResourceName]int64{"x.io/gpu": haveGPU}}
		need := Resources{MilliCPU: needCPU, Memory: needMemory, Pods: 1,
			Scalar: map[corev1.ResourceName]int64{"x.io/gpu": needGPU}}

		left := have.Clone()
		left.Sub(need)
		if short := have.Short(need); short == "" {
			for _, name := range []corev1.ResourceName{"pods", "cpu", "memory", "x.io/gpu"} {
				if need.Of(name) > 0 && left.Of(name) < 0 {
					t.Errorf("%v fits %v, yet leaves %d of %s", need, have, left.Of(name), name)
				}
			}
		} else if need.Of(short) <= have.Of(short) {
			t.Errorf("said to be short of %s: needs %d, has %d", short, need.Of(short), have.Of(short))
		}
		left.Add(need)
		if diff := cmp.Diff(have, left); diff != "" {
			t.Errorf("taking and giving back changed the amount:\n%s", diff)
		}
	})
}

func FuzzRequestsNeverPanicAndNeverShrink(f *testing.F) {
	f.Add("1500m", "1Gi", "nvidia.com/gpu", int64(1))
	f.Add("-1", "1e30", "requests.x/y", int64(-3))
	f.Add("9223372036854775807", "0.0000001", "hugepages-2Mi", int64(9e18))
	f.Fuzz(func(t *testing.T, cpu, memory, name string, count int64) {
		requests := corev1.ResourceList{corev1.ResourceName(name): *resource.NewQuantity(count, resource.DecimalSI)}
		for key, text := range map[corev1.ResourceName]string{"cpu": cpu, "memory": memory} {
			if quantity, err := resource.ParseQuantity(text); err == nil {
				requests[key] = quantity
			}
		}
		one := podWith("p", nil)
		one.Spec.Containers[0].Resources.Requests = requests
		with := one.DeepCopy()
		with.Spec.InitContainers = []corev1.Container{{Name: "init",
			Resources: corev1.ResourceRequirements{Requests: requests}}}
		a, b := Requests(one, nil), Requests(with, nil)
		if a.Pods != 1 {
			t.Errorf("a pod counts as %d pods", a.Pods)
		}
		if diff := cmp.Diff(a, b); diff != "" && count >= 0 && a.MilliCPU >= 0 && a.Memory >= 0 {
			t.Errorf("an init container as large as the container changed the requests:\n%s", diff)
		}
	})
}
