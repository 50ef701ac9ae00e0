package observed

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// leading is 1 in the replica that leads.
const leading, ofLease = "leader_election_master_status", `name="stratos"`

// run is two replicas of Stratos with a Prometheus that scrapes them.
type run struct {
	*framework.Rig
	*prometheus
	replicas  [2]framework.Running
	authority *assert.Authority
	certDir   string
}

func newRun(t *testing.T) *run {
	t.Helper()
	r := &run{authority: assert.NewAuthority(t, nil), certDir: t.TempDir()}
	r.Rig = assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), NoStratos: true})
	r.certify(t, 24*time.Hour)
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("{currency: USD, instances: {t3.xlarge: 0.1664}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range r.replicas {
		_, port, _ := strings.Cut(assert.FreeAddress(t), ":")
		r.replicas[i] = assert.StartStratos(t, r.Rig, fmt.Sprintf("stratos-%d", i), "--leader-elect",
			"--namespace="+framework.Namespace, "--cert-dir="+r.certDir, "--webhook-port="+port, "--prices-file="+prices,
			"--rate-limit-create-tags=2/5")
	}
	r.Recorder.Forward(r.replicas[0].Extender)
	r.prometheus = startPrometheus(t, r.replicas[0].Metrics, r.replicas[1].Metrics)
	await(t, "a scrape of each", func(ctx context.Context) (bool, error) { return r.hasData(ctx, "sum(up) == 2") })
	return r
}

// certify writes a serving certificate that is valid for so long.
func (r *run) certify(t *testing.T, valid time.Duration) {
	t.Helper()
	certificate, key := r.authority.Issue(t, &x509.Certificate{NotAfter: time.Now().Add(valid)})
	for file, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(r.certDir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// story has an alert fire.
type story struct {
	labels map[string]string
	// breaks brings about what the alert is for; ends brings it to its end, nil where it ends with
	// its window.
	breaks, ends func(*testing.T, *run)
}

// TestObserved: while two replicas live through all that the alerts are for, each alert fires once
// and ends, and each query of the dashboards returns data.
func TestObserved(t *testing.T) {
	r := newRun(t)
	t.Run("meanwhile", func(t *testing.T) {
		for name, s := range stories() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r.play(t, name, s)
			})
		}
		for panel, queries := range panelQueries(t) {
			t.Run("panel "+panel, func(t *testing.T) {
				t.Parallel()
				for _, query := range queries {
					await(t, query, func(ctx context.Context) (bool, error) { return r.hasData(ctx, query) })
				}
			})
		}
		t.Run("life", func(t *testing.T) {
			t.Parallel()
			live(t, r)
		})
	})
	// Nothing else can be seen while there is no leader, or no Stratos.
	for _, name := range []string{"StratosNoLeader", "StratosAbsent"} {
		t.Run(name, func(t *testing.T) { r.play(t, name, endings()[name]) })
	}
	if all := alertsOf(chartRules(t)); len(all) != len(stories())+len(endings()) {
		t.Errorf("the chart has the alerts %q, played were %d", all, len(stories())+len(endings()))
	}
}

// play has the alert fire and end.
func (r *run) play(t *testing.T, name string, s story) {
	t.Helper()
	s.breaks(t, r)
	await(t, name+" fires", func(ctx context.Context) (bool, error) { return r.isFiring(ctx, name, s.labels) })
	if s.ends != nil {
		s.ends(t, r)
	}
	await(t, name+" ends", func(ctx context.Context) (bool, error) {
		fires, err := r.isFiring(ctx, name, s.labels)
		return !fires, err
	})
}

// alertsOf are the names of the alerts among the rules.
func alertsOf(rules map[string]any) []string {
	var names []string
	groups, _ := rules["groups"].([]any)
	for _, group := range groups {
		list, _ := group.(map[string]any)["rules"].([]any)
		for _, rule := range list {
			if name, is := rule.(map[string]any)["alert"].(string); is {
				names = append(names, name)
			}
		}
	}
	return names
}

func ofPool(name string) map[string]string { return map[string]string{"pool": name} }

func seconds(n int64) *v1alpha1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}

