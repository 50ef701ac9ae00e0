package rbac

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

const (
	// user is the chart's ServiceAccount as the API server calls it.
	user = "system:serviceaccount:" + assert.ReleaseNamespace + ":" + assert.ServiceAccount
	// stranger is the user agent of the request that must be refused.
	stranger = "stranger/"
	// scheduler is how kube-scheduler's user agent begins.
	scheduler = "kube-scheduler/"
)

// checkForbidden: nothing was refused to the processes, by their own words and by the API server's.
// The one request that they have no permission for shows that a refusal would be seen.
func checkForbidden(t *testing.T, r *framework.Rig, kubeconfig string, processes ...*controlplane.Process) {
	t.Helper()
	beRefused(t, kubeconfig)
	refused := assert.Eventually(t, "the refusal in the audit log",
		func(context.Context) ([]controlplane.AuditEvent, error) { return refusals(r) },
		func(refused []controlplane.AuditEvent) bool { return slices.ContainsFunc(refused, isStranger) })
	for _, e := range refused {
		if !isStranger(e) {
			t.Errorf("forbidden: %s %s by %s", e.Verb, e.RequestURI, e.UserAgent)
		}
	}
	for _, p := range processes {
		checkLog(t, p)
	}
	strayed, err := controlplane.ReadAuditLog(r.ControlPlane.AuditLogPath(), controlplane.ByUser(framework.UserStratos))
	if err != nil || len(strayed) > 0 {
		t.Errorf("%d requests of Stratos as an administrator, %v", len(strayed), err)
	}
}

func isStranger(e controlplane.AuditEvent) bool { return strings.HasPrefix(e.UserAgent, stranger) }

func refusals(r *framework.Rig) ([]controlplane.AuditEvent, error) {
	return controlplane.ReadAuditLog(r.ControlPlane.AuditLogPath(), controlplane.ByUser(user),
		func(e controlplane.AuditEvent) bool { return e.Code == 403 })
}

// beRefused reads Secrets with Stratos's own identity.
func beRefused(t *testing.T, kubeconfig string) {
	t.Helper()
	c, err := framework.NewClient(kubeconfig, func(config *rest.Config) { config.UserAgent = stranger })
	if err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Fatalf("Secrets listed by Stratos: %v, want Forbidden", err)
	}
}

func checkLog(t *testing.T, p *controlplane.Process) {
	t.Helper()
	text, err := os.ReadFile(p.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 {
		t.Errorf("the log of %s is empty", p.Name())
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("%s: %s", p.Name(), line)
		}
	}
}

// right is one verb on one resource, somewhere.
type right struct {
	group, resource, verb string
	// namespace is "" for a permission in the whole cluster, name "" for one on objects of any name.
	namespace, name string
}

func (r right) String() string {
	text := r.verb + " " + strings.TrimSuffix(r.resource+"."+r.group, ".")
	if r.name != "" {
		text += " " + r.name
	}
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
}

// covers reports whether the request uses the permission.
func (r right) covers(e controlplane.AuditEvent) bool {
	resource := e.Resource
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	return r.group == e.Group && r.resource == resource && r.verb == e.Verb &&
		(r.namespace == "" || r.namespace == e.Namespace) && (r.name == "" || r.name == e.Name)
}

// granted are the permissions of the chart's roles that have one of the names.
func granted(t *testing.T, chart *assert.Chart, roles ...string) []right {
	t.Helper()
	var all []right
	for _, o := range chart.Objects {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" || !slices.Contains(roles,
			strings.TrimPrefix(o.GetName(), assert.ReleaseNamespace+":")) {
			continue
		}
		role := &rbacv1.Role{} // a ClusterRole's rules have the same fields
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			all = append(all, rightsOf(rule, o.GetNamespace())...)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no role %v in the chart", roles)
	}
	return all
}

func rightsOf(rule rbacv1.PolicyRule, namespace string) []right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, right{group: group, resource: resource, verb: verb, namespace: namespace, name: name})
				}
			}
		}
	}
	return all
}

// checkUsed: each permission was used, or has its reason why it was not. Everything has ended by
// now: the audit log has a watch when it ends.
func checkUsed(t *testing.T, r *framework.Rig, rights []right, reasons map[string]string) {
	t.Helper()
	unknown := maps.Clone(reasons)
	for _, have := range rights {
		delete(unknown, have.String())
	}
	for text := range unknown {
		t.Errorf("a reason is given for %q, which is no right of the chart", text)
	}
	assert.Await(t, "use of every right", func(context.Context) (bool, error) {
		requests, err := controlplane.ReadAuditLog(r.ControlPlane.AuditLogPath(), controlplane.ByUser(user), byStratos)
		if err != nil {
			return false, err
		}
		var unused []string
		for _, have := range rights {
			if reasons[have.String()] == "" && !slices.ContainsFunc(requests, have.covers) {
				unused = append(unused, have.String())
			}
		}
		if len(unused) > 0 {
			return false, errors.New("nothing used the right to " + strings.Join(unused, ", "))
		}
		t.Logf("%d requests used %d rights", len(requests), len(rights)-len(reasons))
		return true, nil
	})
}

// checkOwn: both containers share a ServiceAccount, so that a permission of one would hide that the
// other lacks it; where the chart leaves the scheduler out, its roles are missing. So every request
// is compared with the roles of its user.
func checkOwn(t *testing.T, r *framework.Rig, who string, made controlplane.AuditFilter, rights []right) {
	t.Helper()
	requests, err := controlplane.ReadAuditLog(r.ControlPlane.AuditLogPath(), controlplane.ByUser(user), made)
	if err != nil || len(requests) == 0 {
		t.Fatalf("%d requests of %s, %v", len(requests), who, err)
	}
	told := map[string]bool{}
	for _, e := range requests {
		isCovered := func(have right) bool { return have.covers(e) }
		if e.Resource == "" || slices.ContainsFunc(rights, isCovered) { // discovery is open to all
			continue
		}
		text := fmt.Sprintf("%s %s.%s/%s in %q", e.Verb, e.Resource, e.Group, e.Subresource, e.Namespace)
		if !told[text] {
			t.Errorf("%s has no right of its own to %s: %s", who, text, e.RequestURI)
		}
		told[text] = true
	}
}

func byStratos(e controlplane.AuditEvent) bool {
	return !isStranger(e) && !strings.HasPrefix(e.UserAgent, scheduler)
}

func countRequests(t *testing.T, r *framework.Rig, filters ...controlplane.AuditFilter) int {
	t.Helper()
	events, err := controlplane.ReadAuditLog(r.ControlPlane.AuditLogPath(), append(filters, controlplane.ByUser(user))...)
	if err != nil {
		t.Fatal(fmt.Errorf("requests of the chart's ServiceAccount: %w", err))
	}
	return len(events)
}
