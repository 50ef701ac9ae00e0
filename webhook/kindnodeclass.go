package webhook

import (
	"path"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// maxBootScript bounds the script in bytes; the CRD counts characters.
const maxBootScript = 16 << 10

// KindNodeClassContext is what stands around a class.
type KindNodeClassContext struct {
	// Old is the class before the change, nil when it is created.
	Old *v1alpha1.KindNodeClass
	// Pools are the pools that use the class.
	Pools []v1alpha1.NodePool
	// PoolsUnread is why they could not be listed; nothing is said about them then.
	PoolsUnread error
}

// ValidateKindNodeClass says what is wrong with a class that the CRD's own rules accept, and what a
// person should look at.
func ValidateKindNodeClass(class *v1alpha1.KindNodeClass, around KindNodeClassContext) (field.ErrorList,
	admission.Warnings) {
	errs, warnings := kindNodeClassAlone(&class.Spec)
	if around.PoolsUnread != nil {
		warnings = append(warnings, unread(around.PoolsUnread)...)
	}
	warnings = append(warnings, poolWarnings(class, around.Pools)...)
	if around.Old == nil {
		return errs, warnings
	}
	before, _ := kindNodeClassAlone(&around.Old.Spec)
	errs, kept := ratchet(before, errs)
	return errs, append(append(kept, warnings...), specWarnings(around.Old, class, around.Pools)...)
}

func kindNodeClassAlone(spec *v1alpha1.KindNodeClassSpec) (field.ErrorList, admission.Warnings) {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if spec.Image != "" {
		if _, err := reference.ParseNormalizedNamed(spec.Image); err != nil {
			errs = append(errs, field.Invalid(at.Child("image"), spec.Image,
				"must be an image reference such as kindest/node:v1.36.1: "+err.Error()))
		}
	}
	errs = append(errs, validateReserved(spec.Reserved, at.Child("reserved"))...)
	for i, m := range spec.ExtraMounts {
		errs = append(errs, validateMount(m, at.Child("extraMounts").Index(i))...)
	}
	more, warnings := validateBootScript(spec.BootScript, at.Child("bootScript"))
	return append(errs, more...), warnings
}

// validateReserved: the kubelet takes memory in bytes, and a thousandth of a byte is most often a
// Mi that lost its i.
func validateReserved(reserved corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedKeys(reserved) {
		amount := reserved[name]
		if name == corev1.ResourceMemory && amount.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), amount.String(),
				"must be a whole number of bytes, such as 512Mi"))
		}
	}
	return errs
}

// nodesOwn are the folders in which a node keeps what it runs by. Mounts below /var are common:
// most paths of pods are there.
func nodesOwn() []string {
	return []string{"/dev", "/etc/kubernetes", "/kind", "/lib/modules", "/proc", "/run", "/sys", "/tmp", "/var"}
}

func validateMount(m v1alpha1.KindMount, at *field.Path) field.ErrorList {
	errs := validatePath(m.HostPath, at.Child("hostPath"))
	errs = append(errs, validatePath(m.ContainerPath, at.Child("containerPath"))...)
	for _, own := range nodesOwn() {
		if path.Clean(m.ContainerPath) == own {
			errs = append(errs, field.Invalid(at.Child("containerPath"), m.ContainerPath,
				"must not be one of the node's own folders: "+strings.Join(nodesOwn(), ", ")))
		}
	}
	return errs
}

func validatePath(value string, at *field.Path) field.ErrorList {
	clean := path.Clean(value)
	if value == clean {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, "must be written without .., double or closing slashes: "+clean)}
}

func validateBootScript(script string, at *field.Path) (field.ErrorList, admission.Warnings) {
	if len(script) > maxBootScript {
		return field.ErrorList{field.TooLong(at, "", maxBootScript)}, nil
	}
	first, _, _ := strings.Cut(script, "\n")
	switch {
	case strings.HasSuffix(first, "\r"):
		return nil, warn(
			at,
			"the lines end with carriage returns, which bash takes for a part of each command; use plain line feeds",
		)
	case strings.HasPrefix(first, "#!") && !strings.Contains(first, "sh"):
		return nil, warn(at, "it is run by bash, whatever its first line says")
	case strings.HasPrefix(first, "#cloud-config"):
		return nil, warn(at, "it is run by bash: there is no cloud-init in a kind node")
	}
	return nil, nil
}
