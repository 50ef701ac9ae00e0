package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asDemo in the environment makes this test's binary the demo.
const asDemo = "STRATOS_TEST_IS_DEMO"

// TestMain lets the binary be the demo as well, which saves linking another one.
func TestMain(m *testing.M) {
	if os.Getenv(asDemo) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// demoLimit is a hang guard; the demo takes less than a minute.
const demoLimit = 10 * time.Minute

// The programs that play the cloud, as they stand in a command line.
const (
	fakeCloud = "/stratos fake-cloud --"
	ec2Cloud  = "/ec2test --"
)

// parts are the programs that one demo runs beside the cloud; each names a file in the demo's
// folder for temporary files in its command line.
func parts() []string {
	return []string{"/etcd --", "/kube-apiserver --", "/kube-controller-manager --", "/kube-scheduler --", "/stratos --"}
}

// playing is a demo that runs as a process of its own, not in a terminal.
type playing struct {
	cmd       *exec.Cmd
	temporary string
	output    *bufio.Scanner
	errors    bytes.Buffer
	text      strings.Builder
}

// startDemo starts the demo with a folder for temporary files of its own, by which its processes
// are known.
func startDemo(t *testing.T, environment ...string) *playing {
	t.Helper()
	// Not t.TempDir, whose name holds the test's: paths of sockets are short.
	temporary, err := os.MkdirTemp("", "demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temporary) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), demoLimit) // not the test's, which ends before the clean-up
	t.Cleanup(cancel)
	p := &playing{cmd: exec.CommandContext(ctx, self), temporary: temporary}
	p.cmd.Env = append(append(os.Environ(), asDemo+"=1", "TMPDIR="+temporary, "KEEP=", "PROVIDER="), environment...)
	p.cmd.Stderr = &p.errors
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.output = bufio.NewScanner(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // for a test that failed in the middle
	return p
}

// readTo reads on until a line contains the text.
func (p *playing) readTo(t *testing.T, text string) {
	t.Helper()
	for p.output.Scan() {
		p.text.WriteString(p.output.Text() + "\n")
		if strings.Contains(p.output.Text(), text) {
			return
		}
	}
	_ = p.cmd.Wait() // so that its complaints are complete
	t.Fatalf("the demo ended without %q:\n%s%s", text, p.text.String(), p.errors.String())
}

// end reads the rest and returns how the demo ended.
func (p *playing) end() error {
	for p.output.Scan() {
		p.text.WriteString(p.output.Text() + "\n")
	}
	return p.cmd.Wait()
}

func (p *playing) noProcessLeft(t *testing.T) {
	t.Helper()
	for _, left := range processes(t, p.temporary) {
		t.Errorf("the demo has ended, but this runs on: %s", left.line)
	}
}

// nothingLeft fails if a process of the demo runs on, or a file of it stays.
func (p *playing) nothingLeft(t *testing.T) {
	t.Helper()
	p.noProcessLeft(t)
	files, err := os.ReadDir(p.temporary)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Errorf("the demo left %s behind", f.Name())
	}
}

// allThere fails unless each part runs. It also shows that processes sees what nothingLeft must not
// see.
func (p *playing) allThere(t *testing.T, cloud string) {
	t.Helper()
	for _, part := range append(parts(), cloud) {
		p.find(t, part)
	}
}

// find returns the demo's one process with the text in its command line.
func (p *playing) find(t *testing.T, part string) process {
	t.Helper()
	all := processes(t, p.temporary)
	found := slices.DeleteFunc(slices.Clone(all), func(q process) bool { return !strings.Contains(q.line, part) })
	if len(found) != 1 {
		t.Fatalf("%d processes of %q, want 1, among %v", len(found), part, all)
	}
	return found[0]
}

// process is one of the machine's.
type process struct {
	id   int
	line string
}

// processes are those whose command line contains the text. Zombies have none.
func processes(t *testing.T, text string) []process {
	t.Helper()
	list := listProcesses
	if runtime.GOOS == "linux" {
		list = readProcesses // ps may not be installed
	}
	return slices.DeleteFunc(list(t), func(p process) bool { return !strings.Contains(p.line, text) })
}

func readProcesses(t *testing.T) []process {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []process
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, process{id: id, line: strings.ReplaceAll(string(data), "\x00", " ")})
	}
	return found
}

func listProcesses(t *testing.T) []process {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-axww", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []process
	for line := range strings.Lines(string(out)) {
		number, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		id, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, process{id: id, line: args})
	}
	return found
}

