package controlplane

import (
	"context"
	_ "embed"
	"fmt"
	"io"
)

// A module file of its own, because the kubelet requires more than the control plane does.
//
//go:embed node.mod
var nodeModuleFile string

//go:embed node.sum
var nodeModuleSums string

// BuildNode returns a folder with kubelet, kubeadm and kube-proxy of the version that [Build] has,
// for those who make a real node: the suites in e2e/kind do so where no node image can be pulled.
// It builds and caches them as [Build] does, apart from the control plane, which most people need
// without nodes.
func BuildNode(ctx context.Context, progress io.Writer) (string, error) {
	r, err := nodeRecipe()
	if err != nil {
		return "", err
	}
	return r.Build(ctx, progress)
}

func nodeRecipe() (Recipe, error) {
	r, err := componentsRecipe(nodeModuleFile, nodeModuleSums)
	if err != nil {
		return Recipe{}, fmt.Errorf("node.mod of e2e/controlplane: %w", err)
	}
	linked := r.Commands[0].LDFlags
	r.Name = "kubernetes-node"
	r.Commands = []Command{kubernetesCommand("kubelet", linked), kubernetesCommand("kubeadm", linked),
		kubernetesCommand("kube-proxy", linked)}
	return r, nil
}
