package waiting

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// hangGuard ends a wait that will never end.
const hangGuard = time.Minute

// until waits for a condition; an error of the condition says what is still missing.
func until(t *testing.T, done func(context.Context) error) {
	t.Helper()
	err := framework.Until(t.Context(), hangGuard, func(ctx context.Context) (bool, error) {
		err := done(ctx)
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// notesOn are the texts of the events with that reason on the object, oldest first.
func notesOn(ctx context.Context, r *framework.Rig, reason v1alpha1.Reason, regarding types.UID) ([]string, error) {
	list := &eventsv1.EventList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, err
	}
	var notes []string
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == string(reason) && e.Regarding.UID == regarding {
			notes = append(notes, e.Note)
		}
	}
	return notes, nil
}

// awaitNote waits for an event with that reason on the pod whose text contains all the words, and
// returns its text.
func awaitNote(t *testing.T, r *framework.Rig, pod *corev1.Pod, reason v1alpha1.Reason, words ...string) string {
	t.Helper()
	found := ""
	until(t, func(ctx context.Context) error {
		notes, err := notesOn(ctx, r, reason, pod.UID)
		if err != nil {
			return err
		}
		for _, note := range notes {
			if containsAll(note, words) {
				found = note
				return nil
			}
		}
		return fmt.Errorf("pod %s: no event %s with %q, those there are say %q", pod.Name, reason, words, notes)
	})
	return found
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// starts are the instances started so far, in order.
func starts(t *testing.T, r *framework.Rig) []string {
	t.Helper()
	ids, err := r.Starts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// nodesOf are the nodes of a pool.
func nodesOf(t *testing.T, r *framework.Rig, pool string) []corev1.Node {
	t.Helper()
	list := &corev1.NodeList{}
	if err := r.Client.List(t.Context(), list, client.MatchingLabels{v1alpha1.LabelPool: pool}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// on sends a pod to the nodes of one pool.
func on(pool string, pod *corev1.Pod) *corev1.Pod {
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	pod.Spec.NodeSelector[v1alpha1.LabelPool] = pool
	return pod
}

// ask asks /filter as the scheduler does. An answer other than 200 is an error with its code and
// text.
func ask(url string, pod *corev1.Pod, nodes ...string) (extenderv1.ExtenderFilterResult, error) {
	var answer extenderv1.ExtenderFilterResult
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes})
	if err != nil {
		return answer, err
	}
	response, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, err
	}
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("POST %s: %d %s", url, response.StatusCode, text)
	}
	err = json.Unmarshal(text, &answer)
	return answer, err
}
