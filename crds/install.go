package crds

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	// fieldOwner is the server-side-apply owner of the definitions.
	fieldOwner = "stratos"
	// establishTimeout bounds the wait for one definition. A healthy API server needs well under a
	// second; one of several behind a load balancer waits 5 seconds for the others.
	establishTimeout = time.Minute
	// establishPoll is short, because the whole process waits for it at start.
	establishPoll = 200 * time.Millisecond
)

// Applier is the part of a controller-runtime client that Install needs. Its scheme need not know
// apiextensions.
type Applier interface {
	client.Reader
	Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error
}

// Install applies the definitions on the server, also where another manager owned their fields, and
// returns when the API server serves them all. It may be repeated, and by several replicas at once.
// It returns the API server's error, or one that says which definition was not established within a
// minute and why.
func Install(ctx context.Context, c Applier) error {
	var names []string
	for _, document := range documents() {
		crd := &unstructured.Unstructured{}
		// Unstructured, because a typed definition would also send its empty status.
		if err := yaml.UnmarshalStrict(document, &crd.Object); err != nil {
			return fmt.Errorf("decoding an embedded CustomResourceDefinition: %w", err)
		}
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner(fieldOwner),
			client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying CustomResourceDefinition %s: %w", crd.GetName(), err)
		}
		names = append(names, crd.GetName())
	}
	// All are applied before the first wait, so that the waits run side by side on the server.
	for _, name := range names {
		if err := waitEstablished(ctx, c, name); err != nil {
			return err
		}
	}
	return nil
}

func waitEstablished(ctx context.Context, c client.Reader, name string) error {
	last := "it was never read"
	err := wait.PollUntilContextTimeout(ctx, establishPoll, establishTimeout, true,
		func(ctx context.Context) (bool, error) {
			crd := &unstructured.Unstructured{}
			crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
				Kind: "CustomResourceDefinition"})
			if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
				// Not fatal: the definition may not be in this API server's cache yet. The last error is
				// reported at the end.
				last = err.Error()
				return false, nil //nolint:nilerr // kept in last
			}
			var done bool
			done, last = established(crd)
			return done, nil
		})
	if err != nil {
		return fmt.Errorf("CustomResourceDefinition %s is not established (%s): %w", name, last, err)
	}
	return nil
}

// established says whether the API server serves the definition, and if not, why.
func established(crd *unstructured.Unstructured) (bool, string) {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false, err.Error()
	}
	reason := "no condition yet"
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		switch {
		case condition["type"] == "Established" && condition["status"] == "True":
			return true, ""
		case condition["type"] == "NamesAccepted" && condition["status"] == "False":
			reason = fmt.Sprintf("names not accepted: %v", condition["message"])
		}
	}
	return false, reason
}
