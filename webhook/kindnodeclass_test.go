package webhook

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// ofKind is the good pool with a KindNodeClass, and no startup taint, which is AWS's.
const ofKind = `{"spec":{"template":{"nodeClassRef":{"kind":"KindNodeClass"},"startupTaints":null}}}`

func TestGoodKindClassAndPoolAreLeftAlone(t *testing.T) {
	class, pool := good[v1alpha1.KindNodeClass](t, ""), good[v1alpha1.NodePool](t, ofKind)
	if errs, warnings := ValidateKindNodeClass(class,
		KindNodeClassContext{Pools: []v1alpha1.NodePool{*pool}}); len(errs)+len(warnings) > 0 {
		t.Errorf("class: refused %v, warned %q", errs, warnings)
	}
	if errs, warnings := ValidateNodePool(pool, NodePoolContext{Class: class}); len(errs)+len(warnings) > 0 {
		t.Errorf("pool: refused %v, warned %q", errs, warnings)
	}
}

func TestKindClassAndPoolThatDisagree(t *testing.T) {
	for name, c := range map[string]struct{ script, mode, pool, class string }{
		"nobody powers the node off": {"echo warm", "SelfStop",
			`spec.preWarm.completionMode: SelfStop, but the boot script of KindNodeClass "workers" has no poweroff`,
			"spec.bootScript: it has no poweroff, but NodePool workers has"},
		"no script at all": {"", "SelfStop",
			`spec.preWarm.completionMode: SelfStop, but the boot script of KindNodeClass "workers" has no poweroff`,
			"spec.bootScript: it has no poweroff, but NodePool workers has"},
		"the node goes down under its pods": {"systemctl poweroff", "ControllerStop",
			`spec.preWarm.completionMode: ControllerStop, but the boot script of KindNodeClass "workers" powers off`,
			"spec.bootScript: it powers off, but NodePool workers has"},
	} {
		t.Run(name, func(t *testing.T) {
			class, pool := good[v1alpha1.KindNodeClass](t, ""), good[v1alpha1.NodePool](t, ofKind)
			class.Spec.BootScript, pool.Spec.PreWarm.CompletionMode = c.script, v1alpha1.CompletionMode(c.mode)
			_, atPool := ValidateNodePool(pool, NodePoolContext{Class: class})
			_, atClass := ValidateKindNodeClass(class, KindNodeClassContext{Pools: []v1alpha1.NodePool{*pool}})
			if len(atPool) != 1 || !strings.HasPrefix(atPool[0], c.pool) {
				t.Errorf("at the pool %q, want %q", atPool, c.pool)
			}
			if len(atClass) != 1 || !strings.HasPrefix(atClass[0], c.class) {
				t.Errorf("at the class %q, want %q", atClass, c.class)
			}
		})
	}
}

// TestAChangedKindClassNamesTheNodesThatItReplaces, and what was wrong before does not keep people
// from another change.
func TestAChangedKindClassNamesTheNodesThatItReplaces(t *testing.T) {
	const fault = `{"spec":{"extraMounts":[{"hostPath":"/srv/","containerPath":"/models"}]}}`
	old, class, pool := good[v1alpha1.KindNodeClass](t, fault), good[v1alpha1.KindNodeClass](t, fault),
		good[v1alpha1.NodePool](t, ofKind)
	class.Spec.Image, pool.Status.Total = "kindest/node:v1.36.2", 3
	errs, warnings := ValidateKindNodeClass(class, KindNodeClassContext{Old: old, Pools: []v1alpha1.NodePool{*pool}})
	if len(errs) > 0 || len(warnings) != 2 || !strings.Contains(warnings[1],
		"3 nodes of NodePool workers were launched from the class as it was") {
		t.Errorf("refused %v, warned %q", errs, warnings)
	}
}

// TestPoolsFindTheClassOfTheirKind: classes of two kinds may have one name.
func TestPoolsFindTheClassOfTheirKind(t *testing.T) {
	aws, kind := good[v1alpha1.AWSNodeClass](t, ""), good[v1alpha1.KindNodeClass](t, "")
	ofAWS, ofDocker := good[v1alpha1.NodePool](t, `{"metadata":{"name":"cloud"}}`), good[v1alpha1.NodePool](t, ofKind)
	api := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(aws, kind, ofAWS, ofDocker).Build()
	look := lookup{cached: api, live: api,
		kinds: []string{v1alpha1.KindAWSNodeClass, v1alpha1.KindKindNodeClass}}
	for _, pool := range []*v1alpha1.NodePool{ofAWS, ofDocker} {
		found, err := look.class(t.Context(), pool.Spec.Template.NodeClassRef)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := api.Scheme().ObjectKinds(found)
		if err != nil || want[0].Kind != pool.Spec.Template.NodeClassRef.Kind {
			t.Errorf("pool %s: found a %v, %v", pool.Name, want, err)
		}
		pools, err := poolsOf(t.Context(), api, pool.Spec.Template.NodeClassRef)
		if err != nil || len(pools) != 1 || pools[0].Name != pool.Name {
			t.Errorf("%v: used by %d pools, %v", pool.Spec.Template.NodeClassRef, len(pools), err)
		}
	}
	_, err := kindClassValidator{look}.ValidateDelete(t.Context(), kind)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "NodePool workers;") {
		t.Errorf("deleting a class in use: %v", err)
	}
	if err := api.Delete(t.Context(), ofDocker); err != nil {
		t.Fatal(err)
	}
	if _, err := (kindClassValidator{look}).ValidateDelete(t.Context(), kind); err != nil {
		t.Errorf("deleting a class whose name only another kind has in use: %v", err)
	}
	going := kind.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{}
	if warnings, err := (kindClassValidator{look}).ValidateUpdate(t.Context(), kind, going); err != nil ||
		len(warnings) > 0 {
		t.Errorf("a class that is being deleted: %v %q", err, warnings)
	}
}
