package scenario

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// targetCandidates is the number that the design's target is about, and serverBound its 5 ms as the
// metric writes them.
const (
	targetCandidates = 5000
	serverBound      = "0.005"
)

// filterScenario asks over HTTPS, Stratos and the floor in turn, with ever more candidates. No node
// is of a pool, and all are tainted: one pod tolerates the taint, so that all are kept, another
// does not, so that each is refused.
func filterScenario(ctx context.Context, r *Run) (err error) {
	dir, err := os.MkdirTemp("", "stratos-bench-tls-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return r.on(ctx, env.Options{Load: true, NoStratos: true}, func(s *env.Env) error {
		ours, err := s.StartTLS(ctx, dir)
		if err != nil {
			return err
		}
		defer ours.Close()
		floor, end := tlsFloor(s)
		defer end()
		growth, nodes := map[string][]figures.Point{}, 0
		for _, size := range []int{r.n(100, 10), r.n(1000, 20), r.n(5000, 40), r.n(10000, 80)} {
			if err := s.AddNodes(ctx, env.LoadNodes(nodes, size, true)); err != nil {
				return err
			}
			nodes = size
			// thousands of new nodes keep kube-controller-manager and all watches busy for seconds
			if err := env.Pause(ctx, settled); err != nil {
				return err
			}
			r.say("%d nodes", size)
			if err := askAll(ctx, r, s, asked{ours, floor, size}, growth); err != nil {
				return fmt.Errorf("%d candidates: %w", size, err)
			}
		}
		for _, name := range []string{"/filter, all kept", "/filter, all refused", "/prioritize"} {
			r.add(figures.Grown("growth of "+name+" with its candidates", figures.Milliseconds, growth[name], 1.15,
				"at most linear (n^1.15)"))
		}
		return nil
	})
}

// tlsFloor serves the floor over HTTPS; it keeps all nodes.
func tlsFloor(s *env.Env) (*env.Asker, func()) {
	s.Floor.KeepAll()
	server := httptest.NewTLSServer(s.Floor)
	authority := x509.NewCertPool()
	authority.AddCert(server.Certificate())
	floor := env.NewAsker(server.URL, authority)
	return floor, func() {
		floor.Close()
		server.Close()
	}
}

// asked is who is asked, and with how many candidates.
type asked struct {
	ours, floor *env.Asker
	size        int
}

func askAll(ctx context.Context, r *Run, s *env.Env, a asked, growth map[string][]figures.Point) error {
	names := make([]string, a.size)
	for i := range names {
		names[i] = env.LoadName(i)
	}
	tolerant, refused := framework.Pod("tolerant", "cpu", "1"), framework.Pod("refused", "cpu", "1")
	tolerant.UID, refused.UID = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: env.LoadTaint, Operator: corev1.TolerationOpExists}}
	for _, kind := range []struct {
		name, verb string
		pod        *corev1.Pod
		kept       int
	}{{"/filter, all kept", framework.Filter, tolerant, a.size}, {"/filter, all refused", framework.Filter, refused, 0},
		{"/prioritize", framework.Prioritize, tolerant, -1}} {
		kind.pod.Spec.SchedulerName = v1alpha1.SchedulerName
		question, err := env.Question(kind.pod, names)
		if err != nil {
			return err
		}
		if err := awaitAnswer(ctx, a.ours, kind.verb, question, kind.kept); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		p50, err := askMany(ctx, r, s, a, kind.name, kind.verb, question)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		growth[kind.name] = append(growth[kind.name], figures.Point{Size: float64(a.size), Cost: p50})
	}
	return nil
}

// awaitAnswer asks until so many nodes are kept: our watch may be behind the nodes that were just
// created.
func awaitAnswer(ctx context.Context, a *env.Asker, verb string, question []byte, kept int) error {
	return framework.Until(ctx, framework.HangGuard, func(ctx context.Context) (bool, error) {
		answer, _, err := a.Ask(ctx, verb, question)
		if err != nil || kept < 0 {
			return err == nil, err
		}
		result := extenderv1.ExtenderFilterResult{}
		if err := json.Unmarshal(answer, &result); err != nil {
			return false, err
		}
		got := 0
		if result.NodeNames != nil {
			got = len(*result.NodeNames)
		}
		if got == kept {
			return true, nil
		}
		return false, fmt.Errorf("%d nodes kept, want %d", got, kept)
	})
}

// asks is how often each question is asked.
const asks = 300

// askMany returns our median in milliseconds.
func askMany(ctx context.Context, r *Run, s *env.Env, a asked, name, verb string, question []byte) (float64,
	error) {
	var ours, floor figures.Samples
	before, err := served(ctx, s, verb)
	if err != nil {
		return 0, err
	}
	for range asks {
		for _, side := range []struct {
			asker *env.Asker
			into  *figures.Samples
		}{{a.floor, &floor}, {a.ours, &ours}} {
			_, took, err := side.asker.Ask(ctx, verb, question)
			if err != nil {
				return 0, err
			}
			*side.into = append(*side.into, took)
		}
	}
	after, err := served(ctx, s, verb)
	if err != nil {
		return 0, err
	}
	name = fmt.Sprintf("%s, %d candidates", name, a.size)
	r.add(figures.Row{
		Name: name + ", client's p50", Floor: figure(figures.Millis(floor.Quantile(0.5))),
		Ours: figure(figures.Millis(ours.Quantile(0.5))),
		Note: fmt.Sprintf("over HTTPS, %d asks, floor and ours in turn; p99 %s, floor's %s", asks,
			figures.Millis(ours.Quantile(0.99)), figures.Millis(floor.Quantile(0.99))),
	})
	for i, what := range []string{"within 5 ms, server side", "decided within 5 ms"} {
		row := figures.Row{Name: name + ", " + what, Ours: figure(after[i].share(before[i]))}
		if a.size <= targetCandidates && verb == framework.Filter {
			row.Target = atLeast(99, "p99 <= 5 ms, so 99 %%")
		}
		if i > 0 {
			row.Note = "from the last byte of the question to the first of the answer, without the network"
		}
		r.add(row)
	}
	return figures.Millis(ours.Quantile(0.5)).Value, nil
}

// count is how many requests there were, and how many of them took no longer than serverBound.
type count struct{ all, within float64 }

// share is that of the requests since before that took no longer than serverBound.
func (c count) share(before count) figures.Figure {
	return figures.Figure{Value: 100 * (c.within - before.within) / (c.all - before.all), Unit: figures.Percent}
}

// served counts requests with their way over the network, and without.
func served(ctx context.Context, s *env.Env, verb string) (counts [2]count, err error) {
	for i, metric := range []string{env.RequestSeconds, env.DecisionSeconds} {
		if counts[i].all, counts[i].within, err = s.Timed(ctx, metric, verb[1:], serverBound); err != nil {
			return counts, err
		}
	}
	return counts, nil
}
