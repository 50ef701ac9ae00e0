package parity

import (
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dice makes the worlds. Their words are few (three zones, three apps), so that pods and nodes
// often mean each other.
type dice struct{ *rand.Rand }

// stream tells our random numbers from those of any other user of the same seed.
const stream = 7

func throw(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, stream))} }

func (d dice) oneIn(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// selector covers what a label selector can be: none, everything, a word, and expressions that also
// match nothing.
func (d dice) selector() *metav1.LabelSelector {
	switch d.IntN(12) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return selecting("app", metav1.LabelSelectorOpNotIn, pick(d, "a", "b"))
	case 3:
		return selecting("rev", metav1.LabelSelectorOpExists)
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(d, "a", "b", "c")}}
	}
}

func (d dice) namespaceSelector() *metav1.LabelSelector {
	switch d.IntN(6) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	case 2:
		return selecting("team", metav1.LabelSelectorOpDoesNotExist)
	default:
		return nil
	}
}

func selecting(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: key, Operator: operator, Values: values},
	}}
}
