package start

import (
	"maps"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// answerKept is how long a cloud's answer is remembered: longer than any start takes whose answer
// a user asks for.
const answerKept = time.Hour

// Answer is what the cloud last said to this process's calls to start a node.
type Answer struct {
	// Accepted is when the cloud accepted a call; zero where it accepted none.
	Accepted time.Time
	// Refused holds the cloud's words, where the last call was refused.
	Refused string
	// at is when the last call was answered.
	at time.Time
}

// AnswerOf returns the last answer for the node. It may belong to an earlier start.
func (s *Starter) AnswerOf(node v1alpha1.NodeName) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[node]
}

// answered remembers the cloud's answer to a call. An accepted start is no longer to be called for.
// Both happen under one lock, so that Resume cannot come between them.
func (s *Starter) answered(node v1alpha1.NodeName, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	maps.DeleteFunc(s.answers, func(_ v1alpha1.NodeName, a Answer) bool { return now.Sub(a.at) > answerKept })
	a := s.answers[node]
	a.at, a.Refused = now, ""
	if err == nil {
		a.Accepted = now
		delete(s.calls, node)
	} else {
		a.Refused = err.Error()
	}
	s.answers[node] = a
}
