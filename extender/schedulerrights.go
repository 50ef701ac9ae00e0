package extender

// Permissions of the dedicated scheduler, whose configuration SchedulerConfig generates. They are
// those of the built-in roles system:kube-scheduler and system:volume-scheduler of Kubernetes 1.37
// with their default gates, less what it does not need: leases and events of the core group are
// those of its own namespace (the built-in role knows the control plane's lease by name), no lease
// candidates, and no group extensions, which no supported API server serves.
//
// +kubebuilder:rbac:roleName=scheduler,groups="",resources=namespaces;nodes;replicationcontrollers;services,verbs=get;list;watch
// +kubebuilder:rbac:roleName=scheduler,groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:roleName=scheduler,groups="",resources=bindings;pods/binding,verbs=create
// +kubebuilder:rbac:roleName=scheduler,groups="",resources=pods/status,verbs=update;patch
// +kubebuilder:rbac:roleName=scheduler,groups="",resources=pods/finalizers,verbs=update
// +kubebuilder:rbac:roleName=scheduler,groups="",resources=persistentvolumeclaims;persistentvolumes,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:roleName=scheduler,groups=apps,resources=replicasets;statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:roleName=scheduler,groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch
// +kubebuilder:rbac:roleName=scheduler,groups=storage.k8s.io,resources=csidrivers;csinodes;csistoragecapacities;storageclasses;volumeattachments,verbs=get;list;watch
// +kubebuilder:rbac:roleName=scheduler,groups=resource.k8s.io,resources=deviceclasses;devicetaintrules;resourceslices,verbs=get;list;watch
// +kubebuilder:rbac:roleName=scheduler,groups=resource.k8s.io,resources=resourceclaims,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:roleName=scheduler,groups=resource.k8s.io,resources=resourceclaims/status,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:roleName=scheduler,groups=resource.k8s.io,resources=resourceclaims/binding,verbs=update;patch
// +kubebuilder:rbac:roleName=scheduler,groups=events.k8s.io,resources=events,verbs=create;update;patch
// +kubebuilder:rbac:roleName=scheduler,groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:roleName=scheduler,groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:roleName=scheduler,namespace=release,groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:roleName=scheduler,namespace=release,groups=coordination.k8s.io,resources=leases,resourceNames=scheduler-lease,verbs=get;update
// +kubebuilder:rbac:roleName=scheduler,namespace=release,groups="",resources=events,verbs=create;update;patch
