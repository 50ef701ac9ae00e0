package nodeclass

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

// origin is what an instance was, or would be, launched from. Each part is empty where it is not
// known.
type origin struct {
	class, template, ami string
	// instanceType is what the instance is, types what the class names; each is unset in the other's
	// origin.
	instanceType string
	types        []string
}

// typed is a class whose instances have types.
type typed interface{ NamedTypes() []string }

// DesiredOrigin is what would be launched for the pool now. A class that does not exist is not
// known.
func DesiredOrigin(ctx context.Context, classes Kinds, pool *v1alpha1.NodePool) origin {
	o := origin{template: pool.Spec.Template.Hash()}
	if class, _, err := classes.Get(ctx, pool.Spec.Template.NodeClassRef); err == nil {
		o.class, o.ami = class.SpecHash(), class.ResolvedImage()
		if t, ok := class.(typed); ok {
			o.types = t.NamedTypes()
		}
	}
	return o
}

// OriginOf is what the instance was launched from: its tags say it, and the Node's annotations
// where an instance has none. Its type is what the cloud says: nothing keeps the Node's label up to
// date.
func OriginOf(e inventory.Entry, n *corev1.Node) origin {
	read := func(key string, ok func(string) bool) string {
		if v := e.Tags[key]; ok(v) {
			return v
		}
		if v := n.Annotations[key]; ok(v) {
			return v
		}
		return ""
	}
	said := func(v string) bool { return v != "" }
	return origin{
		class: read(v1alpha1.AnnotationNodeClassHash, v1alpha1.IsHash), template: read(v1alpha1.AnnotationTemplateHash,
			v1alpha1.IsHash),
		ami:          read(v1alpha1.AnnotationAMI, said),
		instanceType: cmp.Or(e.Type, n.Labels[corev1.LabelInstanceTypeStable]),
	}
}

// Key names class and template: instances with the same key were launched from the same.
func (o origin) Key() string { return o.class + "/" + o.template }

// LaunchKey names all that the cloud may refuse a launch for.
func (o origin) LaunchKey() string { return o.Key() + "/" + strings.Join(o.types, ",") }

// Drift words how the node differs from what would be launched now; empty where it does not, or
// that is not known.
func (o origin) Drift(now origin) string {
	differ := func(was, is string) bool { return was != "" && is != "" && was != is }
	switch {
	case differ(o.template, now.template):
		return "drifted: spec.template of the NodePool has changed since its launch"
	case differ(o.class, now.class):
		return "drifted: the node class has changed since its launch"
	case differ(o.ami, now.ami):
		return "drifted: launched from " + o.ami + ", and the node class means " + now.ami + " now"
	case o.instanceType != "" && len(now.types) > 0 && !slices.Contains(now.types, o.instanceType):
		return "drifted: its instance type is " + o.instanceType + ", which the node class no longer names"
	}
	return ""
}

// MissingFrom are the annotations that take a node whose launch was not written down, or an older
// Stratos in another way, for one that was launched from what stands now: it is not replaced for an
// upgrade of Stratos.
func (o origin) MissingFrom(now origin) map[string]string {
	out := map[string]string{}
	for key, pair := range map[string][2]string{
		v1alpha1.AnnotationNodeClassHash: {o.class, now.class}, v1alpha1.AnnotationTemplateHash: {o.template, now.template},
		v1alpha1.AnnotationAMI: {o.ami, now.ami},
	} {
		if pair[0] == "" && pair[1] != "" {
			out[key] = pair[1]
		}
	}
	return out
}

// Annotations are the parts that are known, by the key of their tag and annotation.
func (o origin) Annotations() map[string]string { return origin{}.MissingFrom(o) }
