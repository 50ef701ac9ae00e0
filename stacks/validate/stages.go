package validate

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/source"
)

// checkStages: each stage has its folder, and each folder a stage.
func checkStages(s *source.Stack) []string {
	if !s.IsStaged() {
		return nil
	}
	folders := s.Files.Folders(format.AddonFolder)
	named := map[string]bool{}
	var problems []string
	for _, hook := range slices.Sorted(maps.Keys(s.Stages.AddonStages)) {
		seen := map[string]bool{}
		for i, stage := range s.Stages.AddonStages[hook] {
			named[stage.Name] = true
			at := fmt.Sprintf("%s: addonStages.%s[%d].name %q", format.StagesFile, hook, i, stage.Name)
			if !slices.Contains(folders, stage.Name) {
				problems = append(problems, fmt.Sprintf("%s: %s must be there", at, path.Join(format.AddonFolder, stage.Name)))
			}
			if seen[stage.Name] {
				problems = append(problems, at+" is there twice")
			}
			seen[stage.Name] = true
		}
	}
	for _, folder := range folders {
		if !named[folder] {
			problems = append(problems, fmt.Sprintf("%s: must be a stage in %s, otherwise it is never applied",
				path.Join(format.AddonFolder, folder), format.StagesFile))
		}
	}
	return problems
}

// checkHooksAgree: an upgrade applies what a new cluster gets.
func checkHooksAgree(s *source.Stack) []string {
	if !s.IsStaged() {
		return nil
	}
	after, before := s.Stages.AddonStages[format.HookAfterControlPlane], s.Stages.AddonStages[format.HookBeforeUpgrade]
	if len(after) > 0 && reflect.DeepEqual(after, before) {
		return nil
	}
	return []string{fmt.Sprintf("%s: addonStages: %s and %s must have the same stages, at least one", format.StagesFile,
		format.HookAfterControlPlane, format.HookBeforeUpgrade)}
}

// checkConditions compiles the expressions as the operator does: with the objects' keys as the only
// names, to a boolean.
func checkConditions(s *source.Stack) []string {
	if !s.IsStaged() {
		return nil
	}
	var problems []string
	for _, hook := range slices.Sorted(maps.Keys(s.Stages.AddonStages)) {
		for i, stage := range s.Stages.AddonStages[hook] {
			for _, c := range []struct {
				field     string
				condition format.Condition
			}{{"waitForPreCondition", stage.WaitForPreCondition}, {"waitForPostCondition", stage.WaitForPostCondition}} {
				if problem := checkCondition(c.condition); problem != "" {
					problems = append(problems, fmt.Sprintf("%s: addonStages.%s[%d].%s.%s", format.StagesFile, hook, i,
						c.field, problem))
				}
			}
		}
	}
	return problems
}

func checkCondition(c format.Condition) string {
	if c.Conditions == "" && len(c.Objects) == 0 {
		return ""
	}
	var keys []cel.EnvOption
	for i, object := range c.Objects {
		if object.Key == "" || object.APIVersion == "" || object.Kind == "" || object.Name == "" {
			return fmt.Sprintf("objects[%d] must have key, apiVersion, kind and name", i)
		}
		keys = append(keys, cel.Variable(object.Key, cel.DynType))
	}
	env, err := cel.NewEnv(keys...)
	if err != nil {
		return fmt.Sprintf("objects: %v", err)
	}
	compiled, issues := env.Compile(c.Conditions)
	if issues.Err() != nil {
		return fmt.Sprintf("conditions %q must be CEL over the keys of objects: %v", c.Conditions, issues.Err())
	}
	if kind := compiled.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return fmt.Sprintf("conditions %q must be a bool, and is of the type %s", c.Conditions, kind)
	}
	return ""
}
