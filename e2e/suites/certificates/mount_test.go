package certificates

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// mount is a folder with the files of a Secret, kept as a kubelet keeps a volume: each file is a
// link into ..data, which is a link to a folder that never changes. An update writes a new folder
// and swaps ..data in one rename, so that no reader sees half of it; then the old one goes.
type mount struct {
	dir   string
	count int
}

func (m *mount) path(file string) string { return filepath.Join(m.dir, file) }

func (m *mount) update(t *testing.T, files map[string][]byte) {
	t.Helper()
	if err := m.swap(files); err != nil {
		t.Fatalf("update of %s: %v", m.dir, err)
	}
}

func (m *mount) swap(files map[string][]byte) error {
	current, link := m.path("..data"), m.path("..data_tmp")
	old, err := os.Readlink(current)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	m.count++
	version := fmt.Sprintf("..version_%d", m.count)
	if err := m.write(version, files); err != nil {
		return err
	}
	if err := os.Symlink(version, link); err != nil {
		return err
	}
	if err := os.Rename(link, current); err != nil {
		return err
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), m.path(name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(m.path(old))
}

func (m *mount) write(version string, files map[string][]byte) error {
	if err := os.Mkdir(m.path(version), 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(m.path(version), name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func secret(t *testing.T, r *framework.Rig, name string) map[string][]byte {
	t.Helper()
	s := &corev1.Secret{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if len(s.Data[file]) == 0 {
			t.Fatalf("Secret %s has no %s", name, file)
		}
	}
	return s.Data
}
