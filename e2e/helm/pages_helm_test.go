package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"mvdan.cc/sh/v3/interp"
)

// Where the pages take charts from.
const (
	ourChart         = "oci://ghcr.io/stratos-sh/charts/stratos"
	certManagerChart = "oci://quay.io/jetstack/charts/cert-manager"
)

// runHelm runs both real ones, without changing anything: the flags have to be those of Helm 3 and
// of Helm 4. What it renders is sent to the API server with dry-run. cert-manager's chart is not
// here: of its installation only Helm's own flags are checked, by means of an empty chart.
func (r *reader) runHelm(ctx context.Context, shell interp.HandlerContext, args []string) error {
	switch verb := args[0]; verb {
	case "uninstall":
		_, err := r.bothHelms(ctx, shell, append(args, "--dry-run"))
		return err
	case "install", "upgrade":
		args = append(slices.Clone(args), "--dry-run=server", "-o", "json")
	default:
		return fmt.Errorf("the test does not know how to check helm %s", verb)
	}
	for i, arg := range args {
		switch arg {
		case ourChart:
			dir, err := filepath.Abs(tree.ChartDir())
			if err != nil {
				return err
			}
			args[i] = dir
			return r.rendered(ctx, shell, args)
		case certManagerChart:
			dir, err := r.emptyChart("cert-manager")
			if err != nil {
				return err
			}
			args[i] = dir
			_, err = r.bothHelms(ctx, shell, args)
			return err
		}
	}
	return fmt.Errorf("no chart that the test knows: %s or %s", ourChart, certManagerChart)
}

// bothHelms returns what Helm 4 prints.
func (r *reader) bothHelms(ctx context.Context, shell interp.HandlerContext, args []string) ([]byte, error) {
	out := make([]bytes.Buffer, len(r.helms))
	for i, path := range r.helms {
		if err := r.exec(ctx, shell, nil, &out[i], path, args...); err != nil {
			return nil, fmt.Errorf("by %s: %w", []Major{Helm4, Helm3}[i], err)
		}
	}
	return out[0].Bytes(), nil
}

func (r *reader) emptyChart(name string) (string, error) {
	dir := filepath.Join(r.home, ".charts", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "Chart.yaml"), fmt.Appendf(nil,
		"apiVersion: v2\nname: %s\nversion: 0.0.1\n", name), 0o600)
}

// rendered has Helm render and the API server validate every object.
func (r *reader) rendered(ctx context.Context, shell interp.HandlerContext, args []string) error {
	out, err := r.bothHelms(ctx, shell, args)
	if err != nil {
		return err
	}
	var release struct{ Manifest string }
	if err := json.Unmarshal(out, &release); err != nil {
		return fmt.Errorf("%w in what Helm prints: %s", err, out)
	}
	objects, err := Output{Manifest: release.Manifest}.Objects()
	if err != nil {
		return err
	}
	if len(find(objects, "Deployment")) != 1 {
		return fmt.Errorf("%d objects, and not one Deployment among them", len(objects))
	}
	var errs []error
	for _, object := range objects {
		errs = append(errs, r.dryRun(ctx, object))
	}
	return errors.Join(errs...)
}

// dryRun asks the API server whether it would take the object, with unknown fields as errors.
func (r *reader) dryRun(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := r.resource(object)
	if err != nil {
		return err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	force := true
	_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll},
		Force: &force})
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"),
			err)
	}
	return nil
}
