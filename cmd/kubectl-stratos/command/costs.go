package command

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/follow"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// noCosts is what is said to a user who may not read node classes.
const noCosts = "You may not list awsnodeclasses.stratos.sh: what that would show is left out."

// prices are those of the node classes that have one.
type prices map[v1alpha1.NodeClassRef]v1alpha1.Price

func pricesOf(classes []v1alpha1.AWSNodeClass) prices {
	known := prices{}
	for i := range classes {
		if c := &classes[i]; c.Status.Price != nil {
			known[v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: c.Name}] = *c.Status.Price
		}
	}
	return known
}

// costOf is what the nodes of the pool cost per hour, and its currency; "" where that is not known.
func (p prices) costOf(pool *v1alpha1.NodePool) (amount float64, currency string) {
	price, known := p[pool.Spec.Template.NodeClassRef]
	if !known {
		return 0, ""
	}
	return price.PoolCostPerHour(&pool.Status), price.Currency
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

// readPrices reads the prices, and says so where the user may not.
func (s *shared) readPrices(ctx context.Context, c client.Reader) (prices, error) {
	classes := &v1alpha1.AWSNodeClassList{}
	err := c.List(ctx, classes)
	if apierrors.IsForbidden(err) {
		fmt.Fprintln(s.ErrOut, noCosts)
		return nil, nil //nolint:nilnil // what may not be read is left out
	}
	return pricesOf(classes.Items), err
}

// followClasses follows the node classes; nil where the user may not read them.
func followClasses(ctx context.Context, lists *follow.Lists) (*follow.List, error) {
	classes, err := lists.Follow(ctx, &v1alpha1.AWSNodeClass{}, classList)
	if apierrors.IsForbidden(err) {
		return nil, nil //nolint:nilnil // what may not be read is left out
	}
	return classes, err
}
