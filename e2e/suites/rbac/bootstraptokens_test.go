package rbac

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/scaler/bootstraptoken"
)

// TestBootstrapTokens: as the ServiceAccount of the chart with bootstrapTokens.enabled, Stratos
// makes tokens that the API server accepts and kube-controller-manager removes, and can do nothing
// else to Secrets.
func TestBootstrapTokens(t *testing.T) {
	r := assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{
			APIServerArgs: []string{"--enable-bootstrap-token-auth=true"}, // as kubeadm sets it
			// kubeadm runs the cleaner too; it is off by default.
			ControllerManagerArgs: []string{"--controllers=*,token-cleaner-controller"},
		},
		NoStratos: true, NoScheduler: true,
	})
	chart := assert.ReadChart(t, "kubeadm")
	chart.Apply(t, r, "Deployment", "Certificate", "Issuer", "ValidatingWebhookConfiguration",
		"MutatingWebhookConfiguration")
	config, err := clientcmd.BuildConfigFromFlags("", chart.Identity(t, r))
	if err != nil {
		t.Fatal(err)
	}
	stratos, err := client.New(config, client.Options{Scheme: r.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "tls.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("key of the tokens ", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := &bootstraptoken.Tokens{Writer: stratos, KeyFile: key, Now: time.Now}
	t.Run("the policy is in force", func(t *testing.T) { policyHolds(t, stratos) })
	t.Run("a token is good until it is deleted", func(t *testing.T) { tokenIsGood(t, config, tokens) })
	t.Run("an expired token is refused and removed", func(t *testing.T) { tokenExpires(t, r, config, tokens) })
	t.Run("nothing else", func(t *testing.T) { refusedSecrets(t, r, stratos) })
}

// policyHolds waits until the API server has compiled the policy: it refuses nothing before.
func policyHolds(t *testing.T, stratos client.Client) {
	opaque := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "opaque"}}
	assert.Await(t, "the policy refuses an Opaque Secret", func(ctx context.Context) (bool, error) {
		err := stratos.Create(ctx, opaque.DeepCopy(), client.DryRunAll)
		return isRefusedByPolicy(err), nil // at first it is made
	})
}

func isRefusedByPolicy(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") &&
		strings.Contains(err.Error(), "denied request: ")
}

// userOf is who the API server takes the bearer of the token for.
func userOf(t *testing.T, config *rest.Config, token string) (authenticationv1.UserInfo, error) {
	t.Helper()
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	err = c.Create(t.Context(), review)
	return review.Status.UserInfo, err
}

func tokenIsGood(t *testing.T, config *rest.Config, tokens *bootstraptoken.Tokens) {
	token, _, err := tokens.Create(t.Context(), "launch-1")
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := tokens.Create(t.Context(), "launch-1")
	if err != nil || again != token {
		t.Errorf("asked again for the same launch: another token (%v), %v", again != token, err)
	}
	assert.Await(t, "the API server accepts the token", func(context.Context) (bool, error) {
		user, err := userOf(t, config, token.String())
		if apierrors.IsUnauthorized(err) {
			return false, nil // its cache of Secrets is a moment behind
		}
		groups := strings.Join(user.Groups, " ")
		if user.Username != "system:bootstrap:"+token.ID || !strings.Contains(groups, bootstraptoken.Group) {
			t.Errorf("the bearer of the token is %q of %q", user.Username, groups)
		}
		return true, err
	})
	if err := tokens.Delete(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Delete(t.Context(), token.ID); err != nil {
		t.Errorf("a token that is gone is deleted: %v", err)
	}
	assert.Await(t, "the API server refuses the token", func(context.Context) (bool, error) {
		_, err := userOf(t, config, token.String())
		return apierrors.IsUnauthorized(err), nil
	})
}

// tokenExpires: the token was made by a Stratos of two hours ago that could not delete it.
func tokenExpires(t *testing.T, r *framework.Rig, config *rest.Config, tokens *bootstraptoken.Tokens) {
	before := *tokens
	before.Now = func() time.Time { return time.Now().Add(-2 * bootstraptoken.Lifetime) }
	token, _, err := before.Create(t.Context(), "launch-2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := userOf(t, config, token.String()); !apierrors.IsUnauthorized(err) {
		t.Errorf("an expired token: %v, want Unauthorized", err)
	}
	assert.Await(t, "the token cleaner removes it", func(ctx context.Context) (bool, error) {
		secret := &corev1.Secret{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + token.ID},
			secret)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// goodToken is a Secret as Stratos may make it.
func goodToken(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "stratos"}},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"),
			"expiration":                     []byte(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)),
			"usage-bootstrap-authentication": []byte("true"), "auth-extra-groups": []byte(bootstraptoken.Group),
		},
	}
}

// refusedSecrets is every other Secret of kube-system, and of other namespaces.
func refusedSecrets(t *testing.T, r *framework.Rig, stratos client.Client) {
	const name = "bootstrap-token-abcdef"
	if err := stratos.Create(t.Context(), goodToken(name), client.DryRunAll); err != nil {
		t.Fatalf("what the others are changed from: %v", err)
	}
	for what, change := range map[string]func(*corev1.Secret){
		"another type":  func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"another name":  func(s *corev1.Secret) { s.Name = "etcd-key" },
		"another group": func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:bootstrappers:admins") },
		"a second group": func(s *corev1.Secret) {
			s.Data["auth-extra-groups"] = []byte(bootstraptoken.Group + ",system:bootstrappers:x")
		},
		"no group":          func(s *corev1.Secret) { delete(s.Data, "auth-extra-groups") },
		"no expiration":     func(s *corev1.Secret) { delete(s.Data, "expiration") },
		"to sign":           func(s *corev1.Secret) { s.Data["usage-bootstrap-signing"] = []byte("true") },
		"without the label": func(s *corev1.Secret) { s.Labels = nil },
		"without data":      func(s *corev1.Secret) { s.Data = nil },
	} {
		secret := goodToken(name)
		change(secret)
		if err := stratos.Create(t.Context(), secret, client.DryRunAll); !isRefusedByPolicy(err) {
			t.Errorf("%s: %v, want the policy's refusal", what, err)
		}
	}
	kubeadms := goodToken("bootstrap-token-123456")
	kubeadms.Labels, kubeadms.Data["token-id"] = nil, []byte("123456")
	opaque := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "others"}}
	for _, secret := range []*corev1.Secret{kubeadms, opaque} {
		assert.Create(t, r, secret)
		if err := stratos.Delete(t.Context(), secret.DeepCopy()); !isRefusedByPolicy(err) {
			t.Errorf("delete %s of others: %v, want the policy's refusal", secret.Name, err)
		}
		// RBAC gives no more than create and delete, and nothing elsewhere.
		for verb, err := range map[string]error{
			"get":    stratos.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{}),
			"update": stratos.Update(t.Context(), secret.DeepCopy()),
			"patch":  stratos.Patch(t.Context(), secret.DeepCopy(), client.Merge),
		} {
			if !apierrors.IsForbidden(err) || isRefusedByPolicy(err) {
				t.Errorf("%s %s: %v, want Forbidden", verb, secret.Name, err)
			}
		}
	}
	err := stratos.List(t.Context(), &corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem))
	if !apierrors.IsForbidden(err) {
		t.Errorf("list: %v, want Forbidden", err)
	}
	elsewhere := goodToken(name)
	elsewhere.Namespace = metav1.NamespaceDefault
	if err := stratos.Create(t.Context(), elsewhere, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a token in another namespace: %v, want Forbidden", err)
	}
}
