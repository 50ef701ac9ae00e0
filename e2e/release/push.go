package release

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	helm "helm.sh/helm/v4/pkg/registry"
)

// PushOptions are what Push needs.
type PushOptions struct {
	// Root of the repository, whose module files have cosign.
	Root string
	// Folder is what Build has written.
	Folder string
	// Registry such as ghcr.io/stratos-sh, without scheme.
	Registry string
	Login    Login
	Signer   Signer
	Log      io.Writer
}

// Push pushes image and charts of a built release and signs them by digest. It is safe to repeat.
func Push(ctx context.Context, o PushOptions) error {
	if o.Registry == "" || strings.Contains(o.Registry, "://") {
		return fmt.Errorf("REGISTRY=%s: want a registry with its path and without a scheme, such as ghcr.io/stratos-sh",
			o.Registry)
	}
	if err := o.Signer.check(); err != nil {
		return err
	}
	if err := refuseTrial(o.Folder, o.Registry); err != nil {
		return err
	}
	if err := verifyChecksums(o.Folder); err != nil {
		return err
	}
	index, err := openIndex(filepath.Join(o.Folder, imageFolder))
	if err != nil {
		return err
	}
	version, created, err := builtAs(index)
	if err != nil {
		return err
	}
	pushed, err := o.pushImage(ctx, index, version)
	if err != nil {
		return err
	}
	references := []string{pushed}
	s := source{version: version, time: created}
	for _, chart := range charts() {
		reference, err := o.pushChart(s, chart)
		if err != nil {
			return fmt.Errorf("push chart %s: %w", chart, err)
		}
		references = append(references, reference)
	}
	return o.sign(ctx, references)
}

func (o PushOptions) sign(ctx context.Context, references []string) error {
	env, done, err := o.Login.forPrograms(o.Registry)
	if err != nil {
		return err
	}
	defer done()
	for _, reference := range references {
		state := "not signed"
		if o.Signer.signs() {
			if err := o.Signer.signImage(ctx, o.Root, reference, env); err != nil {
				return err
			}
			state = "signed"
		}
		fmt.Fprintf(o.Log, "%s (%s)\n", reference, state)
	}
	return nil
}

// builtAs reads the version of the release and the time of its commit from the image.
func builtAs(index v1.ImageIndex) (version string, created time.Time, err error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", time.Time{}, err
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return "", time.Time{}, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return "", time.Time{}, err
	}
	version = config.Config.Labels[versionLabel]
	return version, config.Created.Time, checkVersion(version)
}

func (o PushOptions) pushImage(ctx context.Context, index v1.ImageIndex, version string) (string, error) {
	ref, err := name.ParseReference(o.Registry + "/stratos:" + version)
	if err != nil {
		return "", err
	}
	err = remote.WriteIndex(ref, index, remote.WithContext(ctx), o.Login.forImages())
	if err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	digest, err := index.Digest()
	return ref.Context().Name() + "@" + digest.String(), err
}

func (o PushOptions) pushChart(s source, chart string) (string, error) {
	archive, err := os.ReadFile(filepath.Join(o.Folder, s.chartArchive(chart)))
	if err != nil {
		return "", err
	}
	options := append([]helm.ClientOption{helm.ClientOptWriter(io.Discard)}, o.Login.forCharts()...)
	if loopback(o.Registry) {
		options = append(options, helm.ClientOptPlainHTTP())
	}
	client, err := helm.NewClient(options...)
	if err != nil {
		return "", err
	}
	repository := o.Registry + "/charts/" + chart
	result, err := client.Push(archive, repository+":"+s.chartVersion(),
		helm.PushOptCreationTime(s.time.Format(time.RFC3339)))
	if err != nil {
		return "", err
	}
	return repository + "@" + result.Manifest.Digest, nil
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
