package webhook

import (
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// NodePoolContext is what stands around a pool.
type NodePoolContext struct {
	// Old is the pool before the change, nil when it is created.
	Old *v1alpha1.NodePool
	// Class is the node class that the pool names, nil where there is none.
	Class v1alpha1.NodeClass
	// ClassUnread is why the class could not be looked up; nothing is said about the class then.
	ClassUnread error
}

// ValidateNodePool says what is wrong with a pool that the CRD's own rules accept, and what a
// person should look at. The order is that of the fields.
func ValidateNodePool(pool *v1alpha1.NodePool, around NodePoolContext) (field.ErrorList, admission.Warnings) {
	errs, warnings := nodePoolAlone(pool)
	errs = append(errs, poolRefusals(pool, around.Class)...)
	if around.Old != nil {
		// What was accepted once may stay: a stricter Stratos must not keep people from changing another
		// field.
		before, _ := nodePoolAlone(around.Old)
		if around.Old.Spec.Template.NodeClassRef == pool.Spec.Template.NodeClassRef {
			before = append(before, poolRefusals(around.Old, around.Class)...)
		}
		var kept admission.Warnings
		errs, kept = ratchet(before, errs)
		warnings = append(kept, warnings...)
		warnings = append(warnings, sizeWarnings(around.Old, pool)...)
		warnings = append(warnings, templateWarnings(around.Old, pool)...)
	} else {
		warnings = append(warnings, copiedWarnings(pool)...)
	}
	return errs, append(warnings, classWarnings(pool, around)...)
}

func nodePoolAlone(pool *v1alpha1.NodePool) (field.ErrorList, admission.Warnings) {
	spec, at := &pool.Spec, field.NewPath("spec")
	errs := validateTemplate(&spec.Template, at.Child("template"))
	warnings := labelWarnings(spec.Template.Labels, at.Child("template", "labels"))
	if spec.Template.StartupTaintRemovalOrDefault() == v1alpha1.RemoveExternal && len(spec.Template.StartupTaints) == 0 {
		warnings = append(warnings, warn(at.Child("template", "startupTaintRemoval"),
			"External has no effect without startupTaints")...)
	}
	moreErrs, more := validateImages(spec.PreWarm.ImagesToPull, at.Child("preWarm", "imagesToPull"))
	errs, warnings = append(errs, moreErrs...), append(warnings, more...)
	for i, secret := range spec.PreWarm.ImagePullSecrets {
		errs = append(errs, validateObjectName(secret.Name, at.Child("preWarm",
			"imagePullSecrets").Index(i).Child("name"))...)
	}
	if defaults := spec.ScaleUp.DefaultPodResources; defaults != nil {
		errs = append(errs, validateRequests(defaults.Requests, at.Child("scaleUp", "defaultPodResources", "requests"))...)
	}
	errs = append(errs, validateDurations(spec, at)...)
	return errs, append(warnings, durationWarnings(spec, at)...)
}

// copiedWarnings finds what a copy of another pool's YAML brings along.
func copiedWarnings(pool *v1alpha1.NodePool) admission.Warnings {
	if _, ok := pool.Annotations[v1alpha1.AnnotationLaunches]; !ok {
		return nil
	}
	return warn(field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationLaunches),
		"Stratos writes this annotation itself; leave it out, it belongs to the pool it was copied from")
}

func validateTemplate(template *v1alpha1.NodeTemplate, at *field.Path) field.ErrorList {
	errs := validateObjectName(template.NodeClassRef.Name, at.Child("nodeClassRef", "name"))
	errs = append(errs, metav1validation.ValidateLabels(template.Labels, at.Child("labels"))...)
	errs = append(errs, validateTaints(template.Taints, at.Child("taints"))...)
	return append(errs, validateTaints(template.StartupTaints, at.Child("startupTaints"))...)
}

func validateTaints(taints []corev1.Taint, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, taint := range taints {
		errs = append(errs, metav1validation.ValidateLabelName(taint.Key, at.Index(i).Child("key"))...)
		for _, problem := range validation.IsValidLabelValue(taint.Value) {
			errs = append(errs, field.Invalid(at.Index(i).Child("value"), taint.Value, problem))
		}
	}
	return errs
}

func validateObjectName(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, problem))
	}
	return errs
}

// labelWarnings: the kubelet and the cloud's controllers write these labels from what the instance
// is, so another value would be fought over; Karpenter takes nodes with its labels for its own and
// terminates stopped ones.
func labelWarnings(labels map[string]string, at *field.Path) admission.Warnings {
	var warnings admission.Warnings
	for _, key := range sortedKeys(labels) {
		switch {
		case setByOthers(key):
			warnings = append(warnings, warn(at.Key(key),
				"the kubelet and the cloud controller set this label from the instance; leave it out")...)
		case ofKarpenter(key):
			warnings = append(warnings, warn(
				at.Key(key),
				"Karpenter takes nodes with its labels for its own and deletes them when they are stopped; use a key of your own",
			)...)
		}
	}
	return warnings
}

func setByOthers(key string) bool {
	switch key {
	case corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone,
		corev1.LabelTopologyRegion:
		return true
	}
	return false
}

func ofKarpenter(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == "karpenter.sh" || strings.HasSuffix(domain, ".karpenter.sh") || domain == "karpenter.k8s.aws")
}

// validateImages reads the references as the kubelet does: what it cannot parse it never pulls
// (InvalidImageName).
func validateImages(images []string, at *field.Path) (field.ErrorList, admission.Warnings) {
	var errs field.ErrorList
	var warnings admission.Warnings
	first := map[string]int{}
	for i, image := range images {
		named, err := reference.ParseNormalizedNamed(image)
		if err != nil {
			errs = append(errs, field.Invalid(at.Index(i), image,
				"must be an image reference such as registry.example.com/team/app:v1: "+err.Error()))
			continue
		}
		whole := reference.TagNameOnly(named).String()
		if before, ok := first[whole]; ok {
			warnings = append(warnings, warn(at.Index(i), "%s is the same image as %s", image, at.Index(before))...)
			continue
		}
		first[whole] = i
	}
	return errs, warnings
}

// validateRequests holds the names and amounts to what the API server admits in a container,
// because they stand in for one.
func validateRequests(requests corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedKeys(requests) {
		amount := requests[name]
		errs = append(errs, validateResourceName(name, at.Key(string(name)))...)
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), amount.String(), "must not be negative"))
		}
		if strings.Contains(string(name), "/") && amount.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), amount.String(),
				"must be a whole number: extended resources cannot be divided"))
		}
	}
	return errs
}

func validateResourceName(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if problems := validation.IsQualifiedName(string(name)); len(problems) > 0 {
		return field.ErrorList{field.Invalid(at, string(name), "must be the name of a resource: "+strings.Join(problems,
			"; "))}
	}
	switch {
	case strings.Contains(string(name), "/"), strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return nil
	case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage:
		return nil
	}
	return field.ErrorList{field.NotSupported(at, string(name), []string{"cpu", "memory", "ephemeral-storage",
		"hugepages-<size>", "<domain>/<resource>"})}
}
