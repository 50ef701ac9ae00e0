package extender

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// unheard starts nothing and says nothing: what a start costs is not the request's.
type unheard struct{}

func (unheard) StartNode(v1alpha1.NodeName) {}

func (unheard) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// synced answers although no informer feeds the cluster state.
type synced struct{ *Extender }

func (synced) Ready() error { return nil }

// benched is an extender behind its routes, with a cluster of the given size in view.
type benched struct {
	*Extender
	http.Handler
	names []string
}

func newBenched(tb testing.TB, size int, node func(i int) *corev1.Node) *benched {
	tb.Helper()
	v, _ := newTestView(epoch)
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-p", Generation: 2}}
	pool.Spec.PoolSize = int32(size)
	v.SetPool(pool)
	b := &benched{}
	for i := range size {
		n := node(i)
		n.Name = fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/256, i%256)
		n.Labels[corev1.LabelHostname] = n.Name
		v.SetNode(n)
		b.names = append(b.names, n.Name)
	}
	b.Extender = &Extender{state: v, starter: unheard{}, events: unheard{}, now: epoch}
	b.Handler = testRouter(tb, synced{b.Extender}, prometheus.NewRegistry(), Options{})
	return b
}

// mostlyForeign is a cluster in which every 20th node is a running one of a pool.
func mostlyForeign(i int) *corev1.Node {
	if i%20 == 0 {
		return poolNode("", v1alpha1.StateRunning)
	}
	return poolNode("", "")
}

// sentPod is a pod of the size that Deployments make: what kube-scheduler sends of it is 2 KiB.
func sentPod(name string) *corev1.Pod {
	p := cpuPod(name, "")
	p.Labels = map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web",
		"pod-template-hash": "5d4f8c7b9"}
	p.CreationTimestamp.Time = epoch()
	p.ResourceVersion = "123456"
	c := &p.Spec.Containers[0]
	c.Ports, c.Image = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		"registry.example/team/web:1.2.3"
	for i := range 8 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "some value of this setting"})
	}
	c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access",
		MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}}
	p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access",
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
	p.Spec.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	return p
}

// discard is a response that costs nothing and remembers its code.
type discard struct {
	header http.Header
	code   int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(code int)        { d.code = code }

// sender sends one request again and again; what it costs to send is next to nothing.
type sender struct {
	handler http.Handler
	request *http.Request
	body    *bytes.Reader
	answer  *discard
}

func newSender(tb testing.TB, handler http.Handler, path string, body []byte) *sender {
	tb.Helper()
	s := &sender{handler: handler, body: bytes.NewReader(body), answer: &discard{header: http.Header{}}}
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, path, io.NopCloser(s.body))
	if err != nil {
		tb.Fatal(err)
	}
	request.ContentLength = int64(len(body))
	request.Header.Set("Content-Type", "application/json")
	s.request = request
	return s
}

func (s *sender) send() {
	_, _ = s.body.Seek(0, io.SeekStart)
	s.handler.ServeHTTP(s.answer, s.request)
}

// TestARequestAllocatesNothingForACandidate counts the allocations of whole requests: with one for
// each candidate they would be thousands. What is left are the pod, the request's own, and memory
// that the race detector or a collection took out of the pools.
func TestARequestAllocatesNothingForACandidate(t *testing.T) {
	const candidates, most = 5000, 400
	for name, node := range map[string]func(int) *corev1.Node{
		"nodes that run":      mostlyForeign,
		"nodes that stand by": func(int) *corev1.Node { return poolNode("", v1alpha1.StateStandby) },
	} {
		for _, path := range []string{"/filter", "/prioritize"} {
			t.Run(name+path, func(t *testing.T) {
				e := newBenched(t, candidates, node)
				s := newSender(t, e, path, filterBody(t, sentPod("web"), e.names...))
				if got := testing.AllocsPerRun(20, s.send); got > most || s.answer.code != http.StatusOK {
					t.Errorf("%.0f allocations for %d candidates, want at most %d (code %d)", got, candidates, most, s.answer.code)
				}
			})
		}
	}
}

// BenchmarkRequest is one question from its body to its answer, without the network: what the
// targets of docs/performance.md are about.
func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{100, 1000, 5000, 10_000} {
		for _, path := range []string{"/filter", "/prioritize"} {
			b.Run(fmt.Sprintf("running%s/%d", path, size), func(b *testing.B) {
				e := newBenched(b, size, mostlyForeign)
				measure(b, newSender(b, e, path, filterBody(b, sentPod("web"), e.names...)))
			})
		}
		b.Run(fmt.Sprintf("waiting/filter/%d", size), func(b *testing.B) {
			e := newBenched(b, size, func(int) *corev1.Node { return poolNode("", v1alpha1.StateStandby) })
			measure(b, newSender(b, e, "/filter", filterBody(b, sentPod("web"), e.names...)))
		})
	}
}

func measure(b *testing.B, s *sender) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if s.send(); s.answer.code != http.StatusOK {
			b.Fatal(s.answer.code)
		}
	}
}

// BenchmarkBurst is 1000 new pods, each asked about once, on 1000 standby nodes of which they need
// 250: the claims and the cluster state are full of starting nodes at the end.
func BenchmarkBurst(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		e := newBenched(b, 1000, func(int) *corev1.Node { return poolNode("", v1alpha1.StateStandby) })
		pods := make([]*corev1.Pod, 1000)
		for i := range pods {
			pods[i] = sentPod(fmt.Sprintf("web-%04d", i))
		}
		names := NamesOf(e.names)
		b.StartTimer()
		for _, p := range pods {
			e.Filter(p, names)
		}
		if n := e.state.ClaimCount(); n != 1000 {
			b.Fatalf("%d claims, want 1000", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(time.Microsecond)/float64(b.N)/1000, "µs/pod")
}
