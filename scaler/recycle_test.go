package scaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/bootstraptoken"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/pool"
)

// launchedFrom is the tag of an instance that was launched from another template, or from the
// pool's.
func launchedFrom(hash string) func(*provider.Instance) {
	return withTag(v1alpha1.AnnotationTemplateHash, hash)
}

const otherTemplate = "v1.0123456789abcdef"

func (r *rig) turn() v1alpha1.StopReason { return r.turns.Of("p", "c").Reason }

func TestWhoseTurnItIs(t *testing.T) {
	limit := intstr.FromString("1h")
	short := func(p *v1alpha1.NodePool) { p.Spec.MaxNodeRuntime = &limit }
	ignore := func(p *v1alpha1.NodePool) { p.Spec.Disruption.Drift = v1alpha1.DriftIgnore }
	expire := func(p *v1alpha1.NodePool) {
		p.Spec.Disruption.ExpireAfter = &metav1.Duration{Duration: 30 * time.Minute}
	}
	ran := markedAt(v1alpha1.AnnotationRunningSince, epoch().Add(-2*time.Hour))
	replace := annotated(v1alpha1.AnnotationReplace, "true")
	ours := annotated(v1alpha1.AnnotationTemplateHash, nodePool(1, 1).Spec.Template.Hash())
	same := instance(provider.InstanceStopped, launchedFrom(nodePool(1, 1).Spec.Template.Hash()))
	old := instance(provider.InstanceStopped, launchedFrom(otherTemplate))
	for name, c := range map[string]struct {
		pool     *v1alpha1.NodePool
		node     *corev1.Node
		instance *provider.Instance
		pods     []client.Object
		claimed  bool
		want     v1alpha1.StopReason
	}{
		"launched from the template": {pool: nodePool(5, 1), node: nodeIn(v1alpha1.StateStandby),
			instance: same},
		"launched from another": {pool: nodePool(5, 1), node: nodeIn(v1alpha1.StateStandby), instance: old,
			want: v1alpha1.StopDrift},
		"the tag wins over what the Node says": {pool: nodePool(5, 1), node: nodeIn(v1alpha1.StateStandby, ours),
			instance: old, want: v1alpha1.StopDrift},
		"the Node says it, no tag does": {pool: nodePool(5, 1),
			node:     nodeIn(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationTemplateHash, otherTemplate)),
			instance: instance(provider.InstanceStopped), want: v1alpha1.StopDrift},
		"drift is ignored": {pool: nodePool(5, 1, ignore), node: nodeIn(v1alpha1.StateStandby),
			instance: old},
		"promised to a pod": {pool: nodePool(5, 1), node: nodeIn(v1alpha1.StateStandby), instance: old,
			claimed: true},
		"expired": {pool: nodePool(5, 1, expire), node: nodeIn(v1alpha1.StateStandby),
			instance: same, want: v1alpha1.StopExpired},
		"expired by its Node's age, started since": {pool: nodePool(5, 1, expire), node: nodeIn(v1alpha1.StateStandby),
			instance: instance(provider.InstanceStopped, minuteOld), want: v1alpha1.StopExpired},
		"drifted, running, empty": {pool: nodePool(5, 1), node: nodeIn(v1alpha1.StateRunning), instance: old,
			want: v1alpha1.StopDrift},
		"drifted, running, in use": {pool: nodePool(5, 1), node: nodeIn(v1alpha1.StateRunning), instance: old,
			pods: []client.Object{boundPod("a")}},
		"drifted, running, annotated": {pool: nodePool(5, 1),
			node: nodeIn(v1alpha1.StateRunning, annotated(v1alpha1.AnnotationDoNotDisrupt, "true")), instance: old},
		"running too long, in use": {pool: nodePool(5, 1, short), node: nodeIn(v1alpha1.StateRunning, ran),
			instance: same, pods: []client.Object{boundPod("a")}, want: v1alpha1.StopRuntime},
		"running too long, its pod is precious": {pool: nodePool(5, 1, short), node: nodeIn(v1alpha1.StateRunning, ran),
			instance: same, pods: []client.Object{boundPod("a", precious)}},
		"asked for, in use": {pool: nodePool(5, 1, ignore), node: nodeIn(v1alpha1.StateRunning, replace), instance: same,
			pods: []client.Object{boundPod("a")}, want: v1alpha1.StopRequested},
		"asked for, standby": {pool: nodePool(5, 1, ignore), node: nodeIn(v1alpha1.StateStandby, replace), instance: same,
			want: v1alpha1.StopRequested},
		"asked for, its pod is precious": {pool: nodePool(5, 1), node: nodeIn(v1alpha1.StateRunning, replace), instance: same,
			pods: []client.Object{boundPod("a", precious)}},
		"asked for, its last drain did not end": {pool: nodePool(5, 1), instance: same, node: nodeIn(v1alpha1.StateRunning,
			replace, markedAt(v1alpha1.AnnotationDrainFailedAt, epoch().Add(-time.Minute))),
			pods: []client.Object{boundPod("a")}},
		"not asked for any more": {pool: nodePool(5, 1), instance: same,
			node: nodeIn(v1alpha1.StateRunning, annotated(v1alpha1.AnnotationReplace, "false"))},
		"as many as poolSize": {pool: nodePool(1, 0), node: nodeIn(v1alpha1.StateStandby),
			instance: same},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, append(c.pods, c.pool, c.node)...)
			r.sweep(c.instance)
			if c.claimed {
				r.promise("waiting", "c")
			}
			r.reconcilePool()
			if got := r.turn(); got != c.want {
				t.Errorf("turn %q, want %q", got, c.want)
			}
			woken := slices.Contains(r.log, "wake i-c")
			if woken != (c.want != "") {
				t.Errorf("woken %t: %v", woken, r.log)
			}
		})
	}
}

