package restarts

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// point is a step of Stratos that can be seen from outside. A burst reaches each of them a known
// number of times, so the n-th time is a moment of the burst that does not depend on any clock.
type point string

const (
	// asked: the extender has answered /filter; what follows from it is in Stratos's memory alone.
	asked point = "answer to /filter"
	// intended: the start intent is on the Node.
	intended point = "start intent"
	// startSent: the call has left Stratos and not reached the cloud. startDone: the cloud has
	// accepted it, Stratos does not know.
	startSent point = "start on its way"
	startDone point = "start accepted"
	opened    point = "node running"
	bound     point = "pod bound"

	closing      point = "node stopping"
	stopIntended point = "stop intent"
	stopSent     point = "stop on its way"
	stopDone     point = "stop accepted"
	stoodBy      point = "node standby"
)

// moment is the nth time that a point is reached.
type moment struct {
	at  point
	nth int
}

func (m moment) String() string { return fmt.Sprintf("at %s no. %d", m.at, m.nth) }

// times is how often a burst and its end reach the point, at least.
func (p point) times() int {
	if p == asked || p == bound {
		return podsPerBurst
	}
	return nodesPerBurst
}

// down reports whether the point belongs to the end of a burst, when its nodes stop.
func (p point) down() bool {
	switch p {
	case closing, stopIntended, stopSent, stopDone, stoodBy:
		return true
	default:
		return false
	}
}

// draw draws n moments: every point comes up as often as every other, as far as n allows, in an
// order and at an occurrence of chance.
func draw(random *rand.Rand, n int) []moment {
	points := []point{asked, intended, startSent, startDone, opened, bound, closing, stopIntended, stopSent, stopDone,
		stoodBy}
	var moments []moment
	for len(moments) < n {
		random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		for _, p := range points {
			moments = append(moments, moment{at: p, nth: 1 + random.IntN(p.times())})
		}
	}
	return moments[:n]
}

// progress sees every point being reached, and at the armed moment does what it was armed with.
type progress struct {
	// mu guards the fields below. What is done at a moment is done with it held: nothing that it sees
	// overtakes that.
	mu    sync.Mutex
	armed *trap
	// states, intents and placed are what the watches last showed, to tell a change from a repetition.
	states  map[string]v1alpha1.NodeState
	intents map[string]bool
	placed  map[types.UID]bool
}

type trap struct {
	moment
	left   int
	spring func()
	sprung chan struct{}
}

// openProgress watches the cluster, the recorder and the calls to the cloud. It returns the URL
// that Stratos has to use as the cloud's.
func openProgress(t *testing.T, r *framework.Rig) (*progress, string) {
	t.Helper()
	p := &progress{states: map[string]v1alpha1.NodeState{}, intents: map[string]bool{}, placed: map[types.UID]bool{}}
	r.Recorder.Tell(func(a framework.Asked) {
		if a.Verb == framework.Filter && a.Code == http.StatusOK {
			p.reach(asked)
		}
	})
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &corev1.PodList{}} {
		assert.Follow(t, r.Client, list, p.see)
	}
	cloud, err := url.Parse(r.CloudURL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(p.before(p.proxyTo(cloud)))
	t.Cleanup(proxy.Close)
	return p, proxy.URL
}

// proxyTo forwards to the cloud; an accepted call is seen before its answer is passed on.
func (p *progress) proxyTo(cloud *url.URL) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(cloud)
	proxy.ModifyResponse = func(answer *http.Response) error {
		if answer.StatusCode < 300 {
			p.reach(pointOf(answer.Request, startDone, stopDone))
		}
		return nil
	}
	// the caller is dead
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	return proxy
}

// before sees a call before the cloud does. One whose caller dies at that moment never arrives.
func (p *progress) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if p.reach(pointOf(req, startSent, stopSent)) {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, req)
	})
}

func pointOf(req *http.Request, start, stop point) point {
	switch {
	case strings.HasSuffix(req.URL.Path, "/start"):
		return start
	case strings.HasSuffix(req.URL.Path, "/stop"):
		return stop
	}
	return ""
}

func (p *progress) see(e watch.Event) {
	switch o := e.Object.(type) {
	case *corev1.Node:
		p.seeNode(o)
	case *corev1.Pod:
		p.mu.Lock()
		isNew := o.Spec.NodeName != "" && !p.placed[o.UID]
		p.placed[o.UID] = p.placed[o.UID] || isNew
		p.mu.Unlock()
		if isNew {
			p.reach(bound)
		}
	}
}

func (p *progress) seeNode(n *corev1.Node) {
	state := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
	intent := n.Annotations[v1alpha1.AnnotationStopIntent] != ""
	p.mu.Lock()
	entered, intendsNow := p.states[n.Name] != state, intent && !p.intents[n.Name]
	p.states[n.Name], p.intents[n.Name] = state, intent
	p.mu.Unlock()
	if intendsNow {
		p.reach(stopIntended)
	}
	if !entered {
		return
	}
	switch state {
	case v1alpha1.StateStarting:
		p.reach(intended)
	case v1alpha1.StateRunning:
		p.reach(opened)
	case v1alpha1.StateStopping:
		p.reach(closing)
	case v1alpha1.StateStandby:
		p.reach(stoodBy)
	case v1alpha1.StateWarmup, v1alpha1.StateTerminating:
	}
}

// arm has spring called at the moment, counted from now. The channel is closed when it has
// returned.
func (p *progress) arm(m moment, spring func()) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = &trap{moment: m, left: m.nth, spring: spring, sprung: make(chan struct{})}
	return p.armed.sprung
}

// reach reports whether this was the armed moment.
func (p *progress) reach(at point) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed == nil || p.armed.at != at {
		return false
	}
	if p.armed.left--; p.armed.left > 0 {
		return false
	}
	sprung := p.armed
	p.armed = nil
	sprung.spring()
	close(sprung.sprung)
	return true
}
