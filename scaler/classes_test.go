package scaler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
)

// lookAtClass has the loop reconcile the class "class" once, and returns the class and when the
// loop wants to do so again.
func lookAtClass(t *testing.T, api client.Reader, c *nodeclass.Reconciler) (*v1alpha1.AWSNodeClass, time.Duration) {
	t.Helper()
	key := client.ObjectKey{Name: "class"}
	result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		t.Fatal(err)
	}
	class := &v1alpha1.AWSNodeClass{}
	if err := client.IgnoreNotFound(api.Get(t.Context(), key, class)); err != nil {
		t.Fatal(err)
	}
	return class, result.RequeueAfter
}

func (r *rig) classLoop() *nodeclass.Reconciler {
	return &nodeclass.Reconciler{Client: r.api, Kind: nodeclass.AWSNodeClasses(r.cloud), Events: r.events,
		Now: func() time.Time { return r.now }}
}

func awsClass() *v1alpha1.AWSNodeClass {
	return &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class", UID: "uid-class", Generation: 1}}
}

func TestAClassShowsWhatTheCloudFinds(t *testing.T) {
	r := newRig(t, awsClass())
	r.cloud.found = v1alpha1.AWSNodeClassStatus{
		AMI: "ami-1", Subnets: []v1alpha1.ResolvedSubnet{{ID: "subnet-1", Zone: "a"}}, SecurityGroups: []string{"sg-1"},
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
	}
	loop := r.classLoop()
	class, again := lookAtClass(t, r.api, loop)
	want := *r.cloud.found.DeepCopy()
	want.ObservedGeneration, want.Conditions = 1, class.Status.Conditions
	if diff := cmp.Diff(want, class.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(class.Status.Conditions, v1alpha1.ConditionReady) || again != resolveEvery {
		t.Errorf("conditions %v, next look in %s", class.Status.Conditions, again)
	}

	if lookAtClass(t, r.api, loop); r.cloud.asked != 1 {
		t.Errorf("an event a moment later: the cloud was asked %d times, want once", r.cloud.asked)
	}
	r.now, r.cloud.found.AMI = r.now.Add(resolveEvery), "ami-2"
	if class, _ = lookAtClass(t, r.api, loop); class.Status.AMI != "ami-2" {
		t.Errorf("after resolveEvery the image is %s, want the newer one", class.Status.AMI)
	}
	class.Generation = 2
	if err := r.api.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if class, _ = lookAtClass(t, r.api, loop); r.cloud.asked != 3 || class.Status.ObservedGeneration != class.Generation {
		t.Errorf("a changed spec: asked %d times, generation %d observed as %d", r.cloud.asked, class.Generation,
			class.Status.ObservedGeneration)
	}
}

func TestAClassKeepsTheLastGoodValuesInTheCloudsWords(t *testing.T) {
	r := newRig(t, awsClass())
	r.cloud.found = v1alpha1.AWSNodeClassStatus{AMI: "ami-1"}
	loop := r.classLoop()
	lookAtClass(t, r.api, loop)
	r.said()

	r.cloud.refusal = &provider.InvalidConfigError{Field: "ami", Reason: "InvalidAMIID.NotFound: it does not exist"}
	r.now = r.now.Add(resolveEvery)
	class, again := lookAtClass(t, r.api, loop)
	ready := meta.FindStatusCondition(class.Status.Conditions, v1alpha1.ConditionReady)
	if ready.Status != metav1.ConditionFalse || ready.Reason != string(v1alpha1.ReasonResolveFailed) ||
		!strings.Contains(ready.Message, "InvalidAMIID.NotFound") {
		t.Errorf("Ready is %+v", ready)
	}
	if class.Status.AMI != "ami-1" || again != resolveRetry {
		t.Errorf("image %q, next look in %s, want the last good image and a soon retry", class.Status.AMI, again)
	}
	if said := r.said(); len(said) != 1 || !strings.Contains(said[0], "InvalidAMIID.NotFound") {
		t.Errorf("events %v, want one with the cloud's words", said)
	}
	r.now = r.now.Add(resolveRetry)
	lookAtClass(t, r.api, loop)
	if said := r.said(); len(said) != 0 {
		t.Errorf("the same refusal once more: events %v", said)
	}

	r.cloud.refusal = nil
	r.now = r.now.Add(resolveRetry)
	class, _ = lookAtClass(t, r.api, loop)
	if !meta.IsStatusConditionTrue(class.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("healed: %+v", class.Status.Conditions)
	}
}

// TestAClassNamesWhyItsNodeImageIsNotFollowed: the reason is that of the error, and the last image
// stands.
func TestAClassNamesWhyItsNodeImageIsNotFollowed(t *testing.T) {
	r := newRig(t, awsClass())
	r.cloud.found = v1alpha1.AWSNodeClassStatus{AMI: "ami-1", NodeImage: "debian-12-1.37.2-v1"}
	loop := r.classLoop()
	lookAtClass(t, r.api, loop)
	r.cloud.refusal = &provider.InvalidConfigError{Field: "spec.nodeImage", Reason: "cp-1 has a, cp-2 has b",
		Condition: v1alpha1.ReasonNodeImageLabelsDiffer}
	r.now = r.now.Add(resolveEvery)
	class, _ := lookAtClass(t, r.api, loop)
	ready := meta.FindStatusCondition(class.Status.Conditions, v1alpha1.ConditionReady)
	if ready.Status != metav1.ConditionFalse || ready.Reason != "NodeImageLabelsDiffer" ||
		!strings.Contains(ready.Message, "cp-1 has a, cp-2 has b") {
		t.Errorf("Ready is %+v", ready)
	}
	if class.Status.AMI != "ami-1" || class.Status.NodeImage != "debian-12-1.37.2-v1" {
		t.Errorf("status %+v, want what was found before", class.Status)
	}
}

// TestAClassNamesTheTypesThatAreLeftOut: an event says it once, the condition as long as it is so,
// and a class without fallback types has no such condition.
func TestAClassNamesTheTypesThatAreLeftOut(t *testing.T) {
	r := newRig(t, awsClass())
	loop := r.classLoop()
	status := func(types ...v1alpha1.InstanceTypeStatus) v1alpha1.AWSNodeClassStatus {
		return v1alpha1.AWSNodeClassStatus{AMI: "ami-1", InstanceTypes: types}
	}
	first := v1alpha1.InstanceTypeStatus{Type: "m5.large", Usable: true}
	second := v1alpha1.InstanceTypeStatus{Type: "m5a.large", Reason: "it has 4 GiB of memory, m5.large has 8"}
	third := v1alpha1.InstanceTypeStatus{Type: "m6g.large", Reason: "it is arm64"}
	usable := v1alpha1.InstanceTypeStatus{Type: "m5a.large", Usable: true}
	both := "left out: m5a.large (it has 4 GiB of memory, m5.large has 8), m6g.large (it is arm64); " +
		"status.instanceTypes has all"
	for _, c := range []struct {
		name    string
		found   v1alpha1.AWSNodeClassStatus
		refusal error
		status  metav1.ConditionStatus
		message string
		events  int
	}{
		{name: "no fallback types", found: status()},
		{name: "all match", found: status(first, usable), status: metav1.ConditionTrue,
			message: "instances may be of all types that the class names"},
		{name: "two do not", found: status(first, second, third), status: metav1.ConditionFalse, message: both, events: 1},
		{name: "still", found: status(first, second, third), status: metav1.ConditionFalse, message: both},
		{name: "the cloud does not answer", refusal: errors.New("timeout"), status: metav1.ConditionFalse,
			message: both, events: 1}, // of Ready
		{name: "one less", found: status(first, second), status: metav1.ConditionFalse,
			message: "left out: m5a.large (it has 4 GiB of memory, m5.large has 8); status.instanceTypes has all"},
		{name: "all match again", found: status(first, usable), status: metav1.ConditionTrue,
			message: "instances may be of all types that the class names"},
		{name: "no fallback types again", found: status()},
	} {
		r.cloud.found, r.cloud.refusal, r.now = c.found, c.refusal, r.now.Add(resolveEvery)
		class, _ := lookAtClass(t, r.api, loop)
		got := meta.FindStatusCondition(class.Status.Conditions, v1alpha1.ConditionInstanceTypesUsable)
		switch {
		case got == nil && c.status == "":
		case got == nil || got.Status != c.status || got.Message != c.message:
			t.Errorf("%s: condition %+v, want %s: %s", c.name, got, c.status, c.message)
		}
		if events := r.said(); len(events) != c.events {
			t.Errorf("%s: events %v, want %d", c.name, events, c.events)
		}
	}
}

// TestATypeThatFailedAtStartsIsLeftOut: until the spec changes, also by a process that has not seen
// it fail.
func TestATypeThatFailedAtStartsIsLeftOut(t *testing.T) {
	r := newRig(t, awsClass())
	r.cloud.found.InstanceTypes = []v1alpha1.InstanceTypeStatus{
		{Type: "m5.large", Usable: true}, {Type: "m5a.large", Usable: true}, {Type: "m6i.large", Usable: true}}
	const why = "no kubelet reported"
	want := func(name string, class *v1alpha1.AWSNodeClass, types ...v1alpha1.InstanceTypeStatus) {
		t.Helper()
		if diff := cmp.Diff(types, class.Status.InstanceTypes); diff != "" {
			t.Errorf("%s: types (-want +got):\n%s", name, diff)
		}
	}
	failed := v1alpha1.InstanceTypeStatus{Type: "m5a.large", Failed: true, Reason: why}
	first, last := v1alpha1.InstanceTypeStatus{Type: "m5.large", Usable: true},
		v1alpha1.InstanceTypeStatus{Type: "m6i.large", Usable: true}

	loop := r.classLoop()
	lookAtClass(t, r.api, loop)
	loop.FailedTypes = func(string, int64) map[string]string { return map[string]string{"m5a.large": why} }
	r.now = r.now.Add(time.Minute) // the cloud is not asked
	class, _ := lookAtClass(t, r.api, loop)
	want("it fails", class, first, failed, last)
	if events := r.said(); len(events) != 1 || !strings.Contains(events[0], "InstanceTypesLeftOut") {
		t.Errorf("events %v, want that a type is left out", events)
	}
	loop = r.classLoop()
	class, _ = lookAtClass(t, r.api, loop)
	want("another process asks the cloud", class, first, failed, last)
	class.Generation = 2
	if err := r.api.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	class, _ = lookAtClass(t, r.api, loop)
	want("the spec changes", class, first, v1alpha1.InstanceTypeStatus{Type: "m5a.large", Usable: true}, last)
}

// TestALongListOfLeftOutTypesFitsAnEvent: a reason may have 1024 bytes, as an event's whole text.
func TestALongListOfLeftOutTypesFitsAnEvent(t *testing.T) {
	r := newRig(t, awsClass())
	for i := range 10 {
		r.cloud.found.InstanceTypes = append(r.cloud.found.InstanceTypes, v1alpha1.InstanceTypeStatus{
			Type: fmt.Sprintf("m%d.large", i), Reason: strings.Repeat("ü", 500)})
	}
	lookAtClass(t, r.api, r.classLoop())
	events := r.said()
	if len(events) != 1 || len(events[0]) > 1024 || !utf8.ValidString(events[0]) {
		t.Errorf("events %v", events)
	}
}

func TestAClassTellsThatItsClusterChanged(t *testing.T) {
	cluster := func(ca string) *v1alpha1.BootstrapStatus {
		return &v1alpha1.BootstrapStatus{Cluster: v1alpha1.BootstrapCluster{Name: "c", Endpoint: "https://" + ca,
			CertificateAuthority: ca, ServiceCIDR: "10.0.0.0/16"}}
	}
	for name, c := range map[string]struct {
		before, after *v1alpha1.BootstrapStatus
		generation    int64
		want          []string
	}{
		"for the first time": {nil, cluster("a"), 1, nil},
		"the same":           {cluster("a"), cluster("a"), 1, nil},
		"another one": {cluster("a"), cluster("b"), 1, []string{"Warning BootstrapChanged status.bootstrap.cluster has " +
			"another endpoint and certificateAuthority; nodes that exist keep what they were launched with"}},
		"another spec": {cluster("a"), cluster("b"), 2, nil},
		"no bootstrap": {nil, nil, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, awsClass())
			r.cloud.found = v1alpha1.AWSNodeClassStatus{AMI: "ami-1", Bootstrap: c.before}
			loop := r.classLoop()
			class, _ := lookAtClass(t, r.api, loop)
			hash := class.SpecHash()
			class.Generation = c.generation
			if err := r.api.Update(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			r.said()
			r.now, r.cloud.found.Bootstrap = r.now.Add(resolveEvery), c.after
			class, _ = lookAtClass(t, r.api, loop)
			if diff := cmp.Diff(c.want, r.said()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.after, class.Status.Bootstrap); diff != "" || class.SpecHash() != hash {
				t.Errorf("hash %s, want %s; status.bootstrap (-want +got):\n%s", class.SpecHash(), hash, diff)
			}
		})
	}
}

