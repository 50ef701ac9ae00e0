package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Signer signs by cosign with a key, or keyless with the identity of a workflow. The zero value
// signs nothing.
type Signer struct {
	// Key is the private key. Its password is in COSIGN_PASSWORD.
	Key string
	// Keyless has cosign ask for a certificate and write into the public log.
	Keyless bool
}

// withoutServices has cosign sign by the key alone: no certificate, log or timestamp, so no
// network.
const withoutServices = `{"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
 "rekorTlogConfig": {}, "tsaConfig": {}}`

// withoutAuthorities is the matching trusted root, which cosign would fetch otherwise.
const withoutAuthorities = `{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`

func (s Signer) check() error {
	if s.Key == "" {
		return nil
	}
	if s.Keyless {
		return errors.New("sign with a key or keyless, not both")
	}
	if _, set := os.LookupEnv("COSIGN_PASSWORD"); !set {
		return errors.New("COSIGN_PASSWORD is not set: it is the password of KEY, empty for a key without one")
	}
	_, err := os.Stat(s.Key)
	return err
}

func (s Signer) signs() bool { return s.Key != "" || s.Keyless }

// signFile writes the signature of the file as a bundle.
func (s Signer) signFile(ctx context.Context, root, file, bundle string) error {
	return s.cosign(ctx, root, nil, "sign-blob", "--bundle="+bundle, file)
}

// signImage signs the artefact at repository@digest in its registry.
func (s Signer) signImage(ctx context.Context, root, reference string, env []string) error {
	return s.cosign(ctx, root, env, "sign", reference)
}

func (s Signer) cosign(ctx context.Context, root string, env []string, verb string, args ...string) error {
	words := []string{verb, "--yes"}
	if s.Key != "" {
		work, err := os.MkdirTemp("", "stratos-sign-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		config, trusted := filepath.Join(work, "config.json"), filepath.Join(work, "root.json")
		err = errors.Join(os.WriteFile(config, []byte(withoutServices), 0o600),
			os.WriteFile(trusted, []byte(withoutAuthorities), 0o600))
		if err != nil {
			return err
		}
		key, err := filepath.Abs(s.Key)
		if err != nil {
			return err
		}
		words = append(words, "--key="+key, "--signing-config="+config, "--trusted-root="+trusted)
	}
	cosign := tool(root, "cosign", append(words, args...)...)
	cosign.env = env
	_, err := cosign.run(ctx)
	return err
}

// loopback reports whether the registry is on this machine, where it is asked by plain HTTP.
func loopback(registry string) bool {
	host, _, _ := strings.Cut(registry, "/")
	return strings.HasPrefix(host, "127.0.0.1:") || strings.HasPrefix(host, "localhost:")
}

// refuseTrial keeps a trial from every registry that others can reach.
func refuseTrial(folder, registry string) error {
	if _, err := os.Stat(filepath.Join(folder, trialFile)); err == nil && !loopback(registry) {
		return fmt.Errorf("%s is a trial, see its file %s: it is pushed to a registry on loopback only", folder, trialFile)
	}
	return nil
}
