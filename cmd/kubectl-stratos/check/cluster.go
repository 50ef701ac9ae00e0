package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/stratos-sh/stratos/crds"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/minors"
)

// Cluster checks what was read of the cluster, in the order of the lines.
func Cluster(f *Facts) []Result {
	checks := []func(*Facts) Result{
		identity, kubernetes, definitions, admission, leases, scheduler, agents, daemonSets, karpenter, autoMode,
		clusterAutoscaler, classes, pools,
	}
	results := make([]Result, 0, len(checks))
	for _, check := range checks {
		results = append(results, check(f))
	}
	return results
}

// The names of the lines.
const (
	nameIdentity    = "identity"
	nameKubernetes  = "kubernetes"
	nameDefinitions = "crds"
	nameAdmission   = "admission"
	nameLeases      = "leases"
	nameScheduler   = "scheduler"
	nameClasses     = "classes"
	namePools       = "pools"
)

func identity(f *Facts) Result {
	if f.User.Err != nil {
		return notChecked(nameIdentity, "the API server does not say who asks: %v", f.User.Err)
	}
	return ok(nameIdentity, "the cluster is read as %s", f.User.Value)
}

// kubeletSkew is how many minors a kubelet may be older than the API server.
const kubeletSkew = 3

// kubernetes: the minors that Stratos is tested with, and kubelets within Kubernetes' skew.
func kubernetes(f *Facts) Result {
	switch {
	case apierrors.IsForbidden(f.Server.Err) || apierrors.IsUnauthorized(f.Server.Err):
		return notChecked(nameKubernetes, "the API server's version is not known: %v", f.Server.Err)
	case f.Server.Err != nil:
		return wrong(nameKubernetes, "kubectl cluster-info", "the API server does not answer: %v", f.Server.Err)
	}
	server, err := version.ParseGeneric(f.Server.Value)
	if err != nil {
		return notChecked(nameKubernetes, "the API server's version %q cannot be read", f.Server.Value)
	}
	if problems := skewedKubelets(f, server); len(problems) > 0 {
		return wrong(nameKubernetes, "kubectl get nodes", "API server %s: %s", f.Server.Value, Several(problems))
	}
	tested := minors.Supported()
	oldest, newest := version.MustParseGeneric(tested[0]), version.MustParseGeneric(tested[len(tested)-1])
	switch here := minor(server); {
	case slices.Contains(tested, here):
		return ok(nameKubernetes, "API server %s", f.Server.Value)
	case server.LessThan(oldest) && f.Installation.SchedulerImage != "":
		return wrong(nameKubernetes, upgrade(f)+" --set scheduler.enabled=false",
			"API server %s: the scheduler of Stratos needs %s to %s", f.Server.Value, tested[0], tested[len(tested)-1])
	default:
		return notChecked(nameKubernetes, "API server %s: Stratos is tested with %s to %s", f.Server.Value, minor(oldest),
			minor(newest))
	}
}

func minor(v *version.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }

func skewedKubelets(f *Facts, server *version.Version) []string {
	var problems []string
	for i := range f.Nodes.Value {
		n := &f.Nodes.Value[i]
		kubelet, err := version.ParseGeneric(n.Status.NodeInfo.KubeletVersion)
		if err != nil {
			continue // a Node that another program made
		}
		behind := int(server.Minor()) - int(kubelet.Minor())
		if behind < 0 || behind > kubeletSkew {
			problems = append(problems, fmt.Sprintf("the kubelet of node %s is %s", n.Name, n.Status.NodeInfo.KubeletVersion))
		}
	}
	return problems
}

// upgrade is the command that changes values of the release.
func upgrade(f *Facts) string {
	return fmt.Sprintf("helm upgrade %s oci://ghcr.io/stratos-sh/charts/stratos --namespace %s --reset-then-reuse-values",
		cmp.Or(f.Installation.Deployment, "stratos"), f.Namespace)
}

