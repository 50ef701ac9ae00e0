package validate

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/render"
	"github.com/stratos-sh/stratos/stacks/source"
)

var (
	valuesKey    = regexp.MustCompile(`(?m)^values: *[|>]`)
	versionBound = regexp.MustCompile(`\.Cluster\.(?:spec\.topology\.class(?:Ref)?|spec\.infrastructureRef\.(?:apiVersion|apiGroup|namespace)|spec\.controlPlaneRef\.(?:apiVersion|apiGroup|namespace)|status\.conditions|status\.v1beta\d)\b`)
)

// checkValues: the operator takes the key values, and may read the Cluster in either version.
func checkValues(s *source.Stack) []string {
	var problems []string
	for _, name := range s.Files.Names() {
		if path.Base(name) != render.OverwriteFile && name != format.AddonValuesFile || strings.Contains(name, "/charts/") {
			continue
		}
		text := string(s.Files[name].Data)
		if !valuesKey.MatchString(text) {
			problems = append(problems, name+": must have the key values with a text, such as `values: |`")
		}
		if _, err := render.ParseValues([]byte(text)); err != nil {
			problems = append(problems, fmt.Sprintf("%s: must be a Go template with the functions of slim-sprig: %v", name, err))
		}
		for _, at := range versionBound.FindAllStringIndex(text, -1) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s must be a path that a Cluster has in v1beta1 and in v1beta2, such as .Cluster.spec.topology.version",
				name, lineOf(text, at[0]), text[at[0]:at[1]]))
		}
	}
	return problems
}

var (
	hookAnnotation = regexp.MustCompile(`helm\.sh/hook\b`)
	fixedNamespace = regexp.MustCompile(`(?m)^ {2}namespace: *["']?([a-z0-9][-a-z0-9]*)["']? *$`)
)

// checkObjects reads the templates of the stack's own addon charts. What a chart of others makes is
// known only when it is rendered.
func checkObjects(s *source.Stack) []string {
	var problems []string
	for _, chart := range s.Charts() {
		if chart == format.ClassFolder {
			continue
		}
		own := ownFiles(s, chart)
		for _, name := range own.Names() {
			if !strings.HasPrefix(name, "templates/") {
				continue
			}
			text, full := string(own[name].Data), path.Join(chart, name)
			for _, at := range hookAnnotation.FindAllStringIndex(text, -1) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s must not be there: the operator applies a hook as any other object",
					full, lineOf(text, at[0]), text[at[0]:at[1]]))
			}
			for _, at := range fixedNamespace.FindAllStringSubmatchIndex(text, -1) {
				if namespace := text[at[2]:at[3]]; namespace != render.AddonNamespace {
					problems = append(problems, fmt.Sprintf("%s:%d: namespace %s must be %s: the operator sends every object there",
						full, lineOf(text, at[0]), namespace, render.AddonNamespace))
				}
			}
		}
	}
	return problems
}

// checkClassNames: the operator knows an applied object by namespace and name alone. One that was
// refused is skipped from then on where an object of another kind with its name was applied.
func checkClassNames(s *source.Stack) []string {
	type object struct{ kind, file string }
	first := map[string]object{}
	var problems []string
	for _, name := range s.Files.Names() {
		if !strings.HasPrefix(name, format.ClassFolder+"/templates/") || path.Ext(name) != ".yaml" {
			continue
		}
		for _, d := range format.Documents(string(s.Files[name].Data)) {
			before, there := first[d.Name]
			switch {
			case d.Kind == "":
			case !there:
				first[d.Name] = object{d.Kind, name}
			case before.kind != d.Kind:
				problems = append(problems, fmt.Sprintf("%s: %s has the name %s of %s in %s: objects of two kinds must have "+
					"different names, because the operator knows them by their names alone", name, d.Kind, d.Name, before.kind, before.file))
			}
		}
	}
	return problems
}

// checkOneScheduler: a scheduler of the class and that of the addon would place pods in the same
// room.
func checkOneScheduler(s *source.Stack) []string {
	if !runsStratosScheduler(s) {
		return nil
	}
	var problems []string
	class := s.Files.Below(format.ClassFolder)
	for _, name := range class.Names() {
		text := string(class[name].Data)
		if strings.Contains(text, "KubeSchedulerConfiguration") && strings.Contains(text, "extenders:") {
			problems = append(problems, path.Join(format.ClassFolder, name)+": must have no KubeSchedulerConfiguration with extenders "+
				"while the addon stratos has scheduler.enabled true: two processes would place pods in the same room")
		}
	}
	return problems
}

// runsStratosScheduler reports whether an addon depends on the chart stratos and leaves its
// scheduler on, which is that chart's default.
func runsStratosScheduler(s *source.Stack) bool {
	for _, chart := range s.Charts() {
		var dependencies struct {
			Dependencies []struct {
				Name string `json:"name"`
			} `json:"dependencies"`
		}
		if yaml.Unmarshal(s.Files[path.Join(chart, format.ChartFile)].Data, &dependencies) != nil {
			continue
		}
		for _, d := range dependencies.Dependencies {
			if d.Name == "stratos" && schedulerIsOn(s.Files[path.Join(chart, "values.yaml")].Data) {
				return true
			}
		}
	}
	return false
}

func schedulerIsOn(values []byte) bool {
	var v struct {
		Stratos struct {
			Scheduler struct {
				Enabled *bool `json:"enabled"`
			} `json:"scheduler"`
		} `json:"stratos"`
	}
	if err := yaml.Unmarshal(values, &v); err != nil {
		return true
	}
	return v.Stratos.Scheduler.Enabled == nil || *v.Stratos.Scheduler.Enabled
}
