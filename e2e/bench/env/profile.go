package env

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// slice is how long each profile of a process takes; what is not over when the environment ends is
	// lost.
	slice = 5 * time.Second
	// told is how many functions the text names, each way.
	told = 30
)

// profiler takes profiles of processes, one slice after the other, until it is closed.
type profiler struct {
	folder string
	client *http.Client
	stop   context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	// mu guards the fields below.
	mu     sync.Mutex
	slices map[string][]*profile.Profile // by process
	errs   []error
}

// newProfiler writes into the folder; the kubeconfig is that of who may read the schedulers'
// profiles.
func newProfiler(folder, kubeconfig string) (*profiler, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	p := &profiler{folder: folder, client: client, slices: map[string][]*profile.Profile{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// watch begins with the process that serves profiles below the URL.
func (p *profiler) watch(process, url string) {
	p.wg.Go(func() {
		for p.ctx.Err() == nil {
			one, err := p.fetch(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", url, int(slice.Seconds())))
			if p.ctx.Err() != nil {
				return
			}
			if err != nil { // the process has been stopped, and may be started again
				p.keep(process, nil, err)
				_ = Pause(p.ctx, time.Second)
				continue
			}
			p.keep(process, one, nil)
		}
	})
}

func (p *profiler) keep(process string, one *profile.Profile, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("profile of %s: %w", process, err))
		return
	}
	p.slices[process] = append(p.slices[process], one)
}

func (p *profiler) fetch(url string) (*profile.Profile, error) {
	request, err := http.NewRequestWithContext(p.ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(text))
	}
	if err != nil {
		return nil, err
	}
	return profile.ParseData(text)
}

// heap writes what lives in the process now.
func (p *profiler) heap(process, url string) error {
	one, err := p.fetch(url + "/debug/pprof/heap?gc=1")
	if err != nil {
		return fmt.Errorf("heap of %s: %w", process, err)
	}
	return p.write(process+"-heap", one, "inuse_space", 1<<20, "MiB")
}

// close ends the slices and writes, for each process, what all of them say: as a profile, and as
// text.
func (p *profiler) close() error {
	p.stop()
	p.wg.Wait()
	var errs []error
	for process, parts := range p.slices {
		whole, err := profile.Merge(parts)
		if err == nil {
			err = p.write(process, whole, "cpu", 1e9, "s")
		}
		errs = append(errs, err)
	}
	if len(p.slices) == 0 {
		errs = append(errs, p.errs...)
	}
	return errors.Join(errs...)
}

func (p *profiler) write(name string, whole *profile.Profile, sample string, unit float64, unitName string) error {
	out, err := os.Create(filepath.Join(p.folder, name+".pb.gz"))
	if err != nil {
		return err
	}
	if err := errors.Join(whole.Write(out), out.Close()); err != nil {
		return err
	}
	text, err := Told(whole, sample, unit, unitName)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.folder, name+".txt"), []byte(text), 0o644)
}

// Told is what a profile says: the functions in which most was spent, by themselves and with all
// that they call. sample names what is counted, unit is how much of that one unit of the text has.
func Told(p *profile.Profile, sample string, unit float64, unitName string) (string, error) {
	at := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == sample })
	if at < 0 {
		return "", fmt.Errorf("the profile counts no %s", sample)
	}
	var total float64
	self, all := map[string]float64{}, map[string]float64{}
	for _, s := range p.Sample {
		value := float64(s.Value[at]) / unit
		total += value
		seen := map[string]bool{}
		for depth, l := range s.Location {
			for line, li := range l.Line { // what was inlined stands before its caller
				name := li.Function.Name
				if depth == 0 && line == 0 {
					self[name] += value
				}
				if !seen[name] {
					all[name] += value
					seen[name] = true
				}
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %.2f %s", sample, total, unitName)
	if p.DurationNanos > 0 {
		fmt.Fprintf(&b, " in %.0f s", float64(p.DurationNanos)/1e9)
	}
	b.WriteString("\n")
	for _, t := range []struct {
		title  string
		values map[string]float64
	}{{"by themselves", self}, {"with all that they call", all}} {
		fmt.Fprintf(&b, "\n%s\n", t.title)
		names := make([]string, 0, len(t.values))
		for name := range t.values {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(t.values[b], t.values[a]), cmp.Compare(a, b))
		})
		for _, name := range names[:min(told, len(names))] {
			fmt.Fprintf(&b, "%9.2f %5.1f%%  %s\n", t.values[name], 100*t.values[name]/total, name)
		}
	}
	return b.String(), nil
}
