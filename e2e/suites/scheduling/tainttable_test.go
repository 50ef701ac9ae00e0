package scheduling

import corev1 "k8s.io/api/core/v1"

// plot is one node of a case. Its size follows from its place in the list, larger ones first, so
// that where several nodes take the pod the scores differ by far and both profiles have one best
// node.
type plot struct {
	taints   []corev1.Taint
	cordoned bool
}

// taintCase is a pod's tolerations against two or three nodes.
type taintCase struct {
	nodes       []plot
	tolerations []corev1.Toleration
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

func tainted(taints ...corev1.Taint) plot { return plot{taints: taints} }

func equals(key, value string, effect corev1.TaintEffect) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: value, Effect: effect}
}

func exists(key string, effect corev1.TaintEffect) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
}

func tolerate(t ...corev1.Toleration) []corev1.Toleration { return t }

// taintCases are named after what they ask. "gpu" and "team" are taints that people set.
func taintCases() map[string]taintCase {
	const (
		noSchedule = corev1.TaintEffectNoSchedule
		noExecute  = corev1.TaintEffectNoExecute
		prefer     = corev1.TaintEffectPreferNoSchedule
		anyEffect  = corev1.TaintEffect("")
	)
	free, cordoned := plot{}, plot{cordoned: true}
	gpu, gpuA, gpuB := taint("gpu", "", noSchedule), taint("gpu", "a", noSchedule), taint("gpu", "b", noSchedule)
	gpuOut, gpuPrefer := taint("gpu", "a", noExecute), taint("gpu", "a", prefer)
	team := taint("team", "red", noSchedule)
	plane := taint("node-role.kubernetes.io/control-plane", "", noSchedule)
	week := int64(7 * 24 * 3600)
	return map[string]taintCase{
		"no taints at all":                                 {nodes: []plot{free, free}},
		"NoSchedule turns an intolerant pod away":          {nodes: []plot{tainted(gpuA), free}},
		"NoSchedule everywhere leaves nothing":             {nodes: []plot{tainted(gpuA), tainted(gpuB)}},
		"NoExecute turns an intolerant pod away":           {nodes: []plot{tainted(gpuOut), free}},
		"NoExecute everywhere leaves nothing":              {nodes: []plot{tainted(gpuOut), tainted(gpuOut)}},
		"PreferNoSchedule keeps off where another node is": {nodes: []plot{tainted(gpuPrefer), free}},
		"PreferNoSchedule everywhere keeps nobody off":     {nodes: []plot{tainted(gpuPrefer), tainted(gpuPrefer)}},
		"PreferNoSchedule is not avoided by who tolerates it": {nodes: []plot{tainted(gpuPrefer), free},
			tolerations: tolerate(equals("gpu", "a", prefer))},
		"fewer avoided taints are better": {
			nodes: []plot{tainted(gpuPrefer, taint("team", "red", prefer)), tainted(gpuPrefer)},
		},
		"Equal with the value": {nodes: []plot{tainted(gpuA), tainted(gpuB)},
			tolerations: tolerate(equals("gpu", "a", noSchedule))},
		"Equal with another value": {nodes: []plot{tainted(gpuA), tainted(gpuA)},
			tolerations: tolerate(equals("gpu", "c", noSchedule))},
		"Equal with another key": {nodes: []plot{tainted(gpuA), tainted(team)},
			tolerations: tolerate(equals("cpu", "a", noSchedule))},
		"Equal with another effect": {nodes: []plot{tainted(gpuA), tainted(gpuOut)},
			tolerations: tolerate(equals("gpu", "a", noExecute))},
		"Equal without an effect covers every effect": {nodes: []plot{tainted(gpuOut), tainted(gpuA), tainted(gpuB)},
			tolerations: tolerate(equals("gpu", "a", anyEffect))},
		"Equal without a value covers the taint without": {nodes: []plot{tainted(gpuA), tainted(gpu)},
			tolerations: tolerate(equals("gpu", "", noSchedule))},
		"a toleration without an operator means Equal": {nodes: []plot{tainted(gpuB), tainted(gpuA)},
			tolerations: tolerate(corev1.Toleration{Key: "gpu", Value: "a", Effect: noSchedule})},
		"Exists covers every value": {nodes: []plot{tainted(gpuA), tainted(gpuB), tainted(team)},
			tolerations: tolerate(exists("gpu", noSchedule))},
		"Exists with another effect": {nodes: []plot{tainted(gpuA), tainted(gpuB)},
			tolerations: tolerate(exists("gpu", noExecute))},
		"Exists without an effect covers every effect": {nodes: []plot{tainted(gpuOut), tainted(gpuA), tainted(team)},
			tolerations: tolerate(exists("gpu", anyEffect))},
		"Exists without a key but with an effect": {nodes: []plot{tainted(gpuOut), tainted(team), tainted(gpuA)},
			tolerations: tolerate(exists("", noSchedule))},
		"tolerate everything": {nodes: []plot{tainted(gpuOut, team, plane), tainted(gpuA)},
			tolerations: tolerate(exists("", anyEffect))},
		"tolerate everything includes the cordon": {nodes: []plot{cordoned, tainted(gpuA)},
			tolerations: tolerate(exists("", anyEffect))},
		"one of two taints tolerated is not enough": {nodes: []plot{tainted(gpuA, team), tainted(team)},
			tolerations: tolerate(exists("gpu", noSchedule))},
		"two taints, two tolerations": {nodes: []plot{tainted(gpuA, team), tainted(gpuB, team)},
			tolerations: tolerate(equals("gpu", "a", noSchedule), exists("team", noSchedule))},
		"one key with two effects needs both tolerated": {nodes: []plot{tainted(gpuA, gpuOut), tainted(gpuA)},
			tolerations: tolerate(equals("gpu", "a", noSchedule))},
		"a tolerated NoSchedule beside a PreferNoSchedule": {nodes: []plot{tainted(gpuA, taint("team", "red", prefer)),
			tainted(gpuA)}, tolerations: tolerate(equals("gpu", "a", noSchedule))},
		"a cordoned node takes nothing": {nodes: []plot{cordoned, free}},
		"cordoned nodes only":           {nodes: []plot{cordoned, cordoned}},
		"the cordon tolerated by its key": {nodes: []plot{cordoned, tainted(gpuA)},
			tolerations: tolerate(exists(corev1.TaintNodeUnschedulable, noSchedule))},
		"the cordon tolerated by Equal without a value": {nodes: []plot{cordoned, tainted(gpuA)},
			tolerations: tolerate(equals(corev1.TaintNodeUnschedulable, "", noSchedule))},
		"the cordon tolerated for the wrong effect": {nodes: []plot{cordoned, cordoned},
			tolerations: tolerate(exists(corev1.TaintNodeUnschedulable, noExecute))},
		"the cordon tolerated, a taint beside it not": {nodes: []plot{{taints: []corev1.Taint{gpuA}, cordoned: true},
			cordoned}, tolerations: tolerate(exists(corev1.TaintNodeUnschedulable, noSchedule))},
		"a taint tolerated, the cordon beside it not": {nodes: []plot{{taints: []corev1.Taint{gpuA}, cordoned: true},
			tainted(gpuA)}, tolerations: tolerate(exists("gpu", noSchedule))},
		"both cordon and taint tolerated": {nodes: []plot{{taints: []corev1.Taint{gpuA}, cordoned: true},
			tainted(team)}, tolerations: tolerate(exists(corev1.TaintNodeUnschedulable, anyEffect), exists("gpu", anyEffect))},
		"control planes take no ordinary pod": {nodes: []plot{tainted(plane), free}},
		"control planes take who tolerates them": {nodes: []plot{tainted(plane), tainted(gpuA)},
			tolerations: tolerate(exists("node-role.kubernetes.io/control-plane", noSchedule))},
		"NoExecute tolerated for a time is tolerated": {nodes: []plot{tainted(gpuOut), tainted(gpuA)},
			tolerations: tolerate(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: noExecute,
				TolerationSeconds: &week})},
		"what the standby taint would be on a foreign node": {nodes: []plot{tainted(taint("stratos.sh/standby", "",
			noSchedule)), free}},
	}
}
