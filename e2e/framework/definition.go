package framework

import (
	"bytes"
	"context"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
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
	return r.AwaitTrue(ctx, definition, "Established")
}