// warm makes a pool of the instance type with as many standby nodes, which Prometheus has seen too:
// what happens between two of its scrapes has no increase.
func warm(t *testing.T, r *run, name, instanceType string, size int32, change func(*v1alpha1.NodePoolSpec)) {
	t.Helper()
	pool := framework.Pool(name, size)
	if change != nil {
		change(&pool.Spec)
	}
	assert.Create(t, r.Rig, framework.Class(name, instanceType), pool)
	await(t, "standby nodes of "+name, func(ctx context.Context) (bool, error) {
		is, err := framework.Read(ctx, r.Rig, assert.Pool(name))
		return err == nil && is.Status.Standby == size, err
	})
	query := fmt.Sprintf(`stratos_nodepool_nodes_total{pool=%q, state="standby"} == %d`, name, size)
	await(t, query, func(ctx context.Context) (bool, error) { return r.hasData(ctx, query) })
}

// stories are those of the alerts that need a Stratos to be seen.
func stories() map[string]story {
	return map[string]story{
		"StratosLowStandby": {labels: ofPool("low"),
			breaks: func(t *testing.T, r *run) { assert.Create(t, r.Rig, framework.Pool("low", 2)) },
			ends:   func(t *testing.T, r *run) { assert.Create(t, r.Rig, framework.Class("low", "c5.xlarge")) }},
		"StratosWarmupFailing": {labels: ofPool("doomed"), breaks: warmupsFail},
		"StratosStartsFailing": {labels: ofPool("failing"), breaks: startsFail},
		"StratosSlowScaleUp": {labels: ofPool("slow"), breaks: func(t *testing.T, r *run) {
			warm(t, r, "slow", "m5.large", 1, nil)
			assert.Create(t, r.Rig, framework.PoolPod("slow", "slow", "cpu", "1"))
		}},
		"StratosNodesOverdue": {labels: map[string]string{"pool": "stuck", "state": string(v1alpha1.StateStopping)},
			breaks: stopIsRefused,
			ends: func(t *testing.T, r *run) {
				if err := r.Cloud.ClearFaults(t.Context()); err != nil {
					t.Fatal(err)
				}
			}},
		"StratosStartupTaintsForced": {labels: ofPool("dark"), breaks: noNetwork},
		"StratosPoolPaused": {labels: ofPool("paused"),
			breaks: func(t *testing.T, r *run) {
				pool := framework.Pool("paused", 1)
				metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1alpha1.AnnotationPaused, "true")
				assert.Create(t, r.Rig, pool)
			},
			ends: func(t *testing.T, r *run) {
				assert.Change(t, r.Rig, assert.Pool("paused"), func(p *v1alpha1.NodePool) { p.Annotations = nil })
			}},
		"StratosNodeClassNotReady": {labels: map[string]string{"class": "unknown"},
			breaks: func(t *testing.T, r *run) { assert.Create(t, r.Rig, framework.Class("unknown", "m99.large")) },
			ends:   func(t *testing.T, r *run) { assert.Delete(t, r.Rig, framework.Class("unknown", "m99.large")) }},
		"StratosCloudThrottled": {labels: map[string]string{"operation": "CreateTags"}, breaks: func(*testing.T, *run) {}},
		"StratosSchedulerErrors": {labels: map[string]string{"scheduler": "failing-scheduler"},
			breaks: func(t *testing.T, r *run) {
				pod := framework.Pod("failed-over", "cpu", "1")
				schedulerSays(t, r, pod, "failing-scheduler", corev1.PodReasonSchedulerError)
			},
			ends: func(t *testing.T, r *run) { assert.Delete(t, r.Rig, assert.Pod("failed-over")) }},
		"StratosExtenderErrors": {labels: map[string]string{"verb": "filter"}, breaks: nonsense},
		"StratosCertificateEnds": {breaks: func(*testing.T, *run) {},
			ends: func(t *testing.T, r *run) { r.certify(t, 90*24*time.Hour) }},
	}
}

