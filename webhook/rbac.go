package webhook

// What admission reads beside the object at hand: the class of a pool, the pools of a class.
//
// +kubebuilder:rbac:groups=stratos.sh,resources=nodepools;awsnodeclasses,verbs=get;list;watch
