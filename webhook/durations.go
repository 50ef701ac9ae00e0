package webhook

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

const (
	day  = 24 * time.Hour
	year = 8760 * time.Hour

	// quickestBoot is what a Linux instance needs at least to boot and join; measured starts on EC2
	// take 20 s and more.
	quickestBoot = 15 * time.Second
	// shortWarmup is less than a first boot with its downloads takes.
	shortWarmup = time.Minute
	// shortLife is a life in which a node is replaced about as long as it serves.
	shortLife = 10 * time.Minute
	// shortStandby has each standby node launched anew many times a day.
	shortStandby = time.Hour
	// podGracePeriod is the API server's default of terminationGracePeriodSeconds.
	podGracePeriod = 30 * time.Second
)

// bounded is a duration and what it may be; nil is unset.
type bounded struct {
	at       *field.Path
	value    *v1alpha1.Duration
	min, max time.Duration
	allowed  string
}

// durations are the pool's, with the bounds that the CRD has as well: an object made while an older
// CRD was installed may lie outside.
func durations(spec *v1alpha1.NodePoolSpec, at *field.Path) []bounded {
	scaleDown, disruption := at.Child("scaleDown"), at.Child("disruption")
	return []bounded{
		{at.Child("preWarm", "timeout"), spec.PreWarm.Timeout, time.Second, day, "1s to 24h"},
		{at.Child("scaleUp", "readyTimeout"), spec.ScaleUp.ReadyTimeout, time.Second, time.Hour, "1s to 1h"},
		{scaleDown.Child("emptyNodeTTL"), spec.ScaleDown.EmptyNodeTTL, 0, 7 * day, "0s to 168h"},
		{scaleDown.Child("drainTimeout"), spec.ScaleDown.DrainTimeout, time.Second, day, "1s to 24h"},
		{scaleDown.Child("standbySurplusTTL"), spec.ScaleDown.StandbySurplusTTL, 0, year, "0s (keep forever) to 8760h"},
		{disruption.Child("expireAfter"), spec.Disruption.ExpireAfter, 10 * time.Minute, year, "10m to 8760h"},
		{disruption.Child("terminationGracePeriod"), spec.Disruption.TerminationGracePeriod, 0, 7 * day, "0s to 168h"},
	}
}

func validateDurations(spec *v1alpha1.NodePoolSpec, at *field.Path) field.ErrorList {
	errs := validateRuntime(spec.MaxNodeRuntime, at.Child("maxNodeRuntime"))
	for _, d := range durations(spec, at) {
		if d.value != nil && (d.value.Duration < d.min || d.value.Duration > d.max) {
			errs = append(errs, field.Invalid(d.at, d.value.Duration.String(), "must be "+d.allowed))
		}
	}
	return errs
}

func validateRuntime(limit *intstr.IntOrString, at *field.Path) field.ErrorList {
	const allowed = "must be a duration from 1m to 8760h, such as 24h, or 0 to switch it off"
	switch {
	case limit == nil, limit.Type == intstr.Int && limit.IntVal == 0:
		return nil
	case limit.Type == intstr.Int:
		return field.ErrorList{field.Invalid(at, limit.IntVal, allowed)}
	}
	d, err := time.ParseDuration(limit.StrVal)
	if err != nil || d != 0 && (d < time.Minute || d > year) {
		return field.ErrorList{field.Invalid(at, limit.StrVal, allowed)}
	}
	return nil
}

// durationWarnings finds what is allowed and hardly meant.
func durationWarnings(spec *v1alpha1.NodePoolSpec, at *field.Path) admission.Warnings {
	var warnings admission.Warnings
	runtime, ttl := spec.RuntimeLimit(), spec.ScaleDown.EmptyNodeTTLOrDefault()
	switch {
	case runtime > 0 && runtime < shortLife:
		warnings = append(warnings, warn(at.Child("maxNodeRuntime"),
			"%s is so short that nodes are replaced about as long as they serve", runtime)...)
	case runtime > 0 && runtime <= ttl && spec.ScaleDown.EnabledOrDefault():
		warnings = append(warnings, warn(at.Child("maxNodeRuntime"),
			"%s is not longer than scaleDown.emptyNodeTTL (%s): every node is replaced before it can return to standby", runtime,
			ttl)...)
	}
	if d := spec.PreWarm.TimeoutOrDefault(); d < shortWarmup {
		warnings = append(warnings, warn(at.Child("preWarm", "timeout"),
			"%s is less than a first boot takes: every warm-up would end by timeoutAction", d)...)
	}
	if d := spec.ScaleUp.ReadyTimeoutOrDefault(); d < quickestBoot {
		warnings = append(warnings, warn(at.Child("scaleUp", "readyTimeout"),
			"%s is less than a boot takes: every start would be given up, and nodes replaced after the third", d)...)
	}
	if d := spec.ScaleDown.DrainTimeoutOrDefault(); d < podGracePeriod {
		warnings = append(warnings, warn(at.Child("scaleDown", "drainTimeout"),
			"%s is less than the 30s that pods have to end by default", d)...)
	}
	if d := spec.Disruption.ExpireAfter; d != nil && d.Duration < shortStandby {
		warnings = append(warnings, warn(at.Child("disruption", "expireAfter"),
			"%s has every standby node launched anew many times a day", d.Duration)...)
	}
	if d := spec.Disruption.TerminationGracePeriod; d != nil && d.Duration < podGracePeriod {
		warnings = append(warnings, warn(at.Child("disruption", "terminationGracePeriod"),
			"%s is less than the 30s that pods have to end by default: pods on replaced nodes are killed", d.Duration)...)
	}
	return warnings
}
