package helm

import (
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint/support"
)

func render3(dir string, set Set) (Output, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return Output{}, err
	}
	version, err := chartutil.ParseKubeVersion(set.Kubernetes)
	if err != nil {
		return Output{}, err
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.DryRun, install.ClientOnly, install.DryRunOption = true, true, "client"
	install.ReleaseName, install.Namespace, install.KubeVersion = set.Release, set.Namespace, version
	release, err := install.Run(chart, set.copyOfValues())
	if err != nil {
		return Output{}, err
	}
	manifest := release.Manifest
	for _, hook := range release.Hooks { // as `helm template` does
		manifest += "\n---\n" + hook.Manifest
	}
	return Output{Manifest: manifest, Notes: release.Info.Notes}, nil
}

func lint3(dir string, set Set) ([]string, error) {
	version, err := chartutil.ParseKubeVersion(set.Kubernetes)
	if err != nil {
		return nil, err
	}
	lint := action.NewLint()
	lint.Strict, lint.Namespace, lint.KubeVersion = true, set.Namespace, version
	result := lint.Run([]string{dir}, set.copyOfValues())
	var found []string
	for _, message := range result.Messages {
		if message.Severity >= support.WarningSev {
			found = append(found, message.Error())
		}
	}
	return append(found, texts(result.Errors)...), nil
}