func precious(p *corev1.Pod) {
	p.Annotations = map[string]string{v1alpha1.AnnotationDoNotDisrupt: "true"}
}

// The cache shows none of what was decided a moment ago; the budget of one holds all the same,
// whatever changes meanwhile.
func TestTheBudgetHoldsWhileTheCacheLags(t *testing.T) {
	second := nodeIn(v1alpha1.StateStandby, func(n *corev1.Node) {
		n.Name, n.UID, n.Spec.ProviderID = "d", "uid-d", "fake:///zone-a/i-d"
	})
	r := newRig(t, nodePool(5, 2), nodeIn(v1alpha1.StateStandby), second)
	r.sweep(instance(provider.InstanceStopped, launchedFrom(otherTemplate)),
		instance(provider.InstanceStopped, called("i-d"), launchedFrom(otherTemplate)))
	for range 3 {
		r.reconcilePool()
		// The other is the older one from now on, and would come first.
		r.sweep(instance(provider.InstanceStopped, launchedFrom(otherTemplate)),
			instance(provider.InstanceStopped, called("i-d"), launchedFrom(otherTemplate),
				func(i *provider.Instance) { i.LaunchTime = epoch().Add(-9 * time.Hour) }))
	}
	if got := r.turn(); got != v1alpha1.StopDrift || r.turns.Of("p", "d").Reason != "" {
		t.Errorf("turns %q and %q, want the first's alone", got, r.turns.Of("p", "d").Reason)
	}
	if got := strings.Count(strings.Join(r.log, "\n"), "wake i-c"); got != 1 {
		t.Errorf("woken %d times, want once", got)
	}
}

// TestTheBudgetHoldsWhileAnInstanceIsNotListed: another node is being replaced, and the cloud's
// lists lack its instance.
func TestTheBudgetHoldsWhileAnInstanceIsNotListed(t *testing.T) {
	limit := intstr.FromString("1h")
	short := func(p *v1alpha1.NodePool) { p.Spec.MaxNodeRuntime = &limit }
	ran := markedAt(v1alpha1.AnnotationRunningSince, epoch().Add(-2*time.Hour))
	for why, want := range map[v1alpha1.StopReason]v1alpha1.StopReason{
		v1alpha1.StopRuntime: "", v1alpha1.StopSurplus: v1alpha1.StopRuntime,
	} {
		other := nodeIn(v1alpha1.StateTerminating, annotated(v1alpha1.AnnotationStopReason, string(why)),
			func(n *corev1.Node) { n.Name, n.Spec.ProviderID = "d", "fake:///zone-a/i-d" })
		r := newRig(t, nodePool(5, 1, short), nodeIn(v1alpha1.StateRunning, ran), other)
		r.sweep(instance(provider.InstanceRunning))
		r.reconcilePool()
		if got := r.turn(); got != want {
			t.Errorf("while another is terminated (%s): %q, want %q", why, got, want)
		}
	}
}

