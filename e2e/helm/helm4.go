package helm

import (
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/release"
)

func render4(dir string, set Set) (Output, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return Output{}, err
	}
	version, err := common.ParseKubeVersion(set.Kubernetes)
	if err != nil {
		return Output{}, err
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace, install.KubeVersion = set.Release, set.Namespace, version
	released, err := install.Run(chart, set.copyOfValues())
	if err != nil {
		return Output{}, err
	}
	accessor, err := release.NewAccessor(released)
	if err != nil {
		return Output{}, err
	}
	manifest := accessor.Manifest()
	for _, hook := range accessor.Hooks() { // as `helm template` does
		accessor, err := release.NewHookAccessor(hook)
		if err != nil {
			return Output{}, err
		}
		manifest += "\n---\n" + accessor.Manifest()
	}
	return Output{Manifest: manifest, Notes: accessor.Notes()}, nil
}

func lint4(dir string, set Set) ([]string, error) {
	version, err := common.ParseKubeVersion(set.Kubernetes)
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