func definitions(f *Facts) Result {
	if f.Definitions.Err != nil {
		return notChecked(nameDefinitions, "%v", f.Definitions.Err)
	}
	problems, err := crds.Problems(f.Definitions.Value)
	if err != nil {
		return notChecked(nameDefinitions, "%v", err)
	}
	if kind := "kindnodeclasses." + v1alpha1.GroupVersion().Group; problems[kind] == crds.Missing &&
		f.Installation.CloudProvider != v1alpha1.CloudKind {
		delete(problems, kind) // only nodes in Docker need it
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		words = append(words, name+" "+problems[name])
	}
	if len(words) > 0 {
		return wrong(nameDefinitions, "stratos crds | kubectl apply --server-side --force-conflicts -f -", "%s",
			strings.Join(words, "; "))
	}
	return ok(nameDefinitions, "established, with the schemas of this version of Stratos")
}

// admission reads the answer to a NodePool that only Stratos's webhook refuses.
func admission(f *Facts) Result {
	err := f.Admission
	said := ""
	if err != nil {
		said = err.Error()
	}
	switch {
	case err == nil && f.Installation.Deployment != "" && !f.Installation.ServesAdmission:
		return notChecked(nameAdmission, "Stratos runs without a certificate and serves no admission")
	case err == nil:
		return wrong(nameAdmission, upgrade(f), "the API server accepts an invalid NodePool: it calls no webhook of Stratos")
	case isAbsent(err):
		return notChecked(nameAdmission, "the API server does not know NodePools")
	case strings.Contains(said, "failed calling webhook") && strings.Contains(said, v1alpha1.GroupVersion().Group):
		return wrong(nameAdmission, fmt.Sprintf("kubectl --namespace %s get pods,endpointslices,networkpolicies", f.Namespace),
			"the API server does not reach the webhook: %v", err)
	case strings.Contains(said, `admission webhook "validate.nodepool.`) && strings.Contains(said, invalidImage):
		return ok(nameAdmission, "the webhook refuses an invalid NodePool")
	case apierrors.IsForbidden(err) && !strings.Contains(said, "admission webhook"):
		return notChecked(nameAdmission, "it needs the permission to create NodePools, for a dry run: %v", err)
	}
	return notChecked(nameAdmission, "the dry run of an invalid NodePool ended before Stratos's webhook: %v", err)
}

// leaseNames are the leases that have a holder while Stratos works.
func leaseNames(i Installation) []string {
	names := []string{v1alpha1.LeaseName}
	if i.SchedulerImage != "" {
		names = append(names, i.Deployment+"-scheduler")
	}
	return names
}

func hasHolder(leases []coordinationv1.Lease, name string) bool {
	return slices.ContainsFunc(leases, func(l coordinationv1.Lease) bool {
		return l.Name == name && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != ""
	})
}

func leases(f *Facts) Result {
	if f.Leases.Err != nil {
		return notChecked(nameLeases, "%v", f.Leases.Err)
	}
	var problems []string
	names := leaseNames(f.Installation)
	for _, name := range names {
		switch {
		case !hasHolder(f.Leases.Value, name):
			problems = append(problems, fmt.Sprintf("no replica holds the lease %s", name))
		case !slices.Contains(f.Renewed, name):
			problems = append(problems, fmt.Sprintf("the lease %s is not renewed", name))
		}
	}
	if len(problems) > 0 {
		return wrong(nameLeases, fmt.Sprintf("kubectl --namespace %s get pods", f.Namespace), "%s", Several(problems))
	}
	return ok(nameLeases, "held and renewed: %s", strings.Join(names, ", "))
}

// scheduler: the scheduler may be one minor older than the API server, never newer.
func scheduler(f *Facts) Result {
	image := f.Installation.SchedulerImage
	if err := cmp.Or(f.Deployments.Err, f.Server.Err); err != nil {
		return notChecked(nameScheduler, "%v", err)
	}
	if f.Installation.Deployment == "" {
		return notChecked(nameScheduler, "there is no Deployment of Stratos in the namespace %s", f.Namespace)
	}
	if image == "" {
		return notChecked(nameScheduler, "Stratos runs without a scheduler of its own")
	}
	own, errOwn := version.ParseGeneric(tagOf(image))
	server, errServer := version.ParseGeneric(f.Server.Value)
	if err := errors.Join(errOwn, errServer); err != nil {
		return notChecked(nameScheduler, "the version of the image %s is not known", image)
	}
	switch behind := int(server.Minor()) - int(own.Minor()); behind {
	case 0:
		return ok(nameScheduler, "%s beside an API server %s", tagOf(image), f.Server.Value)
	case 1:
		return ok(nameScheduler, "%s is one minor older than the API server %s, until the next helm upgrade", tagOf(image),
			f.Server.Value)
	}
	return wrong(nameScheduler, upgrade(f), "the scheduler is %s, the API server %s", tagOf(image), f.Server.Value)
}

