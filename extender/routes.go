package extender

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// The verbs are the paths below the extender's address, the verbs of the scheduler's
// configuration, and the metric label verb.
const (
	verbFilter     = "filter"
	verbPrioritize = "prioritize"
	verbPreempt    = "preempt"
	// verbOther labels requests for any other path, so that strangers cannot add label values.
	verbOther = "other"
)

// Decider answers from memory; no call blocks on I/O. It is called from many goroutines at once.
type Decider interface {
	// Filter says which candidates the pod may use now, and why it may not use the others. Nodes
	// must be a subset of candidates: kube-scheduler fails the pod otherwise.
	Filter(pod *corev1.Pod, candidates []string) FilterAnswer
	// Prioritize returns one score from 0 to extenderv1.MaxExtenderPriority for each candidate, in
	// their order.
	Prioritize(pod *corev1.Pod, candidates []string) []int64
	// Preempt returns the nodes on which eviction may help, with their victims unchanged. Each
	// incoming node has at least one victim, and no victim is nil.
	Preempt(pod *corev1.Pod, victims map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims
	// Ready is nil once the caches are synced. Until then no other method is called.
	Ready() error
}

// FilterAnswer is the answer to one filter call.
type FilterAnswer struct {
	// Nodes the pod may use now.
	Nodes []string
	// Failed are nodes on which evicting other pods might help, with the reason.
	Failed map[string]string
	// FailedUnresolvable are nodes on which no eviction helps, with the reason. A candidate that
	// appears nowhere in the answer counts as one of these.
	FailedUnresolvable map[string]string
	// Decision is the metric label: a constant, never a name of an object.
	Decision string
}

// routes turns HTTP requests into calls of the Decider.
type routes struct {
	decider      Decider
	metrics      *requestMetrics
	log          logr.Logger
	maxBodyBytes int64
	inFlight     chan struct{} // holds one token for each request at work
	bodies       *bodyPool
}

func newRouter(decider Decider, metrics *requestMetrics, options Options) http.Handler {
	r := &routes{
		decider:      decider,
		metrics:      metrics,
		log:          options.Log,
		maxBodyBytes: options.MaxBodyBytes,
		inFlight:     make(chan struct{}, options.MaxInFlight),
		bodies:       newBodyPool(),
	}
	router := chi.NewRouter()
	router.NotFound(r.measured(verbOther, notFound))
	router.MethodNotAllowed(r.measured(verbOther, methodNotAllowed))
	router.Post("/"+verbFilter, r.measured(verbFilter, r.answering(r.filter)))
	router.Post("/"+verbPrioritize, r.measured(verbPrioritize, r.answering(r.prioritize)))
	router.Post("/"+verbPreempt, r.measured(verbPreempt, r.answering(r.preempt)))
	return router
}

// refusal is an answer other than 200: a status code and the text that tells the operator what to do.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) error {
	return &refusal{code: code, text: fmt.Sprintf(format, args...)}
}

func notFound(_ http.ResponseWriter, r *http.Request) ([]byte, error) {
	return nil, refuse(http.StatusNotFound, "no such path %q: the extender serves POST /filter, /prioritize and /preempt", r.URL.Path)
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	w.Header().Set("Allow", http.MethodPost)
	return nil, refuse(http.StatusMethodNotAllowed, "method %s is not allowed on %s: kube-scheduler sends POST", r.Method, r.URL.Path)
}

// measured writes the answer or the refusal, counts it, and turns a panic into a 500: one pod that
// trips a bug must not take the scheduler's extender away from all others.
func (r *routes) measured(verb string, answer func(http.ResponseWriter, *http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		start := time.Now()
		body, err := r.recovered(w, req, verb, answer)
		code := write(w, body, err)
		r.metrics.observe(verb, code, time.Since(start))
	}
}

