package helm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/webhook"
)

var separator = regexp.MustCompile(`(?m)^---$\n?`)

// document checks the YAML or JSON of a block or a file: what the API server knows by a server-side
// dry run, what it does not know by types of its own.
func (r *reader) document(ctx context.Context, text string) error {
	var errs []error
	for _, part := range separator.Split(text, -1) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(part), &object.Object); err != nil {
			return fmt.Errorf("%w in\n%s", err, part)
		}
		errs = append(errs, r.object(ctx, object, part))
	}
	return errors.Join(errs...)
}

func (r *reader) object(ctx context.Context, object *unstructured.Unstructured, text string) error {
	kind := object.GroupVersionKind()
	switch {
	case object.Object["Statement"] != nil:
		return checkPolicy(text)
	case object.Object["containers"] != nil: // a part of a pod
		return r.dryRun(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "part", "namespace": "default"},
			"spec": object.Object}})
	case kind.Group == v1alpha1.GroupVersion().Group:
		return errors.Join(r.ours(kind.Kind, text), r.dryRun(ctx, object))
	case kind.Kind == "KubeSchedulerConfiguration":
		return r.schedulerConfiguration(text)
	}
	if into, ok := foreignKinds()[kind.GroupVersion().String()+" "+kind.Kind]; ok {
		if err := strictly(text, into); err != nil {
			return err
		}
		if machines, ok := into.(*kubeadmControlPlane); ok {
			return r.machineFiles(machines)
		}
		return nil
	}
	return r.dryRun(ctx, object)
}

// ours asks what the webhooks would, and takes a warning for a fault: an example should not need an
// excuse.
func (r *reader) ours(kind, text string) error {
	switch kind {
	case "AWSNodeClass":
		class := &v1alpha1.AWSNodeClass{}
		if err := strictly(text, class); err != nil {
			return err
		}
		webhook.DefaultAWSNodeClass(class)
		r.classes[class.Name] = class
		errs, warnings := webhook.ValidateAWSNodeClass(class, webhook.AWSNodeClassContext{})
		return errors.Join(errs.ToAggregate(), warned(warnings), checkUserData(class.Spec.UserData))
	case v1alpha1.KindKindNodeClass:
		class := &v1alpha1.KindNodeClass{}
		if err := strictly(text, class); err != nil {
			return err
		}
		r.classes[class.Name] = class
		errs, warnings := webhook.ValidateKindNodeClass(class, webhook.KindNodeClassContext{})
		return errors.Join(errs.ToAggregate(), warned(warnings))
	case "NodePool":
		pool := &v1alpha1.NodePool{}
		if err := strictly(text, pool); err != nil {
			return err
		}
		webhook.DefaultNodePool(pool)
		errs, warnings := webhook.ValidateNodePool(pool,
			webhook.NodePoolContext{Class: r.classes[pool.Spec.Template.NodeClassRef.Name]})
		return errors.Join(errs.ToAggregate(), warned(warnings))
	}
	return fmt.Errorf("no kind %q", kind)
}

func warned(warnings []string) error {
	if len(warnings) == 0 {
		return nil
	}
	return fmt.Errorf("warned of: %s", strings.Join(warnings, "; "))
}

// schedulerConfiguration wants a configuration to be what `stratos scheduler-config` has printed on
// the same page, to the letter.
func (r *reader) schedulerConfiguration(text string) error {
	printed, err := os.ReadFile(r.at(stratosFolder + "/scheduler.yaml"))
	if err != nil && text == r.checked[filepath.Join(r.home, "scheduler.yaml")] {
		return nil // the dedicated one, which the page does not show
	}
	if err != nil {
		return fmt.Errorf("nobody has generated this configuration: %w", err)
	}
	if text != string(printed) {
		return fmt.Errorf("this is not what stratos scheduler-config has printed:\n%s", printed)
	}
	return nil
}

// machineFiles wants every file to come from a key that the page puts into the Secret, and the
// commands to use such files.
func (r *reader) machineFiles(machines *kubeadmControlPlane) error {
	var paths []string
	for _, file := range machines.Spec.KubeadmConfigSpec.Files {
		from := file.ContentFrom.Secret
		if !slices.Contains(r.secrets[from.Name], from.Key) {
			return fmt.Errorf("%s: the Secret %q has the keys %q, not %q", file.Path, from.Name, r.secrets[from.Name], from.Key)
		}
		paths = append(paths, file.Path)
	}
	for _, command := range machines.Spec.KubeadmConfigSpec.PostKubeadmCommands {
		words := strings.Fields(command)
		if len(words) != 3 || words[0] != "cp" || !slices.Contains(paths, words[1]) ||
			words[2] != "/etc/kubernetes/manifests/" {
			return fmt.Errorf("%q: want cp, one of %q, and the folder of static pods", command, paths)
		}
	}
	return nil
}