// tagOf is the tag of an image; empty where it has none.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	last := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(last, ":")
	return tag
}

// classes: a class that is not Ready launches nothing.
func classes(f *Facts) Result {
	if f.Classes.Err != nil {
		return notChecked(nameClasses, "%v", f.Classes.Err)
	}
	var problems, unknown []string
	repair := ""
	for _, class := range f.Classes.Value {
		_, conditions := class.StatusParts()
		switch c := conditionOf(*conditions, v1alpha1.ConditionReady); {
		case c == nil || c.Status == metav1.ConditionUnknown:
			unknown = append(unknown, fmt.Sprintf("%s does not say yet whether it is ready", class.GetName()))
		case c.Status == metav1.ConditionFalse:
			problems = append(problems, fmt.Sprintf("%s is not Ready: %s: %s", class.GetName(), c.Reason, c.Message))
			repair = cmp.Or(repair, "kubectl describe "+resourceOf(class)+" "+class.GetName())
		}
	}
	return listed(nameClasses, problems, unknown, repair, len(f.Classes.Value))
}

func resourceOf(class v1alpha1.NodeClass) string {
	resource := "awsnodeclasses."
	if _, is := class.(*v1alpha1.KindNodeClass); is {
		resource = "kindnodeclasses."
	}
	return resource + v1alpha1.GroupVersion().Group
}

// listed words the result of a check of several objects.
func listed(name string, problems, unknown []string, repair string, count int) Result {
	switch {
	case len(problems) > 0:
		return wrong(name, repair, "%s", Several(problems))
	case len(unknown) > 0:
		return notChecked(name, "%s", Several(unknown))
	case count == 0:
		return ok(name, "there are none")
	}
	return ok(name, "all are ready")
}

func conditionOf(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// pools: not Ready or Degraded. A pool whose class is not ready stands in the line of the classes.
func pools(f *Facts) Result {
	if f.Pools.Err != nil {
		return notChecked(namePools, "%v", f.Pools.Err)
	}
	var problems, unknown []string
	repair := ""
	for i := range f.Pools.Value {
		pool := &f.Pools.Value[i]
		c, bad := badCondition(pool)
		switch {
		case c == nil:
			if conditionOf(pool.Status.Conditions, v1alpha1.ConditionReady) == nil {
				unknown = append(unknown, pool.Name+" does not say yet whether it is ready")
			}
		case bad:
			problems = append(problems, fmt.Sprintf("%s: %s is %s: %s: %s", pool.Name, c.Type, c.Status, c.Reason, c.Message))
			repair = cmp.Or(repair, "kubectl describe nodepools."+v1alpha1.GroupVersion().Group+" "+pool.Name)
		default:
			unknown = append(unknown, fmt.Sprintf("%s: %s: %s", pool.Name, c.Reason, c.Message))
		}
	}
	return listed(namePools, problems, unknown, repair, len(f.Pools.Value))
}

// badCondition is the condition that needs a person's attention, or, not bad, one that passes. The
// readiness of the class stands in the line of the classes.
func badCondition(pool *v1alpha1.NodePool) (c *metav1.Condition, bad bool) {
	if c := conditionOf(pool.Status.Conditions, v1alpha1.ConditionDegraded); c != nil && c.Status == metav1.ConditionTrue {
		return c, true
	}
	c = conditionOf(pool.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status == metav1.ConditionTrue {
		return nil, false
	}
	switch v1alpha1.Reason(c.Reason) {
	case v1alpha1.ReasonNodeClassNotReady, v1alpha1.ReasonNodeClassNotResolved:
		return nil, false
	case v1alpha1.ReasonWarmingUp, v1alpha1.ReasonDeleting:
		return c, false
	default:
		return c, c.Status == metav1.ConditionFalse
	}
}