// TestDemo: the whole play, as `make demo` runs it where there is no terminal.
func TestDemo(t *testing.T) {
	t.Parallel()
	wholePlay(t, startDemo(t), fakeCloud)
}

// TestDemoOnEC2: the same play with `make demo PROVIDER=aws`, over EC2's protocol.
func TestDemoOnEC2(t *testing.T) {
	t.Parallel()
	wholePlay(t, startDemo(t, "PROVIDER=aws"), ec2Cloud)
}

// TestDemoOfAnUnknownProvider ends at once and says which there are.
func TestDemoOfAnUnknownProvider(t *testing.T) {
	t.Parallel()
	p := startDemo(t, "PROVIDER=azure")
	if err := p.end(); err == nil || !strings.Contains(p.errors.String(),
		"PROVIDER=azure: the demo can play fake and aws") {
		t.Errorf("it ended with %v: %s", err, p.errors.String())
	}
	p.nothingLeft(t)
}

func wholePlay(t *testing.T, p *playing, cloud string) {
	t.Helper()
	p.readTo(t, "warm up")
	p.allThere(t, cloud)
	if err := p.end(); err != nil {
		t.Fatalf("the demo ended with %v\n%s%s", err, p.text.String(), p.errors.String())
	}
	t.Log(p.text.String())
	p.nothingLeft(t)
	// 16 pods of 1.5 cpu on nodes with 4: two on each, hence eight, and not one more.
	latencies := `p50 +\d+\.\d ms   p99 +\d+\.\d ms   \(n=8\)`
	for _, want := range []string{
		`pods +16 created, 16 ran`,
		`nodes +8 started, 8 needed \(16 pods, 2 per node\)`,
		`pod created -> start requested +` + latencies,
		// Below 0 where the start did not wait for the question.
		`  since the scheduler asked +` + strings.ReplaceAll(latencies, ` +\d`, ` +-?\d`),
		`node Ready -> pod bound +` + latencies,
		`at the end +10 of 10 nodes standby, 10 instances stopped`,
		`result +PASS: all of it happened`,
	} {
		if !regexp.MustCompile(`(?m)^  ` + want + `$`).MatchString(p.text.String()) {
			t.Errorf("no line %q in\n%s", want, p.text.String())
		}
	}
	if strings.Contains(p.text.String(), "\x1b") {
		t.Error("there are escape sequences, although the output is no terminal")
	}
}

// TestDemoInterrupted: Ctrl-C in the middle is no success, and leaves nothing behind.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	p := startDemo(t)
	p.readTo(t, "warm up")
	p.allThere(t, fakeCloud)
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err == nil {
		t.Errorf("exit status 0 after an interrupt:\n%s", p.text.String())
	}
	if !strings.Contains(p.errors.String(), "interrupted") {
		t.Errorf("it does not say that it was interrupted: %s", p.errors.String())
	}
	p.nothingLeft(t)
}

// TestDemoFails: a cloud that dies in the middle is no success; the demo says what is missing and
// keeps the logs.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	p := startDemo(t)
	p.readTo(t, "warm up")
	if err := syscall.Kill(p.find(t, fakeCloud).id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err == nil {
		t.Errorf("exit status 0 without a cloud:\n%s", p.text.String())
	}
	for _, want := range []string{"FAIL", "Logs are kept in " + p.temporary, "--- end of "} {
		if !strings.Contains(p.text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, p.text.String())
		}
	}
	if want := "steps not finished: warm up, burst, start, run, empty, stop"; !strings.Contains(p.errors.String(), want) {
		t.Errorf("%q is missing in %s", want, p.errors.String())
	}
	p.noProcessLeft(t)
}

// TestDemoKept: with KEEP=1 it stays up until Ctrl-C and is a success all the same.
func TestDemoKept(t *testing.T) {
	t.Parallel()
	p := startDemo(t, "KEEP=1")
	p.readTo(t, "PASS: all of it happened")
	p.readTo(t, "export KUBECONFIG=")
	_, kubeconfig, _ := strings.Cut(p.output.Text(), "=")
	p.readTo(t, "alias kubectl=")
	_, kubectl, _ := strings.Cut(p.output.Text(), "=")
	p.readTo(t, "kubectl delete pod hello")
	out, err := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", kubeconfig, "get", "nodepools", "-o",
		"name").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "nodepool.stratos.sh/demo" {
		t.Errorf("kubectl get nodepools: %v\n%s", err, out)
	}
	p.allThere(t, fakeCloud)
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err != nil {
		t.Errorf("the demo ended with %v\n%s", err, p.errors.String())
	}
	p.nothingLeft(t)
}
