package charts

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// role is a Role or a ClusterRole.
type role struct {
	object
	rules []rbacv1.PolicyRule
}

func roles(t *testing.T) []role {
	t.Helper()
	var all []role
	for _, o := range ofKind(t, "ClusterRole") {
		r := &rbacv1.ClusterRole{}
		o.decode(t, r)
		all = append(all, role{o, r.Rules})
	}
	for _, o := range ofKind(t, "Role") {
		r := &rbacv1.Role{}
		o.decode(t, r)
		all = append(all, role{o, r.Rules})
	}
	return all
}

// TestNoRightIsAWildcard: each permission is one that a marker asks for.
func TestNoRightIsAWildcard(t *testing.T) {
	for _, r := range roles(t) {
		if len(r.rules) == 0 {
			t.Errorf("%s gives no right", r)
		}
		for _, rule := range r.rules {
			if slices.Contains(slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups, rule.NonResourceURLs), "*") {
				t.Errorf("%s has a wildcard: %s", r, rule.String())
			}
			for _, dangerous := range []string{"escalate", "bind", "impersonate"} {
				if slices.Contains(rule.Verbs, dangerous) {
					t.Errorf("%s may %s: %s", r, dangerous, rule.String())
				}
			}
		}
	}
}

// TestLeasesAreOurOwn: no permission on leases in kube-system, where the control plane's schedulers
// and controllers agree on theirs. A cluster role would reach there; a role of the release reaches
// the two leases that it names. The kubelets' own leases are the fake cloud's.
func TestLeasesAreOurOwn(t *testing.T) {
	for _, r := range roles(t) {
		for _, rule := range r.rules {
			if !slices.Contains(rule.Resources, "leases") {
				continue
			}
			ofFake := r.set == "fake" && r.Metadata.Namespace == "kube-node-lease"
			switch {
			case r.Kind == "ClusterRole":
				t.Errorf("%s gives leases in every namespace", r)
			case r.Metadata.Namespace == "kube-system":
				t.Errorf("%s gives leases in kube-system", r)
			case !ofFake && len(rule.ResourceNames) != 1 && !slices.Equal(rule.Verbs, []string{"create"}):
				t.Errorf("%s gives leases of any name: %s", r, rule.String())
			}
		}
	}
}

// TestNothingIsBoundInKubeSystem: whatever the release is called, it has no role in the control
// plane's namespace, but for the one of bootstrap tokens where they are on.
func TestNothingIsBoundInKubeSystem(t *testing.T) {
	for _, o := range ofKind(t, "RoleBinding") {
		tokens := strings.HasPrefix(o.set, "kubeadm") && o.Metadata.Name == "stratos-bootstrap"
		if o.Metadata.Namespace == "kube-system" && !tokens {
			t.Errorf("%s", o)
		}
	}
	all := roles(t)
	for _, kind := range []string{"RoleBinding", "ClusterRoleBinding"} {
		for _, o := range ofKind(t, kind) {
			binding := &rbacv1.RoleBinding{} // of the same fields
			o.decode(t, binding)
			made := slices.ContainsFunc(all, func(r role) bool {
				return r.set == o.set &&
					r.Metadata.Name == binding.RoleRef.Name
			})
			if !made {
				t.Errorf("%s binds %s, which is not the chart's own", o, binding.RoleRef.Name)
			}
		}
	}
}

// TestOwnNamespace: where cluster-info is not read, the chart has objects in its own namespace and
// in kube-system, where the tokens are, and in no other.
func TestOwnNamespace(t *testing.T) {
	found := map[string][]string{}
	for _, o := range ofKind(t, "RoleBinding") {
		if o.set == "kubeadm" || o.set == "kubeadm-own-namespace" {
			found[o.set] = append(found[o.set], o.Metadata.Namespace)
		}
	}
	own := found["kubeadm-own-namespace"]
	if !slices.Contains(found["kubeadm"], "kube-public") || !slices.Contains(own, "kube-system") ||
		slices.Contains(own, "kube-public") {
		t.Errorf("namespaces of bindings: %v", found)
	}
}

var tableRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|$")

// TestEveryRightHasItsReason holds docs/rbac.md and the roles together: each verb on each resource
// stands there with its reason, and nothing stands there that is not given.
func TestEveryRightHasItsReason(t *testing.T) {
	page, err := os.ReadFile("../docs/rbac.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		for _, row := range tableRow.FindAllStringSubmatch(section, -1) {
			if len(strings.TrimSpace(row[3])) < 10 {
				t.Errorf("docs/rbac.md: %s has no reason", row[1])
			}
			for verb := range strings.SplitSeq(row[2], ",") {
				documented[title+" / "+row[1]+" / "+strings.TrimSpace(verb)] = true
			}
		}
	}
	given := map[string]bool{}
	for _, r := range roles(t) {
		title := sectionOf(r)
		if title == "" {
			continue
		}
		for _, right := range rights(r.rules) {
			given[title+" / "+right] = true
		}
	}
	for right := range given {
		if !documented[right] {
			t.Errorf("docs/rbac.md does not say why: %s", right)
		}
	}
	for right := range documented {
		if !given[right] {
			t.Errorf("docs/rbac.md gives a reason for what no role gives: %s", right)
		}
	}
}

// sectionOf is the heading of docs/rbac.md under which a role of ours stands. The roles that extend
// those of Kubernetes stand nowhere.
func sectionOf(r role) string {
	where := "in the whole cluster"
	if r.Kind == "Role" {
		where = "in the release's namespace"
	}
	switch {
	case !slices.Contains([]string{"default", "fake", "kind", "kubeadm"}, r.set),
		strings.HasSuffix(r.Metadata.Name, "-view"),
		strings.HasSuffix(r.Metadata.Name, "-edit"):
		return ""
	case strings.HasSuffix(r.Metadata.Name, "-reader"):
		return "People"
	case strings.HasSuffix(r.Metadata.Name, "-check"):
		return "helm test, " + where
	case strings.HasSuffix(r.Metadata.Name, "-scheduler"):
		return "Scheduler, " + where
	case strings.HasSuffix(r.Metadata.Name, "-fake") && r.Kind == "Role":
		return "Fake cloud, in kube-node-lease"
	case strings.HasSuffix(r.Metadata.Name, "-bootstrap"):
		return "Bootstrap tokens, in " + r.Metadata.Namespace
	case strings.HasSuffix(r.Metadata.Name, "-kind"):
		return "Nodes in Docker, " + where
	case strings.HasSuffix(r.Metadata.Name, "-fake"):
		return "Fake cloud, " + where
	}
	return "Stratos, " + where
}

// rights writes rules as docs/rbac.md does: resource, group if it has one, name if it is limited to
// one.
func rights(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := resource
				if group != "" {
					name += "." + group
				}
				if len(rule.ResourceNames) > 0 {
					name = fmt.Sprintf("%s %q", name, rule.ResourceNames)
				}
				for _, verb := range rule.Verbs {
					all = append(all, name+" / "+verb)
				}
			}
		}
	}
	return all
}
