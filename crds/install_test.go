package crds

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slowServer establishes a definition some time after it was applied, or never.
type slowServer struct {
	client.Reader
	after    time.Duration
	status   []any
	applyErr error
	applied  map[string]time.Time
	order    []string
}

func (s *slowServer) Apply(_ context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if s.applyErr != nil {
		return s.applyErr
	}
	options := &client.ApplyOptions{}
	options.ApplyOptions(opts)
	if options.FieldManager != "stratos" || options.Force == nil || !*options.Force {
		return errors.New("not applied by force as stratos")
	}
	name := obj.(interface{ GetName() string }).GetName()
	s.applied[name] = time.Now()
	s.order = append(s.order, "apply "+name)
	return nil
}

func (s *slowServer) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	at, ok := s.applied[key.Name]
	if !ok {
		return errors.New("not found")
	}
	if time.Since(at) < s.after {
		return nil
	}
	crd := obj.(*unstructured.Unstructured)
	crd.Object["status"] = map[string]any{"conditions": s.status}
	if done, _ := established(crd); done {
		s.order = append(s.order, "established "+key.Name)
	}
	return nil
}

func condition(kind, status, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "message": message}
}

func TestInstallAppliesAllThenWaitsUntilAllAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{after: 3 * time.Second, applied: map[string]time.Time{}, status: []any{
			condition("NamesAccepted", "True", ""), condition("Established", "True", ""),
		}}
		began := time.Now()
		if err := Install(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < s.after || took > s.after+establishPoll {
			t.Errorf("returned after %s, want %s and at most one poll more", took, s.after)
		}
		want := []string{
			"apply awsnodeclasses.stratos.sh", "apply kindnodeclasses.stratos.sh", "apply nodepools.stratos.sh",
			"established awsnodeclasses.stratos.sh", "established kindnodeclasses.stratos.sh",
			"established nodepools.stratos.sh",
		}
		if diff := cmp.Diff(want, s.order); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestInstallSaysWhatKeepsADefinitionFromBeingServed(t *testing.T) {
	tests := map[string]struct {
		server *slowServer
		want   []string
	}{
		"the server refuses the definition": {
			&slowServer{applyErr: errors.New("forbidden")},
			[]string{"applying CustomResourceDefinition awsnodeclasses.stratos.sh", "forbidden"},
		},
		"another definition has the names": {
			&slowServer{status: []any{condition("NamesAccepted", "False", `"awsnc" is already in use`)}},
			[]string{"awsnodeclasses.stratos.sh is not established", `"awsnc" is already in use`},
		},
		"no condition ever appears": {
			&slowServer{after: time.Hour},
			[]string{"awsnodeclasses.stratos.sh is not established", "no condition yet"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.server.applied = map[string]time.Time{}
				began := time.Now()
				err := Install(t.Context(), tt.server)
				if err == nil {
					t.Fatal("no error")
				}
				for _, want := range tt.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q lacks %q", err, want)
					}
				}
				if took := time.Since(began); took > establishTimeout {
					t.Errorf("gave up after %s, want at most %s", took, establishTimeout)
				}
			})
		})
	}
}
