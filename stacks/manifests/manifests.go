// Package manifests writes the objects by which a release is used in a management cluster: a
// ClusterStack for the operator, and a Cluster of the release's class. It is pure.
package manifests

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/release"
)

// Options are what a Cluster needs beyond the release.
type Options struct {
	// Namespace is that of the Cluster, and with it of the class.
	Namespace string
	// Cluster is the name of the Cluster.
	Cluster string
	// ControlPlaneReplicas is the number of control-plane machines, an odd one.
	ControlPlaneReplicas int
	// Values are those of the class's variables.
	Values []Value
}

// ClusterStack returns the object by which the operator makes the release's class. It names its
// version, because the operator finds none by itself in the channel custom, and has no provider,
// because the class finds the node image by its name.
func ClusterStack(r *release.Release, namespace string) ([]byte, error) {
	channel := "stable"
	if !r.Tag.Version.IsStable() {
		channel = "custom"
	}
	return object("clusterstack.x-k8s.io/v1alpha1", "ClusterStack", namespace, r.Tag.Base(), map[string]any{
		"provider": r.Tag.Provider, "name": r.Tag.Stack, "kubernetesVersion": r.Tag.Minor.Dotted(), "channel": channel,
		"autoSubscribe": false, "noProvider": true, "versions": []string{r.Tag.Version.String()},
	})
}

// Cluster returns a Cluster of the release's class.
func Cluster(r *release.Release, o Options) ([]byte, error) {
	if o.ControlPlaneReplicas < 1 || o.ControlPlaneReplicas%2 == 0 {
		return nil, fmt.Errorf("number of control-plane machines %d must be odd and at least 1, because etcd runs on them",
			o.ControlPlaneReplicas)
	}
	return object("cluster.x-k8s.io/v1beta2", "Cluster", o.Namespace, o.Cluster, map[string]any{"topology": map[string]any{
		"classRef": map[string]any{"name": r.Tag.ClassName()}, "version": r.Hashes.Versions.Kubernetes,
		"controlPlane": map[string]any{"replicas": o.ControlPlaneReplicas}, "variables": o.Values,
	}})
}

func object(apiVersion, kind, namespace, name string, spec map[string]any) ([]byte, error) {
	return yaml.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": name, "namespace": namespace}})
}
