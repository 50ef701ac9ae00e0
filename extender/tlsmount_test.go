package extender

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// mountSecret writes the files as a kubelet mounts a Secret: links into ..data, which is a link
// that each update swaps in one rename, after which the folder of the last version goes.
func mountSecret(t *testing.T, dir string, version int, files map[string][]byte) {
	t.Helper()
	folder := fmt.Sprintf("..version_%d", version)
	if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		writeFile(t, filepath.Join(dir, folder, name), content)
	}
	if err := os.Symlink(folder, filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if version > 1 {
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..version_%d", version-1))); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMountedSecretIsReloadedWithoutRestart: twice, because each swap takes away the files that a
// watch was set on.
func TestMountedSecretIsReloadedWithoutRestart(t *testing.T) {
	servers, first, second := newAuthority(t, "servers"), newAuthority(t, "first"), newAuthority(t, "second")
	dir := t.TempDir()
	mount := func(version int, clients *authority) (serial int64) {
		certificate, key := servers.issue(t, x509.ExtKeyUsageServerAuth)
		serial = servers.serial
		mountSecret(t, dir, version, map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": clients.pem()})
		return serial
	}
	mount(1, first)
	address, _, _ := start(t, newTestServer(t, acceptAll(), Options{CertDir: dir, ClientCA: filepath.Join(dir, "ca.crt")}))
	for version, allowed := range []*authority{first, second, first} {
		if version > 0 {
			awaitSerial(t, address, servers, mount(version+1, allowed))
		}
		for _, clients := range []*authority{first, second} {
			code, err := post(t, servers.client(t, clients), "https://"+address+"/filter")
			if served := err == nil && code == http.StatusOK; served != (clients == allowed) {
				t.Errorf("version %d, client of %s: %d, %v", version+1, clients.certificate.Subject.CommonName, code, err)
			}
		}
	}
}

// awaitSerial handshakes until the server shows the certificate: the watcher learns of it from the
// kernel, or at the latest after its 10 s.
func awaitSerial(t *testing.T, address string, servers *authority, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	config := servers.client(t, nil).Transport.(*http.Transport).TLSClientConfig
	for {
		got, err := serialOf(ctx, address, config)
		if err != nil {
			t.Fatalf("serial %d, want %d: %v", got, want, err)
		}
		if got == want {
			return
		}
	}
}