func TestATurnIsCarriedOut(t *testing.T) {
	for name, c := range map[string]struct {
		state  v1alpha1.NodeState
		cloud  provider.InstanceState
		turn   v1alpha1.StopReason
		live   []client.Object // pods that the API server has and the cache does not
		want   []string
		counts float64
	}{
		"a standby node": {v1alpha1.StateStandby, provider.InstanceStopped, v1alpha1.StopDrift, nil,
			[]string{"patch c terminating"}, 0},
		"a running one that ran too long": {v1alpha1.StateRunning, provider.InstanceRunning, v1alpha1.StopRuntime,
			[]client.Object{boundPod("a")}, []string{"patch c terminating"}, 1},
		"a running one that a person wants replaced": {v1alpha1.StateRunning, provider.InstanceRunning, v1alpha1.StopRequested,
			[]client.Object{boundPod("a")}, []string{"patch c terminating"}, 1},
		"a running one that drifted": {v1alpha1.StateRunning, provider.InstanceRunning, v1alpha1.StopDrift, nil,
			[]string{"patch c terminating"}, 1},
		"a pod is there that the cache lacks": {v1alpha1.StateRunning, provider.InstanceRunning, v1alpha1.StopDrift,
			[]client.Object{boundPod("a")}, nil, 0},
		"too many, and a pod that the cache lacks": {v1alpha1.StateRunning, provider.InstanceRunning, v1alpha1.StopSurplus,
			[]client.Object{boundPod("a")}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, append(c.live, nodePool(5, 0), nodeIn(c.state))...)
			r.nodes.Reader = newRig(t, nodePool(5, 0), nodeIn(c.state)).api
			r.sweep(instance(c.cloud))
			r.turns.Set("p", []plan.Disruption{{Node: "c", Reason: c.turn, Why: "its turn"}})
			r.reconcile()
			r.want(c.want...)
			if got := testutil.ToFloat64(r.nodes.Metrics.Scaledown.WithLabelValues("p", string(c.turn))); got != c.counts {
				t.Errorf("%v counted for %s, want %v", got, c.turn, c.counts)
			}
			if said := strings.Join(r.said(), "\n"); strings.Contains(said, "Recycled its turn") != (len(c.want) > 0) {
				t.Errorf("events %q", said)
			}
		})
	}
}

// An upgrade of Stratos replaces nothing: what an older one launched is taken for launched from
// what stands now.
func TestNodesWithoutAHashAreStamped(t *testing.T) {
	class := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class"},
		Status: v1alpha1.AWSNodeClassStatus{AMI: "ami-1"}}
	older := annotated(v1alpha1.AnnotationTemplateHash, "v0.0123456789abcdef")
	r := newRig(t, nodePool(5, 0), nodeIn(v1alpha1.StateStandby, older), class)
	r.sweep(instance(provider.InstanceStopped))
	r.reconcilePool()
	n := r.node("c")
	got := map[string]string{}
	for _, key := range []string{v1alpha1.AnnotationTemplateHash, v1alpha1.AnnotationNodeClassHash,
		v1alpha1.AnnotationAMI} {
		got[key] = n.Annotations[key]
	}
	want := map[string]string{v1alpha1.AnnotationTemplateHash: r.pool().Spec.Template.Hash(),
		v1alpha1.AnnotationNodeClassHash: class.Spec.Hash(), v1alpha1.AnnotationAMI: "ami-1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stamps (-want +got):\n%s", diff)
	}
	if r.turn() != "" {
		t.Errorf("turn %q", r.turn())
	}
	class.Status.AMI = "ami-2"
	if err := r.api.Status().Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	r.reconcilePool()
	if r.turn() != v1alpha1.StopDrift {
		t.Errorf("turn %q after the class resolved to another image, want drift", r.turn())
	}
	if said := r.said(); !slices.ContainsFunc(said, func(s string) bool {
		return strings.Contains(s, "Drifted") &&
			strings.Contains(s, "ami-2")
	}) {
		t.Errorf("events %q, want Drifted", said)
	}
}

