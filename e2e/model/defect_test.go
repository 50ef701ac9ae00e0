package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestAClassThatCanNeverWork counts what a class costs whose instances never become standby nodes:
// at most 6 launches in the first hour, and with a larger minStandby the first round and 5 more.
// The pool says why after the first failure.
func TestAClassThatCanNeverWork(t *testing.T) {
	for _, d := range []defect{endsAtOnce, neverRegisters, neverReady, endsIncomplete, launchesRefused} {
		for _, minStandby := range []int32{1, 20} {
			t.Run(fmt.Sprintf("%s, minStandby %d", d, minStandby), func(t *testing.T) {
				t.Parallel()
				most := int(minStandby) + 5
				neverWorks(t, d, minStandby, most)
			})
		}
	}
}

func neverWorks(t *testing.T, d defect, minStandby int32, most int) {
	failed := 0
	w := NewWorld(1, func(line string) {
		if strings.Contains(line, "WarmupFailed") {
			failed++
		}
	})
	w.network, w.graceful, w.defect = networks()[0], false, d
	before := len(w.cloud.instances)
	w.createPool([4]int{0, 3, 1, 0})
	w.editPool(0, func(p *v1alpha1.NodePool) { p.Spec.PoolSize, p.Spec.MinStandby = 30, minStandby })
	for end := w.now.Add(time.Hour); w.now.Before(end) && w.broken == nil; {
		w.runUntil(w.now.Add(time.Second))
		pool := w.api.pool(poolNamed(0))
		degraded := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionDegraded)
		if failed > 0 && (degraded == nil || degraded.Reason != string(v1alpha1.ReasonWarmupFailing)) {
			failed-- // the pool is looked at a moment later
			w.runUntil(w.now.Add(5 * time.Second))
			degraded = meta.FindStatusCondition(w.api.pool(poolNamed(0)).Status.Conditions, v1alpha1.ConditionDegraded)
			if degraded == nil || degraded.Reason != string(v1alpha1.ReasonWarmupFailing) {
				t.Fatalf("%s: a warm-up has failed, and Degraded is %+v", w.stamp(), degraded)
			}
		}
	}
	pool := w.api.pool(poolNamed(0))
	if ready := meta.FindStatusCondition(pool.Status.Conditions,
		v1alpha1.ConditionReady); string(ready.Status) != string(corev1.ConditionFalse) {
		t.Errorf("Ready is %s: %s", ready.Status, ready.Message)
	}
	launched := len(w.cloud.instances) - before
	if d == launchesRefused {
		// 5 s, doubling to 5 minutes, with one call each; the first round has one for each launch under
		// way.
		if most += 16; w.refusedLaunches > most {
			t.Errorf("%d refused launches within an hour, want at most %d", w.refusedLaunches, most)
		}
	} else if launched > most || launched == 0 || failed == 0 {
		t.Errorf("%d launches and %d failures within an hour, want at most %d launches", launched, failed, most)
	}
	if w.broken != nil {
		t.Error(w.broken)
	}
}
