package scaler

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/bootstraptoken"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
)

// withTokens gives the loops a key for bootstrap tokens.
func (r *rig) withTokens() *bootstraptoken.Tokens {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "tls.key")
	if err := os.WriteFile(file, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	tokens := &bootstraptoken.Tokens{Writer: r.api, KeyFile: file, Now: func() time.Time { return r.now }}
	r.nodes.Tokens = tokens
	return tokens
}

// tokenSecrets are the names of the Secrets in kube-system.
func (r *rig) tokenSecrets() []string {
	r.t.Helper()
	list := &corev1.SecretList{}
	if err := r.api.List(r.t.Context(), list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// TestALaunchHasATokenBeforeTheCloudIsAsked: the instance may boot before the answer is here. A
// token stays where the launch may have happened, by an earlier request for it too.
func TestALaunchHasATokenBeforeTheCloudIsAsked(t *testing.T) {
	lost, none := errors.New("connection reset"), &provider.InsufficientCapacityError{}
	for name, c := range map[string]struct {
		family v1alpha1.BootstrapFamily
		// answers are those to the requests for the launch, in order.
		answers []error
		made    bool
		left    bool
	}{
		"launched":                    {family: v1alpha1.FamilyKubeadm, answers: []error{nil}, made: true, left: true},
		"another family":              {family: v1alpha1.FamilyAL2023, answers: []error{nil}},
		"the answer is lost":          {family: v1alpha1.FamilyKubeadm, answers: []error{lost}, made: true, left: true},
		"no capacity":                 {family: v1alpha1.FamilyKubeadm, answers: []error{none}, made: true},
		"no capacity, twice":          {family: v1alpha1.FamilyKubeadm, answers: []error{none, none}, made: true},
		"no capacity, then launched":  {family: v1alpha1.FamilyKubeadm, answers: []error{none, nil}, made: true, left: true},
		"refused after a lost answer": {family: v1alpha1.FamilyKubeadm, answers: []error{lost, none}, made: true, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			class := awsClass()
			class.Spec.Bootstrap = &v1alpha1.Bootstrap{Family: c.family}
			r := newRig(t, class)
			var sent provider.LaunchRequest
			var there []string
			var answer error
			kinds := nodeclass.Kinds{Reader: r.api, Tokens: r.withTokens(), Served: []nodeclass.Kind{nodeclass.KindOf(
				v1alpha1.KindAWSNodeClass, func() *v1alpha1.AWSNodeClass { return &v1alpha1.AWSNodeClass{} },
				&v1alpha1.AWSNodeClassList{},
				func(_ context.Context, _ *v1alpha1.AWSNodeClass, req provider.LaunchRequest) (*provider.Instance, error) {
					sent, there = req, r.tokenSecrets()
					return &provider.Instance{}, answer
				}, nil)}}
			for _, answer = range c.answers {
				_, err := kinds.Launch(t.Context(), v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: class.Name},
					provider.LaunchRequest{ClientToken: "a", Tags: map[string]string{}})
				if !errors.Is(err, answer) {
					t.Errorf("error %v, want %v", err, answer)
				}
				id, _, _ := strings.Cut(sent.Registration.BootstrapToken, ".")
				if (len(there) == 1) != c.made || (id != "") != c.made || sent.Tags[bootstraptoken.Tag] != id {
					t.Errorf("Secrets %q, token with id %q, tags %v", there, id, sent.Tags)
				}
			}
			if left := r.tokenSecrets(); (len(left) == 1) != c.left {
				t.Errorf("Secrets after the launch: %q", left)
			}
		})
	}
}

// TestTheTokenEndsBeforeTheNodeIsAdopted: until it is deleted no pod may land on the node.
func TestTheTokenEndsBeforeTheNodeIsAdopted(t *testing.T) {
	registered := nodeIn("", func(n *corev1.Node) { n.Labels = nil })
	r := newRig(t, registered, nodePool(5, 0))
	token, _, err := r.withTokens().Create(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	r.sweep(instance(provider.InstanceRunning, justLaunched, withTag(bootstraptoken.Tag, token.ID)))
	r.refusing = errors.New("the API server does not answer")
	if _, err := r.nodes.Reconcile(t.Context(), "i-c"); !errors.Is(err, r.refusing) {
		t.Errorf("error %v, want the API server's", err)
	}
	if r.node("c").Labels[v1alpha1.LabelState] != "" {
		t.Error("the node is adopted while its token is good")
	}
	r.refusing, r.log = nil, nil
	r.reconcile()
	r.want("delete bootstrap-token-"+token.ID, "patch c warmup")
}

// TestATokenThatWasMadeAgainEndsWithTheWarmUp: a launch may be asked for again although its Node is
// adopted, while no list of the cloud shows the instance.
func TestATokenThatWasMadeAgainEndsWithTheWarmUp(t *testing.T) {
	r := newRig(t, nodeIn("", func(n *corev1.Node) { n.Labels = nil }), nodePool(5, 0))
	tokens := r.withTokens()
	token, _, err := tokens.Create(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	r.sweep(instance(provider.InstanceRunning, justLaunched, withTag(bootstraptoken.Tag, token.ID)))
	r.reconcile()
	if _, _, err := tokens.Create(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.reconcile()
	}
	if left := r.tokenSecrets(); len(left) > 0 || r.node("c").Annotations[v1alpha1.AnnotationWarmedAt] == "" {
		t.Errorf("Secrets %q of a warm node after %v", left, r.log)
	}
}

// TestTheTokenOfAnInstanceThatEnds: it never registered, so nothing else would delete its token.
func TestTheTokenOfAnInstanceThatEnds(t *testing.T) {
	for name, c := range map[string]struct {
		ends provider.InstanceState
		want []string
	}{
		"its warm-up took too long": {ends: provider.InstanceRunning, want: []string{"terminate i-c"}},
		"it ended by itself":        {ends: provider.InstanceTerminated},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0))
			token, _, err := r.withTokens().Create(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			launched := func(i *provider.Instance) {
				i.LaunchTime, i.Tags[bootstraptoken.Tag] = epoch().Add(-20*time.Minute), token.ID
			}
			r.sweep(instance(provider.InstanceRunning, launched))
			r.sweep(instance(c.ends, launched))
			for range 2 {
				r.reconcile()
			}
			if left := r.tokenSecrets(); len(left) > 0 {
				t.Errorf("Secrets %q after %v", left, r.log)
			}
			for _, what := range c.want {
				if !slices.Contains(r.log, what) {
					t.Errorf("%v, want %s", r.log, what)
				}
			}
		})
	}
}
