package release

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// The files of a plugin archive. kubectl's completion calls the second one.
const (
	pluginName   = "kubectl-stratos"
	completeName = "kubectl_complete-stratos"
)

// completeScript has the plugin on PATH complete. A link to the plugin would do, but krew unpacks
// no links, and a copy would double the archive.
const completeScript = "#!/bin/sh\nexec " + pluginName + " __complete \"$@\"\n"

// platform is an operating system and an architecture in Go's names.
type platform struct{ os, arch string }

// pluginPlatforms are those that the plugin is released for.
func pluginPlatforms() []platform {
	return []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
		{"windows", "amd64"}}
}

func (p platform) exe() string {
	if p.os == "windows" {
		return ".exe"
	}
	return ""
}

// pluginArchive is the name of the archive for a platform.
func pluginArchive(version string, p platform) string {
	extension := "tar.gz"
	if p.os == "windows" {
		extension = "zip"
	}
	return fmt.Sprintf("%s_%s_%s_%s.%s", pluginName, version, p.os, p.arch, extension)
}

// ldflags are those of the Makefile, the Dockerfile and .ko.yaml. A test in e2e/repocheck compares
// these.
func ldflags(version string) string { return "-s -w -X main.version=" + version }

// buildEnvironment keeps what the user has set for other builds out of a release.
func buildEnvironment() []string {
	return []string{"CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT="}
}

// buildPlugin writes the archive of the plugin for one platform into the folder.
func (s source) buildPlugin(ctx context.Context, p platform, folder string) error {
	work, err := os.MkdirTemp("", "stratos-plugin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, pluginName)
	build := command{
		dir: s.root,
		env: append(buildEnvironment(), "GOOS="+p.os, "GOARCH="+p.arch),
		words: []string{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags(s.version), "-o", binary,
			"./cmd/kubectl-stratos"},
	}
	if _, err := build.run(ctx); err != nil {
		return err
	}
	members, err := s.pluginMembers(p, binary)
	if err != nil {
		return err
	}
	name := pluginArchive(s.version, p)
	write := writeTarGz
	if strings.HasSuffix(name, ".zip") {
		write = writeZip
	}
	return writeFile(filepath.Join(folder, name), func(w io.Writer) error { return write(w, s.time, members) })
}

func (s source) pluginMembers(p platform, binary string) ([]member, error) {
	plugin, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(s.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	complete := []byte(completeScript)
	if p.os == "windows" { // has no sh; the binary completes under this name
		complete = plugin
	}
	return []member{
		{name: "LICENSE", content: license},
		{name: pluginName + p.exe(), executable: true, content: plugin},
		{name: completeName + p.exe(), executable: true, content: complete},
	}, nil
}
