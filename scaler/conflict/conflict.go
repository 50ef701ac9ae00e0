// Package conflict says what a loop does when a write meets a Node or pool that has changed since
// it was read.
package conflict

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Pause is how long a cache has to catch up with a write.
const Pause = 50 * time.Millisecond

// Retry queues an object again that is not as the cache showed it. What has changed may
// bring no event: our own write of its status brings none.
func Retry(r ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: Pause}, nil
	}
	return r, err
}

// Ignore is for what is queued again in any case.
func Ignore(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
