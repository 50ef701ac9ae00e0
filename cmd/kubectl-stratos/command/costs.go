package command

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/follow"
	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/why"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// noCosts is what is said to a user who may not read node classes.
const noCosts = "You may not list awsnodeclasses.stratos.sh: what that would show is left out."

// noNodeTypes is what is said to a user who may not read nodes, where costs depend on their types.
const noNodeTypes = "You may not list nodes, and costs depend on their instance types: they are left out."

// prices are what costs follow from: the node classes that have a price, and the nodes of pools.
type prices struct {
	classes map[v1alpha1.NodeClassRef]*v1alpha1.AWSNodeClass
	nodes   map[string][]*metav1.PartialObjectMetadata // by pool
}

func pricesOf(classes []v1alpha1.AWSNodeClass, nodes []metav1.PartialObjectMetadata) prices {
	known := prices{map[v1alpha1.NodeClassRef]*v1alpha1.AWSNodeClass{}, map[string][]*metav1.PartialObjectMetadata{}}
	for i := range classes {
		if c := &classes[i]; c.Status.Price != nil {
			known.classes[v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: c.Name}] = c
		}
	}
	for i := range nodes {
		pool := nodes[i].Labels[v1alpha1.LabelPool]
		known.nodes[pool] = append(known.nodes[pool], &nodes[i])
	}
	return known
}

// costOf is what the nodes of the pool cost per hour, and its currency; "" where that is not known.
// The pool's status counts the nodes, with instances that have no Node yet; a node of another type
// of the class then costs what that type does.
func (p prices) costOf(pool *v1alpha1.NodePool) (amount float64, currency string) {
	class, known := p.classes[pool.Spec.Template.NodeClassRef]
	if !known {
		return 0, ""
	}
	amount = class.Status.Price.PoolCostPerHour(&pool.Status)
	for _, n := range p.nodes[pool.Name] {
		state := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
		if own := class.PriceOf(n.Labels[corev1.LabelInstanceTypeStable]); own != nil && state != "" {
			amount += own.PerHour(state) - class.Status.Price.PerHour(state)
		}
	}
	return max(amount, 0), class.Status.Price.Currency // the status may be older than the nodes
}

// cell is the cost of the pool in a table.
func (p prices) cell(pool *v1alpha1.NodePool) string {
	amount, currency := p.costOf(pool)
	if currency == "" {
		return none
	}
	return fmt.Sprintf("%.2f %s", amount, currency)
}

func classList() client.ObjectList { return &v1alpha1.AWSNodeClassList{} }

// namesTypes reports whether a class has fallback types, so that costs depend on the nodes.
func namesTypes(classes []v1alpha1.AWSNodeClass) bool {
	return slices.ContainsFunc(classes, func(c v1alpha1.AWSNodeClass) bool { return len(c.Status.InstanceTypes) > 0 })
}

// readPrices reads the prices, and says so where the user may not.
func (s *shared) readPrices(ctx context.Context, c client.Reader) (prices, error) {
	classes := &v1alpha1.AWSNodeClassList{}
	err := c.List(ctx, classes)
	if err == nil && namesTypes(classes.Items) {
		var nodes []metav1.PartialObjectMetadata
		if nodes, err = readNodes(ctx, c, nil, "", ""); err == nil {
			return pricesOf(classes.Items, nodes), nil
		}
		if apierrors.IsForbidden(err) {
			fmt.Fprintln(s.ErrOut, noNodeTypes)
			return prices{}, nil
		}
	}
	if apierrors.IsForbidden(err) {
		fmt.Fprintln(s.ErrOut, noCosts)
		return prices{}, nil
	}
	return pricesOf(classes.Items, nil), err
}

// followClasses follows the node classes; nil where the user may not read them.
func followClasses(ctx context.Context, lists *follow.Lists) (*follow.List, error) {
	classes, err := lists.Follow(ctx, &v1alpha1.AWSNodeClass{}, classList)
	if apierrors.IsForbidden(err) {
		return nil, nil //nolint:nilnil // what may not be read is left out
	}
	return classes, err
}

// followPrices follows the node classes and the nodes of pools, and says so where the user may not.
// A fallback type may come while it does, so that nodes are followed in any case.
func (s *shared) followPrices(ctx context.Context, lists *follow.Lists) (func() prices, error) {
	without := func() prices { return prices{} }
	classes, err := followClasses(ctx, lists)
	if err != nil {
		return nil, err
	}
	if classes == nil {
		fmt.Fprintln(s.ErrOut, noCosts)
		return without, nil
	}
	nodes, err := why.FollowNodes(ctx, lists, client.HasLabels{v1alpha1.LabelPool})
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	mayNot := err != nil
	if mayNot && namesTypes(follow.Items[v1alpha1.AWSNodeClass](classes)) {
		fmt.Fprintln(s.ErrOut, noNodeTypes)
	}
	return func() prices {
		known := follow.Items[v1alpha1.AWSNodeClass](classes)
		if mayNot {
			if namesTypes(known) {
				return prices{}
			}
			return pricesOf(known, nil)
		}
		return pricesOf(known, follow.Items[metav1.PartialObjectMetadata](nodes))
	}, nil
}
