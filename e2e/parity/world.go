package parity

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// World is all that the filters look at, as API objects. Written as YAML it is a row of
// testdata/worlds.
type World struct {
	Nodes []*corev1.Node `json:"nodes,omitempty"`
	// Placed are pods bound to a node, by spec.nodeName.
	Placed []*corev1.Pod `json:"placed,omitempty"`
	// Promised are pods that the scheduler counts on a node, and that Stratos knows by its own claim
	// alone.
	Promised []*corev1.Pod `json:"promised,omitempty"`
	// Waiting are the pods that are checked against every node.
	Waiting    []*corev1.Pod                   `json:"waiting,omitempty"`
	Namespaces []*corev1.Namespace             `json:"namespaces,omitempty"`
	Claims     []*corev1.PersistentVolumeClaim `json:"claims,omitempty"`
	Volumes    []*corev1.PersistentVolume      `json:"volumes,omitempty"`
	Classes    []*storagev1.StorageClass       `json:"classes,omitempty"`
}

// ReadWorld reads what Shrink wrote. A field that does not exist is an error, because a misspelt
// one would make another world of it.
func ReadWorld(text []byte) (*World, error) {
	world := &World{}
	if err := yaml.UnmarshalStrict(text, world); err != nil {
		return nil, err
	}
	if err := world.whole(); err != nil {
		return nil, err
	}
	return world, nil
}

// whole reports what makes it no world at all: API objects have names of their own, pods a UID too,
// and a pod that is on a node is on one that is there.
func (w *World) whole() error {
	problems := slices.Concat(unnamed("node", w.Nodes), unnamed("pod", w.pods()), unnamed("namespace", w.Namespaces),
		unnamed("claim", w.Claims), unnamed("volume", w.Volumes), unnamed("class", w.Classes))
	uids := map[types.UID]bool{"": true}
	for _, pod := range w.pods() {
		if uids[pod.UID] {
			problems = append(problems, fmt.Errorf("pod %q needs a UID of its own", pod.Name))
		}
		uids[pod.UID] = true
	}
	for _, pod := range w.occupants() {
		if find(w.Nodes, func(node *corev1.Node) bool { return node.Name == pod.Spec.NodeName }) == nil {
			problems = append(problems, fmt.Errorf("pod %q is on node %q, which does not exist", pod.Name, pod.Spec.NodeName))
		}
	}
	return errors.Join(problems...)
}

func unnamed[T metav1.Object](kind string, objects []T) []error {
	var problems []error
	seen := map[string]bool{}
	for _, object := range objects {
		name := object.GetNamespace() + "/" + object.GetName()
		if object.GetName() == "" || seen[name] {
			problems = append(problems, fmt.Errorf("a %s needs a name of its own, not %q", kind, object.GetName()))
		}
		seen[name] = true
	}
	return problems
}

// occupants are the pods that the scheduler counts on nodes.
func (w *World) occupants() []*corev1.Pod { return slices.Concat(w.Placed, w.Promised) }

func (w *World) pods() []*corev1.Pod { return slices.Concat(w.Placed, w.Promised, w.Waiting) }
