package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
)

// WriteServingCertificate issues a certificate for loopback and puts it into the folder as tls.crt,
// tls.key and ca.crt, the names of a mounted Secret of cert-manager. Called again it replaces them
// by a new pair of the same authority ([ControlPlane.CAFile]).
func (c *ControlPlane) WriteServingCertificate(dir, name string) error {
	pair, err := c.authority.server(name)
	if err != nil {
		return err
	}
	return c.writeSecret(dir, name, pair)
}

// WriteClientCertificate does the same with a certificate for a client.
func (c *ControlPlane) WriteClientCertificate(dir, name string) error {
	pair, err := c.authority.client(name)
	if err != nil {
		return err
	}
	return c.writeSecret(dir, name, pair)
}

func (c *ControlPlane) writeSecret(dir, name string, pair keyPair) error {
	for file, data := range map[string][]byte{"tls.crt": pair.certificate, "tls.key": pair.key,
		"ca.crt": c.authority.pair.certificate} {
		// In one step each: who watches the folder must never read half a file.
		half := filepath.Join(dir, "."+file)
		if err := os.WriteFile(half, data, 0o600); err != nil {
			return fmt.Errorf("write the certificate of %s: %w", name, err)
		}
		if err := os.Rename(half, filepath.Join(dir, file)); err != nil {
			return fmt.Errorf("write the certificate of %s: %w", name, err)
		}
	}
	return nil
}
