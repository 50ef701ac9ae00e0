package webhook

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// AWSNodeClassContext is what stands around a class.
type AWSNodeClassContext struct {
	// Old is the class before the change, nil when it is created.
	Old *v1alpha1.AWSNodeClass
	// Pools are the pools that use the class.
	Pools []v1alpha1.NodePool
	// PoolsUnread is why they could not be listed; nothing is said about them then.
	PoolsUnread error
}

// ValidateAWSNodeClass says what is wrong with a class that the CRD's own rules accept, and what a
// person should look at.
func ValidateAWSNodeClass(class *v1alpha1.AWSNodeClass, around AWSNodeClassContext) (field.ErrorList,
	admission.Warnings) {
	errs, warnings := validateAWSNodeClassSpec(&class.Spec, capacityOf(class, around.Old))
	errs = append(errs, refusedWithPools(class, around.Pools, errs)...)
	if around.PoolsUnread != nil {
		warnings = append(warnings, unread(around.PoolsUnread)...)
	}
	warnings = append(warnings, poolWarnings(class, around.Pools)...)
	if around.Old == nil {
		return errs, warnings
	}
	before, _ := validateAWSNodeClassSpec(&around.Old.Spec, capacityOf(around.Old, around.Old))
	before = append(before, refusedWithPools(around.Old, around.Pools, before)...)
	errs, kept := ratchet(before, errs)
	return errs, slices.Concat(kept, warnings, specWarnings(around.Old, class, around.Pools),
		typeWarnings(around.Old, class, around.Pools))
}

func unread(err error) admission.Warnings {
	return warn(field.NewPath("spec"), "the pools of this class could not be listed, so it was not compared with them: %v",
		err)
}

// ValidateNodeClassDeletion refuses while pools use the class: they could launch nothing any more.
// A pool that is being deleted launches nothing anyway, so pool and class can be deleted by one
// command.
func ValidateNodeClassDeletion(pools []v1alpha1.NodePool) error {
	var names []string
	for i := range pools {
		if pools[i].DeletionTimestamp == nil {
			names = append(names, pools[i].Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("it is in use by NodePool %s; delete these or change their spec.template.nodeClassRef first",
		namesOf(names))
}

// capacityOf is what the cloud said of the instance type, unless that is being changed.
func capacityOf(class, old *v1alpha1.AWSNodeClass) corev1.ResourceList {
	if old == nil || old.Spec.InstanceType != class.Spec.InstanceType {
		return nil
	}
	return old.Status.Capacity
}

func validateAWSNodeClassSpec(spec *v1alpha1.AWSNodeClassSpec, capacity corev1.ResourceList) (field.ErrorList,
	admission.Warnings) {
	at := field.NewPath("spec")
	warnings := regionWarnings(spec.Region, at.Child("region"))
	errs := validateID(spec.AMI, "ami", at.Child("ami"))
	errs = append(errs, validateIDs(spec.SubnetIDs, "subnet", at.Child("subnetIds"))...)
	errs = append(errs, validateIDs(spec.SecurityGroupIDs, "sg", at.Child("securityGroupIds"))...)
	errs = append(errs, validateSelector(spec.AMISelector, "ami", at.Child("amiSelector"))...)
	errs = append(errs, validateSelector(spec.SubnetSelector, "subnet", at.Child("subnetSelector"))...)
	errs = append(errs, validateSelector(spec.SecurityGroupSelector, "sg", at.Child("securityGroupSelector"))...)
	warnings = append(warnings, ownerWarnings(spec.AMISelector, at.Child("amiSelector"))...)
	warnings = append(warnings, nodeImageWarnings(spec, at)...)
	for _, check := range []func() (field.ErrorList, admission.Warnings){
		func() (field.ErrorList, admission.Warnings) {
			return validateProfile(spec.IAMInstanceProfile, spec.Region, at.Child("iamInstanceProfile"))
		},
		func() (field.ErrorList, admission.Warnings) {
			return validateUserData(spec.UserData, spec.Bootstrap != nil, at.Child("userData"))
		},
		func() (field.ErrorList, admission.Warnings) { return validateBootstrap(spec) },
		func() (field.ErrorList, admission.Warnings) {
			return validateVolumes(spec, at.Child("blockDeviceMappings"))
		},
		func() (field.ErrorList, admission.Warnings) { return validateHibernation(spec, capacity, at) },
		func() (field.ErrorList, admission.Warnings) { return validateTags(spec.Tags, at.Child("tags")) },
	} {
		moreErrs, more := check()
		errs, warnings = append(errs, moreErrs...), append(warnings, more...)
	}
	if spec.MetadataOptions.HTTPEndpointOrDefault() == "disabled" {
		warnings = append(warnings, warn(at.Child("metadataOptions", "httpEndpoint"),
			"most bootstrap scripts need the metadata service; without it they do not join")...)
	}
	return errs, warnings
}

func validateIDs(ids []string, prefix string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, id := range ids {
		errs = append(errs, validateID(id, prefix, at.Index(i))...)
	}
	return errs
}

// validateSelector: only images are published by amazon and on the marketplace.
func validateSelector(terms []v1alpha1.SelectorTerm, prefix string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, term := range terms {
		errs = append(errs, validateID(term.ID, prefix, at.Index(i).Child("id"))...)
		if prefix != "ami" && strings.HasPrefix(term.Owner, "a") {
			errs = append(errs, field.Invalid(at.Index(i).Child("owner"), term.Owner,
				"must be a 12-digit account or self: only AMIs have other owners"))
		}
	}
	return errs
}

// ownerWarnings: anyone may publish an AMI under any name, so a name alone finds only those of two
// owners.
func ownerWarnings(terms []v1alpha1.SelectorTerm, at *field.Path) admission.Warnings {
	var warnings admission.Warnings
	for i, term := range terms {
		if term.Name != "" && term.Owner == "" {
			warnings = append(warnings, warn(at.Index(i),
				"without owner only images of this account and of Amazon match; add owner for another account's")...)
		}
	}
	return warnings
}

// nodeImageWarnings: the node images of a cluster stack have kubeadm, and only the families of EKS
// join otherwise.
func nodeImageWarnings(spec *v1alpha1.AWSNodeClassSpec, at *field.Path) admission.Warnings {
	family := spec.BootstrapFamily()
	if spec.NodeImage == nil || family == "" || family == v1alpha1.FamilyKubeadm {
		return nil
	}
	return warn(at.Child("bootstrap", "family"),
		"%s, but the node images that nodeImage finds are made to join by kubeadm; use Kubeadm", family)
}

// validateTags has what the CRD's rules on tags cannot say: AWS reserves its prefix in any case.
func validateTags(tags map[string]string, at *field.Path) (field.ErrorList, admission.Warnings) {
	var errs field.ErrorList
	var warnings admission.Warnings
	for _, key := range sortedKeys(tags) {
		switch {
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			errs = append(errs, field.Invalid(at.Key(key), key, "must not begin with aws: in any case, which AWS reserves"))
		case strings.HasPrefix(key, "stratos.sh/"), key == v1alpha1.TagManagedBy:
			errs = append(errs, field.Invalid(at.Key(key), key,
				"must not be managed-by or under stratos.sh/, which Stratos sets itself"))
		case ofKarpenter(key):
			warnings = append(warnings, warn(at.Key(key),
				"Karpenter takes instances with its tags for its own and terminates them; use a key of your own")...)
		}
	}
	return errs, warnings
}
