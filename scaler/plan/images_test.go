package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// agents is a DaemonSet with one container of the image.
func agents(image string, change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: image}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: image}}
	for _, f := range change {
		f(set)
	}
	return set
}

func spec(f func(*corev1.PodSpec)) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) { f(&set.Spec.Template.Spec) }
}

func selecting(key, value string) func(*appsv1.DaemonSet) {
	return spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{key: value} })
}

func requiring(key string, op corev1.NodeSelectorOperator, values ...string) func(*appsv1.DaemonSet) {
	return spec(func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key,
					Operator: op, Values: values}}}},
			}},
		}
	})
}

func TestImages(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{
		"kubernetes.io/os": "linux", v1alpha1.LabelState: "standby", v1alpha1.LabelExcludeDisruption: "true",
	}}, Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{
		{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule},
		{Key: "a-person's", Effect: corev1.TaintEffectNoExecute},
	}}}
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pool.Spec.Template.Labels = map[string]string{"tier": "batch"}
	tainted := pool.DeepCopy()
	tainted.Spec.Template.Taints = []corev1.Taint{{Key: v1alpha1.TaintDedicated, Effect: corev1.TaintEffectNoSchedule}}
	named := pool.DeepCopy()
	named.Spec.PreWarm.ImagesToPull = []string{"z:1", "a:1"}
	tolerating := spec(func(s *corev1.PodSpec) {
		s.Tolerations = []corev1.Toleration{{Key: v1alpha1.TaintDedicated, Operator: corev1.TolerationOpExists}}
	})
	for name, c := range map[string]struct {
		pool *v1alpha1.NodePool
		sets []*appsv1.DaemonSet
		want []string // of all
	}{
		"nothing":                                  {pool: pool},
		"those that the pool names, sorted":        {pool: named, want: []string{"a:1", "z:1"}},
		"one that is named and of a DaemonSet too": {named, []*appsv1.DaemonSet{agents("a:1")}, []string{"a:1", "z:1"}},
		"a DaemonSet for every node":               {pool, []*appsv1.DaemonSet{agents("b:1")}, []string{"b:1"}},
		"one for nodes with the kubelet's label": {pool, []*appsv1.DaemonSet{agents("b:1",
			selecting("kubernetes.io/os", "linux"))}, []string{"b:1"}},
		"one for nodes of another system": {pool: pool, sets: []*appsv1.DaemonSet{agents("b:1",
			selecting("kubernetes.io/os", "windows"))}},
		"one for nodes with the template's label": {pool, []*appsv1.DaemonSet{agents("b:1",
			requiring("tier", corev1.NodeSelectorOpIn, "batch"))}, []string{"b:1"}},
		"one for the pool": {pool, []*appsv1.DaemonSet{agents("b:1",
			selecting(v1alpha1.LabelPool, "p"))}, []string{"b:1"}},
		"one for another pool": {pool: pool, sets: []*appsv1.DaemonSet{agents("b:1",
			selecting(v1alpha1.LabelPool, "q"))}},
		"one that keeps off standby nodes": {pool, []*appsv1.DaemonSet{agents("b:1",
			requiring(v1alpha1.LabelState, corev1.NodeSelectorOpNotIn, "standby"))}, []string{"b:1"}},
		"one that keeps off nodes being disrupted": {pool, []*appsv1.DaemonSet{agents("b:1",
			requiring(v1alpha1.LabelExcludeDisruption, corev1.NodeSelectorOpDoesNotExist))}, []string{"b:1"}},
		"one that does not tolerate the pool": {pool: tainted, sets: []*appsv1.DaemonSet{agents("b:1")}},
		"one that tolerates the pool": {tainted, []*appsv1.DaemonSet{agents("b:1", tolerating)},
			[]string{"b:1"}},
		"one that is being deleted": {pool: pool, sets: []*appsv1.DaemonSet{agents("b:1",
			func(s *appsv1.DaemonSet) { s.DeletionTimestamp = &metav1.Time{} })}},
		"one whose image comes from a webhook": {pool: pool, sets: []*appsv1.DaemonSet{agents("")}},
		"init containers, and one image in two": {pool, []*appsv1.DaemonSet{agents("b:1"),
			agents("b:1", spec(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Image: "i:1"}} }))},
			[]string{"b:1", "i:1"}},
		"one whose affinity names a node": {pool: pool, sets: []*appsv1.DaemonSet{agents("b:1",
			spec(func(s *corev1.PodSpec) { s.NodeName = "d" }))}},
		"one that prefers nodes, which is no rule": {pool, []*appsv1.DaemonSet{agents("b:1", preferring)}, []string{"b:1"}},
		"a cordon and others' taints change nothing": {pool, []*appsv1.DaemonSet{agents("b:1"), agents("c:1")},
			[]string{"b:1", "c:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := node.DeepCopy()
			if diff := cmp.Diff(c.want, Images(c.pool, node, c.sets, nil).All()); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, node); diff != "" {
				t.Errorf("the Node was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhichImagesAreRequired(t *testing.T) {
	pool := func(policy v1alpha1.ImagePullPolicy, images ...string) *v1alpha1.NodePool {
		p := &v1alpha1.NodePool{}
		p.Spec.PreWarm.ImagePullPolicy, p.Spec.PreWarm.ImagesToPull = policy, images
		return p
	}
	tenant := func(set *appsv1.DaemonSet) { set.Namespace = "tenant" }
	for name, c := range map[string]struct {
		pool       *v1alpha1.NodePool
		sets       []*appsv1.DaemonSet
		namespaces []string
		want       Wanted
	}{
		"those of the pool": {pool(v1alpha1.ImagesRequired, "b:1", "a:1"), nil, nil,
			Wanted{Required: []string{"a:1", "b:1"}}},
		"by default": {pool("", "a:1"), nil, nil, Wanted{Required: []string{"a:1"}}},
		"not where the pool says so": {pool(v1alpha1.ImagesBestEffort, "a:1"), nil, nil,
			Wanted{BestEffort: []string{"a:1"}}},
		"none of a DaemonSet": {pool("", "a:1"), []*appsv1.DaemonSet{agents("d:1")}, nil,
			Wanted{Required: []string{"a:1"}, BestEffort: []string{"d:1"}}},
		"those of a namespace that is named": {pool(""), []*appsv1.DaemonSet{agents("d:1"), agents("t:1", tenant)},
			[]string{"kube-system"}, Wanted{Required: []string{"d:1"}, BestEffort: []string{"t:1"}}},
		"whatever the pool says": {pool(v1alpha1.ImagesBestEffort, "a:1"),
			[]*appsv1.DaemonSet{agents("d:1")}, []string{"other", "kube-system"},
			Wanted{Required: []string{"d:1"}, BestEffort: []string{"a:1"}}},
		"one that the pool requires and a tenant has": {pool("", "a:1"), []*appsv1.DaemonSet{agents("a:1", tenant)}, nil,
			Wanted{Required: []string{"a:1"}}},
		"one of two namespaces": {pool(""), []*appsv1.DaemonSet{agents("d:1"), agents("d:1", tenant)},
			[]string{"kube-system"}, Wanted{Required: []string{"d:1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Images(c.pool, &corev1.Node{}, c.sets, c.namespaces)); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

func preferring(set *appsv1.DaemonSet) {
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "no",
				Operator: corev1.NodeSelectorOpExists}}},
		}}},
	}
}

func TestHashImages(t *testing.T) {
	if HashImages(nil) != "" {
		t.Error("the empty set has a hash")
	}
	seen := map[string][]string{}
	for _, set := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"a", "b", "c"}, {"ab"}} {
		h := HashImages(set)
		if other, ok := seen[h]; ok {
			t.Errorf("%v and %v have the same hash", set, other)
		}
		seen[h] = set
	}
}
