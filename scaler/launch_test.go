package scaler

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// classCloud notes what it is asked to launch, and answers for classes as it is told.
type classCloud struct {
	req provider.LaunchRequest
	// asked counts the looks at a class; found and refusal are the answer.
	asked   int
	found   v1alpha1.AWSNodeClassStatus
	refusal error
}

func (l *classCloud) LaunchInstance(_ context.Context, _ *v1alpha1.AWSNodeClass,
	req provider.LaunchRequest) (*provider.Instance, error) {
	l.req = req
	return &provider.Instance{}, nil
}

func (l *classCloud) ResolveNodeClass(context.Context, *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus, error) {
	l.asked++
	if l.refusal != nil {
		return v1alpha1.AWSNodeClassStatus{}, l.refusal
	}
	return *l.found.DeepCopy(), nil
}

func TestALaunchIsTaggedWithWhatItIsMadeFrom(t *testing.T) {
	class := &v1alpha1.AWSNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class"}, Spec: v1alpha1.AWSNodeClassSpec{Region: "r", InstanceType: "m5.large"},
		Status: v1alpha1.AWSNodeClassStatus{AMI: "ami-1"},
	}
	r := newRig(t, class)
	kinds := r.pools.Classes
	tags := map[string]string{"a": "b"}
	if _, err := kinds.Launch(t.Context(), v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "class"},
		provider.LaunchRequest{Tags: tags}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "b", v1alpha1.AnnotationNodeClassHash: class.Spec.Hash(),
		v1alpha1.AnnotationAMI: "ami-1"}
	if diff := cmp.Diff(want, r.cloud.req.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if len(tags) != 1 {
		t.Errorf("the caller's tags became %v", tags)
	}
	_, err := kinds.Launch(t.Context(), v1alpha1.NodeClassRef{Kind: "Other", Name: "class"}, provider.LaunchRequest{})
	if !provider.IsInvalidConfig(err) || !strings.Contains(err.Error(),
		"Other is not served by the running cloud provider, which launches from AWSNodeClass") {
		t.Errorf("a class of another cloud: error %v", err)
	}
}
