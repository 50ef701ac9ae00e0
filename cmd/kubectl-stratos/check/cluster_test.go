package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stratos-sh/stratos/crds"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/minors"
)

// newest is the newest minor that Stratos is tested with.
func newest() string {
	tested := minors.Supported()
	return tested[len(tested)-1]
}

// sound are facts with which nothing is wrong: every check says ok.
func sound(t *testing.T) *Facts {
	t.Helper()
	f := &Facts{Namespace: "stratos-system"}
	f.User.Value = "alice"
	f.Server.Value = "v" + newest() + ".2"
	f.Definitions.Value = definitionsFound(t)
	f.Admission = fmt.Errorf(`admission webhook "validate.nodepool.stratos.sh" denied the request: NodePool "x" is `+
		`invalid: spec.preWarm.imagesToPull[0]: Invalid value: %q`, invalidImage)
	f.Leases.Value = []coordinationv1.Lease{leaseOf("stratos", "a"), leaseOf("stratos-scheduler", "b")}
	f.Renewed = []string{"stratos", "stratos-scheduler"}
	f.Deployments.Value = []appsv1.Deployment{stratosDeployment()}
	f.DaemonSets.Value = []appsv1.DaemonSet{cniDaemonSet()}
	f.Nodes.Value = []corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1alpha1.LabelPool: "web"}},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v" + newest() + ".1"}},
	}}
	f.Pools.Value = []v1alpha1.NodePool{readyPool()}
	f.Classes.Value = []v1alpha1.NodeClass{readyClass("general")}
	f.Installation = installationOf(f.Deployments.Value, f.Namespace)
	return f
}

func definitionsFound(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	var found []unstructured.Unstructured
	for _, crd := range all {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			t.Fatal(err)
		}
		object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
		found = append(found, unstructured.Unstructured{Object: object})
	}
	return found
}

func leaseOf(name, holder string) coordinationv1.Lease {
	return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

func stratosDeployment() appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "stratos-system", Name: "stratos"}}
	d.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "stratos", Args: []string{
		"--cluster-name=e2e", "--cloud-provider=aws", "--cert-dir=/etc/stratos/tls",
		"--extender-scheduler-names=stratos-scheduler,mine",
	}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "scheduler",
		Image: "registry.example:5000/kube-scheduler:v" + newest() + ".0@sha256:abc"}}
	return d
}

// cniDaemonSet is a network agent that stays off standby nodes.
func cniDaemonSet() appsv1.DaemonSet {
	d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-node"}}
	spec := &d.Spec.Template.Spec
	spec.Volumes = []corev1.Volume{{Name: "cni", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cni/net.d"}}}}
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	spec.Affinity = required(corev1.NodeSelectorRequirement{Key: v1alpha1.LabelState,
		Operator: corev1.NodeSelectorOpNotIn, Values: []string{string(v1alpha1.StateStandby)}})
	return d
}

func required(e ...corev1.NodeSelectorRequirement) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: e}}}}}
}

func condition(kind string, status metav1.ConditionStatus, reason v1alpha1.Reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: string(reason), Message: message}
}

func readyPool() v1alpha1.NodePool {
	p := v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	p.Spec.PoolSize = 5
	p.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "general"}
	p.Status.Conditions = []metav1.Condition{
		condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPoolReady, "1 standby"),
		condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy, "fine"),
	}
	return p
}

func readyClass(name string) *v1alpha1.AWSNodeClass {
	c := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Status.Conditions = []metav1.Condition{
		condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonResolved, "found")}
	return c
}

// karpenterPool is a NodePool of Karpenter whose node classes are of the group.
func karpenterPool(group string) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "general"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": group},
			"requirements": []any{map[string]any{"key": "kubernetes.io/arch"}},
		}}},
	}}
}

func podOf(change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	p.Spec.SchedulerName = v1alpha1.SchedulerName
	for _, f := range change {
		f(&p)
	}
	return p
}

func autoscaler(args ...string) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ca"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "ca", Command: args,
		Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0"}}
	return d
}

func tainted(f *Facts) {
	taint := corev1.Taint{Key: v1alpha1.TaintDedicated, Effect: corev1.TaintEffectNoSchedule}
	f.Pools.Value[0].Spec.Template.Taints = []corev1.Taint{taint}
}

type clusterCase struct {
	change func(*Facts)
	// line is the one that changes; empty for none.
	line   string
	status Status
	// words are in it, repair in its command.
	words, repair string
}

