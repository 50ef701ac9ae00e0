package nominate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

const (
	// conflictTries is how often one write is tried while others write to the pod.
	conflictTries = 5
	// logEvery spaces the log lines about one cause.
	logEvery = 10 * time.Minute
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// nominate writes the nomination of the pod to the node where it is due, and counts what came of
// it. It returns the pod's new version, "" where nothing was written. While the node is closed it
// is written once under a claim: where the scheduler cleared it, it would do so again.
func (n *Nominator) nominate(ctx context.Context, pod *corev1.Pod, node v1alpha1.NodeName) (version string, err error) {
	return n.write(ctx, pod, node, func(pod *corev1.Pod) bool { return n.isDue(pod, node) })
}

// clear takes a nomination of ours away that has lost its claim, and counts what came of it.
func (n *Nominator) clear(ctx context.Context, pod *corev1.Pod) error {
	_, err := n.write(ctx, pod, "", n.isStale)
	return err
}

// write has the pod nominated to the node, "" for none, as long as that is due. A conflict is tried
// again on the pod as the API server has it. A pod that is gone needs nothing.
func (n *Nominator) write(ctx context.Context, pod *corev1.Pod, node v1alpha1.NodeName,
	due func(*corev1.Pod) bool) (version string, err error) {
	for range conflictTries {
		if !due(pod) {
			return "", nil
		}
		if version, err = n.patch(ctx, pod, node); err == nil {
			n.written(pod, node)
			return version, nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
		if pod, err = n.read(ctx, pod); pod == nil || err != nil {
			break
		}
		err = errConflicts
	}
	if err = client.IgnoreNotFound(err); err != nil {
		n.count(n.failures.note(err))
	}
	return "", err
}

var errConflicts = errors.New("other programs keep changing the pod")

func (n *Nominator) written(pod *corev1.Pod, node v1alpha1.NodeName) {
	if node == "" {
		n.count(Cleared)
		return
	}
	n.state.RecordNomination(pod.UID, node)
	n.count(Written)
}

// nomination is the patch of a pod's status. The API server refuses it with a conflict where the
// pod is not the one, or not in the version, that it was decided by.
type nomination struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		// NominatedNodeName is null to clear the field.
		NominatedNodeName *v1alpha1.NodeName `json:"nominatedNodeName"`
	} `json:"status"`
}

func (n *Nominator) patch(ctx context.Context, pod *corev1.Pod, node v1alpha1.NodeName) (version string, err error) {
	body := nomination{}
	body.Metadata.UID, body.Metadata.ResourceVersion = pod.UID, pod.ResourceVersion
	if node != "" {
		body.Status.NominatedNodeName = &node
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	answer := &corev1.Pod{}
	answer.Namespace, answer.Name = pod.Namespace, pod.Name
	err = n.writer.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, raw),
		client.FieldOwner(v1alpha1.FieldManagerNomination))
	if err != nil {
		return "", fmt.Errorf("nominate pod %s/%s to node %q: %w", pod.Namespace, pod.Name, node, err)
	}
	return answer.ResourceVersion, nil
}

// read returns the pod as the API server has it, nil where it is gone or another one has its name.
// It is listed, because the permission to list pods is there already.
func (n *Nominator) read(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := n.live.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingFields{"metadata.name": pod.Name})
	if err != nil {
		return nil, fmt.Errorf("read pod %s/%s after a conflict: %w", pod.Namespace, pod.Name, err)
	}
	for i := range list.Items {
		if list.Items[i].UID == pod.UID {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// isRefusal reports whether the API server does not want the write, so that it is not tried again.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusConflict, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// failures remembers which writes failed.
type failures struct {
	log logr.Logger
	now func() time.Time
	// mu guards the fields below.
	mu sync.Mutex
	// slow is when a write last had no answer in time.
	slow time.Time
	// logged is when each cause was last logged.
	logged map[string]time.Time
}

// note takes in why a write failed and returns what that counts as. A cause is logged once, and
// again after logEvery: a policy that refuses one write refuses those of a whole burst.
func (f *failures) note(err error) Result {
	result, cause := Failed, string(apierrors.ReasonForError(err))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		result, cause = Slow, "no answer within "+WriteTime.String()
	case isRefusal(err):
		result = Refused
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if result == Slow {
		f.slow = now
	}
	if at, known := f.logged[cause]; known && now.Sub(at) < logEvery {
		return result
	}
	f.logged[cause] = now
	f.log.Info("pods are not nominated to their claimed nodes; nodes open without", "cause", cause, "error", err.Error())
	return result
}

// slowLately reports whether a write was slow within slowFor.
func (f *failures) slowLately() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.slow.IsZero() && f.now().Sub(f.slow) < slowFor
}
