package owners

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// Share is what the pods of an owner take of the quotas.
type Share struct {
	// Pod is what each of them is like.
	Pod *corev1.Pod
	// Exist is how many there are, ToCome how many are to come.
	Exist, ToCome int
}

// Allowed returns how many pods like this one each quota of the namespace leaves room for, next to
// those that exist and the others that are to come; math.MaxInt where none limits them. What a
// quota says is used may be older than the pods that are known. Where it is not known whether a
// quota applies to the pod, it does.
func Allowed(pod *corev1.Pod, quotas []*corev1.ResourceQuota, known []Share) int {
	return allowed(pod, quotas, known, func(q *corev1.ResourceQuota) corev1.ResourceList { return q.Status.Used })
}

// AllowedByKnown is Allowed without what the quotas say is used: that may be newer than the pods
// that are known, and count pods of the owner that are not known yet.
func AllowedByKnown(pod *corev1.Pod, quotas []*corev1.ResourceQuota, known []Share) int {
	return allowed(pod, quotas, known, func(*corev1.ResourceQuota) corev1.ResourceList { return nil })
}

func allowed(pod *corev1.Pod, quotas []*corev1.ResourceQuota, known []Share,
	usedOf func(*corev1.ResourceQuota) corev1.ResourceList) int {
	most := math.MaxInt
	for _, quota := range quotas {
		if !applies(quota, pod) {
			continue
		}
		for name, hard := range quota.Spec.Hard {
			each := usage(pod, name)
			if each.Sign() <= 0 {
				continue
			}
			used, toCome := usedOf(quota)[name].DeepCopy(), resource.Quantity{}
			exist := resource.Quantity{}
			for _, share := range known {
				if applies(quota, share.Pod) {
					of := usage(share.Pod, name)
					exist.Add(multiple(of, share.Exist))
					toCome.Add(multiple(of, share.ToCome))
				}
			}
			if used.Cmp(exist) < 0 {
				used = exist
			}
			free := hard.DeepCopy()
			free.Sub(used)
			free.Sub(toCome)
			most = min(most, times(free, each))
		}
	}
	return most
}

func multiple(of resource.Quantity, count int) resource.Quantity {
	of = of.DeepCopy()
	of.Mul(int64(count))
	return of
}

// times is how often each goes into free.
func times(free, each resource.Quantity) int {
	if free.Sign() <= 0 {
		return 0
	}
	scale := resource.Milli
	if free.Value() > math.MaxInt64/1000 || each.Value() > math.MaxInt64/1000 {
		scale = 0
	}
	return int(free.ScaledValue(scale) / each.ScaledValue(scale))
}

// usage is what a pod takes of a quota's resource; zero for one that no pod takes. The names are
// those of the API server's evaluator of pods.
func usage(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	if name == corev1.ResourcePods || name == "count/pods" {
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	if of, ok := strings.CutPrefix(string(name), "limits."); ok {
		return podresource.PodLimits(pod, podresource.PodResourcesOptions{})[corev1.ResourceName(of)]
	}
	of := strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	return podresource.PodRequests(pod, podresource.PodResourcesOptions{})[corev1.ResourceName(of)]
}

// applies reports whether the quota counts the pod, or may.
func applies(quota *corev1.ResourceQuota, pod *corev1.Pod) bool {
	for _, scope := range quota.Spec.Scopes {
		if !inScope(scope, pod) {
			return false
		}
	}
	if quota.Spec.ScopeSelector == nil {
		return true
	}
	for i := range quota.Spec.ScopeSelector.MatchExpressions {
		if !matches(&quota.Spec.ScopeSelector.MatchExpressions[i], pod) {
			return false
		}
	}
	return true
}

// inScope reports whether the pod is in the scope, or may be.
func inScope(scope corev1.ResourceQuotaScope, pod *corev1.Pod) bool {
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(pod)
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopePriorityClass:
		return pod.Spec.PriorityClassName != ""
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass:
	}
	return true
}

// matches reports whether the pod meets the requirement, or may.
func matches(r *corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	switch r.Operator {
	case corev1.ScopeSelectorOpExists:
		return inScope(r.ScopeName, pod)
	case corev1.ScopeSelectorOpDoesNotExist:
		return r.ScopeName != corev1.ResourceQuotaScopePriorityClass || !inScope(r.ScopeName, pod)
	case corev1.ScopeSelectorOpIn:
		return r.ScopeName != corev1.ResourceQuotaScopePriorityClass || slices.Contains(r.Values, pod.Spec.PriorityClassName)
	case corev1.ScopeSelectorOpNotIn:
		return r.ScopeName != corev1.ResourceQuotaScopePriorityClass || !slices.Contains(r.Values, pod.Spec.PriorityClassName)
	}
	return true
}

// isBestEffort reports whether no container asks for or limits cpu or memory.
func isBestEffort(pod *corev1.Pod) bool {
	sums := []corev1.ResourceList{podresource.PodRequests(pod, podresource.PodResourcesOptions{}),
		podresource.PodLimits(pod, podresource.PodResourcesOptions{})}
	return !slices.ContainsFunc(sums, func(of corev1.ResourceList) bool {
		return !of.Cpu().IsZero() || !of.Memory().IsZero()
	})
}
