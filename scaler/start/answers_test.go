package start

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestAnAcceptedStartIsNotAskedForAgain: while the API server is away the leader decides again and
// again, by one list of the cloud, that the start was not carried out. What it decided before the
// call was accepted asks for nothing after it.
func TestAnAcceptedStartIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStarting))
		seen := time.Now()
		<-time.After(time.Second)
		r.run(func() {
			r.starter.Resume("c", TriggerPending, seen)
			synctest.Wait()
			r.starter.Resume("c", TriggerPending, seen)
			synctest.Wait()
			r.want("start i-c")

			<-time.After(time.Minute) // a list of now shows that the accepted call came to nothing
			r.starter.Resume("c", TriggerPending, time.Now())
		})
		r.want("start i-c", "start i-c")
	})
}

// TestAnswersAreRemembered: acceptance and refusals of calls are told, for an hour at most.
func TestAnswersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStarting))
		refused := &provider.RateLimitError{Operation: "StartInstances", Err: errMovedOn}
		r.answer = func(n int) error {
			if n == 1 {
				return refused
			}
			return nil
		}
		r.run(func() {
			r.starter.Resume("c", TriggerPending, time.Now())
			synctest.Wait()
			if got := r.starter.AnswerOf("c"); got.Refused != refused.Error() || !got.Accepted.IsZero() {
				t.Errorf("after a refusal: %+v", got)
			}
			<-time.After(time.Minute)
		})
		if got := r.starter.AnswerOf("c"); got.Refused != "" || got.Accepted.IsZero() {
			t.Errorf("after the call was accepted: %+v", got)
		}
		<-time.After(2 * answerKept)
		r.starter.answered("other", nil)
		if got := r.starter.AnswerOf("c"); !got.Accepted.IsZero() {
			t.Errorf("after %s: %+v", 2*answerKept, got)
		}
	})
}
