package webhook

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// unreadable is an API server without the definition of a kind, or without permission for it. The
// cache of the kind would never be filled.
type unreadable struct {
	client.Reader
	t *testing.T
}

func (u unreadable) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	u.t.Errorf("%T is read", o)
	return nil
}

// TestClassesThatAreNotServedAreNotRead: the chart installs the definition of a node class, and the
// permissions for it, only with the cloud that launches from it.
func TestClassesThatAreNotServedAreNotRead(t *testing.T) {
	look := lookup{cached: unreadable{t: t}, live: unreadable{t: t}, kinds: []string{v1alpha1.KindAWSNodeClass}}
	class, err := look.class(t.Context(), v1alpha1.NodeClassRef{Kind: v1alpha1.KindKindNodeClass, Name: "small"})
	if class != nil || err != nil {
		t.Errorf("class %v, error %v; want none", class, err)
	}
}
