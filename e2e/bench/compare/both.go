package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

const (
	poolName = "bench"
	// maxPods is what the largest pool of Stratos's, of 1000 nodes, surely holds.
	maxPods = 3000
	// podCPU: three of them fill a machine of four cpu, Stratos's and Karpenter's alike, whose
	// provider keeps a part for the system.
	podCPU, podsPerNode = "1200m", 3
	// boot is how long machines of both boot: longer than a burst takes, as real ones. Else nodes open
	// and pods are bound while the last machines are still to be asked for, on the same two cores.
	boot = 10 * time.Second
)

// both is a cluster with both autoscalers.
type both struct {
	*env.Env
	karpenter *controlplane.Process
	version   string
	progress  io.Writer
}

// compare plays the plan, Stratos and Karpenter in turn.
func compare(ctx context.Context, plan []stage, idle time.Duration, report *figures.Report,
	progress io.Writer) (err error) {
	s, err := env.New(ctx, env.Options{Progress: progress, Cloud: env.BootsIn(boot)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b := &both{Env: s, progress: progress}
	most := 0
	for _, st := range plan {
		most = max(most, st.pods)
	}
	if err := b.prepare(ctx, nodesFor(most)+1); err != nil {
		return err
	}
	report.Settings = append(report.Settings, b.settings()...)
	if err := b.idle(ctx, idle, report); err != nil {
		return err
	}
	for _, st := range plan {
		if err := b.play(ctx, st, report); err != nil {
			return fmt.Errorf("%d pods: %w", st.pods, err)
		}
	}
	return nil
}

func nodesFor(pods int) int { return (pods + podsPerNode - 1) / podsPerNode }

// settings are those of both.
func (b *both) settings() []figures.Setting {
	return []figures.Setting{
		{Name: "Stratos", Value: "this checkout, started with " + fmt.Sprint(b.StratosArgs()) +
			", all else at its defaults; its scheduler has the generated profile"},
		{Name: "Karpenter", Value: b.version +
			", its own provider for KWOK, at its defaults: it collects pods until none came for 1 s, at most 10 s (batch-idle-duration, batch-max-duration); " +
			"one NodePool, machines of 4 cpu, no consolidation; its pods' scheduler has all filters and no extender, and is throttled as little as the other"},
		{Name: "pods", Value: fmt.Sprintf("%s cpu each, %d to a node; created by %d clients at once", podCPU, podsPerNode,
			env.Clients)},
	}
}

// prepare starts schedulers and Karpenter, with the separation that docs/karpenter.md tells people
// to make.
func (b *both) prepare(ctx context.Context, standby int) error {
	if _, err := b.StartOurs(ctx); err != nil {
		return err
	}
	// Not the stock configuration: its client's limit of 50 requests a second would be what Karpenter
	// waits for.
	if _, err := b.StartPlain(ctx); err != nil {
		return err
	}
	built, err := framework.BuildKarpenter(ctx, b.progress)
	if err != nil {
		return err
	}
	b.version = built.Version
	if b.karpenter, err = b.StartKarpenter(ctx); err != nil {
		return err
	}
	taint := corev1.Taint{Key: v1alpha1.TaintDedicated, Value: poolName, Effect: corev1.TaintEffectNoSchedule}
	if err := b.Warm(ctx, poolName, standby,
		func(p *v1alpha1.NodePool) { p.Spec.Template.Taints = []corev1.Taint{taint} }); err != nil {
		return err
	}
	return b.offerKarpentersNodes(ctx)
}

func (b *both) offerKarpentersNodes(ctx context.Context) error {
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": map[string]any{"name": "general"},
		"spec": map[string]any{"nodeRegistrationDelay": boot.String()},
	}}
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "general"},
		"spec": map[string]any{
			"disruption": map[string]any{"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
			"template": map[string]any{"spec": map[string]any{
				"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "general"},
				"requirements": []any{
					map[string]any{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In",
						"values": []any{fmt.Sprint(env.NodeCPU)}},
					map[string]any{"key": corev1.LabelArchStable, "operator": "In", "values": []any{"amd64"}},
					map[string]any{"key": corev1.LabelOSStable, "operator": "In", "values": []any{"linux"}},
				},
			}},
		},
	}}
	for _, o := range []client.Object{class, pool} {
		if err := b.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("create Karpenter's %s: %w", o.GetObjectKind().GroupVersionKind().Kind, err)
		}
	}
	return b.AwaitTrue(ctx, pool, "Ready")
}

// nodeClaims is an empty list of them.
func nodeClaims() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"})
	return list
}
