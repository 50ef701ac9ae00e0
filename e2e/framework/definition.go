package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defineFile creates the definition in the file and waits until the API server serves it.
func (r *Rig) defineFile(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("---\n"))),
		4096).Decode(&definition.Object); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, definition); err != nil {
		return err
	}
	return Until(ctx, HangGuard, func(ctx context.Context) (bool, error) {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(definition.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return true, err
			}
		}
		return false, errors.Join(err, fmt.Errorf("conditions %v", conditions))
	})
}