// endings are those of the alerts that nothing else can be seen beside.
func endings() map[string]story {
	return map[string]story{
		"StratosNoLeader": {
			breaks: func(t *testing.T, r *run) { r.leader(t).Process.Kill() },
			ends:   func(t *testing.T, r *run) { r.leader(t) },
		},
		"StratosAbsent": {
			breaks: func(t *testing.T, r *run) {
				for _, one := range r.replicas {
					one.Process.Kill()
				}
			},
			ends: func(t *testing.T, r *run) {
				if err := r.replicas[0].Process.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
		},
	}
}

// leader waits for the replica that leads.
func (r *run) leader(t *testing.T) (leader framework.Running) {
	t.Helper()
	await(t, "a leader", func(ctx context.Context) (bool, error) {
		for _, one := range r.replicas {
			if n, err := framework.Metric(ctx, one.Metrics, leading, ofLease); err == nil && n == 1 {
				leader = one
				return true, nil
			}
		}
		return false, nil
	})
	return leader
}

// warmupsFail has two launches end at once. The third succeeds.
func warmupsFail(t *testing.T, r *run) {
	assert.AddFault(t, r.Rig, fake.Fault{Kind: fake.FaultStartFallsBack, Op: fake.OpLaunch, Type: "m6i.4xlarge", Count: 2,
		Reason: "Client.InternalError"})
	assert.Create(t, r.Rig, framework.Class("doomed", "m6i.4xlarge"), framework.Pool("doomed", 1))
}

// startsFail has three nodes start in vain before a pod runs on the fourth.
func startsFail(t *testing.T, r *run) {
	warm(t, r, "failing", "m7i.large", 4, func(s *v1alpha1.NodePoolSpec) { s.ScaleUp.ReadyTimeout = seconds(6) })
	assert.HoldStarts(t, r.Rig, "m7i.large", 3)
	assert.Create(t, r.Rig, framework.PoolPod("failing", "failing", "cpu", "1"))
}

// stopIsRefused has the cloud refuse to stop a node that has become empty.
func stopIsRefused(t *testing.T, r *run) {
	warm(t, r, "stuck", "r5.large", 1, func(s *v1alpha1.NodePoolSpec) {
		s.ScaleDown.EmptyNodeTTL, s.ScaleDown.DrainTimeout, s.PreWarm.Timeout = seconds(1), seconds(3), seconds(60)
	})
	assert.AddFault(t, r.Rig, fake.Fault{Kind: fake.FaultInvalidConfig, Op: fake.OpStop, Type: "r5.large",
		Reason: "OperationNotPermitted"})
	pod := framework.PoolPod("stuck", "stuck", "cpu", "1")
	assert.Create(t, r.Rig, pod)
	assert.AwaitBound(t, r.Rig, pod)
	assert.Remove(t, r.Rig, pod)
}

// noNetwork has a node start whose network never comes up.
func noNetwork(t *testing.T, r *run) {
	warm(t, r, "dark", "c6i.large", 1, func(s *v1alpha1.NodePoolSpec) {
		s.Template.StartupTaints = []corev1.Taint{{Key: "example.com/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}}
	})
	assert.AddFault(t, r.Rig, fake.Fault{Kind: fake.FaultNoNetwork, Op: fake.OpStart, Type: "c6i.large", Count: 1})
	assert.Create(t, r.Rig, framework.PoolPod("dark", "dark", "cpu", "1"))
}

// nonsense asks the extender what it cannot read.
func nonsense(t *testing.T, r *run) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.replicas[0].Extender+"/filter",
		bytes.NewBufferString("{"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
}

// live has nodes start, be used and stop again, for the queries that no alert needs.
func live(t *testing.T, r *run) {
	warm(t, r, "lived", "t3.xlarge", 2, func(s *v1alpha1.NodePoolSpec) { s.ScaleDown.EmptyNodeTTL = seconds(1) })
	keeps := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "keeps-nominations"},
		PreemptionPolicy: new(corev1.PreemptNever)}
	nominated := framework.PoolPod("nominated", "lived", "cpu", "1")
	nominated.Spec.PriorityClassName = keeps.Name
	assert.Create(t, r.Rig, keeps)
	schedulerSays(t, r, nominated, "plain-scheduler", corev1.PodReasonUnschedulable)
	replicas := int32(40)
	pod := framework.PoolPod("foreseen", "lived", "cpu", "1m")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	labels := map[string]string{"app": "foreseen"}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "foreseen"},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec}},
	}
	assert.Create(t, r.Rig, set)
	assert.AwaitPods(t, r.Rig, labels, int(replicas))
	assert.Change(t, r.Rig, set, func(s *appsv1.ReplicaSet) { s.Spec.Replicas = new(int32) })
}

// schedulerSays makes the pod and plays what its scheduler says of it.
func schedulerSays(t *testing.T, r *run, pod *corev1.Pod, scheduler, reason string) {
	t.Helper()
	pod.Spec.SchedulerName = scheduler
	assert.Create(t, r.Rig, pod)
	before := pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: reason, Message: "played", LastTransitionTime: metav1.Now()}}
	if err := r.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
