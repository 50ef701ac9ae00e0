package parity

import (
	"context"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

// Question is what both sides are asked about every pending pod and every node of a world.
type Question struct {
	// Filters are the scheduler's side.
	Filters []string
	// Ours is fit's side.
	Ours func(*World) Opinion
}

// DoesItFit asks for everything that package fit stands for.
func DoesItFit() Question { return Question{Filters: filters(), Ours: everything} }

// MayItBeScheduled asks for the two filters that the dedicated profile moves into the extender:
// kube-scheduler does not run them there any more, so only fit decides.
func MayItBeScheduled() Question { return Question{Filters: moved(), Ours: taintsAndCordons} }

// Tally counts the scheduler's decisions by plugin and first message, so that a test can show what
// it looked at.
type Tally map[string]int

// quoted are the names in messages, which would make a line of each claim.
var quoted = regexp.MustCompile(`"[^"]*"`)

func (t Tally) note(verdict Verdict) {
	if t == nil {
		return
	}
	verdict.Unresolvable = false
	if !verdict.fits() {
		verdict.Messages = verdict.Messages[:1]
	}
	t[quoted.ReplaceAllString(verdict.String(), `"..."`)]++
}

// Compare puts the question to both sides and returns where they disagree. It adds the decisions to
// the tally, which may be nil. An error says that a side could not be asked.
func Compare(ctx context.Context, world *World, question Question, tally Tally) ([]Disagreement, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scheduler, err := NewScheduler(ctx, world, question.Filters)
	if err != nil {
		return nil, fmt.Errorf("build the scheduler's filters: %w", err)
	}
	theirs := func(pod *corev1.Pod) ([]Verdict, error) { return scheduler.Judge(ctx, pod) }
	ours := question.Ours(world)
	var found []Disagreement
	for _, pod := range world.Waiting {
		disagreements, err := comparePod(world, pod, theirs, ours, tally)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		found = append(found, disagreements...)
	}
	return found, nil
}

func comparePod(world *World, pod *corev1.Pod, theirs, ours Opinion, tally Tally) ([]Disagreement, error) {
	scheduler, err := theirs(pod)
	if err != nil {
		return nil, err
	}
	fit, err := ours(pod)
	if err != nil {
		return nil, err
	}
	var found []Disagreement
	for i, node := range world.Nodes {
		tally.note(scheduler[i])
		if what := difference(scheduler[i], fit[i]); what != "" {
			found = append(found, Disagreement{
				Pod: pod.Name, Node: node.Name, What: what, Scheduler: scheduler[i], Fit: fit[i],
			})
		}
	}
	return found, nil
}
