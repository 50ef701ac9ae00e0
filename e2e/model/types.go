package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Classes with fallback types: a cloud that runs out of a type in a zone, and stopped instances
// that are made other types.

// The instance types: all instances of classes without fallback types are of the first one.
const (
	instanceType = "m5.large"
	sameSize     = "m5a.large"
	larger       = "m6i.xlarge"
	// scant has what the first type has, and its kubelets keep a core more for themselves.
	scant = "m6i.scant"
)

// typeNames are all types, the first one first.
func typeNames() []string { return []string{instanceType, sameSize, larger, scant} }

// fallbackLists are what classes may have.
func fallbackLists() [][]string {
	return [][]string{{sameSize}, {sameSize, larger}, {larger, sameSize}, {scant, larger}, {scant}, {larger}}
}

// coresOf is what nodes of the type offer.
func coresOf(kind string) int64 {
	switch kind {
	case larger:
		return nodeCPU + 2
	case scant:
		return nodeCPU - 1
	}
	return nodeCPU
}

// familyOf is what a quota counts.
func familyOf(kind string) string {
	family, _, _ := strings.Cut(kind, ".")
	return strings.TrimSuffix(family, "a")
}

var errNoneLeft = errors.New("none left")

// offering is what the cloud runs out of. In is the reservation without which a start is refused,
// "" for none.
type offering struct{ zone, kind, in string }

func (o offering) String() string {
	if o.in == "" {
		return o.kind + " in " + o.zone
	}
	return o.kind + " in " + o.zone + ", reserved " + o.in
}

// typePlay is how a world plays types.
type typePlay struct {
	// played: the classes have fallback types, and Nodes the labels of theirs.
	played bool
	// refusedAt is where the cloud finds that a type is none for some of the instances.
	refusedAt refusal
}

// refusal is where the cloud refuses a fallback type to each third instance.
type refusal int

const (
	refusedNowhere refusal = iota
	refusedAtChange
	refusedAtStart
)

// refuses reports whether the fallback type is none for the instance.
func (t *typePlay) refuses(i *instance, kind string, at refusal) bool {
	n := slices.Index(typeNames(), kind)
	return t.refusedAt == at && n > 0 && (i.number+n)%3 == 0
}

func typeOperations() map[string]kindOfOperation {
	return map[string]kindOfOperation{ // drawn by withTypes
		"types": {0, [4]int{5, 4}, (*World).setTypes},
		"dry":   {0, [4]int{2, 5, 900, 3}, (*World).dryOut},
		"deny":  {0, [4]int{300}, func(w *World, a [4]int) { w.trouble.denied = w.now.Add(secondsOf(a[0])) }},
	}
}

// withTypes gives the classes of a quarter of the traces fallback types, and has offerings go dry.
// Dice of its own leave the others as they were.
func withTypes(t Trace) Trace {
	if t.Seed%4 != 0 {
		return t
	}
	dice, all := rand.New(rand.NewPCG(t.Seed, 0x85ebca6b)), operations() //nolint:gosec // dice, not secrets
	put := func(name string) {
		at := 2 + dice.IntN(len(t.Operations)-1)
		t.Operations = slices.Insert(t.Operations, at, drawn(dice, all, name, someWait(dice)))
	}
	for range 3 + dice.IntN(5) {
		put("dry")
	}
	for range 2 + dice.IntN(3) {
		put("pods") // for which nodes start meanwhile
	}
	if dice.IntN(4) == 0 {
		put("deny")
	}
	t.Operations = slices.Insert(t.Operations, 0, drawn(dice, all, "types", 0))
	if dice.IntN(2) == 0 {
		t.Operations = append(t.Operations, squeezed(dice, all)...)
	}
	return t
}

// squeezed has the cloud run out of the first type for long, with pods that come in waves: what the
// first nodes show of the type as which they start is known when the next ones are asked for.
func squeezed(dice *rand.Rand, all map[string]kindOfOperation) []Operation {
	out := []Operation{{Wait: 5 * time.Minute, Name: "dry", Args: [4]int{2, 0, 900}}}
	for range 2 + dice.IntN(2) {
		pods := drawn(dice, all, "pods", time.Duration(1+dice.IntN(90))*time.Second)
		pods.Args[0], pods.Args[2] = dice.IntN(2), 2 // one or two, in whichever pool
		out = append(out, pods)
	}
	return out
}

// setTypes gives both classes fallback types, all of which their loop has found usable. The second
// number says where some of them are refused.
func (w *World) setTypes(a [4]int) {
	w.types = typePlay{played: true, refusedAt: []refusal{refusedNowhere, refusedNowhere, refusedNowhere,
		refusedAtChange, refusedAtStart}[a[1]]}
	for _, name := range []string{classOf(poolNamed(0)), classOf(poolNamed(1))} {
		class := w.api.class(name).DeepCopy()
		class.Spec.FallbackInstanceTypes = fallbackLists()[a[0]]
		class.Generation++
		class.Status.ObservedGeneration, class.Status.InstanceTypes = class.Generation, nil
		class.Status.Capacity = corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(nodeCPU, resource.DecimalSI),
		}
		for _, kind := range class.Spec.NamedTypes() {
			class.Status.InstanceTypes = append(class.Status.InstanceTypes,
				v1alpha1.InstanceTypeStatus{Type: kind, Usable: true})
		}
		w.api.put(kindClass, class)
	}
}

