package parity

import (
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is looked at unless flags say otherwise: some ten seconds on two cores.
const (
	firstSeed  = 1
	manyWorlds = 6000
)

// enough disagreements are printed: the first few usually have one cause.
const enough = 3

// TestMain adds the flags. Tests look them up by name, because a variable for a flag would be a
// global one.
func TestMain(m *testing.M) {
	flag.Uint64("seed", firstSeed, "seed of the first world; the next world has the next seed")
	flag.Uint64("worlds", manyWorlds, "how many worlds are judged; 0: as many as -timeout leaves time for")
	flag.Parse()
	os.Exit(m.Run())
}

func number(t *testing.T, name string) uint64 {
	t.Helper()
	value, ok := flag.Lookup(name).Value.(flag.Getter).Get().(uint64)
	if !ok {
		t.Fatalf("flag %s is no number", name)
	}
	return value
}

func TestFitAgreesWithTheScheduler(t *testing.T) {
	tally := judgeRandomWorlds(t, DoesItFit())
	wantSeen(
		t,
		tally,
		"it fits",
		"NodeUnschedulable: node(s) were unschedulable",
		"NodeName: node(s) didn't match the requested node name",
		"TaintToleration: node(s) had untolerated taint(s)",
		"NodeAffinity: node(s) didn't match Pod's node affinity/selector",
		"NodePorts: node(s) didn't have free ports for the requested pod ports",
		"NodeResourcesFit: Too many pods",
		"NodeResourcesFit: Insufficient cpu",
		"NodeResourcesFit: Insufficient memory",
		"NodeResourcesFit: Insufficient ephemeral-storage",
		"NodeResourcesFit: Insufficient hugepages-2Mi",
		"NodeResourcesFit: Insufficient x.io/gpu",
		"VolumeBinding: node(s) didn't match PersistentVolume's node affinity",
		"VolumeBinding: node(s) didn't find available persistent volumes to bind",
		"VolumeZone: node(s) had no available volume zone",
		"PodTopologySpread: node(s) didn't match pod topology spread constraints",
		"PodTopologySpread: node(s) didn't match pod topology spread constraints (missing required label)",
		"InterPodAffinity: node(s) didn't match pod affinity rules",
		"InterPodAffinity: node(s) didn't match pod anti-affinity rules",
		"InterPodAffinity: node(s) didn't satisfy existing pods anti-affinity rules",
		`before any node, VolumeBinding: persistentvolumeclaim "..." not found`,
		`before any node, VolumeBinding: persistentvolumeclaim "..." is being deleted`,
		`before any node, VolumeBinding: persistentvolumeclaim "..." bound to non-existent persistentvolume "..."`,
		`before any node, VolumeBinding: waiting for ephemeral volume controller to create the persistentvolumeclaim "..."`,
		"before any node, VolumeBinding: pod has unbound immediate PersistentVolumeClaims",
		`before any node, VolumeZone: persistentvolume "..." not found`,
		`before any node, InterPodAffinity: parsing pod: requiredAffinityTerms: "..." is not a valid label selector operator`,
		`before any node, InterPodAffinity: parsing pod: requiredAntiAffinityTerms: "..." is not a valid label selector operator`,
	)
}

// judgeRandomWorlds returns what the scheduler said in all of them.
func judgeRandomWorlds(t *testing.T, question Question) Tally {
	t.Helper()
	seed, worlds := number(t, "seed"), number(t, "worlds")
	tally := Tally{}
	shown, done := 0, uint64(0)
	for ; (worlds == 0 || done < worlds) && shown < enough && timeLeft(t); done++ {
		world := Generate(seed + done)
		disagreements, err := Compare(t.Context(), world, question, tally)
		if err != nil {
			t.Fatalf("world of seed %d: %v", seed+done, err)
		}
		if len(disagreements) > 0 {
			t.Errorf("world of seed %d (alone: -args -seed %d -worlds 1): %s", seed+done, seed+done, disagreements[0])
			show(t, world, question, disagreements[0])
			shown++
		}
	}
	judgements := 0
	for _, verdict := range slices.Sorted(maps.Keys(tally)) {
		judgements += tally[verdict]
		t.Logf("%7d  %s", tally[verdict], verdict)
	}
	t.Logf("%d judgements in %d worlds from seed %d", judgements, done, seed)
	return tally
}

// show prints the smallest world with the same disagreement, so that it can become a row of
// testdata/worlds.
func show(t *testing.T, world *World, question Question, wanted Disagreement) {
	t.Helper()
	smallest, err := Shrink(world, func(w *World) bool {
		found, err := Compare(t.Context(), w, question, nil)
		return err == nil && slices.ContainsFunc(found, wanted.same)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the smallest world that shows it (save it in testdata/worlds under a name that says what it is about):\n%s",
		smallest)
}

// goodbye is kept of the test's time for finding the smallest world and for printing.
const goodbye = time.Minute

func timeLeft(t *testing.T) bool {
	deadline, limited := t.Deadline()
	return !limited || time.Until(deadline) > goodbye
}

// seldom is fewer times than any decision that matters is made in manyWorlds.
const seldom = 10

// wantSeen fails when the worlds never led to some decision: that part of the comparison would
// compare nothing.
func wantSeen(t *testing.T, tally Tally, verdicts ...string) {
	t.Helper()
	if worlds := number(t, "worlds"); worlds > 0 && worlds < manyWorlds {
		return
	}
	for _, verdict := range verdicts {
		if tally[verdict] < seldom {
			t.Errorf("the scheduler said %q %d times: too seldom to show that fit says so too", verdict, tally[verdict])
		}
	}
}

// TestFitAgreesInKnownWorlds holds the worlds that once told the two apart, or would if a rule were
// forgotten.
func TestFitAgreesInKnownWorlds(t *testing.T) {
	files, err := filepath.Glob("testdata/worlds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("worlds in testdata: %d, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			world, err := ReadWorld(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, question := range []Question{DoesItFit(), MayItBeScheduled()} {
				wantAgreement(t, world, question)
			}
		})
	}
}

// TestTaintsAgree: the dedicated profile switches these two filters off, and what fit says of
// taints and cordons is all that stands between a pod and a tainted node. First each toleration
// alone against each taint alone, then all together.
func TestTaintsAgree(t *testing.T) {
	t.Run("every toleration against every taint", func(t *testing.T) {
		wantAgreement(t, tolerationsAndTaints(), MayItBeScheduled())
	})
	t.Run("random worlds", func(t *testing.T) {
		tally := judgeRandomWorlds(t, MayItBeScheduled())
		wantSeen(t, tally,
			"it fits",
			"NodeUnschedulable: node(s) were unschedulable",
			"TaintToleration: node(s) had untolerated taint(s)",
		)
	})
}

func wantAgreement(t *testing.T, world *World, question Question) {
	t.Helper()
	tally := Tally{}
	disagreements, err := Compare(context.Background(), world, question, tally)
	if err != nil {
		t.Fatal(err)
	}
	for _, disagreement := range disagreements {
		t.Error(disagreement)
	}
	if len(tally) == 0 {
		t.Error("the world has no waiting pod or no node: nothing was judged")
	}
}
