package crds_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func TestEveryExampleOfTheSeedsIsAccepted(t *testing.T) {
	accepts(t, yamlFiles(t, "seeds", 20))
}

func TestEveryFieldIsAcceptedAtItsEdges(t *testing.T) {
	accepts(t, yamlFiles(t, "edges", 11))
}

// accepts wants each object created, and decoded strictly into its Go type with the defaults filled
// in: an object that the schema admits and Go cannot decode would stop every informer.
func accepts(t *testing.T, files map[string]string) {
	t.Helper()
	s := newServer(t)
	for name, path := range files {
		t.Run(name, func(t *testing.T) {
			object, _ := readObject(t, path)
			if errs := s.create(object); len(errs) > 0 {
				t.Fatalf("refused: %v", errs.ToAggregate())
			}
			decodeStrictly(t, object)
		})
	}
}

func TestEveryFaultyObjectIsRefusedForItsOneFault(t *testing.T) {
	s := newServer(t)
	for name, path := range yamlFiles(t, "faulty", 45) {
		t.Run(name, func(t *testing.T) {
			object, first := readObject(t, path)
			want, ok := strings.CutPrefix(first, "# want: ")
			if !ok || want == "" {
				t.Fatalf("the first line is %q, want \"# want: <part of the message>\"", first)
			}
			errs := s.create(object)
			if len(errs) == 0 {
				t.Fatal("accepted")
			}
			if len(errs) > 1 {
				t.Errorf("refused for %d faults, want one: %v", len(errs), errs.ToAggregate())
			}
			if got := errs.ToAggregate().Error(); !strings.Contains(got, want) {
				t.Errorf("message\n  %s\nlacks\n  %s", got, want)
			}
		})
	}
}

func decodeStrictly(t *testing.T, object map[string]any) {
	t.Helper()
	data, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var into any = &v1alpha1.NodePool{}
	switch object["kind"] {
	case v1alpha1.KindAWSNodeClass:
		into = &v1alpha1.AWSNodeClass{}
	case v1alpha1.KindKindNodeClass:
		into = &v1alpha1.KindNodeClass{}
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Errorf("accepted by the schema, not decoded by Go: %v", err)
	}
}