// TestCluster: each change of sound facts changes the status of one line.
func TestCluster(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("denied by RBAC"))
	for _, cases := range []map[string]clusterCase{
		serverCases(forbidden), admissionCases(), workCases(forbidden), daemonSetCases(), autoscalerCases(forbidden),
		poolCases(),
	} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				f := sound(t)
				before := Cluster(f)
				c.change(f)
				checkLine(t, before, Cluster(f), Result{Name: c.line, Status: c.status, Words: c.words, Repair: c.repair})
			})
		}
	}
}

// checkLine fails the test unless all lines are OK before, and after that the one named has the
// status and the words, and the others have not changed.
func checkLine(t *testing.T, before, after []Result, want Result) {
	t.Helper()
	found := want.Name == ""
	for i, r := range after {
		if b := before[i]; b.Status != OK || b.Name != r.Name {
			t.Errorf("before: %+v", b)
		}
		if r.Name != want.Name {
			if r.Status != OK {
				t.Errorf("%+v has changed", r)
			}
			continue
		}
		found = true
		if r.Status != want.Status || !strings.Contains(r.Words, want.Words) || !strings.Contains(r.Repair, want.Repair) {
			t.Errorf("got %+v, want %+v", r, want)
		}
		if (r.Repair != "") != (r.Status == Wrong) {
			t.Errorf("%+v: a command goes with what is wrong, and with nothing else", r)
		}
	}
	if !found {
		t.Errorf("no line %s in %+v", want.Name, after)
	}
}

func serverCases(forbidden error) map[string]clusterCase {
	return map[string]clusterCase{
		"nothing": {change: func(*Facts) {}},
		"the user is not told": {func(f *Facts) { f.User.Err = forbidden },
			nameIdentity, NotChecked, "denied by RBAC", ""},
		"a kubelet that is too old": {func(f *Facts) { f.Nodes.Value[0].Status.NodeInfo.KubeletVersion = "v1.20.0" },
			nameKubernetes, Wrong, "the kubelet of node n is v1.20.0", "kubectl get nodes"},
		"a kubelet that is newer": {func(f *Facts) { f.Nodes.Value[0].Status.NodeInfo.KubeletVersion = "v1.90.0" },
			nameKubernetes, Wrong, "v1.90.0", "kubectl get nodes"},
		"a Node without a kubelet": {change: func(f *Facts) { f.Nodes.Value[0].Status.NodeInfo.KubeletVersion = "" }},
		"definitions are not read": {func(f *Facts) { f.Definitions.Err = forbidden },
			nameDefinitions, NotChecked, "denied by RBAC", ""},
		"no definitions": {func(f *Facts) { f.Definitions.Value = nil },
			nameDefinitions, Wrong, "nodepools.stratos.sh is missing", "stratos crds | kubectl apply"},
		"not established": {func(f *Facts) { delete(f.Definitions.Value[0].Object, "status") }, nameDefinitions, Wrong,
			"awsnodeclasses.stratos.sh is not established", "kubectl apply"},
		"a version that is not served": {func(f *Facts) { versionOf(f)["served"] = false },
			nameDefinitions, Wrong, "does not serve v1alpha1", "kubectl apply"},
		"an older schema": {func(f *Facts) {
			unstructured.RemoveNestedField(versionOf(f), "schema", "openAPIV3Schema", "properties", "spec", "properties",
				"bootstrap")
		}, nameDefinitions, Wrong, "another schema of v1alpha1", "kubectl apply"},
		"nodes in Docker are not used": {change: func(f *Facts) {
			f.Definitions.Value = slices.DeleteFunc(f.Definitions.Value, func(u unstructured.Unstructured) bool {
				return strings.HasPrefix(u.GetName(), "kind")
			})
		}},
	}
}

func versionOf(f *Facts) map[string]any {
	versions, _, _ := unstructured.NestedFieldNoCopy(f.Definitions.Value[0].Object, "spec", "versions")
	return versions.([]any)[0].(map[string]any)
}

