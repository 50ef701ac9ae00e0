package ahead

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestOwnersInMidBurst: kube-controller-manager creates the pods at its rate, the real scheduler
// asks about them, and something happens in between. The numbers are closed forms: a node for every
// four replicas that the owner wanted until then.
func TestOwnersInMidBurst(t *testing.T) {
	b := newBursts(t)
	for _, c := range []struct {
		name string
		play func(*testing.T, *bursts)
	}{
		{"a quota", quota},
		{"scaled to half", scaledToHalf},
		{"a Deployment deleted", deleted},
		{"a Job suspended", suspended},
		{"pods refused by a webhook", refused},
		{"a paused Deployment scaled", paused},
		{"two owners for one small pool", twoOwners},
		{"the serving replica of Stratos killed", killed},
	} {
		if !t.Run(c.name, func(t *testing.T) { c.play(t, b) }) {
			return // the next one would begin with other nodes
		}
	}
}

// quota leaves room for six pods of ten.
func quota(t *testing.T, b *bursts) {
	allowed := b.replicas * 6 / 10
	q := &corev1.ResourceQuota{ObjectMeta: meta("quota")}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(allowed), resource.DecimalSI)}
	assert.Create(t, b.Rig, q)
	assert.AwaitObject(t, b.Rig, q, "counts pods", func(q *corev1.ResourceQuota) bool { return len(q.Status.Used) > 0 })
	set := b.replicaSet("limited")
	assert.Create(t, b.Rig, set)
	b.awaitBound(t, allowed, false, set.Name)
	b.awaitNoClaims(t)
	b.exactly(t, (allowed+perNode-1)/perNode)
	b.end(t, set)
	assert.Remove(t, b.Rig, q)
}

func scaledToHalf(t *testing.T, b *bursts) {
	set := b.replicaSet("scaled")
	assert.Create(t, b.Rig, set)
	b.awaitStarts(t, set.Name, b.nodes)
	assert.Change(t, b.Rig, set, func(s *appsv1.ReplicaSet) { s.Spec.Replicas = want(b.replicas / 2) })
	b.awaitBound(t, b.replicas/2, false, set.Name)
	b.awaitNoClaims(t)
	b.exactly(t, b.nodes)
	b.end(t, set)
}

func deleted(t *testing.T, b *bursts) {
	d := b.deployment("deleted")
	assert.Create(t, b.Rig, d)
	b.awaitStarts(t, d.Name, b.nodes)
	b.end(t, d)
}

func suspended(t *testing.T, b *bursts) {
	job := b.job("suspended")
	assert.Create(t, b.Rig, job)
	b.awaitStarts(t, job.Name, b.nodes)
	assert.Change(t, b.Rig, job, func(j *batchv1.Job) { j.Spec.Suspend = new(true) })
	b.awaitBound(t, 0, false, job.Name)
	b.awaitNoClaims(t)
	b.exactly(t, b.nodes)
	b.end(t, job)
}

// refused: a webhook admits a third of the replicas, and none afterwards. Until the
// ReplicaSet says so, all of them are to come.
func refused(t *testing.T, b *bursts) {
	admitted := b.replicas / 3
	hook := admit(t, b.Rig, "refused", admitted)
	set := b.replicaSet("refused")
	assert.Create(t, b.Rig, set)
	assert.AwaitObject(t, b.Rig, set, "says that pods are refused", func(s *appsv1.ReplicaSet) bool {
		return len(s.Status.Conditions) > 0 && s.Status.Conditions[0].Type == appsv1.ReplicaSetReplicaFailure
	})
	b.awaitBound(t, admitted, false, set.Name)
	b.awaitNoClaims(t)
	started, least := b.started(t), (admitted+perNode-1)/perNode
	if started < least || started > b.nodes {
		t.Errorf("%d nodes were started, want %d for the pods that were admitted, and at most %d for those wanted", started,
			least, b.nodes)
	}
	b.end(t, set)
	assert.Remove(t, b.Rig, hook)
}

// paused: the Deployment is still scaled.
func paused(t *testing.T, b *bursts) {
	d := b.deployment("paused")
	d.Spec.Replicas = want(b.replicas / 5)
	assert.Create(t, b.Rig, d)
	b.awaitBound(t, b.replicas/5, false, d.Name)
	assert.Change(t, b.Rig, d, func(d *appsv1.Deployment) {
		d.Spec.Paused, d.Spec.Replicas = true, want(b.replicas)
	})
	b.awaitBound(t, b.replicas, false, d.Name)
	b.awaitNoClaims(t)
	b.exactly(t, b.nodes)
	b.end(t, d)
}

// twoOwners want more together than the pool has.
func twoOwners(t *testing.T, b *bursts) {
	one, other := b.replicaSet("one"), b.replicaSet("other")
	assert.Create(t, b.Rig, one, other)
	b.awaitBound(t, (b.nodes+spare)*perNode, true, one.Name, other.Name)
	b.exactly(t, b.nodes+spare)
	if err := b.Client.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	b.awaitBound(t, b.replicas, false, other.Name)
	b.exactly(t, b.nodes+spare)
	b.end(t, other)
}

// killed: the scheduler's question goes to the other replica then, as that of another replica's pod
// does.
func killed(t *testing.T, b *bursts) {
	second := assert.StartStratos(t, b.Rig, "second", leading()...)
	b.Recorder.Forward(second.Extender)
	set := b.replicaSet("survives")
	assert.Create(t, b.Rig, set)
	b.awaitStarts(t, set.Name, 1)
	second.Process.Kill()
	b.Recorder.Forward(b.first.Extender)
	b.awaitBound(t, b.replicas, false, set.Name)
	b.awaitNoClaims(t)
	b.exactly(t, b.nodes)
	b.end(t, set)
}

// admit has a webhook admit so many pods of the app, and refuse all others.
func admit(t *testing.T, r *framework.Rig, app string, most int) *registrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	asked := &atomic.Int64{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: asked.Add(1) <= int64(most),
			Result: &metav1.Status{Message: "no more pods"}}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	none := registrationv1.SideEffectClassNone
	hook := &registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: app},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: "pods.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:   registrationv1.WebhookClientConfig{URL: &server.URL, CABundle: ca},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: labels(app)},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create},
				Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"pods"}},
			}},
		}}}
	assert.Create(t, r, hook)
	assert.Await(t, "the API server to ask the webhook", func(ctx context.Context) (bool, error) {
		probe := framework.Pod(app)
		probe.Labels = labels(app)
		err := r.Client.Create(ctx, probe, client.DryRunAll)
		return asked.Swap(0) > 0, err
	})
	return hook
}
