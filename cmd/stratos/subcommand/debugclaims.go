package subcommand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func debug() *cobra.Command {
	cmd := &cobra.Command{Use: "debug", Short: "Look into what Stratos does", Args: cobra.NoArgs}
	cmd.AddCommand(debugClaims())
	return cmd
}

func debugClaims() *cobra.Command {
	var kubeconfig, namespace string
	cmd := &cobra.Command{
		Use:   "claims [pod]",
		Short: "Show the claimed node of each pending pod, or why it waits",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newClient(kubeconfig)
			if err != nil {
				return err
			}
			pod := ""
			if len(args) > 0 {
				pod = args[0]
			}
			return explainClaims(cmd.Context(), c, cmd.OutOrStdout(), namespace, pod, time.Now())
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", kubeconfigUsage)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the pods; default: all")
	return cmd
}

const kubeconfigUsage = "kubeconfig file; default: KUBECONFIG, else ~/.kube/config"

func newClient(kubeconfig string) (client.Client, error) {
	config, err := options.RESTConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// explainClaims prints a line for each pending pod. It reads what Stratos publishes: the claims on
// Nodes, and its events. So it needs no way to the processes, and says the same whichever replica
// made the claim.
func explainClaims(ctx context.Context, c client.Reader, out io.Writer, namespace, name string, now time.Time) error {
	pods, nodes, events := &corev1.PodList{}, &corev1.NodeList{}, &eventsv1.EventList{}
	in := client.InNamespace(namespace)
	err := errors.Join(c.List(ctx, pods, in), c.List(ctx, nodes, client.HasLabels{v1alpha1.LabelPool}),
		c.List(ctx, events, in))
	if err != nil {
		return err
	}
	promised := promisedNodes(nodes.Items)
	said := lastSaid(events.Items)
	table := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tPOD\tWAITS\tNODE\tSTATE\tWHY")
	found := false
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || name != "" && pod.Name != name {
			continue
		}
		found = true
		waits := now.Sub(pod.CreationTimestamp.Time).Round(time.Second)
		node, state, why := "-", "-", said[pod.UID]
		if n := promised[pod.UID]; n != nil {
			node, state = n.Name, n.Labels[v1alpha1.LabelState]
			why = "claimed, " + since(n, now)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", pod.Namespace, pod.Name, waits, node, state,
			cmp.Or(why, schedulerSays(pod)))
	}
	if !found && name != "" {
		return fmt.Errorf("no pod named %s waits", name)
	}
	return table.Flush()
}

func promisedNodes(nodes []corev1.Node) map[types.UID]*corev1.Node {
	out := map[types.UID]*corev1.Node{}
	for i := range nodes {
		for uid := range strings.SplitSeq(nodes[i].Annotations[v1alpha1.AnnotationClaims], ",") {
			out[types.UID(uid)] = &nodes[i]
		}
	}
	return out
}

func since(n *corev1.Node, now time.Time) string {
	started, err := time.Parse(time.RFC3339, n.Annotations[v1alpha1.AnnotationScaleUpStarted])
	if err != nil {
		return "the node has run since " + n.Annotations[v1alpha1.AnnotationRunningSince]
	}
	return fmt.Sprintf("the node has been starting for %s", now.Sub(started).Round(time.Second))
}

// lastSaid is the newest of Stratos's events on each pod.
func lastSaid(events []eventsv1.Event) map[types.UID]string {
	slices.SortFunc(events, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	out := map[types.UID]string{}
	for i := range events {
		if e := &events[i]; e.Regarding.Kind == "Pod" && strings.HasPrefix(e.ReportingController, "stratos") {
			out[e.Regarding.UID] = e.Reason + ": " + e.Note
		}
	}
	return out
}

func schedulerSays(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return "no scheduler has looked at it"
}
