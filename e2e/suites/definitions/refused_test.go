package definitions

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestFaultyRefused(t *testing.T) {
	s := newServer(t)
	for name, f := range files(t, "faulty", 40) {
		t.Run(name, func(t *testing.T) {
			want, ok := strings.CutPrefix(f.comment, "# want: ")
			if !ok || want == "" {
				t.Fatalf("the first line is %q, want \"# want: <part of the message>\"", f.comment)
			}
			err := s.client.Create(t.Context(), f.object.DeepCopy())
			if !apierrors.IsInvalid(err) {
				t.Fatalf("want it refused as invalid, got: %v", err)
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the message\n  %s\nlacks\n  %s", err, want)
			}
		})
	}
}