func (s *server) class(name string) *v1alpha1.AWSNodeClass {
	c, _ := s.objects[kindClass][key{Name: name}].(*v1alpha1.AWSNodeClass)
	return c
}

// dryOut has the cloud run out of a type for some seconds, in one zone of each region or in
// both, or the account has used up the quota of its family. The first type is drawn more often
// than others.
func (w *World) dryOut(a [4]int) {
	kind, until := typeNames()[a[1]%len(typeNames())], w.now.Add(secondsOf(a[2]))
	if a[1] >= len(typeNames()) {
		kind = instanceType
	}
	if a[3] == 1 {
		w.trouble.quotas[familyOf(kind)] = until
		return
	}
	for _, region := range regionNames() {
		for n, zone := range zoneNames(region) {
			if a[0] == n || a[0] == 2 {
				w.trouble.dry[offering{zone: zone, kind: kind}] = until
			}
		}
	}
}

// noneOf is the cloud's answer where it has none of the type in the zone, nil where it has.
func (w *World) noneOf(zone, kind string) error {
	t := &w.trouble
	quota := w.now.Before(t.quotas[familyOf(kind)])
	if w.now.Before(t.scarce[zone]) || w.now.Before(t.dry[offering{zone: zone, kind: kind}]) || quota {
		return &provider.InsufficientCapacityError{Zone: zone, Type: kind, Quota: quota, Err: errNoneLeft}
	}
	return nil
}

// isShort reports whether the cloud has none of something.
func (t *trouble) isShort(now time.Time) bool {
	isShort := now.Before
	return slices.ContainsFunc(slices.Collect(maps.Values(t.scarce)), isShort) ||
		slices.ContainsFunc(slices.Collect(maps.Values(t.dry)), isShort) ||
		slices.ContainsFunc(slices.Collect(maps.Values(t.quotas)), isShort)
}

// startIn is the reservation in which a start of the instance has power, "" for On-Demand capacity,
// or the cloud's answer where it refuses the start.
func (w *World) startIn(p *process, i *instance) (string, error) {
	if w.types.refuses(i, i.kind(), refusedAtStart) {
		w.rules.typeRefused(p, i, i.kind())
		return "", &provider.InvalidConfigError{Field: "instance " + string(i.id), Reason: "the type is not supported"}
	}
	return w.placed(i.uses(), i.zone, i.kind())
}

var _ provider.TypeChanger = (*cloudClient)(nil)

// ChangeInstanceType implements provider.TypeChanger.
func (c *cloudClient) ChangeInstanceType(_ context.Context, id, kind string) error {
	return c.p.cloudWrite(fmt.Sprintf("make %s %s", id, kind), func() error {
		i, err := c.instance(id)
		if err != nil {
			return err
		}
		w := c.p.w
		w.rules.changesType(c.p, i, kind)
		switch {
		case w.now.Before(w.trouble.denied):
			return &provider.UnauthorizedError{Operation: "ModifyInstanceAttribute", Reason: "denied"}
		case i.kind() == kind:
			return nil
		case i.state() != provider.InstanceStopped:
			return &provider.IncorrectStateError{ID: id, State: i.state(), Op: "change the type of"}
		case w.types.refuses(i, kind, refusedAtChange):
			w.rules.typeRefused(c.p, i, kind)
			return &provider.InvalidConfigError{Field: "instance " + id, Reason: "the type is not supported"}
		}
		w.cloud.retype(i, kind)
		return nil
	})
}

// SharesQuota implements provider.TypeChanger.
func (c *cloudClient) SharesQuota(one, other string) bool { return familyOf(one) == familyOf(other) }

// retype makes the stopped instance another type.
func (c *cloud) retype(i *instance, kind string) {
	c.alter(i, func(m *moment) { m.kind = kind })
}

// labelType has a Node that registers carry the labels that the cloud controller initialises it
// with.
func (w *World) labelType(n *corev1.Node, i *instance) {
	if w.types.played || w.reservations.played {
		n.Labels[corev1.LabelInstanceType], n.Labels[corev1.LabelInstanceTypeStable] = i.kind(), i.kind()
	}
}

// reportCores has the kubelet report what it offers by the type of its machine.
func (w *World) reportCores(n *corev1.Node, i *instance) {
	n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
	n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(coresOf(i.kind()), resource.DecimalSI)
}

// copyTypeLabel is the cloud controller: it copies the old label of the type over the stable one,
// and never asks the cloud again.
func (w *World) copyTypeLabel(n *corev1.Node) {
	name, old := n.Name, n.Labels[corev1.LabelInstanceType]
	if old == "" || old == n.Labels[corev1.LabelInstanceTypeStable] {
		return
	}
	w.after(w.between(100*time.Millisecond, 5*time.Second), func() {
		w.api.editNode(name, func(n *corev1.Node) {
			if old := n.Labels[corev1.LabelInstanceType]; old != "" {
				n.Labels[corev1.LabelInstanceTypeStable] = old
			}
		})
	})
}

// coresOn is what the node of the pod's name has by the type of its machine.
func (w *World) coresOn(n *corev1.Node) int64 {
	if i := w.machineOf(n); i != nil {
		return coresOf(i.kind())
	}
	return nodeCPU
}
