package webhook

import (
	"encoding/base64"
	"encoding/pem"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/userdata"
)

// validateBootstrap checks what makes instances join: what a user wrote in addition to what Stratos
// writes, or all of it where the class has no bootstrap.
func validateBootstrap(spec *v1alpha1.AWSNodeClassSpec) (field.ErrorList, admission.Warnings) {
	if spec.Bootstrap == nil {
		return nil, warningsOf(userdata.CheckHandWritten(spec.UserData))
	}
	var refused, odd []userdata.Problem
	switch spec.BootstrapFamily() {
	case v1alpha1.FamilyAL2023:
		refused, odd = userdata.CheckAL2023(spec.UserData, spec.Bootstrap.KubeletExtraArgs)
	case v1alpha1.FamilyBottlerocket:
		refused, odd = userdata.CheckBottlerocket(spec.UserData, spec.Bootstrap.KubeletExtraArgs)
	case v1alpha1.FamilyKubeadm:
		refused, odd = userdata.CheckKubeadm(spec.UserData, spec.Bootstrap.KubeletExtraArgs)
	}
	refused = append(refused, userdata.CheckCluster(userdata.Cluster(spec.Bootstrap.Cluster))...)
	return errorsOf(refused), warningsOf(odd)
}

// errorsOf words the problems without the values, which may be long or hold credentials.
func errorsOf(problems []userdata.Problem) field.ErrorList {
	var errs field.ErrorList
	for _, p := range problems {
		errs = append(errs, field.Invalid(field.NewPath("spec", p.Field), field.OmitValueType{}, p.Reason))
	}
	return errs
}

func warningsOf(problems []userdata.Problem) admission.Warnings {
	var warnings admission.Warnings
	for _, p := range problems {
		warnings = append(warnings, warn(field.NewPath("spec", p.Field), "%s", p.Reason)...)
	}
	return warnings
}

// refusedWithPools is what can only be said of a class whose spec is right by itself, and what
// depends on its pools.
func refusedWithPools(class *v1alpha1.AWSNodeClass, pools []v1alpha1.NodePool, found field.ErrorList) field.ErrorList {
	errs := bottlerocketRefusals(class, pools)
	if len(found) > 0 {
		return errs
	}
	return append(errs, validateMergedSize(class, pools)...)
}

// validateMergedSize refuses user data that is too long with what Stratos adds for the pools that
// there are. Without a resolved cluster what is known of it counts: it only becomes longer.
func validateMergedSize(class *v1alpha1.AWSNodeClass, pools []v1alpha1.NodePool) field.ErrorList {
	if class.Spec.Bootstrap == nil {
		return nil
	}
	if err := mergedSize(class, provider.Registration{}); err != nil {
		return field.ErrorList{err}
	}
	for i := range pools {
		if err := mergedSize(class, provider.RegistrationOf(&pools[i])); err != nil {
			err.Detail += ", with the labels and taints of NodePool " + pools[i].Name
			return field.ErrorList{err}
		}
	}
	return nil
}

// leastCluster stands for what is not known of a cluster yet: real values are as long or longer.
func leastCluster() v1alpha1.BootstrapCluster {
	return v1alpha1.BootstrapCluster{
		Name: "c", Endpoint: "https://e", ServiceCIDR: "::/0",
		CertificateAuthority: base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"})),
	}
}

// mergedSize says by how much the user data is too long, if it is.
func mergedSize(class *v1alpha1.AWSNodeClass, r provider.Registration) *field.Error {
	joins := &v1alpha1.BootstrapStatus{Family: class.Spec.BootstrapFamily(), Cluster: class.Spec.Bootstrap.Cluster}
	if resolved := class.Status.Bootstrap; resolved != nil {
		joins.Cluster = joins.Cluster.Or(resolved.Cluster)
	}
	joins.Cluster = joins.Cluster.Or(leastCluster())
	r.BootstrapToken = userdata.PlaceholderToken // each token is as long
	for _, err := range errorsOf(userdata.CheckLaunch(&class.Spec, joins, r)) {
		return err
	}
	return nil
}

// poolRefusals is what a pool may not ask of its class.
func poolRefusals(pool *v1alpha1.NodePool, class v1alpha1.NodeClass) field.ErrorList {
	own, ok := class.(*v1alpha1.AWSNodeClass)
	if !ok || own.Spec.Bootstrap == nil {
		return nil
	}
	if cannotPowerOff(pool, own) {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "preWarm", "completionMode"), v1alpha1.SelfStop,
			"must be ControllerStop: Bottlerocket, as in AWSNodeClass \""+own.Name+"\", cannot power itself off")}
	}
	err := mergedSize(own, provider.RegistrationOf(pool))
	if err != nil && mergedSize(own, provider.Registration{}) == nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "template"), field.OmitValueType{},
			"labels and taints make the user data of AWSNodeClass \""+own.Name+"\" too long: "+err.Detail)}
	}
	return nil
}

// bottlerocketRefusals is the same at the class.
func bottlerocketRefusals(class *v1alpha1.AWSNodeClass, pools []v1alpha1.NodePool) field.ErrorList {
	var names []string
	for i := range pools {
		if cannotPowerOff(&pools[i], class) {
			names = append(names, pools[i].Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "bootstrap"), field.OmitValueType{},
		"Bottlerocket cannot power itself off, but NodePool "+namesOf(names)+
			" has preWarm.completionMode SelfStop: set ControllerStop there first")}
}

func cannotPowerOff(pool *v1alpha1.NodePool, class *v1alpha1.AWSNodeClass) bool {
	return class.Spec.BootstrapFamily() == v1alpha1.FamilyBottlerocket &&
		pool.Spec.PreWarm.CompletionModeOf(class) == v1alpha1.SelfStop
}