func admissionCases() map[string]clusterCase {
	refusedBy := func(err error) func(*Facts) { return func(f *Facts) { f.Admission = err } }
	return map[string]clusterCase{
		"no webhook": {refusedBy(nil), nameAdmission, Wrong, "calls no webhook", "helm upgrade"},
		"no webhook, on purpose": {func(f *Facts) { f.Admission, f.Installation.ServesAdmission = nil, false },
			nameAdmission,
			NotChecked, "without a certificate", ""},
		"not reached": {refusedBy(errors.New(`Internal error occurred: failed calling webhook "default.nodepool.stratos.sh": failed to ` +
			`call webhook: Post "https://x": dial tcp: connection refused`)), nameAdmission, Wrong, "connection refused", "kubectl"},
		"refused by another": {refusedBy(errors.New(`admission webhook "other.example.com" denied the request: no`)),
			nameAdmission,
			NotChecked, "other.example.com", ""},
		"another is not reached": {refusedBy(errors.New(`failed calling webhook "other.example.com": refused`)),
			nameAdmission,
			NotChecked, "other.example.com", ""},
		"no permission": {refusedBy(apierrors.NewForbidden(schema.GroupResource{Resource: "nodepools"}, "", errors.New("no"))),
			nameAdmission, NotChecked, "permission to create NodePools", ""},
		"unknown type": {refusedBy(&meta.NoKindMatchError{}),
			nameAdmission, NotChecked, "does not know NodePools", ""},
	}
}

func workCases(forbidden error) map[string]clusterCase {
	image := func(tag string) func(*Facts) {
		return func(f *Facts) { f.Installation.SchedulerImage = "kube-scheduler:" + tag }
	}
	return map[string]clusterCase{
		"leases are not read": {func(f *Facts) { f.Leases.Err = forbidden },
			nameLeases, NotChecked, "denied by RBAC", ""},
		"no lease": {func(f *Facts) { f.Leases.Value = nil },
			nameLeases, Wrong, "no replica holds the lease stratos", "get pods"},
		"no holder": {func(f *Facts) { f.Leases.Value[1] = leaseOf("stratos-scheduler", "") },
			nameLeases, Wrong, "stratos-scheduler", "get pods"},
		"a lease not renewed": {func(f *Facts) { f.Renewed = f.Renewed[1:] },
			nameLeases, Wrong, "the lease stratos is not renewed", "get pods"},
		"no scheduler": {func(f *Facts) { f.Installation.SchedulerImage = "" },
			nameScheduler, NotChecked, "without a scheduler", ""},
		"no Deployment": {func(f *Facts) { f.Installation = installationOf(nil, "stratos-system") },
			nameScheduler, NotChecked, "no Deployment", ""},
		"an old scheduler":   {image("v1.30.0"), nameScheduler, Wrong, "the scheduler is v1.30.0", "helm upgrade"},
		"a newer scheduler":  {image("v1.90.0"), nameScheduler, Wrong, "the scheduler is v1.90.0", "helm upgrade"},
		"an image by digest": {image("@sha256:abc"), nameScheduler, NotChecked, "is not known", ""},
		"one minor older":    {image("v" + olderMinor() + ".9"), nameScheduler, OK, "one minor older", ""},
		"no network agent": {func(f *Facts) { f.DaemonSets.Value[0].Spec.Template.Spec.Volumes = nil },
			nameAgents, NotChecked, "networkAgents", ""},
		"a named agent": {func(f *Facts) {
			f.Pools.Value[0].Spec.Template.NetworkAgents = []v1alpha1.NetworkAgent{{Namespace: "kube-system", Name: "aws-node"}}
		},
			nameAgents, OK, "kube-system/aws-node", ""},
		"an agent that is not": {func(f *Facts) {
			f.Pools.Value[0].Spec.Template.NetworkAgents = []v1alpha1.NetworkAgent{{Namespace: "a", Name: "b"}}
		},
			nameAgents, Wrong, "the network agent a/b", "get daemonsets"},
	}
}

func olderMinor() string {
	tested := minors.Supported()
	return tested[len(tested)-2]
}

func daemonSetCases() map[string]clusterCase {
	set := func(change func(*appsv1.DaemonSet)) func(*Facts) {
		return func(f *Facts) { change(&f.DaemonSets.Value[0]) }
	}
	return map[string]clusterCase{
		"without affinity": {set(func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Affinity = nil }), nameDaemonSets, Wrong,
			"kube-system/aws-node", "kubectl --namespace kube-system patch daemonset aws-node"},
		"without affinity or toleration": {change: set(func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Affinity, d.Spec.Template.Spec.Tolerations = nil, nil
		})},
		"without affinity, on other nodes": {change: set(func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Affinity, d.Spec.Template.Spec.NodeSelector = nil, map[string]string{"gpu": "yes"}
		})},
		"without affinity or rollouts": {change: set(func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Affinity, d.Spec.UpdateStrategy.Type = nil, appsv1.OnDeleteDaemonSetStrategyType
		})},
		"without affinity, and no nodes yet": {func(f *Facts) {
			f.Nodes.Value = nil
			f.DaemonSets.Value[0].Spec.Template.Spec.Affinity = nil
			f.DaemonSets.Value[0].Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
		}, nameDaemonSets, Wrong, "kube-system/aws-node", "patch daemonset"},
		"without affinity or pools": {change: func(f *Facts) { f.DaemonSets.Value[0].Spec.Template.Spec.Affinity, f.Pools.Value = nil, nil }},
	}
}

