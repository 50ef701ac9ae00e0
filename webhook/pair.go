package webhook

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// mismatch is what a pool and its class say differently. It is told at the one that is being
// applied: at the pool as a warning of its field, at the class as a warning of what its instances
// run at boot, with the names of the pools.
type mismatch struct {
	poolField *field.Path
	// atPool has one %s, the class's name; atClass has one %s, the pools' names.
	atPool, atClass string
}

// mismatches compares a pool with its class.
func mismatches(pool *v1alpha1.NodePool, class v1alpha1.NodeClass) []mismatch {
	switch class := class.(type) {
	case *v1alpha1.AWSNodeClass:
		if class.Spec.Bootstrap != nil {
			// Stratos registers the taints. A Bottlerocket that is to stop itself is refused.
			if class.Spec.BootstrapFamily() == v1alpha1.FamilyBottlerocket {
				return nil
			}
			return powerOffMismatch(&pool.Spec, class)
		}
		found := powerOffMismatch(&pool.Spec, class)
		for i, taint := range pool.Spec.Template.StartupTaints {
			found = append(found, taintMismatch(i, taint, class.Spec.UserData)...)
		}
		return found
	case *v1alpha1.KindNodeClass:
		return scriptMismatch(&pool.Spec, class)
	}
	return nil
}

// bootField is where a class says what its instances run at boot.
func bootField(class v1alpha1.NodeClass) *field.Path {
	if _, ok := class.(*v1alpha1.KindNodeClass); ok {
		return field.NewPath("spec", "bootScript")
	}
	return field.NewPath("spec", "userData")
}

// scriptMismatch: taints need no word in a boot script, because nothing lands on a kind node before
// Stratos has seen it.
func scriptMismatch(spec *v1alpha1.NodePoolSpec, class *v1alpha1.KindNodeClass) []mismatch {
	at := field.NewPath("spec", "preWarm", "completionMode")
	off, mode := powersOff(class.Spec.BootScript), spec.PreWarm.CompletionModeOf(class)
	switch {
	case mode == v1alpha1.SelfStop && !off:
		return []mismatch{
			{
				at,
				"SelfStop, but the boot script of KindNodeClass %q has no poweroff: every warm-up would end by preWarm.timeout; add one at its end, or use ControllerStop",
				"it has no poweroff, but NodePool %s has preWarm.completionMode SelfStop: every warm-up would end by preWarm.timeout",
			},
		}
	case mode == v1alpha1.ControllerStop && off:
		return []mismatch{
			{
				at,
				"ControllerStop, but the boot script of KindNodeClass %q powers off: nodes that pods wait for would go down under them; remove it there, or use SelfStop",
				"it powers off, but NodePool %s has preWarm.completionMode ControllerStop: nodes that pods wait for would go down under them",
			},
		}
	}
	return nil
}

func powerOffMismatch(spec *v1alpha1.NodePoolSpec, class *v1alpha1.AWSNodeClass) []mismatch {
	at := field.NewPath("spec", "preWarm", "completionMode")
	data := class.Spec.UserData
	off, mode := powersOff(data), spec.PreWarm.CompletionModeOf(class)
	switch {
	case mode == v1alpha1.SelfStop && isBottlerocket(data):
		return []mismatch{
			{
				at,
				"Bottlerocket, as in AWSNodeClass %q, cannot power itself off: every warm-up would end by preWarm.timeout; use ControllerStop",
				"Bottlerocket cannot power itself off, but NodePool %s has preWarm.completionMode SelfStop; use ControllerStop there",
			},
		}
	case mode == v1alpha1.SelfStop && !off:
		return []mismatch{
			{
				at,
				"SelfStop, but the user data of AWSNodeClass %q has no poweroff: every warm-up would end by preWarm.timeout; add one at its end, or use ControllerStop",
				"it has no poweroff, but NodePool %s has preWarm.completionMode SelfStop: every warm-up would end by preWarm.timeout",
			},
		}
	case mode == v1alpha1.ControllerStop && off:
		return []mismatch{
			{
				at,
				"ControllerStop, but the user data of AWSNodeClass %q powers off: nodes that pods wait for would go down under them; remove it there, or use SelfStop",
				"it powers off, but NodePool %s has preWarm.completionMode ControllerStop: nodes that pods wait for would go down under them",
			},
		}
	}
	return nil
}

func taintMismatch(i int, taint corev1.Taint, data string) []mismatch {
	at := field.NewPath("spec", "template", "startupTaints").Index(i)
	text := taint.ToString()
	switch registers(data, taint) {
	case notRegistered:
		return []mismatch{
			{
				at,
				text + " is not in the user data of AWSNodeClass %q: without --register-with-taints pods can come before the network at the first boot",
				text + ", a startup taint of NodePool %s, is missing: without --register-with-taints pods can come before the network at the first boot",
			},
		}
	case registeredOtherwise:
		return []mismatch{{at,
			"the user data of AWSNodeClass %q registers this taint with another value or effect than " + text +
				": no controller would remove that one",
			"it registers the startup taint " + text +
				" of NodePool %s with another value or effect: no controller would remove that one"}}
	case registered:
	}
	return nil
}

// classWarnings says what of the pool's class a person should look at.
func classWarnings(pool *v1alpha1.NodePool, around NodePoolContext) admission.Warnings {
	ref := pool.Spec.Template.NodeClassRef
	at := field.NewPath("spec", "template", "nodeClassRef", "name")
	switch {
	case len(validateObjectName(ref.Name, at)) > 0: // an error already, and nothing can have such a name
		return nil
	case around.ClassUnread != nil:
		return warn(at, "%s %q could not be looked up, so the pool was not compared with it: %v", ref.Kind, ref.Name,
			around.ClassUnread)
	case around.Class == nil:
		return warn(at, "%s %q does not exist; until it does, the pool launches nothing", ref.Kind, ref.Name)
	case around.Class.GetDeletionTimestamp() != nil:
		return warn(at, "%s %q is being deleted", ref.Kind, ref.Name)
	}
	var warnings admission.Warnings
	for _, m := range mismatches(pool, around.Class) {
		warnings = append(warnings, warn(m.poolField, m.atPool, ref.Name)...)
	}
	return warnings
}

// poolWarnings says the same at the class, each mismatch once with all pools that have it.
func poolWarnings(class v1alpha1.NodeClass, pools []v1alpha1.NodePool) admission.Warnings {
	var order []string
	names := map[string][]string{}
	for i := range pools {
		for _, m := range mismatches(&pools[i], class) {
			if names[m.atClass] == nil {
				order = append(order, m.atClass)
			}
			names[m.atClass] = append(names[m.atClass], pools[i].Name)
		}
	}
	var warnings admission.Warnings
	for _, text := range order {
		warnings = append(warnings, warn(bootField(class), "%s", fmt.Sprintf(text, namesOf(names[text])))...)
	}
	return warnings
}
