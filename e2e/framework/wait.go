package framework

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HangGuard ends a wait that will never end. It is far above what anything here takes, because
// machines are shared.
const HangGuard = 2 * time.Minute

// Until polls until done says so, and returns its last error when the time is over. It is a hang
// guard: what is tested is never how long something takes. It waits four times as long as done
// took, because to list a thousand pods 20 times a second costs more than all that the test looks
// at.
func Until(ctx context.Context, limit time.Duration, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		began := time.Now()
		ok, err := done(ctx)
		if ok && err == nil {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not within %s", limit), last)
		case <-time.After(max(50*time.Millisecond, 4*time.Since(began))):
		}
	}
}

// Read reads the object anew and leaves the argument as it is. Where the argument has a UID,
// another object of the same name is not found.
func Read[T client.Object](ctx context.Context, r *Rig, o T) (T, error) {
	now, ok := reflect.New(reflect.TypeOf(o).Elem()).Interface().(T)
	if !ok {
		return o, fmt.Errorf("%T is not a pointer to its type", o)
	}
	if u, ok := client.Object(now).(*unstructured.Unstructured); ok {
		u.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), now)
	if err == nil && o.GetUID() != "" && o.GetUID() != now.GetUID() {
		return now, apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", o)}, o.GetName())
	}
	return now, err
}

// Change writes the object with the change, and tries again where another client was faster. It
// returns what was written.
func Change[T client.Object](ctx context.Context, r *Rig, o T, change func(T)) (T, error) {
	var now T
	err := Until(ctx, HangGuard, func(ctx context.Context) (bool, error) {
		var err error
		if now, err = Read(ctx, r, o); err != nil {
			return false, err
		}
		before, _ := now.DeepCopyObject().(client.Object)
		change(now)
		err = r.Client.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		return err == nil, err
	})
	return now, err
}

// AwaitTrue waits until the object's condition is True, and reads the object anew.
func (r *Rig) AwaitTrue(ctx context.Context, o *unstructured.Unstructured, condition string) error {
	return Until(ctx, HangGuard, func(ctx context.Context) (bool, error) {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return false, err
		}
		if ConditionOf(o, condition) == "True" {
			return true, nil
		}
		return false, fmt.Errorf("%s %s is not %s: status %v", o.GetKind(), o.GetName(), condition, o.Object["status"])
	})
}

// ConditionOf is the status of the object's condition, empty where it has none of the kind.
func ConditionOf(o *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}
