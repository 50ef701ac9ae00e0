package nodeimage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
)

// Create returns node-images.yaml of a release with these versions. With the method build it builds
// each image first. instructions are the files of node-image, in which no token is left; progress
// takes what Packer prints.
func Create(ctx context.Context, c *Config, v *format.Versions, instructions files.Files,
	progress io.Writer) ([]byte, error) {
	all := imagesOf(c, v)
	if c.Method == Build {
		if err := build(ctx, all.Images, c.Regions, instructions, progress); err != nil {
			return nil, err
		}
	}
	return all.Text()
}

// build builds all images in all regions and adds their ids. The error names those that were built
// before: they stay in the account.
func build(ctx context.Context, images []Image, regions []string, instructions files.Files, progress io.Writer) error {
	packer, err := exec.LookPath("packer")
	if err != nil {
		return fmt.Errorf("packer must be on PATH for the method build: %w", err)
	}
	if len(instructions) == 0 {
		return fmt.Errorf("%s must have a Packer template for the method build", format.NodeImageFolder)
	}
	work, err := os.MkdirTemp("", "stratos-node-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	folder := filepath.Join(work, format.NodeImageFolder)
	if err := instructions.WriteNew(folder); err != nil {
		return err
	}
	var built []string
	for i := range images {
		image := &images[i]
		image.AMIs = map[string]string{}
		for _, in := range regions {
			id, err := buildOne(ctx, packer, folder, image, in, progress)
			if err != nil {
				err = fmt.Errorf("build %s in %s: %w", image.Name, in, err)
				if len(built) > 0 {
					err = fmt.Errorf("%w; deregister what was built before: %s", err, strings.Join(built, ", "))
				}
				return err
			}
			image.AMIs[in] = id
			built = append(built, id+" in "+in)
		}
	}
	return nil
}

// manifestFile is where the template's post-processor writes what was built.
const manifestFile = "packer-manifest.json"

func buildOne(ctx context.Context, packer, folder string, image *Image, in string, progress io.Writer) (string, error) {
	manifest := filepath.Join(filepath.Dir(folder), manifestFile)
	cmd := exec.CommandContext(ctx, packer, "build", "-var", "base="+image.BaseOS, "-var",
		"architecture="+image.Architecture, "-var", "region="+in, "-var", "manifest="+manifest, folder)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, progress, progress
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("packer build: %w", err)
	}
	text, err := os.ReadFile(manifest)
	if err != nil {
		return "", fmt.Errorf("packer wrote no manifest: %w", err)
	}
	// Packer adds to a manifest that is there.
	if err := os.Remove(manifest); err != nil {
		return "", err
	}
	return idOf(text, in)
}

// idOf is the id of the image in a region, of Packer's manifest.
func idOf(manifest []byte, in string) (string, error) {
	var m struct {
		Builds []struct {
			ArtifactID string `json:"artifact_id"`
		} `json:"builds"`
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		return "", fmt.Errorf("manifest of packer: %w", err)
	}
	var found []string
	for _, b := range m.Builds {
		for each := range strings.SplitSeq(b.ArtifactID, ",") {
			at, id, _ := strings.Cut(each, ":")
			if at == in && amiID.MatchString(id) {
				return id, nil
			}
			found = append(found, each)
		}
	}
	return "", fmt.Errorf("manifest of packer: builds must have the artifact_id %s:ami-..., and has %q", in, found)
}
