package env

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// floorNode is the Node to which the floor writes, and floorAnnotation what it writes there.
const (
	floorNode       = "floor"
	floorAnnotation = "bench.stratos.sh/asked"
)

// FloorWrites has the floor send a patch for each pod that it is asked about, to a Node of its own
// that takes no pods.
func (s *Env) FloorWrites(ctx context.Context) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: floorNode, Annotations: map[string]string{floorAnnotation: ""}}}
	n.Spec.Unschedulable = true
	if err := s.Client.Create(ctx, n); err != nil {
		return fmt.Errorf("create the floor's Node: %w", err)
	}
	s.Floor.Write(func() error {
		// As the intent to start is: a JSON patch that tests the state that it relies on.
		patch := fmt.Appendf(nil, `[{"op":"test","path":"/spec/unschedulable","value":true},`+
			`{"op":"replace","path":"/metadata/annotations/bench.stratos.sh~1asked","value":%q}]`, time.Now().Format(time.RFC3339Nano))
		is := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: floorNode}}
		return s.Client.Patch(ctx, is, client.RawPatch(types.JSONPatchType, patch))
	})
	return nil
}

// Floor is the least that an extender can do: it rejects the nodes that it was told are standby and
// keeps the others, without reading any cache. It notes when it was first asked about each pod. It
// may also send one write for each pod.
type Floor struct {
	// mu guards the fields below.
	mu      sync.Mutex
	standby func(node string) bool
	// asked has the time that counts for each pod, zero until its write is answered.
	asked map[string]time.Time
	// write is nil where it sends none; failed is the first write that was refused.
	write   func() error
	failed  error
	changed chan struct{}
}

// NewFloor returns a Floor that rejects every node and writes nothing.
func NewFloor() *Floor {
	return &Floor{standby: func(string) bool { return true }, asked: map[string]time.Time{}, changed: make(chan struct{})}
}

// Write has it write from now on when a pod is asked about for the first time, concurrently with
// the answer, as Stratos writes its intent to start. The time that counts is then when the write
// was answered.
func (f *Floor) Write(write func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write = write
}

// Failed is the first write that failed, nil for none.
func (f *Floor) Failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// KeepAll has it keep every node from now on.
func (f *Floor) KeepAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.standby = func(string) bool { return false }
}

// Asked are the times at which the first request about each of the pods arrived, in their order,
// and whether all have one.
func (f *Floor) Asked(pods []string) ([]time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, all := make([]time.Time, len(pods)), true
	for i, name := range pods {
		at[i] = f.asked[name]
		all = all && !at[i].IsZero()
	}
	return at, all
}

// Changed is closed when the next pod is asked about.
func (f *Floor) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Reset forgets the pods so far.
func (f *Floor) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = map[string]time.Time{}
}

// question is all of a request that the floor reads.
type question struct {
	Pod struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	} `json:"Pod"`
	NodeNames []string `json:"NodeNames"`
}

// ServeHTTP implements http.Handler.
func (f *Floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	var answer any
	switch r.URL.Path {
	case "/filter":
		var q question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer = f.filter(q, at)
	case "/prioritize":
		answer = extenderv1.HostPriorityList{}
	default: // preempt: no pod is to be evicted
		answer = extenderv1.ExtenderPreemptionResult{}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the scheduler may have gone
}

func (f *Floor) filter(q question, at time.Time) extenderv1.ExtenderFilterResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := q.Pod.Metadata.Name
	switch _, known := f.asked[name]; {
	case known:
	case f.write == nil:
		f.note(name, at)
	default:
		f.asked[name] = time.Time{}
		go f.writeFor(name, f.write)
	}
	kept := make([]string, 0, len(q.NodeNames))
	for _, name := range q.NodeNames {
		if !f.standby(name) {
			kept = append(kept, name)
		}
	}
	return extenderv1.ExtenderFilterResult{NodeNames: &kept}
}

// writeFor sends the write for the pod.
func (f *Floor) writeFor(pod string, write func() error) {
	err := write()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = cmp.Or(f.failed, err)
	f.note(pod, time.Now())
}

// note tells that the pod was asked about. The caller holds mu.
func (f *Floor) note(pod string, at time.Time) {
	f.asked[pod] = at
	close(f.changed)
	f.changed = make(chan struct{})
}
