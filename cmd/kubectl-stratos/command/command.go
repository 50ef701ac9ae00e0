// Package command holds the commands of kubectl-stratos.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// shared is what all commands have.
type shared struct {
	genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	version string
	now     func() time.Time
}

// completer is the name under which kubectl calls the plugin for completions.
const completer = "kubectl_complete-stratos"

// Main runs the plugin in a process that was called with the arguments, of which the first is its
// name, and returns its exit code.
func Main(ctx context.Context, version string, args []string) int {
	// Errors are told once, by this function.
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	root := New(version, os.Stdin, os.Stdout, os.Stderr) //nolint:contextcheck // each command takes that of ExecuteContext
	called, args := strings.TrimSuffix(filepath.Base(args[0]), ".exe"), args[1:]
	if called == completer {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, Words(err))
		return 1
	}
	return 0
}

// New returns the command with its subcommands.
func New(version string, in io.Reader, out, errs io.Writer) *cobra.Command {
	s := &shared{
		IOStreams: genericiooptions.IOStreams{In: in, Out: out, ErrOut: errs},
		flags:     genericclioptions.NewConfigFlags(true), version: version, now: time.Now,
	}
	root := &cobra.Command{
		Use:           "kubectl-stratos",
		Short:         "Look at Stratos: pending pods, pools and their nodes",
		SilenceUsage:  true,
		SilenceErrors: true,
		// What kubectl users type; the plugin's own name has a hyphen.
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl stratos"},
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	s.flags.AddFlags(root.PersistentFlags())
	root.AddCommand(s.top(), s.why(), s.pools(), s.nodes(), s.starts(), s.pause(), s.resume(), s.replace(), s.check(),
		s.versions())
	return root
}

// Words are those of the error for the terminal: an answer of the API server is told as kubectl
// does.
func Words(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return fmt.Sprintf("Error from server (%s): %s", status.Status().Reason, err)
	}
	return "error: " + err.Error()
}

// client returns one for the cluster that the flags choose.
func (s *shared) client() (client.WithWatch, error) {
	config, err := s.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = "kubectl-stratos/" + s.version
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// explain turns the error of a cluster without the definitions of Stratos into one that says so.
func (s *shared) explain(err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	name := s.context()
	if name == "" {
		return fmt.Errorf("the cluster has no NodePools: Stratos is not installed there")
	}
	return fmt.Errorf("the cluster of context %q has no NodePools: Stratos is not installed there", name)
}

// namespace is the one that the flags and the kubeconfig choose.
func (s *shared) namespace() (string, error) {
	name, _, err := s.flags.ToRawKubeConfigLoader().Namespace()
	return name, err
}

// completeNames offers the names of objects of the kind of the list, but those that were given.
func (s *shared) completeNames(list func() client.ObjectList, namespaced bool, options ...client.ListOption) func(
	*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, given []string, begin string) ([]string, cobra.ShellCompDirective) {
		c, err := s.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		chosen := slices.Clone(options)
		if namespaced {
			namespace, err := s.namespace()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			chosen = append(chosen, client.InNamespace(namespace))
		}
		found := list()
		if err := c.List(cmd.Context(), found, append(chosen, client.Limit(completed))...); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		_ = meta.EachListItem(found, func(o runtime.Object) error { // the function returns no error
			name := o.(client.Object).GetName()
			if strings.HasPrefix(name, begin) && !slices.Contains(given, name) {
				names = append(names, name)
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completed bounds the names that completion looks through.
const completed = 500

// metadataOf returns an empty list of the metadata of a kind of the core group.
func metadataOf(kind string) func() client.ObjectList {
	return func() client.ObjectList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		return list
	}
}

func poolList() client.ObjectList { return &v1alpha1.NodePoolList{} }
