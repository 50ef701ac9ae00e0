package parity

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func TestShrinkLeavesWhatMatters(t *testing.T) {
	tests := map[string]struct {
		world *World
		shows func(*World) bool
		want  string
	}{
		"one pod of many, with the one field": {
			world: Generate(firstSeed),
			shows: func(w *World) bool {
				return slices.ContainsFunc(w.Waiting, func(pod *corev1.Pod) bool {
					return pod.Name == "waits-3" && len(pod.Spec.Containers) > 0 && pod.Spec.Containers[0].Name == "main"
				})
			},
			want: "waiting:\n- metadata:\n    name: waits-3\n    uid: waits-3\n  spec:\n    containers:\n    - name: main\n",
		},
		"a node that can go only once its pod has": {
			world: &World{Nodes: []*corev1.Node{node("n0"), node("n1")}, Placed: []*corev1.Pod{placed("a", "n0"),
				placed("b", "n1")}},
			shows: func(w *World) bool {
				return slices.ContainsFunc(w.Placed, func(pod *corev1.Pod) bool { return pod.Name == "b" })
			},
			want: "nodes:\n- metadata:\n    name: n1\nplaced:\n- metadata:\n    name: b\n    uid: b\n  spec:\n    nodeName: n1\n",
		},
		"nothing at all": {
			world: Generate(firstSeed),
			shows: func(*World) bool { return true },
			want:  "{}\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := Shrink(tt.world, tt.shows)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != tt.want {
				t.Errorf("got\n%s\nwant\n%s", text, tt.want)
			}
			if world, err := ReadWorld(text); err != nil || !tt.shows(world) {
				t.Errorf("the text is no world that shows it: %v", err)
			}
		})
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func placed(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node}}
}

func TestShrinkRefusesAWorldThatShowsNothing(t *testing.T) {
	if text, err := Shrink(Generate(firstSeed), func(*World) bool { return false }); err == nil {
		t.Errorf("got\n%s\nwant an error", text)
	}
}

func TestOneSeedMakesOneWorld(t *testing.T) {
	whole := func(seed uint64) string {
		text, err := yaml.Marshal(Generate(seed))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	once, again := whole(firstSeed), whole(firstSeed)
	if once != again {
		t.Error("a disagreement could not be found again: the same seed made two worlds")
	}
	if once == whole(firstSeed+1) {
		t.Error("two seeds made the same world")
	}
}
