package subcommand

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// pools is an API server with these pools and classes.
type pools struct {
	client.Reader
	pools   []v1alpha1.NodePool
	classes []v1alpha1.AWSNodeClass
	err     error
}

func (p pools) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.NodePoolList:
		list.Items = p.pools
	case *v1alpha1.AWSNodeClassList:
		list.Items = p.classes
	}
	return p.err
}

func countedPool(name, kind string, total, standby int32) v1alpha1.NodePool {
	p := v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: kind, Name: name}
	p.Status.Total, p.Status.Standby = total, standby
	return p
}

func classWith(name string, storage string, sizes ...int32) v1alpha1.AWSNodeClass {
	c := v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, size := range sizes {
		c.Spec.BlockDeviceMappings = append(c.Spec.BlockDeviceMappings, v1alpha1.BlockDeviceMapping{VolumeSize: &size})
	}
	c.Status.Capacity = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(storage)}
	return c
}

// TestPoolsKeepStratosFromBeingUninstalled: what the guard says is all that the user sees.
func TestPoolsKeepStratosFromBeingUninstalled(t *testing.T) {
	api := pools{
		pools: []v1alpha1.NodePool{countedPool("web", v1alpha1.KindAWSNodeClass, 3, 2),
			countedPool("ci", v1alpha1.KindAWSNodeClass, 2, 2), countedPool("local", v1alpha1.KindKindNodeClass, 1, 0)},
		classes: []v1alpha1.AWSNodeClass{classWith("web", "20Gi", 20, 80), classWith("ci", "30Gi"),
			classWith("local", "9Gi")},
	}
	err := guardUninstall(t.Context(), api, helmRelease{"warm", "pools", 7})
	if err == nil {
		t.Fatal("it can be uninstalled")
	}
	for _, want := range []string{
		"\npool ci: 2 instances, 2 of them stopped, 60 GiB of volumes or more\npool local: 1 instances, 0 of them stopped\n" +
			"pool web: 3 instances, 2 of them stopped, 300 GiB of volumes or more\n",
		"kubectl delete nodepools --all --wait\n", "helm uninstall warm --namespace pools --no-hooks\n",
		"helm rollback warm 7 --namespace pools",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

// TestWithoutPoolsStratosCanBeUninstalled: also where the definitions are gone. An API server that
// does not answer says nothing about pools.
func TestWithoutPoolsStratosCanBeUninstalled(t *testing.T) {
	unavailable := errors.New("the API server does not answer")
	for name, c := range map[string]struct {
		api  pools
		want error
	}{
		"no pool":       {},
		"no definition": {api: pools{err: &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "NodePool"}}}},
		"no answer":     {api: pools{err: unavailable}, want: unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			if err := guardUninstall(t.Context(), c.api, helmRelease{}); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}