func TestAClassInUseIsHeld(t *testing.T) {
	other := nodePool(1, 1, func(p *v1alpha1.NodePool) { p.Name, p.UID = "q", "uid-q" })
	r := newRig(t, awsClass(), nodePool(1, 1), other)
	loop := r.classLoop()
	class, _ := lookAtClass(t, r.api, loop)
	use := meta.FindStatusCondition(class.Status.Conditions, v1alpha1.ConditionInUse)
	if diff := cmp.Diff([]string{v1alpha1.FinalizerInUse}, class.Finalizers); diff != "" ||
		use.Status != metav1.ConditionTrue || !strings.Contains(use.Message, "p, q") {
		t.Errorf("finalizers %v, InUse %+v, want the names of both pools", class.Finalizers, use)
	}
	if err := r.api.Delete(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if class, _ = lookAtClass(t, r.api, loop); class.Name == "" {
		t.Fatal("the class is gone although pools refer to it")
	}
	for _, pool := range []string{"p", "q"} {
		p := &v1alpha1.NodePool{}
		if err := r.api.Get(t.Context(), client.ObjectKey{Name: pool}, p); err != nil {
			t.Fatal(err)
		}
		p.Spec.Template.NodeClassRef.Name = "another"
		if err := r.api.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if class, _ = lookAtClass(t, r.api, loop); class.Name != "" {
		t.Errorf("the class stays with finalizers %v although no pool refers to it", class.Finalizers)
	}
}

func TestAClassThatNobodyUsesHasNoFinalizer(t *testing.T) {
	pool := nodePool(1, 1)
	r := newRig(t, awsClass(), pool)
	loop := r.classLoop()
	lookAtClass(t, r.api, loop)
	pool = r.pool()
	pool.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: "Other", Name: "class"}
	if err := r.api.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	class, _ := lookAtClass(t, r.api, loop)
	if len(class.Finalizers) > 0 || !meta.IsStatusConditionFalse(class.Status.Conditions, v1alpha1.ConditionInUse) {
		t.Errorf("finalizers %v, conditions %v", class.Finalizers, class.Status.Conditions)
	}
}

func TestAPoolOfAKindThatIsNotServedSaysSo(t *testing.T) {
	r := newRig(t, nodePool(1, 1, func(p *v1alpha1.NodePool) { p.Spec.Template.NodeClassRef.Kind = "Other" }))
	r.sweep()
	r.reconcilePool()
	got := meta.FindStatusCondition(r.pool().Status.Conditions, v1alpha1.ConditionNodeClassReady)
	if got.Status != metav1.ConditionFalse || got.Reason != string(v1alpha1.ReasonNodeClassNotServed) ||
		!strings.Contains(got.Message, "launches from AWSNodeClass") {
		t.Errorf("NodeClassReady is %+v", got)
	}
}

// TestAPoolIsReadyOnceItsClassIs: a class that was created a moment ago says nothing about itself
// yet. The pool passes on what is known, and no more.
func TestAPoolIsReadyOnceItsClassIs(t *testing.T) {
	for name, c := range map[string]struct {
		class metav1.ConditionStatus
		want  metav1.ConditionStatus
		// why is the reason of NodeClassReady, ready that of the pool's own Ready.
		why, ready v1alpha1.Reason
	}{
		"the class has no condition Ready yet": {"", metav1.ConditionUnknown, v1alpha1.ReasonNodeClassNotResolved,
			v1alpha1.ReasonNodeClassNotResolved},
		"the class does not know": {metav1.ConditionUnknown, metav1.ConditionUnknown, v1alpha1.ReasonNodeClassNotResolved,
			v1alpha1.ReasonNodeClassNotResolved},
		"the class is not ready": {metav1.ConditionFalse, metav1.ConditionFalse, v1alpha1.ReasonNodeClassNotReady,
			v1alpha1.ReasonNodeClassNotReady},
		"the class is ready": {metav1.ConditionTrue, metav1.ConditionTrue, v1alpha1.ReasonNodeClassFound,
			v1alpha1.ReasonPoolReady},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0))
			if c.class == "" {
				if err := r.api.Create(t.Context(), awsClass()); err != nil {
					t.Fatal(err)
				}
			} else {
				r.class(c.class, "words of the class")
			}
			r.sweep()
			r.reconcilePool()
			got := map[string]metav1.Condition{}
			for _, is := range r.pool().Status.Conditions {
				got[is.Type] = is
			}
			class, ready := got[v1alpha1.ConditionNodeClassReady], got[v1alpha1.ConditionReady]
			if class.Status != c.want || class.Reason != string(c.why) {
				t.Errorf("NodeClassReady is %+v, want %s for %s", class, c.want, c.why)
			}
			if ready.Status != c.want || ready.Reason != string(c.ready) {
				t.Errorf("Ready is %+v, want %s for %s", ready, c.want, c.ready)
			}
		})
	}
}
