package fit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestSchedulableIsTaintTolerationAndNodeUnschedulable(t *testing.T) {
	standby := corev1.Taint{Key: "stratos.sh/standby", Effect: corev1.TaintEffectNoSchedule}
	dedicated := corev1.Taint{Key: "team", Value: "web", Effect: corev1.TaintEffectNoExecute}
	advice := corev1.Taint{Key: "busy", Effect: corev1.TaintEffectPreferNoSchedule}
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	level := corev1.Taint{Key: "level", Value: "5", Effect: corev1.TaintEffectNoSchedule}

	taint := func(key string) *Refusal {
		return &Refusal{Reason: ReasonTaint, Message: "node(s) had untolerated taint(s)", Unresolvable: true, Subject: key}
	}
	unschedulable := &Refusal{Reason: ReasonUnschedulable, Message: "node(s) were unschedulable", Unresolvable: true}

	cases := map[string]struct {
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		cordoned    bool
		want        *Refusal
	}{
		"a plain node":                       {},
		"advice is no refusal":               {taints: []corev1.Taint{advice}},
		"NoSchedule refuses":                 {taints: []corev1.Taint{advice, standby}, want: taint("stratos.sh/standby")},
		"NoExecute refuses":                  {taints: []corev1.Taint{dedicated}, want: taint("team")},
		"the first taint in order is named":  {taints: []corev1.Taint{dedicated, standby}, want: taint("team")},
		"a cordon refuses":                   {cordoned: true, want: unschedulable},
		"the cordon is named before a taint": {cordoned: true, taints: []corev1.Taint{standby}, want: unschedulable},
		"tolerating the cordon's taint lifts the cordon": {
			tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}},
			taints:      []corev1.Taint{cordon}, cordoned: true,
		},
		"tolerating it with an empty value does too": {
			tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}},
			cordoned:    true,
		},
		"tolerating it for NoExecute does not": {
			tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute}},
			cordoned: true, want: unschedulable,
		},
		"a DaemonSet's pod tolerates the cordon and still not the standby taint": {
			tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}},
			taints:      []corev1.Taint{cordon, standby}, cordoned: true, want: taint("stratos.sh/standby"),
		},
		"tolerating everything": {
			tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			taints:      []corev1.Taint{standby, dedicated, cordon, level}, cordoned: true,
		},
		"no operator means Equal": {
			tolerations: []corev1.Toleration{{Key: "team", Value: "web"}}, taints: []corev1.Taint{dedicated},
		},
		"another value": {
			tolerations: []corev1.Toleration{{Key: "team", Value: "db"}}, taints: []corev1.Taint{dedicated}, want: taint("team"),
		},
		"another effect": {
			tolerations: []corev1.Toleration{{Key: "team", Value: "web", Effect: corev1.TaintEffectNoSchedule}},
			taints:      []corev1.Taint{dedicated}, want: taint("team"),
		},
		"a toleration that ends (tolerationSeconds) still lets the pod in": {
			tolerations: []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64)}},
			taints:      []corev1.Taint{dedicated},
		},
		"Gt tolerates nothing while its feature gate is off": {
			tolerations: []corev1.Toleration{{Key: "level", Operator: corev1.TolerationOpGt, Value: "1"}},
			taints:      []corev1.Taint{level}, want: taint("level"),
		},
		"Lt neither": {
			tolerations: []corev1.Toleration{{Key: "level", Operator: corev1.TolerationOpLt, Value: "9"}},
			taints:      []corev1.Taint{level}, want: taint("level"),
		},
		"each taint needs a toleration": {
			tolerations: []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}},
			taints:      []corev1.Taint{dedicated, level}, want: taint("level"),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := podWith("p", nil, tolerating(c.tolerations...))
			got := Schedulable(pod, c.taints, c.cordoned)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, NewPod(pod, nil).Schedulable(c.taints, c.cordoned)); diff != "" {
				t.Errorf("the digest judges otherwise:\n%s", diff)
			}
		})
	}
}

// TestEveryFormOfTheTaintCheckAgrees: the refusal, its short form and the digest.
func TestEveryFormOfTheTaintCheckAgrees(t *testing.T) {
	taints := []corev1.Taint{
		{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: "b", Effect: corev1.TaintEffectNoSchedule},
	}
	stranger := podWith("stranger", nil)
	r := Schedulable(stranger, taints, false)
	if r == nil || r.Subject != "b" || UntoleratedReason(stranger, taints, false) != r.Message {
		t.Errorf("stranger: %+v", r)
	}
	guest := podWith("guest", nil, tolerating(corev1.Toleration{Key: "b", Operator: corev1.TolerationOpExists}))
	if r := Schedulable(guest, taints, false); r != nil || UntoleratedReason(guest, taints, false) != "" {
		t.Errorf("guest: %+v", r)
	}
}

// original is the API's own check with the comparison operators off. The type of its logger is
// inferred: this package names none.
func original[L any](judge func(*corev1.Toleration, L, *corev1.Taint, bool) bool) func(*corev1.Toleration,
	*corev1.Taint) bool {
	var silent L
	return func(toleration *corev1.Toleration, taint *corev1.Taint) bool {
		return judge(toleration, silent, taint, false)
	}
}

func FuzzToleratesIsTheAPIsOwnRule(f *testing.F) {
	f.Add("k", "Exists", "", "NoSchedule", "k", "v", "NoSchedule")
	f.Add("", "Exists", "", "", "k", "v", "NoExecute")
	f.Add("k", "", "v", "", "k", "v", "NoExecute")
	f.Add("k", "Gt", "1", "", "k", "2", "NoSchedule")
	f.Add("k", "Odd", "1", "", "k", "2", "NoSchedule")
	f.Add("", "", "", "", "", "", "")
	judge := original((*corev1.Toleration).ToleratesTaint)
	f.Fuzz(func(t *testing.T, key, operator, value, effect, taintKey, taintValue, taintEffect string) {
		toleration := &corev1.Toleration{
			Key: key, Operator: corev1.TolerationOperator(operator), Value: value, Effect: corev1.TaintEffect(effect),
		}
		taint := &corev1.Taint{Key: taintKey, Value: taintValue, Effect: corev1.TaintEffect(taintEffect)}
		if got, want := tolerates(toleration, taint), judge(toleration, taint); got != want {
			t.Errorf("tolerates(%v, %v) = %v, the API says %v", toleration, taint, got, want)
		}
	})
}

// TestTolerationsOverTheWholeAlphabet walks all combinations of few values, which a fuzzer reaches
// by luck only.
func TestTolerationsOverTheWholeAlphabet(t *testing.T) {
	keys, values := []string{"", "a", "b"}, []string{"", "1", "2", "x"}
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
		corev1.TaintEffectPreferNoSchedule}
	var taints []corev1.Taint
	var tolerations []corev1.Toleration
	for _, key := range keys {
		for _, value := range values {
			for _, effect := range effects {
				taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: effect})
				for _, operator := range []corev1.TolerationOperator{"", "Equal", "Exists", "Lt", "Gt", "?"} {
					tolerations = append(tolerations, corev1.Toleration{Key: key, Value: value, Effect: effect, Operator: operator})
				}
			}
		}
	}
	judge := original((*corev1.Toleration).ToleratesTaint)
	for i := range tolerations {
		for j := range taints {
			if got, want := tolerates(&tolerations[i], &taints[j]), judge(&tolerations[i], &taints[j]); got != want {
				t.Errorf("tolerates(%v, %v) = %v, want %v", tolerations[i], taints[j], got, want)
			}
		}
	}
}
