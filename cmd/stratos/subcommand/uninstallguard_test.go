package subcommand

import (
	"bytes"
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
		pools: []v1alpha1.NodePool{countedPool("web", v1alpha1.KindAWSNodeClass, 3, 2), countedPool("ci", v1alpha1.KindAWSNodeClass, 2, 2),
			countedPool("local", v1alpha1.KindKindNodeClass, 1, 0)},
		classes: []v1alpha1.AWSNodeClass{classWith("web", "20Gi", 20, 80), classWith("ci", "30Gi"),
			classWith("local", "9Gi")},
	}
	var out bytes.Buffer
	err := guardUninstall(t.Context(), api, &out, helmRelease{"warm", "pools", 7})
	if !errors.Is(err, errPoolsExist) {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{
		"ci      2           2         60 GiB or more\n", "web     3           2         300 GiB or more\n",
		"local   1           0         unknown\n", "kubectl delete nodepools --all --wait\n",
		"helm uninstall warm --namespace pools --no-hooks\n", "helm rollback warm 7 --namespace pools\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
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
			var out bytes.Buffer
			if err := guardUninstall(t.Context(), c.api, &out, helmRelease{}); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if out.Len() > 0 {
				t.Errorf("it says %q", out.String())
			}
		})
	}
}