// TestANodeOfATypeThatItsClassDoesNotNameDrifts: the cloud's word on the type is newer than the
// Node's label. What is not known is no drift.
func TestANodeOfATypeThatItsClassDoesNotNameDrifts(t *testing.T) {
	for name, c := range map[string]struct {
		instance, label string
		ignored         bool
		// refused: the cloud does not make the instance this type.
		refused string
		want    v1alpha1.StopReason
	}{
		"the first type":                   {instance: "m5.large", label: "m5.large"},
		"a fallback type":                  {instance: "m5a.large", label: "m5a.large"},
		"a fallback type that is left out": {instance: "m6i.large"},
		"another one":                      {instance: "m4.large", label: "m4.large", want: v1alpha1.StopDrift},
		"another one, by the label alone":  {label: "m4.large", want: v1alpha1.StopDrift},
		"the label is old":                 {instance: "m5a.large", label: "m4.large"},
		"not known":                        {},
		"it may not return to the first type": {instance: "m5a.large", label: "m5a.large", refused: "m5.large",
			want: v1alpha1.StopDrift},
		"it may not become another one": {instance: "m5a.large", label: "m5a.large", refused: "m6i.large"},
		"drift is ignored":              {instance: "m4.large", ignored: true},
	} {
		t.Run(name, func(t *testing.T) {
			class := awsClass()
			class.Spec.InstanceType, class.Spec.FallbackInstanceTypes = "m5.large", []string{"m5a.large", "m6i.large"}
			class.Status.InstanceTypes = []v1alpha1.InstanceTypeStatus{{Type: "m5.large", Usable: true},
				{Type: "m5a.large", Usable: true}, {Type: "m6i.large", Reason: "it boots with UEFI only"}}
			r := newRig(t, nodePool(5, 0, func(p *v1alpha1.NodePool) {
				if c.ignored {
					p.Spec.Disruption.Drift = v1alpha1.DriftIgnore
				}
			}), nodeIn(v1alpha1.StateStandby, func(n *corev1.Node) {
				if c.label != "" {
					n.Labels[corev1.LabelInstanceTypeStable] = c.label
				}
			}), class)
			r.sweep(instance(provider.InstanceStopped, launchedFrom(r.pool().Spec.Template.Hash()),
				withTag(v1alpha1.AnnotationNodeClassHash, class.SpecHash()),
				func(i *provider.Instance) { i.Type = c.instance }))
			if c.refused != "" {
				state := r.pools.State
				state.SetPool(r.pool())
				state.SetNodeClass(class)
				state.SetNode(r.node("c"))
				state.RefuseType("c", c.refused)
			}
			r.reconcilePool()
			if got := r.turn(); got != c.want {
				t.Errorf("disruption %q, want %q", got, c.want)
			}
		})
	}
}

// TestWhatDriftsOfBootstrap: what a user wrote does, what EKS says of the cluster does not.
func TestWhatDriftsOfBootstrap(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.AWSNodeClass)
		want   v1alpha1.StopReason
	}{
		"another certificate authority": {func(c *v1alpha1.AWSNodeClass) {
			c.Status.Bootstrap.Cluster.CertificateAuthority = "cm90YXRlZA=="
		}, ""},
		"another range of Services": {func(c *v1alpha1.AWSNodeClass) {
			c.Status.Bootstrap.Cluster.ServiceCIDR = "10.96.0.0/12"
		}, ""},
		"another endpoint": {func(c *v1alpha1.AWSNodeClass) {
			c.Status.Bootstrap.Cluster.Endpoint = "https://moved.example.com"
		}, ""},
		"flags of the kubelet": {func(c *v1alpha1.AWSNodeClass) {
			c.Spec.Bootstrap.KubeletExtraArgs = []string{"--v=4"}
		}, v1alpha1.StopDrift},
		"a certificate authority that the user wrote": {func(c *v1alpha1.AWSNodeClass) {
			c.Spec.Bootstrap.Cluster.CertificateAuthority = "cm90YXRlZA=="
		}, v1alpha1.StopDrift},
		"another text beside it": {func(c *v1alpha1.AWSNodeClass) { c.Spec.UserData = "#!/bin/sh\n" }, v1alpha1.StopDrift},
		"no bootstrap":           {func(c *v1alpha1.AWSNodeClass) { c.Spec.Bootstrap = nil }, v1alpha1.StopDrift},
	} {
		t.Run(name, func(t *testing.T) {
			class := awsClass()
			class.Spec.Bootstrap = &v1alpha1.Bootstrap{Family: v1alpha1.FamilyAL2023}
			class.Status.Bootstrap = &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyAL2023,
				Cluster: v1alpha1.BootstrapCluster{Name: "c", Endpoint: "https://c.example.com", CertificateAuthority: "Y2E=",
					ServiceCIDR: "10.100.0.0/16"}}
			launched := class.SpecHash()
			c.change(class)
			r := newRig(t, nodePool(5, 0), nodeIn(v1alpha1.StateStandby), class)
			r.sweep(instance(provider.InstanceStopped, launchedFrom(r.pool().Spec.Template.Hash()),
				withTag(v1alpha1.AnnotationNodeClassHash, launched), withTag(bootstraptoken.Tag, "abcdef"))) // of its launch alone
			r.reconcilePool()
			if got := r.turn(); got != c.want {
				t.Errorf("turn %q, want %q", got, c.want)
			}
		})
	}
}

