package parity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tolerationsAndTaints is a world with a pending pod for each toleration that can be written with a
// few words, and a cordoned and an open node for each such taint.
func tolerationsAndTaints() *World {
	world := &World{}
	for _, toleration := range allTolerations() {
		name := fmt.Sprintf("pod-%d", len(world.Waiting))
		world.Waiting = append(world.Waiting, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{Tolerations: []corev1.Toleration{toleration}},
		})
	}
	for _, taint := range allTaints() {
		for _, cordoned := range []bool{false, true} {
			world.Nodes = append(world.Nodes, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", len(world.Nodes))},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{taint}, Unschedulable: cordoned},
			})
		}
	}
	return world
}

func allTolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range append(taintKeys(), "") {
		for _, operator := range []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists,
			corev1.TolerationOpLt, corev1.TolerationOpGt, "Odd"} {
			for _, value := range taintValues() {
				for _, effect := range append(taintEffects(), "") {
					all = append(all, corev1.Toleration{Key: key, Operator: operator, Value: value, Effect: effect})
				}
			}
		}
	}
	return all
}

func allTaints() []corev1.Taint {
	var all []corev1.Taint
	for _, key := range taintKeys() {
		for _, value := range taintValues() {
			for _, effect := range taintEffects() {
				all = append(all, corev1.Taint{Key: key, Value: value, Effect: effect})
			}
		}
	}
	return all
}

func taintKeys() []string { return []string{"k", "l", corev1.TaintNodeUnschedulable} }

func taintValues() []string { return []string{"", "1", "2", "x"} }

func taintEffects() []corev1.TaintEffect {
	return []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
		corev1.TaintEffectPreferNoSchedule}
}
