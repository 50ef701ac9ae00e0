package release

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	helm "helm.sh/helm/v4/pkg/registry"
)

// Login is how the registry knows who pushes. The zero value takes what `docker login` has left.
type Login struct{ User, Password string }

func (l Login) forImages() remote.Option {
	if l.Password == "" {
		return remote.WithAuthFromKeychain(authn.DefaultKeychain)
	}
	return remote.WithAuth(&authn.Basic{Username: l.User, Password: l.Password})
}

func (l Login) forCharts() []helm.ClientOption {
	if l.Password == "" {
		return nil
	}
	return []helm.ClientOption{helm.ClientOptBasicAuth(l.User, l.Password)}
}

// forPrograms is the environment by which cosign logs in: not by arguments, which every process of
// the machine may read. done removes what it names.
func (l Login) forPrograms(registry string) (env []string, done func(), err error) {
	if l.Password == "" {
		return nil, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "stratos-login-")
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = os.RemoveAll(dir) }
	host, _, _ := strings.Cut(registry, "/")
	encoded := base64.StdEncoding.EncodeToString([]byte(l.User + ":" + l.Password))
	config, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"auth": encoded}}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return []string{"DOCKER_CONFIG=" + dir}, done, nil
}
