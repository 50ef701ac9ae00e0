package aws

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/limiter"
)

var _ provider.TypeChanger = (*Cloud)(nil)

// readsLag is how long EC2's reads may show an instance as it was before a change.
const readsLag = time.Minute

// ChangeInstanceType implements provider.TypeChanger. EC2 takes one instance in a call.
func (c *Cloud) ChangeInstanceType(ctx context.Context, instanceID, instanceType string) error {
	r, err := c.of(ctx, instanceID)
	if err != nil {
		return err
	}
	_, err = r.client.ModifyInstanceAttribute(ctx, modifyType(instanceID, instanceType))
	if err != nil {
		return r.modifyRefused(ctx, limiter.ModifyInstanceAttribute, instanceID, err,
			func(i *provider.Instance) bool { return i.Type == instanceType })
	}
	c.index.retype(instanceID, instanceType, time.Now())
	return nil
}

func modifyType(id, kind string) *ec2.ModifyInstanceAttributeInput {
	return &ec2.ModifyInstanceAttributeInput{
		InstanceId: aws.String(id), InstanceType: &types.AttributeValue{Value: aws.String(kind)},
	}
}

// modifyRefused words why a stopped instance was not changed; done reports whether it is as it was
// to be. Whatever EC2 finds wrong is about the change for this instance: the call names nothing
// else.
func (r *region) modifyRefused(ctx context.Context, op limiter.Operation, id string, err error,
	done func(*provider.Instance) bool) error {
	if isUnauthorized(err) {
		return unauthorized(op, err)
	}
	switch classify(err).means {
	case meansState:
		return r.refused(ctx, op, id, err, done)
	case meansWrong, meansForbidden, meansCapacity, meansReservation:
		return &provider.InvalidConfigError{Field: "instance " + id, Reason: words(err).Error()}
	case meansMissing, meansRate, meansQuota, meansAddresses, meansOther:
	}
	return subject{operation: string(op), id: id}.typed(err)
}

// retype notes that the instance is of another type from now on.
func (x *index) retype(id, kind string, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t, known := x.known[id]; known {
		t.kind, t.retyped = kind, now
		x.known[id] = t
	}
}

// SharesQuota implements provider.TypeChanger.
func (c *Cloud) SharesQuota(one, other string) bool { return familyOf(one) == familyOf(other) }
