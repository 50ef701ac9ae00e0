package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Users that the API server's own RBAC policy knows.
const (
	adminUser             = "kubernetes-admin"
	adminGroup            = "system:masters"
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
	frontProxyUser        = "front-proxy-client"
)

var notFileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Kubeconfig is the path of the administrator's kubeconfig (group system:masters).
func (c *ControlPlane) Kubeconfig() string { return c.kubeconfigPath("admin") }

// SchedulerKubeconfig is the path of the kubeconfig of user system:kube-scheduler. That user may
// use any lease in kube-system; a scheduler with a lease elsewhere needs RBAC rules for it.
func (c *ControlPlane) SchedulerKubeconfig() string { return c.kubeconfigPath("scheduler") }

func (c *ControlPlane) kubeconfigPath(name string) string {
	return filepath.Join(c.dir, "kubeconfig", name+".kubeconfig")
}

// UserKubeconfig issues a client certificate and returns the path of a kubeconfig with it, so that
// the audit log can tell who wrote. A user without groups may do what RBAC grants it, which at
// first is nothing; the group system:masters may do everything. The file stands on its own and is
// removed by [ControlPlane.Stop].
func (c *ControlPlane) UserKubeconfig(name string, groups ...string) (string, error) {
	if name == "" {
		return "", errors.New("a user needs a name")
	}
	// system:a and system-a are two files
	sum := sha256.Sum256([]byte(strings.Join(append([]string{name}, groups...), "\x00")))
	path := c.kubeconfigPath("user-" + notFileName.ReplaceAllString(name, "-") + "-" + hex.EncodeToString(sum[:4]))
	return path, c.writeKubeconfig(path, name, groups...)
}

// TokenKubeconfig returns the path of a kubeconfig with the bearer token, for example that of a
// ServiceAccount. The name is only the file's. It is removed by [ControlPlane.Stop].
func (c *ControlPlane) TokenKubeconfig(name, token string) (string, error) {
	path := c.kubeconfigPath("token-" + notFileName.ReplaceAllString(name, "-"))
	return path, c.writeUser(path, name, map[string]any{"token": token})
}

func (c *ControlPlane) writeKubeconfig(path, user string, groups ...string) error {
	pair, err := c.authority.client(user, groups...)
	if err != nil {
		return err
	}
	return c.writeUser(path, user, map[string]any{"client-certificate-data": pair.certificate,
		"client-key-data": pair.key})
}

func (c *ControlPlane) writeUser(path, user string, credentials map[string]any) error {
	// JSON is YAML, and encoding/json quotes any user name right. The certificates are inside, because
	// people copy kubeconfigs.
	data, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []any{map[string]any{"name": "stratos", "cluster": map[string]any{
			"server": c.apiServerURL(), "certificate-authority-data": c.authority.pair.certificate}}},
		"users": []any{map[string]any{"name": user, "user": credentials}},
		"contexts": []any{map[string]any{"name": "stratos", "context": map[string]any{"cluster": "stratos",
			"user": user}}},
		"current-context": "stratos",
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the kubeconfig of %s: %w", user, err)
	}
	return os.WriteFile(path, data, 0o600)
}

// writeKubeconfigs makes those of the users that every control plane has.
func (c *ControlPlane) writeKubeconfigs() error {
	if err := c.writeKubeconfig(c.Kubeconfig(), adminUser, adminGroup); err != nil {
		return err
	}
	if err := c.writeKubeconfig(c.kubeconfigPath("controller-manager"), controllerManagerUser); err != nil {
		return err
	}
	return c.writeKubeconfig(c.SchedulerKubeconfig(), schedulerUser)
}
