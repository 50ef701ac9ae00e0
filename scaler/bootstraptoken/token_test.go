package bootstraptoken

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/provider"
)

// writer is an API server for Secrets.
type writer struct {
	secrets map[string]*corev1.Secret
	refuses error
}

func (w *writer) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if w.refuses != nil {
		return w.refuses
	}
	if w.secrets[o.GetName()] != nil {
		return apierrors.NewAlreadyExists(corev1.Resource("secrets"), o.GetName())
	}
	w.secrets[o.GetName()] = o.(*corev1.Secret)
	return nil
}

func (w *writer) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	if w.refuses != nil {
		return w.refuses
	}
	if w.secrets[o.GetName()] == nil {
		return apierrors.NewNotFound(corev1.Resource("secrets"), o.GetName())
	}
	delete(w.secrets, o.GetName())
	return nil
}

func now() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }

func newTokens(t *testing.T, key string) (*Tokens, *writer) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tls.key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &writer{secrets: map[string]*corev1.Secret{}}
	return &Tokens{Writer: w, KeyFile: file, Now: now}, w
}

const aKey = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk" // minKey bytes

// TestATokenFollowsFromItsLaunch: the same launch has the same token, in another process too, and
// without the key it cannot be computed.
func TestATokenFollowsFromItsLaunch(t *testing.T) {
	token := Of([]byte(aKey), "launch-1")
	if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(token.String()) {
		t.Errorf("%q is no bootstrap token", token)
	}
	if Of([]byte(aKey), "launch-1") != token {
		t.Error("the same launch has another token")
	}
	for what, other := range map[string]Token{
		"another launch": Of([]byte(aKey), "launch-2"), "another key": Of([]byte(aKey+"k"), "launch-1"),
	} {
		if other.ID == token.ID || other.Secret == token.Secret {
			t.Errorf("%s has the same token", what)
		}
	}
	tokens, w := newTokens(t, aKey)
	for repeated := range 2 {
		if same, made, err := tokens.Create(t.Context(), "launch-1"); err != nil || same != token || made == (repeated == 1) {
			t.Errorf("made %v for request %d, token %s, or error %v", made, repeated, same, err)
		}
	}
	secret := w.secrets["bootstrap-token-"+token.ID]
	if len(w.secrets) != 1 || secret == nil || string(secret.Data["token-secret"]) != token.Secret ||
		string(secret.Data["expiration"]) != "2026-11-25T13:00:00Z" {
		t.Errorf("Secrets %v", w.secrets)
	}
}

func TestNoTokenWithoutAKey(t *testing.T) {
	var none *Tokens
	if _, _, err := none.Create(t.Context(), "a"); !provider.IsInvalidConfig(err) ||
		!strings.Contains(err.Error(), "spec.bootstrap.family") || !strings.Contains(err.Error(), "bootstrapTokens.enabled") {
		t.Errorf("without tokens: %v", err)
	}
	short, w := newTokens(t, aKey[1:])
	if _, _, err := short.Create(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "31 bytes; it needs 32") {
		t.Errorf("a short key: %v", err)
	}
	short.KeyFile += ".gone"
	if _, _, err := short.Create(t.Context(), "a"); !errors.Is(err, os.ErrNotExist) || len(w.secrets) > 0 {
		t.Errorf("no key: %v", err)
	}
}

func TestARefusedSecretIsAnError(t *testing.T) {
	tokens, w := newTokens(t, aKey)
	w.refuses = apierrors.NewForbidden(corev1.Resource("secrets"), "x", errors.New("no permission"))
	if token, _, err := tokens.Create(t.Context(), "a"); !apierrors.IsForbidden(err) || token != (Token{}) {
		t.Errorf("token %v, error %v", token, err)
	}
	if err := tokens.Delete(t.Context(), "abcdef"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "abcdef") {
		t.Errorf("error %v", err)
	}
}

// TestRevoke: no call is made for a token that is no longer good.
func TestRevoke(t *testing.T) {
	for name, c := range map[string]struct {
		tag   string
		age   time.Duration
		calls bool
	}{
		"without a token":    {age: time.Minute},
		"just registered":    {tag: "abcdef", age: time.Minute, calls: true},
		"after its hour":     {tag: "abcdef", age: Lifetime + time.Second},
		"in its last second": {tag: "abcdef", age: Lifetime, calls: true},
	} {
		t.Run(name, func(t *testing.T) {
			tokens, w := newTokens(t, aKey)
			w.refuses = errors.New("called")
			instance := &provider.Instance{LaunchTime: now().Add(-c.age), Tags: map[string]string{}}
			if c.tag != "" {
				instance.Tags[Tag] = c.tag
			}
			if err := tokens.Revoke(t.Context(), instance); (err != nil) != c.calls {
				t.Errorf("called %v, want %v", err != nil, c.calls)
			}
			if err := (*Tokens)(nil).Revoke(t.Context(), instance); err != nil {
				t.Errorf("where no tokens are made: %v", err)
			}
		})
	}
}
