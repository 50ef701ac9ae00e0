// Package transition says what each step of a node's life writes to its Node. It is pure: a step
// takes the Node as it is and gives a JSON patch that tests what the step relies on. Every step
// clears the marks of the steps before it in one place, so that no life of a node carries a mark of
// an earlier one.
package transition

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Op is one operation of a JSON patch (RFC 6902).
type Op struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// Value is null for a remove, which ignores it, and for a test that nothing is there.
	Value any `json:"value"`
}

// Patch is a JSON patch. Kubelets and controllers write to Nodes all the time, so a patch tests
// only what its step relies on, never the resource version.
type Patch []Op

// Empty reports whether the patch would change nothing.
func (p Patch) Empty() bool {
	return !slices.ContainsFunc(p, func(o Op) bool { return o.Op != "test" })
}

// JSON encodes the patch.
func (p Patch) JSON() []byte {
	out, err := json.Marshal(p)
	if err != nil {
		panic("transition: a patch of strings, taints and booleans always encodes: " + err.Error())
	}
	return out
}

// editable is a copy of what a step may change of a Node. Its status, the larger part, is shared
// and only read: no step writes it.
func editable(n *corev1.Node) *corev1.Node {
	is := &corev1.Node{ObjectMeta: *n.ObjectMeta.DeepCopy(), Status: n.Status}
	n.Spec.DeepCopyInto(&is.Spec)
	return is
}

// patchFromTo is the patch from one Node to another, as far as labels, annotations, taints and
// cordon go. It tests the uid (a Node of the same name may be another one), the state that the step
// starts from, the claims where it changes them, the taints where it takes some away, a cordon that
// it relies upon, and that there are still no labels or annotations where it writes the first.
func patchFromTo(was, is *corev1.Node) Patch {
	p := Patch{{Op: "test", Path: "/metadata/uid", Value: was.UID}}
	if state, ok := was.Labels[v1alpha1.LabelState]; ok {
		p = append(p, Op{Op: "test", Path: "/metadata/labels/" + escape(v1alpha1.LabelState), Value: state})
	}
	if old, ok := was.Annotations[v1alpha1.AnnotationClaims]; ok && old != is.Annotations[v1alpha1.AnnotationClaims] {
		p = append(p, Op{Op: "test", Path: "/metadata/annotations/" + escape(v1alpha1.AnnotationClaims), Value: old})
	}
	p = append(p, mapOps("/metadata/labels", was.Labels, is.Labels)...)
	p = append(p, mapOps("/metadata/annotations", was.Annotations, is.Annotations)...)
	p = append(p, taintOps(was.Spec.Taints, is.Spec.Taints)...)
	if was.Spec.Unschedulable && is.Spec.Unschedulable && isShut(is) && !isShut(was) {
		p = append(p, Op{Op: "test", Path: "/spec/unschedulable", Value: true}) // a person's, who may take it away meanwhile
	}
	return append(p, cordonOps(was.Spec.Unschedulable, is.Spec.Unschedulable)...)
}

func isShut(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintStandby })
}

func mapOps(path string, was, is map[string]string) Patch {
	var p Patch
	if was == nil && len(is) > 0 {
		p = append(p, Op{Op: "test", Path: path}, Op{Op: "add", Path: path, Value: map[string]string{}})
	}
	for _, k := range slices.Sorted(maps.Keys(is)) {
		if old, ok := was[k]; !ok || old != is[k] {
			p = append(p, Op{Op: "add", Path: path + "/" + escape(k), Value: is[k]})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if _, ok := is[k]; !ok {
			p = append(p, Op{Op: "remove", Path: path + "/" + escape(k)})
		}
	}
	return p
}

func taintOps(was, is []corev1.Taint) Patch {
	if len(was) == len(is) && (len(is) == 0 || reflect.DeepEqual(was, is)) {
		return nil
	}
	if len(was) == 0 {
		return Patch{{Op: "test", Path: "/spec/taints"}, {Op: "add", Path: "/spec/taints", Value: is}}
	}
	if len(was) < len(is) && reflect.DeepEqual(was, is[:len(was)]) {
		return appended(is[len(was):])
	}
	test := Op{Op: "test", Path: "/spec/taints", Value: was}
	if len(is) == 0 {
		return Patch{test, {Op: "remove", Path: "/spec/taints"}}
	}
	return Patch{test, {Op: "replace", Path: "/spec/taints", Value: is}}
}

// appended adds taints to a list that is not empty. It tests none of those that stand there: the
// node controller changes its own in the first minutes of a Node and whenever a machine starts or
// stops, and each of these changes would refuse the step. One that came meanwhile is refused as a
// duplicate by the API server (its validateNodeTaints), which is the same error as a test that
// failed.
func appended(taints []corev1.Taint) Patch {
	p := make(Patch, 0, len(taints))
	for i := range taints {
		p = append(p, Op{Op: "add", Path: "/spec/taints/-", Value: taints[i]})
	}
	return p
}

func cordonOps(was, is bool) Patch {
	switch {
	case was && !is:
		return Patch{{Op: "test", Path: "/spec/unschedulable", Value: true}, {Op: "remove", Path: "/spec/unschedulable"}}
	case !was && is:
		return Patch{{Op: "add", Path: "/spec/unschedulable", Value: true}}
	}
	return nil
}

// escape writes a key as one JSON pointer token (RFC 6901).
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
