package webhook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func FuzzDefaultAndValidateNodePool(f *testing.F) {
	addExamples(f)
	class := good[v1alpha1.AWSNodeClass](f, "")
	f.Fuzz(func(t *testing.T, data []byte) {
		pool, ok := defaultedTwice(t, data, DefaultNodePool)
		if !ok {
			return
		}
		errs, warnings := ValidateNodePool(pool, NodePoolContext{Class: class})
		// Against itself nothing is new, so nothing may be refused.
		if errs, _ := ValidateNodePool(pool, NodePoolContext{Old: pool, Class: class}); len(errs) > 0 {
			t.Errorf("refused for what it had before: %v", errs)
		}
		again, repeated := ValidateNodePool(pool, NodePoolContext{Class: class})
		if !apiequality.Semantic.DeepEqual(warnings, repeated) || !apiequality.Semantic.DeepEqual(texts(errs.ToAggregate()),
			texts(again.ToAggregate())) {
			t.Errorf("said one time %v %q, the next %v %q", errs, warnings, again, repeated)
		}
	})
}

func FuzzDefaultAndValidateAWSNodeClass(f *testing.F) {
	addExamples(f)
	pools := []v1alpha1.NodePool{*good[v1alpha1.NodePool](f, "")}
	f.Fuzz(func(t *testing.T, data []byte) {
		class, ok := defaultedTwice(t, data, DefaultAWSNodeClass)
		if !ok {
			return
		}
		errs, warnings := ValidateAWSNodeClass(class, AWSNodeClassContext{Pools: pools})
		if errs, _ := ValidateAWSNodeClass(class, AWSNodeClassContext{Old: class, Pools: pools}); len(errs) > 0 &&
			len(class.Status.Capacity) == 0 {
			t.Errorf("refused for what it had before: %v", errs)
		}
		again, repeated := ValidateAWSNodeClass(class, AWSNodeClassContext{Pools: pools})
		if !apiequality.Semantic.DeepEqual(warnings, repeated) || !apiequality.Semantic.DeepEqual(texts(errs.ToAggregate()),
			texts(again.ToAggregate())) {
			t.Errorf("said one time %v %q, the next %v %q", errs, warnings, again, repeated)
		}
	})
}

// defaultedTwice decodes the object and fills it in, as it is stored and as it comes back, and
// wants the second time to change nothing.
func defaultedTwice[T any, P interface {
	*T
	client.Object
}](t *testing.T, data []byte, fill func(P)) (P, bool) {
	object := P(new(T))
	if json.Unmarshal(data, object) != nil {
		return nil, false
	}
	stored, err := fillIn(data, object, fill)
	if err != nil {
		return object, false // JSON that Go decodes into an object and that is none, such as null
	}
	once := P(new(T))
	if err := json.Unmarshal(stored, once); err != nil {
		t.Fatalf("what was stored cannot be read: %v\n%s", err, stored)
	}
	twice, ok := once.DeepCopyObject().(P)
	if !ok {
		t.Fatal("a copy of another type")
	}
	fill(twice)
	if !apiequality.Semantic.DeepEqual(once, twice) {
		t.Errorf("defaulting again changes %s", stored)
	}
	return twice, true
}

// addExamples seeds with every object of crds/testdata, the faulty ones too.
func addExamples(f *testing.F) {
	paths, err := filepath.Glob("../crds/testdata/*/*.yaml")
	if err != nil || len(paths) < 100 {
		f.Fatalf("%d examples, error %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}
