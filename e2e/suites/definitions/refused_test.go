package definitions

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

func TestFaultyRefused(t *testing.T) {
	s := newServer(t)
	for name, f := range assert.Examples(t, "faulty", 40) {
		t.Run(name, func(t *testing.T) {
			if f.Want == "" {
				t.Fatal(`the first line is not "# want: <part of the message>"`)
			}
			err := s.client.Create(t.Context(), f.DeepCopy())
			if !apierrors.IsInvalid(err) {
				t.Fatalf("want it refused as invalid, got: %v", err)
			}
			if !strings.Contains(err.Error(), f.Want) {
				t.Errorf("the message\n  %s\nlacks\n  %s", err, f.Want)
			}
		})
	}
}
