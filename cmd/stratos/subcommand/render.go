package subcommand

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/userdata"
)

func renderCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "render", Short: "Print what Stratos would send to the cloud", Args: cobra.NoArgs}
	cmd.AddCommand(renderUserData())
	return cmd
}

func renderUserData() *cobra.Command {
	var kubeconfig, file, class, pool string
	cmd := &cobra.Command{
		Use:   "userdata",
		Short: "Print the user data with which the instances of a pool are launched",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := readObjects(cmd, kubeconfig, file)
			if err != nil {
				return err
			}
			return found.render(cmd.OutOrStdout(), cmd.ErrOrStderr(), class, pool)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&kubeconfig, "kubeconfig", "", kubeconfigUsage)
	fs.StringVarP(&file, "filename", "f", "", "file with an AWSNodeClass and a NodePool, - for stdin; default: the cluster's")
	fs.StringVar(&class, "class", "", "name of the AWSNodeClass; default: the one that the pool refers to")
	fs.StringVar(&pool, "pool", "", "name of the NodePool; default: the only one")
	return cmd
}

// objects are what there is to choose from.
type objects struct {
	classes []v1alpha1.AWSNodeClass
	pools   []v1alpha1.NodePool
}

func readObjects(cmd *cobra.Command, kubeconfig, file string) (objects, error) {
	switch file {
	case "":
		c, err := newClient(kubeconfig)
		if err != nil {
			return objects{}, err
		}
		return objectsOfCluster(cmd.Context(), c)
	case "-":
		return objectsOfFile(cmd.InOrStdin())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return objects{}, fmt.Errorf("-f: %w", err)
	}
	return objectsOfFile(bytes.NewReader(text))
}

func objectsOfCluster(ctx context.Context, c client.Reader) (objects, error) {
	classes, pools := &v1alpha1.AWSNodeClassList{}, &v1alpha1.NodePoolList{}
	err := errors.Join(c.List(ctx, classes), c.List(ctx, pools))
	return objects{classes.Items, pools.Items}, err
}

// objectsOfFile leaves out objects of other kinds. A field that is not known is an error, because
// it would be missing in what is printed.
func objectsOfFile(r io.Reader) (objects, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return objects{}, err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(r))
	var found objects
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err == nil {
			err = found.add(decoder, document)
		}
		if err != nil {
			return objects{}, fmt.Errorf("-f: document %d: %w", n, err)
		}
	}
}

func (o *objects) add(decoder runtime.Decoder, document []byte) error {
	if text, err := yaml.ToJSON(document); err != nil || string(text) == "null" {
		return err
	}
	object, _, err := decoder.Decode(document, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil
	}
	switch object := object.(type) {
	case *v1alpha1.AWSNodeClass:
		o.classes = append(o.classes, *object)
	case *v1alpha1.NodePool:
		o.pools = append(o.pools, *object)
	}
	return err
}

// render prints the user data of a launch, byte for byte. What a person should know of it goes to
// warnings.
func (o *objects) render(out, warnings io.Writer, className, poolName string) error {
	pool, poolErr := choose(o.pools, poolName, (*v1alpha1.NodePool).GetName, "--pool", "NodePool")
	if poolErr != nil && (poolName != "" || className == "" && len(o.pools) > 0) {
		return poolErr
	}
	class, err := o.classOf(pool, className)
	if err != nil {
		return err
	}
	if class.Spec.Bootstrap != nil && poolErr != nil {
		return poolErr
	}
	text, err := userDataOf(class, pool)
	if err != nil {
		return fmt.Errorf("AWSNodeClass %s: %w", class.Name, err)
	}
	if class.Spec.BootstrapFamily() == v1alpha1.FamilyKubeadm {
		fmt.Fprintf(warnings, "stratos: %s is not a real token: each launch has one of its own\n", userdata.PlaceholderToken)
	}
	_, err = io.WriteString(out, text)
	return err
}

// classOf is the class of that name, else the one that the pool refers to, else the only one.
func (o *objects) classOf(pool *v1alpha1.NodePool, name string) (*v1alpha1.AWSNodeClass, error) {
	at := "--class"
	if name == "" && pool != nil {
		ref := pool.Spec.Template.NodeClassRef
		if ref.Kind != v1alpha1.KindAWSNodeClass {
			return nil, fmt.Errorf("NodePool %s: spec.template.nodeClassRef.kind is %s, which has no user data", pool.Name, ref.Kind)
		}
		at, name = fmt.Sprintf("NodePool %s: spec.template.nodeClassRef.name", pool.Name), ref.Name
	}
	return choose(o.classes, name, (*v1alpha1.AWSNodeClass).GetName, at, "AWSNodeClass")
}

// choose returns the object of that name, or the only one where no name is given. at is what an
// error blames.
func choose[T any](all []T, name string, nameOf func(*T) string, at, kind string) (*T, error) {
	if name == "" && len(all) == 1 {
		return &all[0], nil
	}
	var names []string
	for i := range all {
		if nameOf(&all[i]) == name {
			return &all[i], nil
		}
		names = append(names, nameOf(&all[i]))
	}
	if name == "" && len(all) > 0 {
		slices.Sort(names)
		return nil, fmt.Errorf("%s must be set to one of: %s", at, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%s: there is no %s", at, strings.TrimSpace(kind+" "+name))
}

// userDataOf is what a launch sends, with a placeholder for its token. What the class leaves out of
// the cluster is taken from its status. The pool is nil only where the class has no bootstrap.
func userDataOf(class *v1alpha1.AWSNodeClass, pool *v1alpha1.NodePool) (string, error) {
	if class.Spec.Bootstrap == nil {
		return class.Spec.UserData, nil
	}
	family := class.Spec.BootstrapFamily()
	if family == "" {
		return "", errors.New("spec.bootstrap.family must be set: amiSelector has no alias that says it")
	}
	cluster := class.Spec.Bootstrap.Cluster
	if resolved := class.Status.Bootstrap; resolved != nil {
		cluster = cluster.Or(resolved.Cluster)
	}
	if missing := cluster.Missing(family); len(missing) > 0 {
		return "", fmt.Errorf("spec.bootstrap.cluster lacks %s, and so does status.bootstrap: set what is missing, or "+
			"take the class from a cluster in which it is Ready", inWords(missing))
	}
	r := provider.RegistrationOf(pool)
	r.BootstrapToken = userdata.PlaceholderToken
	text, err := userdata.OfLaunch(&class.Spec, &v1alpha1.BootstrapStatus{Family: family, Cluster: cluster}, r)
	var invalid *provider.InvalidConfigError
	if errors.As(err, &invalid) {
		return "", fmt.Errorf("%s: %s", invalid.Field, invalid.Reason)
	}
	return text, err
}

func inWords(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
