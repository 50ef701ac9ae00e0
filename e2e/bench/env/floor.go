package env

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Floor is the least that an extender can do: it rejects the nodes that it was told are standby and
// keeps the others, without reading any cache. It notes when it was first asked about each pod.
type Floor struct {
	// mu guards the fields below.
	mu      sync.Mutex
	standby func(node string) bool
	asked   map[string]time.Time
	changed chan struct{}
}

// NewFloor returns a Floor that rejects every node.
func NewFloor() *Floor {
	return &Floor{standby: func(string) bool { return true }, asked: map[string]time.Time{}, changed: make(chan struct{})}
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
	if name := q.Pod.Metadata.Name; f.asked[name].IsZero() {
		f.asked[name] = at
		close(f.changed)
		f.changed = make(chan struct{})
	}
	kept := make([]string, 0, len(q.NodeNames))
	for _, name := range q.NodeNames {
		if !f.standby(name) {
			kept = append(kept, name)
		}
	}
	return extenderv1.ExtenderFilterResult{NodeNames: &kept}
}
