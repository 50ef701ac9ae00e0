package format

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The hooks that the operator runs.
const (
	HookAfterControlPlane = "AfterControlPlaneInitialized"
	HookBeforeUpgrade     = "BeforeClusterUpgrade"
)

// Hooks returns the hooks that the operator runs. It answers AfterClusterUpgrade without running
// its stages.
func Hooks() []string { return []string{HookAfterControlPlane, HookBeforeUpgrade} }

// Stages is clusteraddon.yaml.
type Stages struct {
	APIVersion          string             `json:"apiVersion"`
	ClusterAddonVersion string             `json:"clusterAddonVersion"`
	AddonStages         map[string][]Stage `json:"addonStages"`
}

// Stage applies or deletes the chart in the sub-folder of cluster-addon that has its name.
type Stage struct {
	Name                 string    `json:"name"`
	Action               string    `json:"action"`
	WaitForPreCondition  Condition `json:"waitForPreCondition,omitzero"`
	WaitForPostCondition Condition `json:"waitForPostCondition,omitzero"`
}

// Condition is a CEL expression over objects of the workload cluster.
type Condition struct {
	Objects    []ConditionObject `json:"objects,omitempty"`
	Conditions string            `json:"conditions,omitempty"`
}

// ConditionObject is an object that the expression knows by its key.
type ConditionObject struct {
	Key        string `json:"key"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace,omitempty"`
}

// ParseStages reads clusteraddon.yaml. Whether the folders are there and the conditions compile is
// checked elsewhere.
func ParseStages(text []byte) (*Stages, error) {
	s := &Stages{}
	if err := decodeStrict(text, s); err != nil {
		return nil, err
	}
	var problems []error
	if s.APIVersion != StagesAPIVersion {
		problems = append(problems, fmt.Errorf("apiVersion %q must be %s", s.APIVersion, StagesAPIVersion))
	}
	if s.ClusterAddonVersion != AddonAPIVersion {
		problems = append(problems, fmt.Errorf("clusterAddonVersion %q must be %s", s.ClusterAddonVersion, AddonAPIVersion))
	}
	for hook, stages := range s.AddonStages {
		if !slices.Contains(Hooks(), hook) {
			problems = append(problems, fmt.Errorf("addonStages.%s: the operator runs no such hook, only %s", hook,
				strings.Join(Hooks(), " and ")))
		}
		for i, stage := range stages {
			if stage.Name == "" {
				problems = append(problems, fmt.Errorf("addonStages.%s[%d].name must be set", hook, i))
			}
			if stage.Action != "apply" && stage.Action != "delete" {
				problems = append(problems, fmt.Errorf("addonStages.%s[%d].action %q must be apply or delete", hook, i, stage.Action))
			}
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return s, errors.Join(problems...)
}
