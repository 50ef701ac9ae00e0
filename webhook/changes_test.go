package webhook

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// nodes is a pool's status with this many nodes.
func nodes(standby, running int32) v1alpha1.NodePoolStatus {
	return v1alpha1.NodePoolStatus{Standby: standby, Running: running, Total: standby + running}
}

func TestChangesOfAPool(t *testing.T) {
	const template = "spec.template: 8 nodes were launched from the template as it was and will be replaced (disruption.drift): standby ones at most 1 at a time, running ones when they are empty"
	for name, c := range map[string]struct {
		status         v1alpha1.NodePoolStatus
		before, change string
		want           []string
	}{
		"another label": {nodes(3, 5), "", `{"spec": {"template": {"labels": {"team": "a"}}}}`,
			[]string{template}},
		"another taint": {nodes(3, 5), "",
			`{"spec": {"template": {"taints": [{"key": "team", "effect": "NoSchedule"}]}}}`, []string{template}},
		"one node is said as one": {nodes(1, 0), "", `{"spec": {"template": {"labels": {"team": "a"}}}}`,
			[]string{"spec.template: 1 node" + template[len("spec.template: 8 nodes"):]}},
		"the pool's own label": {nodes(3, 5), "", `{"spec": {"template": {"labels": null}}}`, nil},
		"taints in another order": {nodes(3, 5),
			`{"spec": {"template": {"taints": [{"key": "b", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}}}`,
			`{"spec": {"template": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]}}}`,
			nil},
		"who removes startup taints": {nodes(3, 5), "", `{"spec": {"template": {"startupTaintRemoval": "External"}}}`, nil},
		"drift that is ignored": {nodes(3, 5), "",
			`{"spec": {"disruption": {"drift": "Ignore"}, "template": {"labels": {"team": "a"}}}}`, nil},
		"no nodes yet": {nodes(0, 0), "", `{"spec": {"template": {"labels": {"team": "a"}}}}`, nil},
		"fewer than there are": {nodes(3, 5), "", `{"spec": {"poolSize": 6}}`,
			[]string{"spec.poolSize: 6 is below the 8 nodes of the pool: 2 nodes of standby are terminated at once"}},
		"fewer than run": {nodes(3, 5), "", `{"spec": {"poolSize": 4}}`,
			[]string{"spec.poolSize: 4 is below the 5 nodes in use: those stay until they are empty, all 3 nodes of standby are terminated at once"}},
		"still enough":              {nodes(3, 5), "", `{"spec": {"poolSize": 8}}`, nil},
		"raised, and still too few": {nodes(3, 9), `{"spec": {"poolSize": 9}}`, `{"spec": {"poolSize": 11}}`, nil},
		"a fault that was there stays": {nodes(0, 0), `{"spec": {"preWarm": {"imagesToPull": ["a//b"]}}}`,
			`{"spec": {"preWarm": {"imagesToPull": ["a//b"]}, "weight": 3}}`,
			[]string{`spec.preWarm.imagesToPull[0]: Invalid value: "a//b": must be an image reference such as registry.example.com/team/app:v1: invalid reference format`}},
	} {
		t.Run(name, func(t *testing.T) {
			old, pool := good[v1alpha1.NodePool](t, c.before), good[v1alpha1.NodePool](t, c.change)
			old.Status, pool.Status = c.status, c.status
			errs, warnings := ValidateNodePool(pool, NodePoolContext{Old: old, Class: good[v1alpha1.AWSNodeClass](t, "")})
			if len(errs) > 0 {
				t.Errorf("refused: %v", errs)
			}
			if diff := cmp.Diff(c.want, []string(warnings)); diff != "" && len(c.want)+len(warnings) > 0 {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			// What is said to replace nodes is what the scaler replaces them for: it compares the hash.
			drifts := old.Spec.Template.Hash() != pool.Spec.Template.Hash() && nodesOf(&c.status) > 0 &&
				pool.Spec.Disruption.DriftOrDefault() == v1alpha1.DriftRecycle
			if warned := strings.Contains(strings.Join(warnings, "\n"), "(disruption.drift)"); warned != drifts {
				t.Errorf("warned %t, and the hash of the template differs: %t", warned, drifts)
			}
		})
	}
}

func TestAFaultThatIsNewIsRefusedAtAChangeToo(t *testing.T) {
	old, pool := good[v1alpha1.NodePool](t, ""), good[v1alpha1.NodePool](t,
		`{"spec": {"preWarm": {"imagesToPull": ["a//b"]}}}`)
	if errs, _ := ValidateNodePool(pool, NodePoolContext{Old: old}); len(errs) != 1 {
		t.Errorf("refused: %v, want one", errs)
	}
}

// TestPoolsOfAClass: warnings about the pools that use a class: the ones that it does not fit, and
// the nodes that a change replaces.
func TestPoolsOfAClass(t *testing.T) {
	pool := func(name string, status v1alpha1.NodePoolStatus, change string) v1alpha1.NodePool {
		p := good[v1alpha1.NodePool](t, change)
		p.Name, p.Status = name, status
		return *p
	}
	quiet := `{"spec": {"template": {"startupTaints": null}}}`
	stop := `{"spec": {"template": {"startupTaints": null}, "preWarm": {"completionMode": "ControllerStop"}}}`
	ignore := `{"spec": {"template": {"startupTaints": null}, "disruption": {"drift": "Ignore"}}}`
	pools := []v1alpha1.NodePool{pool("a", nodes(1, 1), quiet), pool("b", nodes(2, 3), quiet),
		pool("c", nodes(9, 9), ignore)}
	types := `{"spec": {"fallbackInstanceTypes": ["m5a.large", "m6i.large"]}}`
	for name, c := range map[string]struct {
		pools          []v1alpha1.NodePool
		change, before string
		want           []string
	}{
		"another image": {pools, `{"spec": {"ami": "ami-00000000"}}`, "", []string{
			"spec: 7 nodes of NodePool a, b were launched from the class as it was and will be replaced (disruption.drift): standby ones within disruption.budget, running ones when they are empty"}},
		"a default that is written out": {pools, `{"spec": {"metadataOptions": {"httpTokens": "required"}}}`, "", nil},
		"no poweroff any more":          {pools[:0], `{"spec": {"userData": "#!/bin/bash\n"}}`, "", nil},
		"a power-off for pools that are stopped by Stratos": {
			[]v1alpha1.NodePool{pool("d", nodes(0, 0), stop), pool("e", nodes(0, 0), stop)}, `{}`, "",
			[]string{"spec.userData: it powers off, but NodePool d, e has preWarm.completionMode ControllerStop: nodes that pods wait for would go down under them"}},
		"Bottlerocket for pools that stop themselves": {
			[]v1alpha1.NodePool{pool("d", nodes(0, 0), quiet)}, `{"spec": {"userData": "[settings.kubernetes]\n"}}`, "",
			[]string{"spec.userData: Bottlerocket cannot power itself off, but NodePool d has preWarm.completionMode SelfStop; use ControllerStop there"}},
		"a type more":                {pools, types, "", nil},
		"the types in another order": {pools, `{"spec": {"fallbackInstanceTypes": ["m6i.large", "m5a.large"]}}`, types, nil},
		"a type less, and one in place": {pools, `{"spec": {"fallbackInstanceTypes": ["c5.large", "m6i.large"]}}`, types, []string{
			"spec.fallbackInstanceTypes: nodes of NodePool a, b that are of type m5a.large will be replaced (disruption.drift): standby ones within disruption.budget, running ones when they are empty"}},
		"a type less, and nothing drifts": {pools[2:], `{}`, types, nil},
	} {
		t.Run(name, func(t *testing.T) {
			old, class := good[v1alpha1.AWSNodeClass](t, c.before), good[v1alpha1.AWSNodeClass](t, c.change)
			_, warnings := ValidateAWSNodeClass(class, AWSNodeClassContext{Old: old, Pools: c.pools})
			fewer := slices.ContainsFunc(old.NamedTypes(), func(name string) bool {
				return !slices.Contains(class.NamedTypes(), name)
			})
			drifts := (fewer || old.Spec.Hash() != class.Spec.Hash()) && slices.ContainsFunc(c.pools, follows)
			if warned := strings.Contains(strings.Join(warnings, "\n"), "(disruption.drift)"); warned != drifts {
				t.Errorf("warned %t, and nodes drift: %t", warned, drifts)
			}
			if diff := cmp.Diff(c.want, []string(warnings)); diff != "" && len(c.want)+len(warnings) > 0 {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// follows reports whether the pool has nodes that drift would replace.
func follows(pool v1alpha1.NodePool) bool {
	return nodesOf(&pool.Status) > 0 && pool.Spec.Disruption.DriftOrDefault() == v1alpha1.DriftRecycle
}

func TestHibernationIsRefusedByWhatTheCloudResolved(t *testing.T) {
	const change = `{"spec": {"hibernation": {"enabled": true}, "blockDeviceMappings": [{"deviceName": "/dev/xvda", "volumeSize": 20, "encrypted": true}]}}`
	for memory, want := range map[string]int{"16Gi": 0, "64Gi": 1} {
		old, class := good[v1alpha1.AWSNodeClass](t, ""), good[v1alpha1.AWSNodeClass](t, change)
		old.Status.Capacity = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		if errs, _ := ValidateAWSNodeClass(class, AWSNodeClassContext{Old: old}); len(errs) != want {
			t.Errorf("%s of memory: refused %v, want %d", memory, errs, want)
		}
	}
}

func TestDeletionOfAClass(t *testing.T) {
	going := good[v1alpha1.NodePool](t, "")
	going.DeletionTimestamp = &metav1.Time{}
	if err := ValidateNodeClassDeletion([]v1alpha1.NodePool{*going}); err != nil {
		t.Errorf("beside a pool that is being deleted: %v", err)
	}
	var pools []v1alpha1.NodePool
	for _, name := range []string{"e", "d", "c", "b", "a"} {
		pool := good[v1alpha1.NodePool](t, "")
		pool.Name = name
		pools = append(pools, *pool)
	}
	want := "it is in use by NodePool a, b, c and 2 more; delete these or change their spec.template.nodeClassRef first"
	if err := ValidateNodeClassDeletion(pools); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestLookupsThatFail: what could not be read is said, and refuses nothing.
func TestLookupsThatFail(t *testing.T) {
	errs, warnings := ValidateNodePool(good[v1alpha1.NodePool](t, ""), NodePoolContext{ClassUnread: errors.New("timeout")})
	if len(errs) != 0 || len(warnings) != 1 {
		t.Errorf("pool: refused %v, warned %q", errs, warnings)
	}
	errs, warnings = ValidateAWSNodeClass(good[v1alpha1.AWSNodeClass](t, ""),
		AWSNodeClassContext{PoolsUnread: errors.New("timeout")})
	if len(errs) != 0 || len(warnings) != 1 {
		t.Errorf("class: refused %v, warned %q", errs, warnings)
	}
}
