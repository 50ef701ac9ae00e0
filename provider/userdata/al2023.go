package userdata

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// AL2023 writes MIME with a script of Stratos first, the parts of the user's text, and the
// NodeConfig of Stratos last. nodeadm merges NodeConfigs in this order. A later value wins and a
// list is replaced, but the kubelet's flags are appended, and a flag beats the configuration file.
// The script comes first, so that a script of the user may reboot. The error is made of Problems.
func AL2023(c Cluster, k Kubelet, user string) (string, error) {
	refused, _ := CheckAL2023(user, k.ExtraArgs)
	problems := slices.Concat(checkComplete(c, fieldName, fieldEndpoint, fieldCA, fieldCIDR), checkLabels(k.Labels),
		refused)
	if len(problems) > 0 {
		return "", joined(problems)
	}
	parts, err := partsOf(user)
	if err != nil {
		return "", inUserData("%s", err)
	}
	config, err := nodeConfig(c, k)
	if err != nil {
		return "", err
	}
	first := firstScript("stratos-kubelet-state", scriptOf([]installedFile{kubeletStateFile()}))
	return writeMIME(slices.Concat([]part{first}, parts, []part{newPart(typeNodeConfig, config)})), nil
}

// nodeConfig is the NodeConfig of Stratos. Taints and the number of pods are in the configuration,
// where they replace those of the image. Labels have no field there. The kubelet adds up
// --node-labels, and of one label the last value wins.
func nodeConfig(c Cluster, k Kubelet) (string, error) {
	spec := map[string]any{"cluster": map[string]any{
		"name": c.Name, "apiServerEndpoint": c.Endpoint, "certificateAuthority": oneLineCA(c.CertificateAuthority),
		"cidr": c.ServiceCIDR,
	}}
	kubelet := map[string]any{}
	if config := kubeletConfig(k); len(config) > 0 {
		kubelet["config"] = config
	}
	if flags := kubeletFlags(k); len(flags) > 0 {
		kubelet["flags"] = flags
	}
	if len(kubelet) > 0 {
		spec["kubelet"] = kubelet
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": nodeConfigGroup + "/v1alpha1", "kind": "NodeConfig", "spec": spec,
	})
	if err != nil {
		return "", fmt.Errorf("write the NodeConfig: %w", err)
	}
	return "# Written by Stratos.\n" + string(text), nil
}

func kubeletConfig(k Kubelet) map[string]any {
	config := map[string]any{}
	var taints []map[string]string
	for _, t := range uniqueTaints(k.Taints) {
		taint := map[string]string{"key": t.Key, "effect": string(t.Effect)}
		if t.Value != "" {
			taint["value"] = t.Value
		}
		taints = append(taints, taint)
	}
	if len(taints) > 0 {
		config["registerWithTaints"] = taints
	}
	if k.MaxPods > 0 {
		config["maxPods"] = k.MaxPods
	}
	return config
}

func kubeletFlags(k Kubelet) []string {
	var flags []string
	if len(k.Labels) > 0 {
		flags = append(flags, "--node-labels="+labelsFlag(k.Labels))
	}
	return append(flags, k.ExtraArgs...)
}

// CheckAL2023 says what AL2023 refuses of the user's text and of bootstrap.kubeletExtraArgs, and
// what it accepts although it may not do what the user wants. Both are known without the cluster.
func CheckAL2023(user string, extraArgs []string) (refused, warnings []Problem) {
	refused = append(checkSize("it", user), checkArgs(extraArgs, flagFault)...)
	faults, warnings := checkParts(user, checkPart)
	return append(refused, faults...), warnings
}

// checkParts looks at each part of the user's text, and says of several which one is meant.
func checkParts(user string, check func(part) (faults, hints []string)) (refused, warnings []Problem) {
	parts, err := partsOf(user)
	if err != nil {
		return []Problem{inUserData("%s", err)}, nil
	}
	for i, p := range parts {
		where := ""
		if len(parts) > 1 {
			where = fmt.Sprintf("part %d: ", i+1)
		}
		faults, hints := check(p)
		for _, fault := range faults {
			refused = append(refused, inUserData("%s%s", where, fault))
		}
		for _, hint := range hints {
			warnings = append(warnings, inUserData("%s%s", where, hint))
		}
	}
	return refused, warnings
}

func checkPart(p part) (faults, hints []string) {
	mediaType, err := p.mediaType()
	if err != nil {
		return []string{err.Error()}, nil
	}
	if mediaType == typeNodeConfig {
		document, err := readNodeConfig(p.text())
		if err != nil {
			return []string{err.Error()}, nil
		}
		return document.refusals(), document.warnings()
	}
	if fault := joinFault(p.text()); fault != "" {
		return []string{fault}, nil
	}
	return nil, nil
}
