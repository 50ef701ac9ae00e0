package userdata

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// nodeConfigDocument is a NodeConfig of the user. Only what Stratos must know is read: the fields
// of newer versions of nodeadm pass.
type nodeConfigDocument struct {
	spec          map[string]any
	kubeletConfig map[string]any
	flags         []string
	// strategy is that of the instance's local storage.
	strategy string
}

// readNodeConfig reads one YAML document as nodeadm does. A key that stands twice is an error,
// because one of the two would be lost.
func readNodeConfig(text string) (nodeConfigDocument, error) {
	var all map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &all); err != nil {
		return nodeConfigDocument{}, fmt.Errorf("the NodeConfig cannot be read as YAML: %w", err)
	}
	version, _ := all["apiVersion"].(string)
	if group, _, _ := strings.Cut(version, "/"); group != nodeConfigGroup || all["kind"] != "NodeConfig" {
		return nodeConfigDocument{}, fmt.Errorf("apiVersion is %q and kind %q; allowed is NodeConfig of node.eks.aws/v1alpha1",
			version, fmt.Sprint(all["kind"]))
	}
	var doc nodeConfigDocument
	var kubelet, instance, storage map[string]any
	err := firstError(
		func() error { return table(all, "spec", "spec", &doc.spec) },
		func() error { return table(doc.spec, "kubelet", "spec.kubelet", &kubelet) },
		func() error { return table(kubelet, "config", "spec.kubelet.config", &doc.kubeletConfig) },
		func() error { return texts(kubelet, "flags", "spec.kubelet.flags", &doc.flags) },
		func() error { return table(doc.spec, "instance", "spec.instance", &instance) },
		func() error { return table(instance, "localStorage", "spec.instance.localStorage", &storage) },
	)
	doc.strategy, _ = storage["strategy"].(string)
	return doc, err
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// table reads a field that is a map, or not there.
func table(from map[string]any, key, path string, to *map[string]any) error {
	value, found := from[key]
	if !found || value == nil {
		return nil
	}
	read, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s must be a map", path)
	}
	*to = read
	return nil
}

// texts reads a field that is a list of strings, or not there.
func texts(from map[string]any, key, path string, to *[]string) error {
	value, found := from[key]
	if !found || value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		return fmt.Errorf("%s must be a list of strings", path)
	}
	for _, item := range list {
		text, ok := item.(string)
		if !ok {
			return fmt.Errorf("%s must be a list of strings", path)
		}
		*to = append(*to, text)
	}
	return nil
}

// refusals says what Stratos cannot merge.
func (d nodeConfigDocument) refusals() []string {
	var found []string
	if d.spec["cluster"] != nil {
		found = append(found, "spec.cluster of a NodeConfig is not allowed: Stratos writes it from spec.bootstrap.cluster")
	}
	for _, f := range []struct{ key, instead string }{
		{"registerWithTaints", "set taints or startupTaints in spec.template of the NodePool"},
		{"registerNode", "Stratos needs the Node that the kubelet registers"},
		{"providerID", "nodeadm sets it, and Stratos finds the Node by it"},
	} {
		if d.kubeletConfig[f.key] != nil {
			found = append(found, fmt.Sprintf("spec.kubelet.config.%s of a NodeConfig is not allowed: %s", f.key, f.instead))
		}
	}
	found = append(found, userFlagFaults(d.flags)...)
	if fault := d.storageFault(); fault != "" {
		found = append(found, fault)
	}
	return found
}

// storageFault is empty unless a stop wipes what the node needs to start again.
func (d nodeConfigDocument) storageFault() string {
	if d.strategy != "RAID0" && d.strategy != "RAID10" {
		return ""
	}
	return fmt.Sprintf("spec.instance.localStorage.strategy %s of a NodeConfig puts containerd and the kubelet on the "+
		"instance store, which a stop wipes with all pulled images: use Mount, or leave it out", d.strategy)
}

// warnings says what is merged, but not known to Stratos.
func (d nodeConfigDocument) warnings() []string {
	var found []string
	if d.kubeletConfig["maxPods"] != nil || d.spec["kubelet"] != nil && d.hasMaxPodsExpression() {
		found = append(found, "Stratos does not read the number of pods in a NodeConfig: set spec.bootstrap.maxPods")
	}
	if setsLabels(d.flags) {
		found = append(found, "Stratos does not read the labels in --node-labels, so it starts no node for a pod that selects "+
			"them: set spec.template.labels of the NodePool")
	}
	return found
}

func (d nodeConfigDocument) hasMaxPodsExpression() bool {
	kubelet, _ := d.spec["kubelet"].(map[string]any)
	return kubelet["maxPodsExpression"] != nil
}
