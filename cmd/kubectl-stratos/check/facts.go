package check

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Read is what the API server answered: Err says why Value is not known.
type Read[T any] struct {
	Value T
	Err   error
}

// Facts are what was read of the cluster.
type Facts struct {
	// Namespace is that of Stratos.
	Namespace string
	// User is the identity that all reads used.
	User Read[string]
	// Server is the API server's version, such as v1.36.2.
	Server      Read[string]
	Definitions Read[[]unstructured.Unstructured]
	// Admission is the answer to a dry run of an invalid NodePool.
	Admission error
	Leases    Read[[]coordinationv1.Lease]
	// Renewed are the names of the leases whose holder renewed them between two reads. No clock is
	// compared: that of a workstation may be wrong.
	Renewed     []string
	Deployments Read[[]appsv1.Deployment]
	DaemonSets  Read[[]appsv1.DaemonSet]
	Nodes       Read[[]corev1.Node]
	Pods        Read[[]corev1.Pod]
	Pools       Read[[]v1alpha1.NodePool]
	Classes     Read[[]v1alpha1.NodeClass]
	// KarpenterPools are the NodePools of Karpenter and of EKS Auto Mode.
	KarpenterPools Read[[]unstructured.Unstructured]
	// Installation is how Stratos runs.
	Installation Installation
}

// Installation is how Stratos runs, as its Deployment says.
type Installation struct {
	// Deployment is empty where there is none.
	Deployment     string
	ClusterName    string
	CloudProvider  string
	SchedulerNames []string
	// ServesAdmission: Stratos has a certificate.
	ServesAdmission bool
	// SchedulerImage is that of the scheduler beside Stratos, empty where there is none.
	SchedulerImage string
}

// installationOf finds Stratos among the Deployments of its namespace.
func installationOf(deployments []appsv1.Deployment, namespace string) Installation {
	for i := range deployments {
		d := &deployments[i]
		spec := &d.Spec.Template.Spec
		stratos := containerNamed(spec, "stratos")
		if d.Namespace != namespace || stratos == nil || flagOf(stratos, "--cluster-name") == "" {
			continue
		}
		found := Installation{
			Deployment: d.Name, ClusterName: flagOf(stratos, "--cluster-name"),
			CloudProvider:   flagOf(stratos, "--cloud-provider"),
			ServesAdmission: flagOf(stratos, "--cert-dir") != "",
			SchedulerNames: strings.Split(cmp.Or(flagOf(stratos, "--extender-scheduler-names"),
				v1alpha1.SchedulerName), ","),
		}
		if scheduler := containerNamed(spec, "scheduler"); scheduler != nil {
			found.SchedulerImage = scheduler.Image
		}
		return found
	}
	return Installation{SchedulerNames: []string{v1alpha1.SchedulerName}}
}

func containerNamed(spec *corev1.PodSpec, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		if n := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); n >= 0 {
			return &list[n]
		}
	}
	return nil
}

// flagOf is the value of a flag on the container's command line, "" where it is not there.
func flagOf(c *corev1.Container, name string) string {
	for _, arg := range slices.Concat(c.Command, c.Args) {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	return ""
}