func (r *routes) recovered(w http.ResponseWriter, req *http.Request, verb string,
	answer func(http.ResponseWriter, *http.Request) ([]byte, error),
) (body []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			r.log.Error(fmt.Errorf("panic: %v", cause), "Extender decision failed", "verb", verb, "stack", string(debug.Stack()))
			body, err = nil, refuse(http.StatusInternalServerError, "the extender failed on this request; its log has the details")
		}
	}()
	return answer(w, req)
}

// write always sends Content-Length and no byte after the JSON value: kube-scheduler stops reading
// at the value's end, and whatever is left then costs it the connection.
func write(w http.ResponseWriter, body []byte, err error) int {
	code, contentType := http.StatusOK, "application/json"
	if err != nil {
		var refused *refusal
		if !errors.As(err, &refused) {
			refused = &refusal{code: http.StatusInternalServerError, text: err.Error()}
		}
		code, contentType, body = refused.code, "text/plain; charset=utf-8", []byte(refused.text+"\n")
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	// A client that went away cannot be told so.
	_, _ = w.Write(body)
	return code
}

// answering does what the three verbs share, cheapest refusal first: nothing is read of a body
// that cannot be answered.
func (r *routes) answering(decide func(body []byte) ([]byte, error)) func(http.ResponseWriter, *http.Request) ([]byte, error) {
	return func(w http.ResponseWriter, req *http.Request) ([]byte, error) {
		if err := checkContentType(req.Header.Get("Content-Type")); err != nil {
			return nil, err
		}
		if err := r.decider.Ready(); err != nil {
			return nil, refuse(http.StatusServiceUnavailable, "the extender's caches are not synced yet, ask again: %v", err)
		}
		select {
		case r.inFlight <- struct{}{}:
			defer func() { <-r.inFlight }()
		default:
			return nil, refuse(http.StatusServiceUnavailable, "%d requests are being answered already, ask again", cap(r.inFlight))
		}
		body := r.bodies.get()
		defer r.bodies.put(body)
		if err := r.read(w, req, body); err != nil {
			return nil, err
		}
		return decide(body.Bytes())
	}
}

func checkContentType(header string) error {
	mediaType, _, err := mime.ParseMediaType(header)
	if err != nil || mediaType != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "content type %q is not application/json, which kube-scheduler sends", header)
	}
	return nil
}

// read fills body with at most maxBodyBytes. What is larger is refused unread where the client says
// its length, and after maxBodyBytes where it does not.
func (r *routes) read(w http.ResponseWriter, req *http.Request, body io.Writer) error {
	if req.ContentLength > r.maxBodyBytes {
		w.Header().Set("Connection", "close")
		return r.tooLarge()
	}
	_, err := io.Copy(body, http.MaxBytesReader(w, req.Body, r.maxBodyBytes))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return r.tooLarge()
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the request body could not be read: %v", err)
	}
	return nil
}

func (r *routes) tooLarge() error {
	return refuse(http.StatusRequestEntityTooLarge, "the request body is larger than %d bytes", r.maxBodyBytes)
}

func (r *routes) filter(body []byte) ([]byte, error) {
	args, err := decodeArgs(body)
	if err != nil {
		return nil, err
	}
	answer := r.decider.Filter(args.pod, args.nodeNames)
	if answer.Decision != "" {
		r.metrics.decisions.WithLabelValues(answer.Decision).Inc()
	}
	return encodeFilterAnswer(answer)
}

func (r *routes) prioritize(body []byte) ([]byte, error) {
	args, err := decodeArgs(body)
	if err != nil {
		return nil, err
	}
	scores := r.decider.Prioritize(args.pod, args.nodeNames)
	if len(scores) != len(args.nodeNames) {
		return nil, fmt.Errorf("%d scores for %d candidates", len(scores), len(args.nodeNames))
	}
	return encodeScores(args.nodeNames, scores)
}

func (r *routes) preempt(body []byte) ([]byte, error) {
	pod, victims, err := decodePreemption(body)
	if err != nil {
		return nil, err
	}
	return encodePreemption(r.decider.Preempt(pod, victims))
}
