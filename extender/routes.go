package extender

import (
	"bytes"
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

	"github.com/stratos-sh/stratos/crds/v1alpha1"
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
	// Filter says which candidates the pod may use now, and why it may not use the others. Nodes must
	// be a subset of candidates, in their order: kube-scheduler fails the pod otherwise. The pod is
	// only to be read.
	Filter(pod *corev1.Pod, candidates Names) FilterAnswer
	// Prioritize returns one score from 0 to extenderv1.MaxExtenderPriority for each candidate, in
	// their order. The pod is only to be read.
	Prioritize(pod *corev1.Pod, candidates Names) []int64
	// Preempt returns the nodes on which eviction may help, with their victims unchanged. Each
	// incoming node has at least one victim, and no victim is nil.
	Preempt(pod *corev1.Pod, victims map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims
	// Ready is nil once the caches are synced. Until then no other method is called.
	Ready() error
}

// FilterAnswer is the answer to one filter call.
type FilterAnswer struct {
	// Nodes the pod may use now, in the order of the candidates.
	Nodes []v1alpha1.NodeName
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
	exchanges    *exchanges
	pods         podCache
}

func newRouter(decider Decider, metrics *requestMetrics, options Options) http.Handler {
	r := &routes{
		decider:      decider,
		metrics:      metrics,
		log:          options.Log,
		maxBodyBytes: options.MaxBodyBytes,
		inFlight:     make(chan struct{}, options.MaxInFlight),
		exchanges:    newExchanges(),
	}
	router := chi.NewRouter()
	router.NotFound(r.measured(verbOther, notFound))
	router.MethodNotAllowed(r.measured(verbOther, methodNotAllowed))
	router.Post("/"+verbFilter, r.measured(verbFilter, r.answering(verbFilter, r.filter)))
	router.Post("/"+verbPrioritize, r.measured(verbPrioritize, r.answering(verbPrioritize, r.prioritize)))
	router.Post("/"+verbPreempt, r.measured(verbPreempt, r.answering(verbPreempt, r.preempt)))
	return router
}

// refusal is an answer other than 200: a status code and the text that tells the operator what to
// do.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) error {
	return &refusal{code: code, text: fmt.Sprintf(format, args...)}
}

func notFound(_ http.ResponseWriter, r *http.Request, _ *exchange) ([]byte, error) {
	return nil, refuse(http.StatusNotFound, "no such path %q: the extender serves POST /filter, /prioritize and /preempt",
		r.URL.Path)
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request, _ *exchange) ([]byte, error) {
	w.Header().Set("Allow", http.MethodPost)
	return nil, refuse(http.StatusMethodNotAllowed, "method %s is not allowed on %s: kube-scheduler sends POST", r.Method,
		r.URL.Path)
}

// answerer makes the answer to a request in the memory of the exchange.
type answerer func(http.ResponseWriter, *http.Request, *exchange) ([]byte, error)

// measured writes the answer or the refusal, counts it, and turns a panic into a 500: one pod that
// trips a bug must not take the scheduler's extender away from all others.
func (r *routes) measured(verb string, answer answerer) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		start := time.Now()
		x := r.exchanges.get()
		body, err := r.recovered(verb, func() ([]byte, error) { return answer(w, req, x) })
		code := write(w, body, err)
		r.exchanges.put(x)
		r.metrics.observe(verb, code, time.Since(start))
	}
}

func (r *routes) recovered(verb string, answer func() ([]byte, error)) (body []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			r.log.Error(fmt.Errorf("panic: %v", cause), "Extender decision failed", "verb", verb, "stack", string(debug.Stack()))
			body, err = nil, refuse(http.StatusInternalServerError,
				"the extender failed on this request; its log has the details")
		}
	}()
	return answer()
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
func (r *routes) answering(verb string, decide func(*exchange) ([]byte, error)) answerer {
	return func(w http.ResponseWriter, req *http.Request, x *exchange) ([]byte, error) {
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
			return nil, refuse(http.StatusServiceUnavailable, "%d requests are being answered already, ask again",
				cap(r.inFlight))
		}
		if err := r.read(w, req, &x.body); err != nil {
			return nil, err
		}
		read := time.Now()
		defer func() { r.metrics.deciding.WithLabelValues(verb).Observe(time.Since(read).Seconds()) }()
		return decide(x)
	}
}

func checkContentType(header string) error {
	mediaType, _, err := mime.ParseMediaType(header)
	if err != nil || mediaType != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "content type %q is not application/json, which kube-scheduler sends",
			header)
	}
	return nil
}

// read fills body with at most maxBodyBytes. What is larger is refused unread where the client says
// its length, and after maxBodyBytes where it does not.
func (r *routes) read(w http.ResponseWriter, req *http.Request, body *bytes.Buffer) error {
	if req.ContentLength > r.maxBodyBytes {
		w.Header().Set("Connection", "close")
		return r.tooLarge()
	}
	// The client's Content-Length is used only up to the size of kept buffers.
	body.Grow(int(min(max(req.ContentLength, 0), maxPooledBytes/2)) + bytes.MinRead)
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

// decode reads the exchange's body, and remembers the memory of the names for the next one.
func (r *routes) decode(x *exchange) (args, error) {
	a, err := decodeArgs(x.body.Bytes(), &r.pods, x.names)
	if a.list != nil {
		x.names = a.names
	}
	return a, err
}

func (r *routes) filter(x *exchange) ([]byte, error) {
	args, err := r.decode(x)
	if err != nil {
		return nil, err
	}
	answer := r.decider.Filter(args.pod, args.names)
	if answer.Decision != "" {
		r.metrics.decisions.WithLabelValues(answer.Decision).Inc()
	}
	x.answer, err = appendFilterAnswer(x.answer, args, answer)
	return x.answer, err
}

func (r *routes) prioritize(x *exchange) ([]byte, error) {
	args, err := r.decode(x)
	if err != nil {
		return nil, err
	}
	scores := r.decider.Prioritize(args.pod, args.names)
	if len(scores) != len(args.names) {
		return nil, fmt.Errorf("%d scores for %d candidates", len(scores), len(args.names))
	}
	x.answer = appendScores(x.answer, args.names, scores)
	return x.answer, nil
}

func (r *routes) preempt(x *exchange) ([]byte, error) {
	pod, victims, err := decodePreemption(x.body.Bytes())
	if err != nil {
		return nil, err
	}
	return encodePreemption(r.decider.Preempt(pod, victims))
}
