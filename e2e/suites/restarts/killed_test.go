package restarts

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// rounds is how often Stratos is killed.
const rounds = 20

// TestMain adds the flag. Tests look it up by name, because a variable for a flag would be a global
// one.
func TestMain(m *testing.M) {
	flag.Uint64("seed", 0, "seed of the moments at which Stratos is killed; 0: a new one each time")
	flag.Parse()
	os.Exit(m.Run())
}

func seed(t *testing.T) uint64 {
	t.Helper()
	value, ok := flag.Lookup("seed").Value.(flag.Getter).Get().(uint64)
	if !ok {
		t.Fatal("flag seed is no number")
	}
	if value == 0 {
		return rand.Uint64()
	}
	return value
}

// TestKilledAtTwentyMomentsOfABurst: twelve pods need six of eight standby nodes. In each of twenty
// rounds Stratos dies at another moment, from the first answer to the scheduler to the last node
// that is standby again, and comes back at once or a little later.
func TestKilledAtTwentyMomentsOfABurst(t *testing.T) {
	t.Parallel()
	s := seed(t)
	random := rand.New(rand.NewPCG(s, s))
	r := newRig(t)
	seen, cloudURL := openProgress(t, r)
	stratos := assert.StartStratos(t, r, "stratos", "--fake-endpoint="+cloudURL)
	r.Recorder.Forward(stratos.Extender)
	warm(t, r)
	tr := newTruth(t, r)

	for round, m := range draw(random, rounds) {
		pause := time.Duration(random.IntN(2)) * time.Duration(random.IntN(500)) * time.Millisecond
		t.Run(fmt.Sprintf("round %d", round+1), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("killed %s, back after %s; once more with -args -seed %d", m, pause, s)
				}
			})
			began := time.Now()
			die := func() { stratos.Process.Kill() }
			back := func(sprung <-chan struct{}) {
				awaitSprung(t, m, sprung)
				comeBack(t, stratos, pause)
			}
			tr.liveThrough(t, fmt.Sprintf("round-%d", round+1), seen, m, die, back)
			t.Logf("%s, back after %s: %s", m, pause, time.Since(began).Round(10*time.Millisecond))
		})
		if t.Failed() {
			return // what follows would only tell of the same again
		}
	}
	t.Run("between an answer and its first write", func(t *testing.T) { tr.forgetsAnAnswer(t, stratos) })
}

// comeBack starts the process again after the pause.
func comeBack(t *testing.T, stratos framework.Running, pause time.Duration) {
	t.Helper()
	select {
	case <-time.After(pause):
	case <-t.Context().Done():
	}
	if err := stratos.Process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// liveThrough takes the pool through one burst and back, with die called at the moment and back
// after it, and checks it at both ends.
func (tr *truth) liveThrough(t *testing.T, name string, seen *progress, m moment, die func(),
	back func(sprung <-chan struct{})) {
	t.Helper()
	keepEmpty(t, tr.r, time.Hour)
	var sprung <-chan struct{}
	if !m.at.down() {
		sprung = seen.arm(m, die)
	}
	pods := burst(t, tr.r, name)
	if !m.at.down() {
		back(sprung)
	}
	assert.AwaitRunning(t, tr.r, pods...)
	tr.twoToANode(t, pods)
	tr.exact(t, nodesPerBurst)
	if m.at.down() {
		sprung = seen.arm(m, die)
	}
	keepEmpty(t, tr.r, 0)
	assert.Remove(t, tr.r, assert.Objects(pods)...)
	if m.at.down() {
		back(sprung)
	}
	tr.awaitStandby(t, nodesPerBurst)
}
