package userdata

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// OfLaunch returns the user data of an instance of the class: what the class says where it has no
// bootstrap, else what Stratos writes. The same arguments give the same bytes. The error is an
// InvalidConfigError.
func OfLaunch(spec *v1alpha1.AWSNodeClassSpec, joins *v1alpha1.BootstrapStatus,
	r provider.Registration) (string, error) {
	text, err := compose(spec, joins, r)
	if err != nil {
		return "", err
	}
	if err := joined(checkLaunch(spec, text)); err != nil {
		return "", invalid(err)
	}
	return text, nil
}

// CheckLaunch says whether EC2 would refuse the user data of a launch because of its length.
// Nothing is said of what cannot be composed.
func CheckLaunch(spec *v1alpha1.AWSNodeClassSpec, joins *v1alpha1.BootstrapStatus,
	r provider.Registration) []Problem {
	text, err := compose(spec, joins, r)
	if err != nil {
		return nil
	}
	return checkLaunch(spec, text)
}

func checkLaunch(spec *v1alpha1.AWSNodeClassSpec, text string) []Problem {
	if spec.Bootstrap == nil {
		return checkSize("it", text)
	}
	return checkSize("the text merged with what Stratos adds", text)
}

// compose merges what Stratos writes with what the class says, whatever its length.
func compose(spec *v1alpha1.AWSNodeClassSpec, joins *v1alpha1.BootstrapStatus,
	r provider.Registration) (string, error) {
	if spec.Bootstrap == nil {
		return spec.UserData, nil
	}
	if joins == nil {
		return "", &provider.InvalidConfigError{Field: "spec.bootstrap.cluster", Reason: "is not resolved yet"}
	}
	c := Cluster(joins.Cluster)
	k := Kubelet{Labels: registered(r.Labels), Taints: taintsOf(r), MaxPods: spec.MaxPods(),
		ExtraArgs: spec.Bootstrap.KubeletExtraArgs}
	var text string
	var err error
	switch joins.Family {
	case v1alpha1.FamilyAL2023:
		text, err = AL2023(c, k, spec.UserData)
	case v1alpha1.FamilyBottlerocket:
		text, err = Bottlerocket(c, k, spec.UserData)
	case v1alpha1.FamilyKubeadm:
		text, err = Kubeadm(c, k, r.BootstrapToken, spec.UserData)
	default:
		return "", &provider.InvalidConfigError{Field: "spec.bootstrap.family",
			Reason: fmt.Sprintf("%q is not known", joins.Family)}
	}
	if err != nil {
		return "", invalid(err)
	}
	return text, nil
}

// registered are the labels that a kubelet may set. Stratos sets the others when it has seen the
// Node, and the pool's own.
func registered(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		if key != v1alpha1.LabelPool && RegistersLabel(key) {
			out[key] = value
		}
	}
	return out
}

// taintsOf are the taints of the first registration, in an order of their own: in another order of
// the pool's they are the same taints. By the last of them no pod lands before Stratos has seen the
// Node.
func taintsOf(r provider.Registration) []corev1.Taint {
	taints := slices.Concat(r.Taints, r.StartupTaints)
	slices.SortFunc(taints, func(a, b corev1.Taint) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Effect), string(b.Effect)))
	})
	return append(taints, corev1.Taint{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule})
}

// invalid is what the first Problem says of the class.
func invalid(err error) error {
	var problem Problem
	if !errors.As(err, &problem) {
		return &provider.InvalidConfigError{Field: "spec.userData", Reason: err.Error()}
	}
	return &provider.InvalidConfigError{Field: "spec." + problem.Field, Reason: problem.Reason}
}
