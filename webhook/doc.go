// Package webhook defaults and validates NodePools and node classes at admission, and gives the
// pods of opted-in namespaces to Stratos's scheduler. What a CRD's own rules can say stands there
// and holds without this; here stands what needs another object, a parser, or a warning.
//
// The markers below are read by controller-gen (make generate); the chart adds the Service, the CA
// and the namespaces.
package webhook

// Objects of ours: a webhook that cannot be reached is an error at apply, because a default that
// was not written and a fault that was not seen stay.
//
// +kubebuilder:webhook:path=/mutate-stratos-sh-v1alpha1-nodepool,mutating=true,failurePolicy=fail,sideEffects=None,groups=stratos.sh,resources=nodepools,verbs=create;update,versions=v1alpha1,name=default.nodepool.stratos.sh,admissionReviewVersions=v1,timeoutSeconds=10
// +kubebuilder:webhook:path=/validate-stratos-sh-v1alpha1-nodepool,mutating=false,failurePolicy=fail,sideEffects=None,groups=stratos.sh,resources=nodepools,verbs=create;update,versions=v1alpha1,name=validate.nodepool.stratos.sh,admissionReviewVersions=v1,timeoutSeconds=10
// +kubebuilder:webhook:path=/mutate-stratos-sh-v1alpha1-awsnodeclass,mutating=true,failurePolicy=fail,sideEffects=None,groups=stratos.sh,resources=awsnodeclasses,verbs=create;update,versions=v1alpha1,name=default.awsnodeclass.stratos.sh,admissionReviewVersions=v1,timeoutSeconds=10
// +kubebuilder:webhook:path=/validate-stratos-sh-v1alpha1-awsnodeclass,mutating=false,failurePolicy=fail,sideEffects=None,groups=stratos.sh,resources=awsnodeclasses,verbs=create;update;delete,versions=v1alpha1,name=validate.awsnodeclass.stratos.sh,admissionReviewVersions=v1,timeoutSeconds=10
// A KindNodeClass has no default to write out, so none is requested.
//
// +kubebuilder:webhook:path=/validate-stratos-sh-v1alpha1-kindnodeclass,mutating=false,failurePolicy=fail,sideEffects=None,groups=stratos.sh,resources=kindnodeclasses,verbs=create;update;delete,versions=v1alpha1,name=validate.kindnodeclass.stratos.sh,admissionReviewVersions=v1,timeoutSeconds=10

// Pods of others: whatever happens to us, pods are created.
//
// +kubebuilder:webhook:path=/mutate--v1-pod,mutating=true,failurePolicy=ignore,sideEffects=None,groups="",resources=pods,verbs=create,versions=v1,name=pods.stratos.sh,admissionReviewVersions=v1,timeoutSeconds=2,reinvocationPolicy=IfNeeded
