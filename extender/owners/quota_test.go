package owners

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// list makes a list of names and quantities.
func list(of ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(of); i += 2 {
		out[corev1.ResourceName(of[i])] = resource.MustParse(of[i+1])
	}
	return out
}

func quota(hard, used corev1.ResourceList, change ...func(*corev1.ResourceQuota)) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: hard}, Status: corev1.ResourceQuotaStatus{Used: used}}
	for _, f := range change {
		f(q)
	}
	return q
}

func scoped(scopes ...corev1.ResourceQuotaScope) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) { q.Spec.Scopes = scopes }
}

func selecting(scope corev1.ResourceQuotaScope, op corev1.ScopeSelectorOperator,
	values ...string) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: scope, Operator: op, Values: values}}}
	}
}

func asking(requests, limits corev1.ResourceList, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: requests, Limits: limits}}}}}
	for _, f := range change {
		f(p)
	}
	return p
}

// TestAllowed: how many pods the quotas leave room for.
func TestAllowed(t *testing.T) {
	plain := asking(list("cpu", "100m", "memory", "1Gi"), list("cpu", "200m", "memory", "2Gi"))
	none := asking(nil, nil)
	urgent := asking(nil, nil, func(p *corev1.Pod) { p.Spec.PriorityClassName = "urgent" })
	brief := asking(nil, nil, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1)) })
	ten := list("pods", "10")
	const (
		noLimit       = math.MaxInt
		priorityClass = corev1.ResourceQuotaScopePriorityClass
	)
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		quotas []*corev1.ResourceQuota
		known  []Share
		want   int
	}{
		"no quota": {pod: plain, want: noLimit},
		"of services": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(list("services", "1", "count/secrets", "1"), nil)},
			want:   noLimit,
		},
		"of pods": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, list("pods", "4"))},
			want:   6,
		},
		"of objects": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(list("count/pods", "10"), nil)},
			want:   10,
		},
		"used up":                    {pod: plain, quotas: []*corev1.ResourceQuota{quota(ten, list("pods", "10"))}},
		"lowered below what is used": {pod: plain, quotas: []*corev1.ResourceQuota{quota(ten, list("pods", "12"))}},
		"of requested cpu": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(list("requests.cpu", "1"), list("requests.cpu", "300m"))},
			want:   7,
		},
		"of cpu, by its short name": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(list("cpu", "1"), nil)},
			want:   10,
		},
		"of limited cpu": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(list("limits.cpu", "1"), nil)},
			want:   5,
		},
		"of memory": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(list("memory", "10Gi"), list("memory", "512Mi"))},
			want:   9,
		},
		"of very much memory": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(list("memory", "16Pi"), nil)},
			want:   16 << 20,
		},
		"of limited memory": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(list("limits.memory", "10Gi"), nil)},
			want:   5,
		},
		"of what the pod does not ask": {
			pod:    none,
			quotas: []*corev1.ResourceQuota{quota(list("cpu", "1"), nil)},
			want:   noLimit,
		},
		"of devices": {
			pod:    asking(list("example.com/gpu", "2"), nil),
			quotas: []*corev1.ResourceQuota{quota(list("requests.example.com/gpu", "5"), nil)},
			want:   2,
		},
		"the tightest of two": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, nil), quota(list("cpu", "300m"), nil)},
			want:   3,
		},
		"next to others": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, nil)},
			known:  []Share{{none, 0, 3}, {plain, 0, 2}},
			want:   5,
		},
		"next to others that take none": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(list("cpu", "1"), nil)},
			known:  []Share{{none, 0, 3}, {plain, 0, 2}},
			want:   8,
		},
		"a quota that is behind": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, list("pods", "1"))},
			known:  []Share{{plain, 3, 0}, {none, 1, 2}},
			want:   4,
		},
		"a quota that is not": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, list("pods", "5"))},
			known:  []Share{{plain, 3, 0}, {none, 1, 2}},
			want:   3,
		},
		"others of another scope": {
			pod:    none,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, scoped(corev1.ResourceQuotaScopeBestEffort))},
			known:  []Share{{plain, 0, 3}},
			want:   10,
		},
		"best effort, and it is": {
			pod:    none,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, scoped(corev1.ResourceQuotaScopeBestEffort))},
			want:   10,
		},
		"best effort, and it is not": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, scoped(corev1.ResourceQuotaScopeBestEffort))},
			want:   noLimit,
		},
		"not best effort": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, scoped(corev1.ResourceQuotaScopeNotBestEffort))},
			want:   10,
		},
		"that ends, and it does": {
			pod:    brief,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, scoped(corev1.ResourceQuotaScopeTerminating))},
			want:   10,
		},
		"that ends, and it does not": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, scoped(corev1.ResourceQuotaScopeTerminating))},
			want:   noLimit,
		},
		"that does not end": {
			pod:    brief,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, scoped(corev1.ResourceQuotaScopeNotTerminating))},
			want:   noLimit,
		},
		"of a class, and it is": {
			pod:    urgent,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, selecting(priorityClass, corev1.ScopeSelectorOpIn, "urgent"))},
			want:   10,
		},
		"of a class, and it is not": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, selecting(priorityClass, corev1.ScopeSelectorOpIn, "urgent"))},
			want:   noLimit,
		},
		"of other classes": {
			pod:    urgent,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, selecting(priorityClass, corev1.ScopeSelectorOpNotIn, "urgent"))},
			want:   noLimit,
		},
		"of any class": {
			pod:    urgent,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, selecting(priorityClass, corev1.ScopeSelectorOpExists))},
			want:   10,
		},
		"of no class": {
			pod:    urgent,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, selecting(priorityClass, corev1.ScopeSelectorOpDoesNotExist))},
			want:   noLimit,
		},
		"of a scope that is not known": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, scoped("Tomorrow"))},
			want:   10,
		},
		"by a rule that is not known": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, selecting("Tomorrow", corev1.ScopeSelectorOpIn, "x"))},
			want:   10,
		},
		"by an operator not known": {
			pod:    plain,
			quotas: []*corev1.ResourceQuota{quota(ten, nil, selecting(priorityClass, "Like", "x"))},
			want:   10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Allowed(c.pod, c.quotas, c.known); got != c.want {
				t.Errorf("%d allowed, want %d", got, c.want)
			}
		})
	}
}
