package assert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// Version is an object as it was at one moment. The API server numbers all writes in one row, so
// versions of different objects can be put in order by revision, whatever the clocks say.
type Version[T client.Object] struct {
	Revision int64
	// Deleted: the object is gone with this revision.
	Deleted bool
	Object  T
}

// Journal keeps every version of every Node and pod from its opening on.
type Journal struct {
	// mu guards the lists, which are in order of revision for each object.
	mu    sync.Mutex
	nodes map[string][]Version[*corev1.Node]
	pods  map[types.UID][]Version[*corev1.Pod]
	// stops end its watches.
	stops []func()
}

// OpenJournal returns when both watches are set up: what is written from then on is not missed.
func OpenJournal(t *testing.T, r *framework.Rig) *Journal {
	t.Helper()
	j := &Journal{nodes: map[string][]Version[*corev1.Node]{}, pods: map[types.UID][]Version[*corev1.Pod]{}}
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &corev1.PodList{}} {
		j.stops = append(j.stops, Follow(t, r.Client, list, j.write))
	}
	return j
}

// Close ends the journal before the test does, and keeps what is in it: each open one takes in all
// that is written, which in a test of many rounds took 16 GiB.
func (j *Journal) Close() {
	for _, stop := range j.stops {
		stop()
	}
}

func (j *Journal) write(e watch.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch o := e.Object.(type) {
	case *corev1.Node:
		j.nodes[o.Name] = append(j.nodes[o.Name], versionOf(e, o))
	case *corev1.Pod:
		j.pods[o.UID] = append(j.pods[o.UID], versionOf(e, o))
	}
}

func versionOf[T client.Object](e watch.Event, o T) Version[T] {
	revision, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		panic("resource version of a watched object: " + err.Error()) // the API guarantees a number
	}
	return Version[T]{Revision: revision, Deleted: e.Type == watch.Deleted, Object: o}
}

// NodeVersions are the versions of the Node so far, oldest first.
func (j *Journal) NodeVersions(name string) []Version[*corev1.Node] {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.nodes[name])
}

// AllNodes are the versions of all Nodes so far, oldest first.
func (j *Journal) AllNodes() []Version[*corev1.Node] {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := slices.Concat(slices.Collect(maps.Values(j.nodes))...)
	slices.SortFunc(all, func(a, b Version[*corev1.Node]) int { return cmp.Compare(a.Revision, b.Revision) })
	return all
}

// PodVersions are the versions of the pod so far, oldest first.
func (j *Journal) PodVersions(uid types.UID) []Version[*corev1.Pod] {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.pods[uid])
}

// PodsOf are the versions of the pods on the node that the controller of that name owns, oldest
// first.
func (j *Journal) PodsOf(namespace, controller, node string) []Version[*corev1.Pod] {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Version[*corev1.Pod]
	for _, versions := range j.pods {
		for _, v := range versions {
			owner := metav1.GetControllerOfNoCopy(v.Object)
			if owner != nil && owner.Name == controller && v.Object.Namespace == namespace && v.Object.Spec.NodeName == node {
				out = append(out, v)
			}
		}
	}
	slices.SortFunc(out, func(a, b Version[*corev1.Pod]) int { return cmp.Compare(a.Revision, b.Revision) })
	return out
}

// Last is the newest revision that the journal holds of the Node, 0 if it holds none.
func (j *Journal) Last(node string) int64 {
	versions := j.NodeVersions(node)
	if len(versions) == 0 {
		return 0
	}
	return versions[len(versions)-1].Revision
}

// First returns the first version after the revision whose object is so. It waits for one, because
// a watch may lag behind a read.
func First[T client.Object](t *testing.T, what string, after int64, versions func() []Version[T],
	so func(T) bool) Version[T] {
	t.Helper()
	return FirstVersion(t, what, after, versions, func(v Version[T]) bool { return so(v.Object) })
}

// FirstVersion is First for who wants to know of deletions too.
func FirstVersion[T client.Object](t *testing.T, what string, after int64, versions func() []Version[T],
	so func(Version[T]) bool) Version[T] {
	t.Helper()
	var found Version[T]
	Await(t, "in the journal: "+what, func(context.Context) (bool, error) {
		for _, v := range versions() {
			if v.Revision > after && so(v) {
				found = v
				return true, nil
			}
		}
		return false, fmt.Errorf("%d versions, none after %d is so", len(versions()), after)
	})
	return found
}
