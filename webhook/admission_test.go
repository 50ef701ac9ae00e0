package webhook

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// answer sends an object through a webhook and returns it as the API server has it afterwards.
func answer(t *testing.T, h admission.Handler, namespace, object string) string {
	t.Helper()
	response := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: namespace, Object: runtime.RawExtension{Raw: []byte(object)},
	}})
	if !response.Allowed {
		t.Fatalf("refused: %v", response.Result)
	}
	if len(response.Patches) == 0 {
		return object
	}
	text, err := json.Marshal(response.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	return string(patched)
}

func sameJSON(t *testing.T, want, got string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(want), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefaultingOfPools(t *testing.T) {
	h := defaulting[*v1alpha1.NodePool]{admission.NewDecoder(newScheme(t)), newOf[v1alpha1.NodePool], DefaultNodePool}
	for name, c := range map[string]struct{ object, want string }{
		"every static default, and nothing else": {
			`{"apiVersion":"stratos.sh/v1alpha1","kind":"NodePool","metadata":{"name":"a"},"spec":{"poolSize":4,"minStandby":1,"template":{"nodeClassRef":{"kind":"AWSNodeClass","name":"c"}}}}`,
			`{"apiVersion":"stratos.sh/v1alpha1","kind":"NodePool","metadata":{"name":"a"},"spec":{"poolSize":4,"minStandby":1,"weight":10,
			  "template":{"nodeClassRef":{"kind":"AWSNodeClass","name":"c"},"startupTaintRemoval":"WhenNetworkReady"},
			  "preWarm":{"timeout":"10m0s","timeoutAction":"stop","imagePullPolicy":"Required"},
			  "scaleUp":{"readyTimeout":"5m0s","anticipate":"Replicas"},"scaleDown":{"enabled":true,"emptyNodeTTL":"5m0s","drainTimeout":"5m0s","standbySurplusTTL":"24h0m0s"},
			  "disruption":{"budget":"10%","drift":"Recycle"}}}`,
		},
		"what was written stays as it was written": {
			`{"spec":{"poolSize":4,"minStandby":1,"maxNodeRuntime":"90m","unknown":{"a":1},"template":{"nodeClassRef":{"kind":"AWSNodeClass","name":"c"},"startupTaintRemoval":"External"},"preWarm":{"timeout":"60m","timeoutAction":"terminate","completionMode":"ControllerStop","imagePullPolicy":"BestEffort"},"scaleUp":{"readyTimeout":"90s","anticipate":"Off"},"scaleDown":{"enabled":false,"emptyNodeTTL":"0","drainTimeout":"90s","standbySurplusTTL":"48h"},"disruption":{"budget":2,"drift":"Ignore"}}}`,
			`{"spec":{"poolSize":4,"minStandby":1,"weight":10,"maxNodeRuntime":"90m","unknown":{"a":1},"template":{"nodeClassRef":{"kind":"AWSNodeClass","name":"c"},"startupTaintRemoval":"External"},"preWarm":{"timeout":"60m","timeoutAction":"terminate","completionMode":"ControllerStop","imagePullPolicy":"BestEffort"},"scaleUp":{"readyTimeout":"90s","anticipate":"Off"},"scaleDown":{"enabled":false,"emptyNodeTTL":"0","drainTimeout":"90s","standbySurplusTTL":"48h"},"disruption":{"budget":2,"drift":"Ignore"}}}`,
		},
		"what Go cannot decode is left to the schema": {`{"spec":{"poolSize":"ten"}}`, `{"spec":{"poolSize":"ten"}}`},
	} {
		t.Run(name, func(t *testing.T) { sameJSON(t, c.want, answer(t, h, "", c.object)) })
	}
}

func TestDefaultingOfClasses(t *testing.T) {
	h := defaulting[*v1alpha1.AWSNodeClass]{admission.NewDecoder(newScheme(t)), newOf[v1alpha1.AWSNodeClass],
		DefaultAWSNodeClass}
	got := answer(
		t,
		h,
		"",
		`{"spec":{"instanceType":"m5.large","nodeImage":{"fromCluster":true},"blockDeviceMappings":[{"deviceName":"/dev/xvda","volumeSize":9},{"deviceName":"/dev/sdb","volumeType":"gp2","deleteOnTermination":false}]}}`,
	)
	sameJSON(t, `{"spec":{"instanceType":"m5.large","nodeImage":{"fromCluster":true,"owner":"self"},
	  "blockDeviceMappings":[{"deviceName":"/dev/xvda","volumeSize":9,"volumeType":"gp3","deleteOnTermination":true},{"deviceName":"/dev/sdb","volumeType":"gp2","deleteOnTermination":false}],
	  "metadataOptions":{"httpTokens":"required","httpPutResponseHopLimit":2,"httpEndpoint":"enabled"}}}`, got)
}

// TestOptInKeepsWhatItDoesNotKnow: a newer API server's pods have fields that our Go types lack.
func TestOptInKeepsWhatItDoesNotKnow(t *testing.T) {
	scheme := newScheme(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "in",
		Labels: map[string]string{v1alpha1.LabelScheduler: v1alpha1.SchedulerEnabled}}}
	empty := fake.NewClientBuilder().WithScheme(scheme).Build()
	// The cache has not brought the namespace yet: the API server is asked.
	look := lookup{cached: empty, live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespace).Build()}
	h := optIn{decoder: admission.NewDecoder(scheme), lookup: look, schedulerName: "ours",
		protected: []string{"kube-system"}}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"},"spec":{"schedulerName":"default-scheduler","ofTheFuture":{"x":1},"containers":[{"name":"m","image":"i","ofTheFuture":2}]}}`
	sameJSON(
		t,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"},"spec":{"schedulerName":"ours","ofTheFuture":{"x":1},"containers":[{"name":"m","image":"i","ofTheFuture":2}],
	  "tolerations":[{"key":"stratos.sh/dedicated","operator":"Exists","effect":"NoSchedule"}]}}`,
		answer(t, h, "in", pod),
	)
	for name, untouched := range map[string]string{"a namespace that nobody knows": "gone", "kube-system": "kube-system"} {
		t.Run(name, func(t *testing.T) { sameJSON(t, pod, answer(t, h, untouched, pod)) })
	}
	mirror := `{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{}}`
	t.Run("a mirror pod", func(t *testing.T) { sameJSON(t, mirror, answer(t, h, "in", mirror)) })
	t.Run("what is no pod", func(t *testing.T) { sameJSON(t, `{"spec":7}`, answer(t, h, "in", `{"spec":7}`)) })
}
