package assert

import (
	"context"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// Follow is framework.Follow until the test ends or stop is called. It fails the test where the
// watch ends before that.
func Follow(t *testing.T, c client.WithWatch, list client.ObjectList, see func(watch.Event),
	options ...client.ListOption) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	wait, err := framework.Follow(ctx, c, list, see, options...)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}
