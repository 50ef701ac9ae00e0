package webhook

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// DefaultNodePool writes out every default that is a value of its own; calling it again changes
// nothing. The CRD has the same defaults, so this adds something only where an older CRD is
// installed. A default that follows from another field is not written: scaleUp.startBudget is
// poolSize while it is unset, and a number that was written once would not follow poolSize.
// preWarm.completionMode follows from the node class.
func DefaultNodePool(pool *v1alpha1.NodePool) {
	spec := &pool.Spec
	setPointer(&spec.Weight, v1alpha1.DefaultWeight)
	if spec.Template.NodeClassRef != (v1alpha1.NodeClassRef{}) {
		// Where the template is missing the schema says so. A default would bring a template into being,
		// and the message would be about what that lacks.
		setText(&spec.Template.StartupTaintRemoval, v1alpha1.DefaultStartupTaintRemoval)
	}
	setDuration(&spec.PreWarm.Timeout, v1alpha1.DefaultPreWarmTimeout)
	setText(&spec.PreWarm.TimeoutAction, v1alpha1.DefaultTimeoutAction)
	setText(&spec.PreWarm.ImagePullPolicy, v1alpha1.DefaultImagePullPolicy)
	setDuration(&spec.ScaleUp.ReadyTimeout, v1alpha1.DefaultReadyTimeout)
	setText(&spec.ScaleUp.Anticipate, v1alpha1.DefaultAnticipate)
	setPointer(&spec.ScaleDown.Enabled, v1alpha1.DefaultScaleDownEnabled)
	setDuration(&spec.ScaleDown.EmptyNodeTTL, v1alpha1.DefaultEmptyNodeTTL)
	setDuration(&spec.ScaleDown.DrainTimeout, v1alpha1.DefaultDrainTimeout)
	setDuration(&spec.ScaleDown.StandbySurplusTTL, v1alpha1.DefaultStandbySurplusTTL)
	setPointer(&spec.Disruption.Budget, intstr.FromString(v1alpha1.DefaultBudget))
	setText(&spec.Disruption.Drift, v1alpha1.DefaultDrift)
}

// DefaultAWSNodeClass does for a class what DefaultNodePool does for a pool.
func DefaultAWSNodeClass(class *v1alpha1.AWSNodeClass) { class.Spec.SetDefaults() }

func setPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setText[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}

func setDuration(field **v1alpha1.Duration, value time.Duration) {
	setPointer(field, v1alpha1.Duration{Duration: value})
}
