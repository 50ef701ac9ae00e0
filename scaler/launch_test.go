package scaler

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// launches notes what it is asked to launch.
type launches struct {
	class *v1alpha1.AWSNodeClass
	req   provider.LaunchRequest
}

func (l *launches) LaunchInstance(_ context.Context, class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) (*provider.Instance, error) {
	l.class, l.req = class, req
	return &provider.Instance{}, nil
}

func TestALaunchIsTaggedWithWhatItIsMadeFrom(t *testing.T) {
	class := &v1alpha1.AWSNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class"}, Spec: v1alpha1.AWSNodeClassSpec{Region: "r", InstanceType: "m5.large"}, Status: v1alpha1.AWSNodeClassStatus{AMI: "ami-1"},
	}
	r := newRig(t, class)
	l := &launches{}
	launcher := &AWSLauncher{Reader: r.api, Cloud: l}
	tags := map[string]string{"a": "b"}
	if _, err := launcher.Launch(t.Context(), v1alpha1.NodeClassRef{Kind: "AWSNodeClass", Name: "class"}, provider.LaunchRequest{Tags: tags}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "b", v1alpha1.AnnotationNodeClassHash: class.Spec.Hash(), v1alpha1.AnnotationAMI: "ami-1"}
	if diff := cmp.Diff(want, l.req.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if len(tags) != 1 {
		t.Errorf("the caller's tags became %v", tags)
	}
	if _, err := launcher.Launch(t.Context(), v1alpha1.NodeClassRef{Kind: "Other", Name: "class"}, provider.LaunchRequest{}); !provider.IsInvalidConfig(err) {
		t.Errorf("a class of another cloud: error %v", err)
	}
}
