package fit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func requirement(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func expressions(r ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: r}
}

func fields(r ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: r}
}

func nodeSelector(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = set(pairs...) }
}

func TestSelects(t *testing.T) {
	const elsewhere = "node(s) didn't match Pod's node affinity/selector"
	named := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
	cases := map[string]struct {
		wants []func(*corev1.Pod)
		want  string
	}{
		"a pod that asks for nothing":     {},
		"a selector that matches":         {wants: []func(*corev1.Pod){nodeSelector("disk", "ssd")}},
		"a selector of another value":     {wants: []func(*corev1.Pod){nodeSelector("disk", "hdd")}, want: elsewhere},
		"a selector of a label not there": {wants: []func(*corev1.Pod){nodeSelector("gpu", "yes")}, want: elsewhere},
		"affinity In": {wants: []func(*corev1.Pod){nodeAffinity(expressions(requirement("disk", "In",
			"hdd", "ssd")))}},
		"affinity NotIn": {wants: []func(*corev1.Pod){nodeAffinity(expressions(requirement("disk", "NotIn",
			"ssd")))}, want: elsewhere},
		"NotIn is true of a missing label": {wants: []func(*corev1.Pod){nodeAffinity(expressions(requirement("gpu", "NotIn",
			"yes")))}},
		"Exists and DoesNotExist": {wants: []func(*corev1.Pod){nodeAffinity(expressions(requirement("disk",
			"Exists"), requirement("gpu", "DoesNotExist")))}},
		"Gt compares numbers": {wants: []func(*corev1.Pod){nodeAffinity(expressions(requirement("cores", "Gt",
			"9")))}},
		"Lt compares numbers": {wants: []func(*corev1.Pod){nodeAffinity(expressions(requirement("cores", "Lt",
			"9")))}, want: elsewhere},
		"terms are alternatives": {wants: []func(*corev1.Pod){nodeAffinity(expressions(requirement("gpu",
			"Exists")), expressions(requirement("disk", "Exists")))}},
		"expressions of a term add up": {wants: []func(*corev1.Pod){nodeAffinity(expressions(requirement("gpu", "Exists"),
			requirement("disk", "Exists")))}, want: elsewhere},
		"an empty term selects nothing": {wants: []func(*corev1.Pod){nodeAffinity(corev1.NodeSelectorTerm{})},
			want: elsewhere},
		"no terms select nothing": {wants: []func(*corev1.Pod){nodeAffinity()}, want: elsewhere},
		"a term that does not parse is skipped": {
			wants: []func(*corev1.Pod){nodeAffinity(expressions(requirement("disk", "Odd")),
				expressions(requirement("disk", "Exists")))},
		},
		"selector and affinity both hold": {
			wants: []func(*corev1.Pod){nodeSelector("disk", "ssd"), nodeAffinity(expressions(requirement("gpu", "Exists")))},
			want:  elsewhere,
		},
		"the field metadata.name": {wants: []func(*corev1.Pod){nodeAffinity(fields(requirement("metadata.name",
			"In", "node-1")))}},
		"the field metadata.name, another's": {wants: []func(*corev1.Pod){nodeAffinity(fields(requirement("metadata.name",
			"In", "node-2")))}, want: elsewhere},
		"not the node of that name": {wants: []func(*corev1.Pod){nodeAffinity(fields(requirement("metadata.name",
			"NotIn", "node-1")))}, want: elsewhere},
		"fields of two names never match": {wants: []func(*corev1.Pod){nodeAffinity(fields(requirement("metadata.name",
			"In", "node-1", "node-2")))}, want: elsewhere},
		"spec.nodeName of this node": {wants: []func(*corev1.Pod){named("node-1")}},
		"spec.nodeName of another comes first": {wants: []func(*corev1.Pod){named("node-2"), nodeSelector("gpu", "yes")},
			want: "node(s) didn't match the requested node name"},
	}
	labels := set("disk", "ssd", "cores", "16")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := podWith("p", nil, c.wants...)
			got := Selects(pod, "node-1", labels)
			wantMessage(t, got, c.want)
			if got != nil && (got.Reason != ReasonAffinity || !got.Unresolvable) {
				t.Errorf("refusal %+v: no eviction changes a label", got)
			}
			if diff := cmp.Diff(got, NewPod(pod, nil).Selects("node-1", labels)); diff != "" {
				t.Errorf("the digest judges otherwise:\n%s", diff)
			}
		})
	}
}
