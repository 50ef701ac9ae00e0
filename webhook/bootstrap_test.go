package webhook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/userdata"
)

// withBootstrap is the good class, of which Stratos writes the user data.
func withBootstrap(t *testing.T, family v1alpha1.BootstrapFamily, data string) *v1alpha1.AWSNodeClass {
	t.Helper()
	class := good[v1alpha1.AWSNodeClass](t, "")
	class.Spec.Bootstrap, class.Spec.UserData = &v1alpha1.Bootstrap{Family: family}, data
	return class
}

// TestClassWithBootstrapAndPool: what is said at the pool, and at the class of the same pool.
// Startup taints need no word in the user data, because Stratos registers them.
func TestClassWithBootstrapAndPool(t *testing.T) {
	const off = "#!/bin/bash\npoweroff\n"
	long := "#!/bin/bash\npoweroff\n" + strings.Repeat("#", userdata.MaxBytes-1600)
	labels := `"template": {"labels": {`
	for i := range 10 {
		labels += fmt.Sprintf(`"example.com/%d": %q,`, i, strings.Repeat("x", 60))
	}
	labels += `"a": "b"}}`
	for name, c := range map[string]struct {
		family                          v1alpha1.BootstrapFamily
		data, change                    string
		refused, warned, classIsRefused string
	}{
		"AL2023 that powers off": {family: v1alpha1.FamilyAL2023, data: off, change: `"preWarm": {"completionMode": "SelfStop"}`},
		"AL2023 that does not": {family: v1alpha1.FamilyAL2023, change: `"preWarm": {"completionMode": "SelfStop"}`,
			warned: "has no poweroff"},
		"AL2023 that Stratos stops": {family: v1alpha1.FamilyAL2023,
			change: `"preWarm": {"completionMode": "ControllerStop"}`},
		"AL2023 that both stop": {family: v1alpha1.FamilyAL2023, data: off,
			change: `"preWarm": {"completionMode": "ControllerStop"}`, warned: "powers off"},
		"Kubeadm that Stratos stops": {family: v1alpha1.FamilyKubeadm,
			change: `"preWarm": {"completionMode": "ControllerStop"}`},
		"Kubeadm that does not power off": {family: v1alpha1.FamilyKubeadm, change: `"preWarm": {"completionMode": "SelfStop"}`,
			warned: "has no poweroff"},
		"Kubeadm with user data that is too long with the labels": {family: v1alpha1.FamilyKubeadm,
			data:           "#!/bin/bash\npoweroff\n" + strings.Repeat("#", userdata.MaxBytes-4400),
			change:         `"preWarm": {"completionMode": "SelfStop"}, ` + labels,
			refused:        "spec.template: Invalid value: labels and taints make the user data of AWSNodeClass \"workers\" too long",
			classIsRefused: ", with the labels and taints of NodePool workers"},
		"Bottlerocket that Stratos stops": {family: v1alpha1.FamilyBottlerocket,
			change: `"preWarm": {"completionMode": "ControllerStop"}`},
		"Bottlerocket that is to stop itself": {family: v1alpha1.FamilyBottlerocket,
			change:         `"preWarm": {"completionMode": "SelfStop"}`,
			refused:        "spec.preWarm.completionMode: Invalid value: \"SelfStop\": must be ControllerStop",
			classIsRefused: "spec.bootstrap: Invalid value: Bottlerocket cannot power itself off, but NodePool workers"},
		"user data that is too long with the labels": {family: v1alpha1.FamilyAL2023, data: long,
			change:         `"preWarm": {"completionMode": "SelfStop"}, ` + labels,
			refused:        "spec.template: Invalid value: labels and taints make the user data of AWSNodeClass \"workers\" too long",
			classIsRefused: ", with the labels and taints of NodePool workers"},
	} {
		t.Run(name, func(t *testing.T) {
			class := withBootstrap(t, c.family, c.data)
			pool := good[v1alpha1.NodePool](t, `{"spec": {`+c.change+`}}`)
			errs, warnings := ValidateNodePool(pool, NodePoolContext{Class: class})
			classErrs, classWarnings := ValidateAWSNodeClass(class, AWSNodeClassContext{Pools: []v1alpha1.NodePool{*pool}})
			for _, got := range []struct{ what, said, want string }{
				{"the pool is refused", fmt.Sprint(errs), c.refused}, {"the pool is warned of", fmt.Sprint(warnings), c.warned},
				{"the class is refused", fmt.Sprint(classErrs), c.classIsRefused},
				{"the class is warned of", fmt.Sprint(classWarnings), c.warned},
			} {
				if !strings.Contains(got.said, got.want) || got.want == "" && got.said != "[]" {
					t.Errorf("%s: %s, want %q", got.what, got.said, got.want)
				}
			}
			// What was accepted once may stay.
			if errs, _ := ValidateNodePool(pool, NodePoolContext{Old: pool, Class: class}); len(errs) > 0 {
				t.Errorf("the pool is refused at a change of something else: %v", errs)
			}
			other := *pool.DeepCopy()
			other.Spec.Template.NodeClassRef.Name = "other"
			errs, _ = ValidateNodePool(pool, NodePoolContext{Old: &other, Class: class})
			if (len(errs) > 0) != (c.refused != "") {
				t.Errorf("the pool gets this class: refused %v, want %q", errs, c.refused)
			}
		})
	}
}

func TestUserDataThatIsTooLongByItself(t *testing.T) {
	class := withBootstrap(t, v1alpha1.FamilyAL2023, "#!/bin/bash\npoweroff\n"+strings.Repeat("#", userdata.MaxBytes-25))
	errs, _ := ValidateAWSNodeClass(class, AWSNodeClassContext{})
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "spec.userData: Invalid value: ") ||
		!strings.Contains(errs[0].Error(), "16384") {
		t.Errorf("refused %v, want spec.userData for its length with what Stratos adds", errs)
	}
}
