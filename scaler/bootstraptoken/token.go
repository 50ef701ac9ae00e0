// Package bootstraptoken makes the tokens with which the instances of Kubeadm classes obtain the
// certificate of their kubelet, one for each launch. A token is computed from the launch, so that a
// launch that is repeated sends the same user data, and nothing is stored.
package bootstraptoken

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/provider"
)

const (
	// Tag holds the id of the token that an instance was launched with. The id is no secret.
	Tag = "stratos.sh/bootstrap-token"
	// Lifetime is how long a token is good for, if it is not deleted before.
	Lifetime = time.Hour
	// Group may create and get signed the certificate of a node (kubeadm's cluster role bindings). It
	// stands in every token of kubeadm's own.
	Group = "system:bootstrappers:kubeadm:default-node-token"

	namePrefix = "bootstrap-token-"
	// managedBy is the label by which the chart's policy knows the Secrets that Stratos may delete.
	managedBy, stratos = "app.kubernetes.io/managed-by", "stratos"

	// minKey is the fewest bytes of a key: a shorter one may be guessed.
	minKey = 32
	// idLength and secretLength are the bootstrap token's own: [a-z0-9]{6}.[a-z0-9]{16}.
	idLength, secretLength = 6, 16
)

// Token is a bootstrap token.
type Token struct{ ID, Secret string }

func (t Token) String() string { return t.ID + "." + t.Secret }

// Of is the token of a launch: 30 bits of id and 80 of secret that only the holder of the key can
// compute.
func Of(key []byte, clientToken string) Token {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("stratos.sh bootstrap token of launch " + clientToken))
	text := strings.ToLower(base32.StdEncoding.EncodeToString(mac.Sum(nil)))
	return Token{ID: text[:idLength], Secret: text[idLength : idLength+secretLength]}
}

// Tokens keeps the Secrets by which the API server knows the tokens. A nil one makes none.
type Tokens struct {
	// Writer creates and deletes Secrets in kube-system. Stratos may not read them.
	Writer interface {
		Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
		Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error
	}
	// KeyFile has the key of all tokens. It is read at each launch, because a mounted file may change.
	KeyFile string
	Now     func() time.Time
}

// +kubebuilder:rbac:roleName=bootstrap,namespace=kube-system,groups="",resources=secrets,verbs=create;delete

// Create makes the token of a launch and its Secret. made is false where the Secret is there
// already: then an earlier request for the same launch made it. Errors: InvalidConfig where no
// tokens are made, and the API server's.
func (t *Tokens) Create(ctx context.Context, clientToken string) (token Token, made bool, err error) {
	if t == nil {
		return Token{}, false, &provider.InvalidConfigError{Field: "spec.bootstrap.family",
			Reason: "Kubeadm needs bootstrap tokens, and Stratos runs without --bootstrap-token-key-file " +
				"(bootstrapTokens.enabled of the chart)"}
	}
	key, err := os.ReadFile(t.KeyFile)
	if err != nil {
		return Token{}, false, fmt.Errorf("the key of bootstrap tokens: %w", err)
	}
	if len(key) < minKey {
		return Token{}, false, fmt.Errorf("the key of bootstrap tokens in %s has %d bytes; it needs %d at least", t.KeyFile,
			len(key), minKey)
	}
	token = Of(key, clientToken)
	err = t.Writer.Create(ctx, t.secretOf(token))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return Token{}, false, fmt.Errorf("bootstrap token of the launch: %w", err)
	}
	return token, err == nil, nil
}

// secretOf is the Secret by which kube-apiserver accepts the token (k8s.io/cluster-bootstrap). The
// token cleaner of kube-controller-manager removes it once it has expired.
func (t *Tokens) secretOf(token Token) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: namePrefix + token.ID, Labels: map[string]string{managedBy: stratos},
		},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(token.ID), "token-secret": []byte(token.Secret),
			"description":                    []byte("One launch of Stratos, which deletes it once the Node has registered"),
			"expiration":                     []byte(t.Now().Add(Lifetime).UTC().Format(time.RFC3339)),
			"usage-bootstrap-authentication": []byte("true"),
			"auth-extra-groups":              []byte(Group),
		},
	}
}

// Delete ends the token with the id. One that is not there is no error.
func (t *Tokens) Delete(ctx context.Context, id string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: namePrefix + id}}
	if err := client.IgnoreNotFound(t.Writer.Delete(ctx, secret)); err != nil {
		return fmt.Errorf("bootstrap token %s of the launch: %w", id, err)
	}
	return nil
}

// Revoke ends the token that the instance was launched with, if that was so lately that it is still
// good.
func (t *Tokens) Revoke(ctx context.Context, instance *provider.Instance) error {
	id := instance.Tags[Tag]
	if t == nil || id == "" || t.Now().Sub(instance.LaunchTime) > Lifetime {
		return nil
	}
	return t.Delete(ctx, id)
}
