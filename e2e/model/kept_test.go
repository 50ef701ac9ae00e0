package model

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kept finds every map that the process's long-lived objects hold, by reflection, and returns the
// sizes of those that are not empty by their path. A map that is new in the code is covered without
// being named.
func (p *process) kept() map[string]int {
	out := map[string]int{}
	seen := map[reflect.Value]bool{}
	parts := map[string]any{
		"Loops": p.loops, "View": p.state, "Extender": p.extender, "Upkeep": p.upkeep,
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) { // what two parts hold has one path
		walk(reflect.ValueOf(parts[name]), name, seen, out)
	}
	return out
}

// walk follows what the product's own types hold. What is played (this package), and what libraries
// hold, is not the product's.
func walk(v reflect.Value, path string, seen map[reflect.Value]bool, sizes map[string]int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Kind() == reflect.Pointer && seen[v] {
			return
		}
		if v.Kind() == reflect.Pointer {
			seen[v] = true
		}
		walk(v.Elem(), path, seen, sizes)
	case reflect.Struct:
		if pkg := v.Type().PkgPath(); pkg != "" && !ofTheProduct(pkg) {
			return
		}
		for i := range v.NumField() {
			walk(v.Field(i), path+"."+v.Type().Field(i).Name, seen, sizes)
		}
	case reflect.Map:
		if v.Len() > 0 {
			sizes[path] = v.Len()
		}
		for of := v.MapRange(); of.Next(); {
			walk(of.Value(), path+"[]", seen, sizes)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), path+"[]", seen, sizes)
		}
	default: // nothing that holds a map
	}
}

func ofTheProduct(pkg string) bool {
	const module = "github.com/stratos-sh/stratos/"
	return strings.HasPrefix(pkg, module) && !strings.HasPrefix(pkg, module+"e2e")
}

// week plays seven days of operations with one process, and returns the most that its maps held.
func (w *World) week(seed uint64) map[string]int {
	all, most := operations(), map[string]int{}
	for k := uint64(0); w.broken == nil && w.now.Sub(epoch()) < 7*24*time.Hour; k++ {
		for _, o := range Generate(seed*1_000_000 + k).Operations {
			if slices.Contains([]string{"crash", "kill", "rival", "clock", "nominate"}, o.Name) {
				continue // one process lives through the week
			}
			w.runUntil(w.now.Add(o.Wait))
			all[o.Name].do(w, o.Args)
			w.rules.afterStep()
		}
		for path, size := range w.processes[0].kept() {
			most[path] = max(most[path], size)
		}
		w.calm()
		w.deleteAll(kindPod)
		w.runUntil(w.now.Add(2 * time.Hour))
	}
	return most
}

// scene is a pool, twice two pods that are served, and their end: what is kept for an hour only is
// replaced by what the second pod brings.
func (w *World) scene() {
	all := operations()
	w.rollOutLogger()            // which stays
	all["types"].do(w, [4]int{}) // a new spec: what failed under the one before counts no more
	all["newpool"].do(w, [4]int{0, 0, 1})
	w.runUntil(w.now.Add(time.Hour))
	for range 2 {
		all["pods"].do(w, [4]int{})
		all["spread"].do(w, [4]int{0, 0, 2})
		w.runUntil(w.now.Add(time.Hour))
		w.deletePods([4]int{0, 1})
		w.runUntil(w.now.Add(3 * time.Hour))
	}
	w.finish()
	w.runUntil(w.now.Add(3 * 24 * time.Hour))
}

func (w *World) deleteAll(k kind) {
	for _, o := range sorted[client.Object](w.api.objects, k) { // in order, or no two runs were equal
		w.api.remove(k, client.ObjectKeyFromObject(o))
	}
}

// boundOfScenes is the most that the maps of a process hold that has played the scene alone.
// Several are played, because machines die and nodes are replaced by chance, and what was said of a
// start is kept for an hour.
func boundOfScenes(t *testing.T) map[string]int {
	t.Helper()
	bound := map[string]int{}
	for seed := uint64(1); seed <= 12; seed++ {
		w := NewWorld(seed, nil)
		if w.scene(); w.broken != nil {
			t.Fatal(w.broken)
		}
		for path, size := range w.processes[0].kept() {
			bound[path] = max(bound[path], size)
		}
	}
	return bound
}

// TestAWeekLeavesNothing: what the process keeps per pod, node, instance or pool ends with it.
// After a week and a short scene its maps hold no more than those of processes that played the
// scene alone.
func TestAWeekLeavesNothing(t *testing.T) {
	t.Parallel()
	const seed = 1
	bound := boundOfScenes(t)
	w := NewWorld(seed, nil)
	w.setNominations([4]int{1, 1, 0, 1})
	w.runUntil(w.now.Add(time.Second))
	process, most := w.processes[0], w.week(seed)
	w.deleteAll(kindPod)
	w.deleteAll(kindPool)
	w.runUntil(w.now.Add(24 * time.Hour))
	w.scene()
	if w.broken != nil || w.processes[0] != process {
		t.Fatalf("%v, the same process: %t", w.broken, w.processes[0] == process)
	}
	if len(most) < 20 {
		t.Errorf("only %d maps were ever filled: %v", len(most), most)
	}
	left := process.kept()
	for _, path := range slices.Sorted(maps.Keys(left)) {
		if left[path] > bound[path] {
			t.Errorf("%s still holds %d, want at most %d; it held up to %d", path, left[path], bound[path], most[path])
		}
	}
}