func poolLabel(op corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: v1alpha1.LabelPool, Operator: op}
}

func autoscalerCases(forbidden error) map[string]clusterCase {
	with := func(pool unstructured.Unstructured, change ...func(*Facts)) func(*Facts) {
		return func(f *Facts) {
			tainted(f)
			f.KarpenterPools.Value = []unstructured.Unstructured{pool}
			for _, c := range change {
				c(f)
			}
		}
	}
	attracting := karpenterPool("karpenter.k8s.aws")
	labels := map[string]any{v1alpha1.LabelPool: "web"}
	attracting.Object["spec"].(map[string]any)["template"].(map[string]any)["metadata"] = map[string]any{"labels": labels}
	both := func(p corev1.Pod) func(*Facts) { return func(f *Facts) { f.Pods.Value = []corev1.Pod{p} } }
	scaler := func(args ...string) func(*Facts) {
		return func(f *Facts) {
			tainted(f)
			f.Deployments.Value = append(f.Deployments.Value, autoscaler(args...))
		}
	}
	selector := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{v1alpha1.LabelPool: "web"} }
	affinity := func(p *corev1.Pod) {
		p.Spec.Affinity = required(poolLabel(corev1.NodeSelectorOpExists))
	}
	notPool := func(p *corev1.Pod) {
		p.Spec.Affinity = required(poolLabel(corev1.NodeSelectorOpDoesNotExist))
	}
	return map[string]clusterCase{
		"Karpenter": {with(karpenterPool("karpenter.k8s.aws")), nameKarpenter, OK, "separated", ""},
		"Karpenter, a pod selects": {with(karpenterPool("karpenter.k8s.aws"), both(podOf(selector))),
			nameKarpenter, OK, "separated", ""},
		"Karpenter, a pod requires": {with(karpenterPool("karpenter.k8s.aws"), both(podOf(affinity))),
			nameKarpenter, OK, "separated", ""},
		"Karpenter, a pod does not": {with(karpenterPool("karpenter.k8s.aws"), both(podOf())),
			nameKarpenter, Wrong, "pod default/p", "describe pod p"},
		"Karpenter, a pod refuses": {with(karpenterPool("karpenter.k8s.aws"), both(podOf(notPool))),
			nameKarpenter, Wrong, "pod default/p", "describe pod p"},
		"Karpenter, a pod of another scheduler": {with(karpenterPool("karpenter.k8s.aws"), both(podOf(func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }))),
			nameKarpenter, OK, "separated", ""},
		"Karpenter, a pod that has ended": {with(karpenterPool("karpenter.k8s.aws"), both(podOf(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))),
			nameKarpenter, OK, "separated", ""},
		"Karpenter, a pool without a taint": {with(karpenterPool("karpenter.k8s.aws"), func(f *Facts) { f.Pools.Value[0].Spec.Template.Taints = nil }),
			nameKarpenter, Wrong, "pool web has no taint", "kubectl patch nodepools.stratos.sh web"},
		"Karpenter, its pool attracts": {with(attracting),
			nameKarpenter, Wrong, "stratos.sh/pool", "edit nodepools.karpenter.sh general"},
		"Karpenter is not read": {func(f *Facts) { f.KarpenterPools.Err = nil; f.Pods.Err = forbidden; with(karpenterPool("x"))(f) },
			nameKarpenter, NotChecked, "denied", ""},
		"Auto Mode": {with(karpenterPool(autoModeGroup)), nameAutoMode, OK, "separated", ""},
		"Auto Mode, a pool without a taint": {with(karpenterPool(autoModeGroup), func(f *Facts) { f.Pools.Value[0].Spec.Template.Taints = nil }),
			nameAutoMode, Wrong, "pool web has no taint", "kubectl patch"},
		"Cluster Autoscaler": {scaler(),
			nameClusterAutoscaler, Wrong, "--max-total-unready-percentage=100", "edit deployment ca"},
		"Cluster Autoscaler that goes on": {scaler("--max-total-unready-percentage=100"),
			nameClusterAutoscaler, OK, "separated", ""},
		"Cluster Autoscaler with few nodes": {scaler("--ok-total-unready-count=5"),
			nameClusterAutoscaler, OK, "separated", ""},
		"Cluster Autoscaler, a pool without a taint": {func(f *Facts) {
			f.Deployments.Value = append(f.Deployments.Value, autoscaler("--ok-total-unready-count=50"))
		},
			nameClusterAutoscaler, Wrong, "pool web has no taint", "kubectl patch"},
	}
}

