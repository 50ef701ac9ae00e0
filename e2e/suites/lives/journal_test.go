package lives

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/rig"
)

// version is an object as it was at one moment. The API server numbers all writes in one row, so versions of different objects can be
// put in order by revision, whatever the clocks say.
type version[T client.Object] struct {
	revision int64
	deleted  bool
	object   T
}

// journal keeps every version of every Node and pod from its opening on.
type journal struct {
	// mu guards the lists, which are in order of revision for each object.
	mu    sync.Mutex
	nodes map[string][]version[*corev1.Node]
	pods  map[types.UID][]version[*corev1.Pod]
}

// openJournal returns when both watches are set up: what is written from then on is not missed.
func openJournal(t *testing.T, r *rig.Rig) *journal {
	t.Helper()
	j := &journal{nodes: map[string][]version[*corev1.Node]{}, pods: map[types.UID][]version[*corev1.Pod]{}}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait) // registered first, so run after the watches are stopped
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &corev1.PodList{}} {
		w, err := r.Client.Watch(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for e := range w.ResultChan() {
				j.write(e)
			}
		})
		t.Cleanup(w.Stop)
	}
	return j
}

func (j *journal) write(e watch.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch o := e.Object.(type) {
	case *corev1.Node:
		j.nodes[o.Name] = append(j.nodes[o.Name], versionOf(e, o))
	case *corev1.Pod:
		j.pods[o.UID] = append(j.pods[o.UID], versionOf(e, o))
	}
}

func versionOf[T client.Object](e watch.Event, o T) version[T] {
	revision, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		panic("resource version of a watched object: " + err.Error()) // the API promises a number
	}
	return version[T]{revision: revision, deleted: e.Type == watch.Deleted, object: o}
}

func (j *journal) node(name string) []version[*corev1.Node] {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.nodes[name])
}

func (j *journal) pod(uid types.UID) []version[*corev1.Pod] {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.pods[uid])
}

// last is the newest revision that the journal holds of the Node.
func (j *journal) last(name string) int64 {
	versions := j.node(name)
	if len(versions) == 0 {
		return 0
	}
	return versions[len(versions)-1].revision
}

// awaitFirst returns the first version after the revision that is so, and waits for one.
func awaitFirst[T client.Object](t *testing.T, what string, after int64, versions func() []version[T], so func(T) bool) version[T] {
	t.Helper()
	var found version[T]
	await(t, "in the journal: "+what, func(context.Context) (bool, error) {
		for _, v := range versions() {
			if v.revision > after && so(v.object) {
				found = v
				return true, nil
			}
		}
		return false, fmt.Errorf("%d versions after %d", len(versions()), after)
	})
	return found
}
