package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/command"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/framework"
)

const (
	// mostBytes is what a command of the plugin may receive.
	mostBytes = 5_000_000
	// watched is how long a command that goes on is left alone.
	watched = 10 * time.Second
)

// pluginScenario: each command of kubectl stratos in a large cluster, and what it receives.
func pluginScenario(ctx context.Context, r *Run) error {
	nodes, inPool, pending := r.n(5000, 40), r.n(1000, 8), r.n(500, 4)
	bound := 10*nodes - pending
	return r.on(ctx, env.Options{Load: true}, func(s *env.Env) error {
		if _, err := s.StartOurs(ctx); err != nil {
			return err
		}
		if err := s.Warm(ctx, poolName, inPool); err != nil {
			return err
		}
		if err := s.AddNodes(ctx, env.LoadNodes(0, nodes-inPool, true)); err != nil {
			return err
		}
		if err := s.AddPods(ctx, env.LoadPods(0, bound, nodes-inPool)); err != nil {
			return err
		}
		pods := env.Pods("large", v1alpha1.SchedulerName, "1000", pending)
		if _, err := env.CreateAll(ctx, s.Client, pods); err != nil {
			return err
		}
		if err := awaitReasons(ctx, s, pending); err != nil {
			return err
		}
		r.say("%d nodes, %d of them in a pool, %d pods, %d of them pending", nodes, inPool, 10*nodes, pending)
		size := fmt.Sprintf("%d nodes (%d in a pool) and %d pods (%d pending)", nodes, inPool, 10*nodes, pending)
		node, err := anyNode(ctx, s)
		if err != nil {
			return err
		}
		for _, line := range []string{"why " + pods[0].Name, "why", "why -A -o wide", "pools", "nodes", "nodes -o yaml",
			"nodes " + node, "version", "check", "pause " + poolName, "resume " + poolName, "replace " + node + " --cancel",
			"__complete why large-", "pools -w", "nodes -w", "why -w", "top"} {
			row, err := commandRow(ctx, s, line, size)
			if err != nil {
				return fmt.Errorf("kubectl stratos %s: %w", line, err)
			}
			r.add(row)
		}
		return nil
	})
}

// awaitReasons waits until Stratos has said of each pending pod why it is.
func awaitReasons(ctx context.Context, s *env.Env, pending int) error {
	return framework.Until(ctx, 5*time.Minute, func(ctx context.Context) (bool, error) {
		events := &eventsv1.EventList{}
		err := s.Client.List(ctx, events, client.InNamespace("default"),
			client.MatchingFields{"reason": string(v1alpha1.ReasonStandbyUnavailable)})
		return len(events.Items) >= pending, err
	})
}

// anyNode is the name of a node of the pool.
func anyNode(ctx context.Context, s *env.Env) (string, error) {
	nodes := &corev1.NodeList{}
	err := s.Client.List(ctx, nodes, client.MatchingLabels{v1alpha1.LabelPool: poolName}, client.Limit(1))
	if err == nil && len(nodes.Items) == 0 {
		err = errors.New("the pool has no node")
	}
	if err != nil {
		return "", err
	}
	return nodes.Items[0].Name, nil
}

// commandRow runs the command and counts what it receives; one that goes on is ended after a while.
func commandRow(ctx context.Context, s *env.Env, line, size string) (figures.Row, error) {
	api, err := proxyTo(s.ControlPlane.Kubeconfig())
	if err != nil {
		return figures.Row{}, err
	}
	defer api.close()
	cache, err := os.MkdirTemp("", "plugin")
	if err != nil {
		return figures.Row{}, err
	}
	defer os.RemoveAll(cache)
	args := strings.Fields(line)
	goesOn := args[0] == "top" || args[len(args)-1] == "-w"
	var out bytes.Buffer
	cmd := command.New("v0.0.0-bench", strings.NewReader(""), &out, &out) //nolint:contextcheck // ExecuteContext gives it
	// The flags come behind the first word: __complete completes the last.
	cmd.SetArgs(slices.Concat(args[:1], []string{"--kubeconfig=" + s.ControlPlane.Kubeconfig(), "--server=" + api.url,
		"--cache-dir=" + cache}, args[1:]))
	limited, end := ctx, func() {}
	if goesOn {
		limited, end = context.WithTimeout(ctx, watched)
	}
	defer end()
	began := time.Now()
	err = cmd.ExecuteContext(limited)
	took := time.Since(began)
	if args[0] == "check" { // it fails where it finds something wrong: Stratos has no Deployment here
		err = nil
	}
	if err != nil || ctx.Err() != nil {
		return figures.Row{}, errors.Join(err, ctx.Err(), errors.New(shortened(out.String())))
	}
	row := figures.Row{
		Name:   "kubectl stratos " + line + ": received",
		Ours:   figure(figures.Figure{Value: float64(api.received.Load()) / 1e6, Unit: figures.Megabytes}),
		Target: atMost(mostBytes/1e6, "5 MB"),
		Note:   fmt.Sprintf("%s; took %s, printed %d bytes", size, took.Round(time.Millisecond), out.Len()),
	}
	if api.received.Load() > mostBytes {
		row.Failure = fmt.Sprintf("%d bytes received, more than %d", api.received.Load(), mostBytes)
	}
	return row, nil
}

// proxy stands before an API server and counts what it sends.
type proxy struct {
	url      string
	received atomic.Int64
	listener net.Listener
	ended    sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func proxyTo(kubeconfig string) (*proxy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{url: "https://" + listener.Addr().String(), listener: listener}
	p.ended.Go(func() {
		for {
			mine, err := listener.Accept()
			if err != nil {
				return
			}
			p.ended.Go(func() { p.pass(mine, server.Host) })
		}
	})
	return p, nil
}

func (p *proxy) pass(mine net.Conn, server string) {
	defer mine.Close()
	theirs, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer theirs.Close()
	p.mu.Lock()
	p.conns = append(p.conns, mine, theirs)
	p.mu.Unlock()
	p.ended.Go(func() {
		io.Copy(theirs, mine) //nolint:errcheck // the connection is over
		theirs.Close()        //nolint:errcheck // the same
	})
	io.Copy(io.MultiWriter(mine, p), theirs) //nolint:errcheck // the connection is over
}

// Write counts.
func (p *proxy) Write(b []byte) (int, error) {
	p.received.Add(int64(len(b)))
	return len(b), nil
}

// close ends the connections too, which a client keeps for a while.
func (p *proxy) close() {
	p.listener.Close() //nolint:errcheck // it only listens
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close() //nolint:errcheck // it is over
	}
	p.mu.Unlock()
	p.ended.Wait()
}
