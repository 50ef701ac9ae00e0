package framework

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Verbs of the extender, as paths.
const (
	Filter     = "/filter"
	Prioritize = "/prioritize"
	Preempt    = "/preempt"
)

// Asked is one call of the scheduler and its answer.
type Asked struct {
	Verb string
	// At is when the call arrived, Answered when the answer left.
	At, Answered time.Time
	Pod          types.NamespacedName
	UID          types.UID
	// Nodes are the candidates of /filter and /prioritize, sorted.
	Nodes []string
	// Victims are the candidates of /preempt with the number of their victims.
	Victims map[string]int
	Code    int
	// Filter is the answer of /filter, Kept that of /preempt.
	Filter extenderv1.ExtenderFilterResult
	Kept   extenderv1.ExtenderPreemptionResult
}

// Starting are the nodes that the answer of /filter says are starting for the pod, sorted.
func (a *Asked) Starting() []string {
	named := map[string]bool{}
	for _, refused := range []map[string]string{a.Filter.FailedNodes, a.Filter.FailedAndUnresolvableNodes} {
		for _, message := range refused {
			if rest, found := strings.CutPrefix(message, "starting standby node "); found {
				name, _, _ := strings.Cut(rest, " ")
				named[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// Recorder is a proxy that remembers what went through it. Until it forwards somewhere it
// answers 502.
type Recorder struct {
	client http.Client
	// mu guards the fields below.
	mu    sync.Mutex
	to    string
	asked []Asked
	told  func(Asked)
}

// NewRecorder returns a Recorder that forwards nowhere yet.
func NewRecorder() *Recorder {
	return &Recorder{client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
}

// Forward sends what comes from now on to the extender at the URL.
func (r *Recorder) Forward(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = url
}

// Tell has f called with each call from now on, once the extender has answered and before the
// scheduler gets the answer.
func (r *Recorder) Tell(f func(Asked)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = f
}

// Asked returns the calls of one verb so far, oldest first.
func (r *Recorder) Asked(verb string) []Asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.asked), func(a Asked) bool { return a.Verb != verb })
}

// About returns the calls of one verb about one pod, oldest first.
func (r *Recorder) About(verb string, pod types.UID) []Asked {
	return slices.DeleteFunc(r.Asked(verb), func(a Asked) bool { return a.UID != pod })
}

// Starting are the nodes that the answers so far named as starting for the pod, sorted.
func (r *Recorder) Starting(pod types.UID) []string {
	var nodes []string
	for _, a := range r.About(Filter, pod) {
		nodes = append(nodes, a.Starting()...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Reset forgets the calls so far.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = nil
}

// ServeHTTP implements http.Handler.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	asked := Asked{Verb: req.URL.Path, At: time.Now()}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	answer, code, contentType, err := r.forward(req, to, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	asked.Answered, asked.Code = time.Now(), code
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	_, _ = w.Write(answer) // the scheduler may have gone; what it asked is recorded all the same
	asked.read(body, answer)
	r.mu.Lock()
	r.asked = append(r.asked, asked)
	told := r.told
	r.mu.Unlock()
	if told != nil { // the answer is small, so it leaves when this function returns
		told(asked)
	}
}

func (r *Recorder) forward(req *http.Request, to string, body []byte) ([]byte, int, string, error) {
	out, err := http.NewRequestWithContext(req.Context(), req.Method, to+req.URL.Path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, "", err
	}
	out.Header = req.Header.Clone()
	response, err := r.client.Do(out)
	if err != nil {
		return nil, 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return answer, response.StatusCode, response.Header.Get("Content-Type"), err
}

// read fills in what the bodies say. What cannot be decoded stays empty: the scheduler would not
// understand it either.
func (a *Asked) read(body, answer []byte) {
	if a.Verb == Preempt {
		args := extenderv1.ExtenderPreemptionArgs{}
		if json.Unmarshal(body, &args) == nil && args.Pod != nil {
			a.Pod, a.UID = types.NamespacedName{Namespace: args.Pod.Namespace, Name: args.Pod.Name}, args.Pod.UID
			a.Victims = map[string]int{}
			for node, victims := range args.NodeNameToMetaVictims {
				if victims != nil {
					a.Victims[node] = len(victims.Pods)
				}
			}
		}
		_ = json.Unmarshal(answer, &a.Kept)
		return
	}
	args := extenderv1.ExtenderArgs{}
	if json.Unmarshal(body, &args) == nil && args.Pod != nil {
		a.Pod, a.UID = types.NamespacedName{Namespace: args.Pod.Namespace, Name: args.Pod.Name}, args.Pod.UID
		if args.NodeNames != nil {
			a.Nodes = slices.Sorted(slices.Values(*args.NodeNames))
		}
	}
	if a.Verb == Filter {
		_ = json.Unmarshal(answer, &a.Filter)
	}
}
