package node

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
)

// startMarks has the marks of the starts under way. Starts that were under way when this process
// first saw their nodes have none: what it did not see cannot be told. The zero value is ready.
type startMarks struct {
	// mu guards seen.
	mu   sync.Mutex
	seen map[v1alpha1.InstanceID]startRecord
}

// startRecord is what is known of an instance whose node this process has seen while it was not
// starting.
type startRecord struct {
	// bootID is the last one before the start.
	bootID string
	// marks are nil while no start is under way.
	marks *lifecycle.StartMarks
}

// observe takes in an observation of the instance, whose Node may be nil.
func (s *startMarks) observe(id v1alpha1.InstanceID, node *corev1.Node, o *lifecycle.Observation, now time.Time) {
	if node == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[v1alpha1.InstanceID]startRecord{}
	}
	bootID := node.Status.NodeInfo.BootID
	record, known := s.seen[id]
	switch {
	case o.Node.State != v1alpha1.StateStarting:
		s.seen[id] = startRecord{bootID: bootID}
		return
	case !known:
		return
	case record.marks == nil:
		record.marks = lifecycle.NewStartMarks(o.Node.Started)
	case !record.marks.Began.Equal(o.Node.Started): // the one before failed
		record = startRecord{bootID: bootID, marks: lifecycle.NewStartMarks(o.Node.Started)}
	}
	s.seen[id] = record
	record.marks.Observe(o, bootID != "" && bootID != record.bootID, now)
}

// phases are those of the instance's start if it ends now; nil where they are not known.
func (s *startMarks) phases(id v1alpha1.InstanceID, began, now time.Time) map[v1alpha1.StartPhase]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	record := s.seen[id]
	if record.marks == nil || !record.marks.Began.Equal(began) {
		return nil
	}
	return record.marks.Phases(now)
}

// forget drops an instance that is gone.
func (s *startMarks) forget(id v1alpha1.InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, id)
}