func TestADrainIsBounded(t *testing.T) {
	bounded := func(p *v1alpha1.NodePool) {
		p.Spec.Disruption.TerminationGracePeriod = &metav1.Duration{Duration: 30 * time.Minute}
	}
	for name, c := range map[string]struct {
		pool *v1alpha1.NodePool
		pod  *corev1.Pod
		ago  time.Duration
		want []string
	}{
		"evicted at first":     {nodePool(5, 0, bounded), boundPod("a"), time.Minute, []string{"eviction a"}},
		"precious: waited for": {nodePool(5, 0, bounded), boundPod("a", precious), time.Minute, nil},
		"precious: deleted when it is over": {nodePool(5, 0, bounded), boundPod("a", precious), time.Hour,
			[]string{"delete a"}},
		"deleted when it is over": {nodePool(5, 0, bounded), boundPod("a"), time.Hour, []string{"delete a"}},
		"within its own grace":    {nodePool(5, 0, bounded), boundPod("a", ending(time.Minute)), time.Hour, nil},
		"beyond every grace": {nodePool(5, 0, bounded), boundPod("a", ending(-time.Minute)), time.Hour,
			[]string{"terminate i-c"}},
		"beyond its own, without a bound": {nodePool(5, 0), boundPod("a", ending(-time.Minute)), time.Minute, nil},
		"precious, the pool is deleted": {nodePool(5, 0, deleted), boundPod("a", precious), time.Hour,
			[]string{"eviction a"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeIn(v1alpha1.StateTerminating, annotated(v1alpha1.AnnotationStopReason, "runtime"),
				markedAt(v1alpha1.AnnotationStoppingSince, epoch().Add(-c.ago)))
			r := newRig(t, c.pool, node, c.pod)
			r.sweep(instance(provider.InstanceRunning))
			r.reconcile()
			r.want(c.want...)
		})
	}
}

// Nothing was decided about a pod that only the API server shows, however long it has been ending.
func TestAPodThatTheCacheLacksIsNeverOverdue(t *testing.T) {
	pool := nodePool(5, 0, func(p *v1alpha1.NodePool) {
		p.Spec.Disruption.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
	})
	node := nodeIn(v1alpha1.StateTerminating, annotated(v1alpha1.AnnotationStopReason, "runtime"),
		markedAt(v1alpha1.AnnotationStoppingSince, epoch()))
	r := newRig(t, pool, node, boundPod("a", ending(-time.Minute)))
	r.nodes.Reader = newRig(t, pool, node).api
	r.sweep(instance(provider.InstanceRunning))
	r.reconcile()
	r.want()
}

// ending is a pod that is being deleted and whose grace ends after so long.
func ending(after time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		at := metav1.NewTime(epoch().Add(after))
		p.DeletionTimestamp, p.Finalizers = &at, []string{"test/kept"}
	}
}

func TestSurplusIsWrittenDown(t *testing.T) {
	r := newRig(t, nodePool(5, 0), nodeIn(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationTemplateHash,
		nodePool(1, 1).Spec.Template.Hash())))
	r.sweep(instance(provider.InstanceStopped))
	r.reconcilePool()
	since := r.node("c").Annotations[v1alpha1.AnnotationSurplusSince]
	if since != epoch().Format(time.RFC3339) {
		t.Fatalf("surplus since %q, want now", since)
	}
	r.now = r.now.Add(23 * time.Hour)
	r.reconcilePool()
	if got := r.node("c").Annotations[v1alpha1.AnnotationSurplusSince]; got != since || r.turn() != "" {
		t.Errorf("a day later, less an hour: surplus since %q, turn %q", got, r.turn())
	}
	r.now = r.now.Add(time.Hour)
	r.turns = pool.NewDisruptions() // another process
	r.pools.Disruptions = r.turns
	r.reconcilePool()
	if r.turn() != v1alpha1.StopSurplus {
		t.Errorf("turn %q a day later, want surplus", r.turn())
	}
	r.pools.State = cluster.New(decide.NewClaims(), func() time.Time { return r.now })
	pool := r.pool()
	pool.Spec.MinStandby = 1
	if err := r.api.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	r.reconcilePool()
	if got := r.node("c").Annotations[v1alpha1.AnnotationSurplusSince]; got != "" || r.turn() != "" {
		t.Errorf("no surplus any more: marked %q, turn %q", got, r.turn())
	}
}