func poolCases() map[string]clusterCase {
	pool := func(kind string, status metav1.ConditionStatus, reason v1alpha1.Reason) func(*Facts) {
		return func(f *Facts) {
			meta.SetStatusCondition(&f.Pools.Value[0].Status.Conditions, condition(kind, status, reason, "why it is"))
		}
	}
	class := func(status metav1.ConditionStatus) func(*Facts) {
		return func(f *Facts) {
			_, conditions := f.Classes.Value[0].StatusParts()
			meta.SetStatusCondition(conditions,
				condition(v1alpha1.ConditionReady, status, v1alpha1.ReasonResolveFailed, "no such AMI"))
		}
	}
	return map[string]clusterCase{
		"a class that is not ready": {func(f *Facts) {
			class(metav1.ConditionFalse)(f)
			pool(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodeClassNotReady)(f)
		}, nameClasses, Wrong, "general is not Ready: ResolveFailed: no such AMI", "kubectl describe awsnodeclasses.stratos.sh general"},
		"a class of Docker": {func(f *Facts) {
			kind := &v1alpha1.KindNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "k"}}
			kind.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "X", "y")}
			f.Classes.Value = []v1alpha1.NodeClass{kind}
		}, nameClasses, Wrong, "k is not Ready", "describe kindnodeclasses.stratos.sh k"},
		"a class that says nothing yet": {func(f *Facts) { f.Classes.Value[0].(*v1alpha1.AWSNodeClass).Status.Conditions = nil },
			nameClasses, NotChecked, "general does not say yet", ""},
		"a pool that is not ready": {pool(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNodeClassNotFound),
			namePools,
			Wrong, "web: Ready is False: NodeClassNotFound: why it is", "kubectl describe nodepools.stratos.sh web"},
		"a pool that is degraded": {pool(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonStopRefused),
			namePools,
			Wrong, "web: Degraded is True: StopRefused: why it is", "describe"},
		"a pool that warms up": {pool(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWarmingUp), namePools, NotChecked,
			"WarmingUp: why it is", ""},
		"a pool that says nothing yet": {func(f *Facts) { f.Pools.Value[0].Status.Conditions = nil }, namePools, NotChecked,
			"web does not say yet", ""},
		"no pool and no class": {change: func(f *Facts) { f.Pools.Value, f.Classes.Value = nil, nil }},
	}
}

// TestAPIServerThatDoesNotAnswer: the line says so, though nothing else is known.
func TestAPIServerThatDoesNotAnswer(t *testing.T) {
	f := &Facts{}
	f.Server.Err = errors.New("connection refused")
	for _, r := range Cluster(f) {
		if r.Name == nameKubernetes && (r.Status != Wrong || !strings.Contains(r.Words, "connection refused")) {
			t.Errorf("got %+v", r)
		}
	}
}

func TestOldAndNewServers(t *testing.T) {
	f := sound(t)
	f.Server.Err = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("denied by RBAC"))
	if got := kubernetes(f); got.Status != NotChecked {
		t.Errorf("a version that may not be read: %+v", got)
	}
	for version, want := range map[string]Status{
		"v1.20.1": Wrong, "v1.90.0": NotChecked, "v" + newest() + ".3-eks-1": OK, "odd": NotChecked,
	} {
		f := sound(t)
		f.Server.Value, f.Nodes.Value = version, nil
		if got := kubernetes(f); got.Status != want {
			t.Errorf("%s: %+v, want %s", version, got, want)
		}
	}
	f = sound(t)
	f.Server.Value, f.Nodes.Value, f.Installation.SchedulerImage = "v1.33.0", nil, ""
	if got := kubernetes(f); got.Status != NotChecked {
		t.Errorf("an old server without a scheduler of Stratos: %+v", got)
	}
}
