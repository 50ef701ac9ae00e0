package helm

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

// gitopsPage are the documents of docs/gitops.md by their kind.
func gitopsPage(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile(tree.path("docs", "gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	documents := map[string]map[string]any{}
	for _, block := range regexp.MustCompile("(?s)\n```yaml\n(.*?\n)```\n").FindAllSubmatch(text, -1) {
		document := map[string]any{}
		if err := yaml.UnmarshalStrict(block[1], &document); err != nil {
			t.Fatalf("%v in\n%s", err, block[1])
		}
		documents[fmt.Sprint(document["kind"])] = document
	}
	return documents
}

// at follows the path of fields.
func at[T any](t *testing.T, document map[string]any, path ...string) T {
	t.Helper()
	var value any = document
	for _, field := range path {
		under, _ := value.(map[string]any)
		value = under[field]
	}
	found, ok := value.(T)
	if !ok {
		t.Fatalf("%v is %v", path, value)
	}
	return found
}

// TestTheValuesOfTheGitOpsPage: the chart takes them, also where Argo CD has cut the version.
func TestTheValuesOfTheGitOpsPage(t *testing.T) {
	page := gitopsPage(t)
	for kind, path := range map[string][]string{
		"Application": {"spec", "source", "helm", "valuesObject"}, "HelmRelease": {"spec", "values"},
	} {
		s := Set{Release: "stratos", Namespace: "stratos-system", Kubernetes: "v1.37", Values: at[map[string]any](t, page[kind], path...)}
		if _, err := Helm4.Render(tree.ChartDir(), s); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// seen is an object with the conditions, by type, that Stratos has looked at in its present
// generation.
func seen(conditions map[string]string) map[string]any {
	list := []any{}
	for name, status := range conditions {
		list = append(list, map[string]any{"type": name, "status": status, "message": "said of " + name})
	}
	return map[string]any{"metadata": map[string]any{"generation": 2},
		"status": map[string]any{"observedGeneration": 2, "conditions": list}}
}

// unseen is one that has changed since Stratos looked at it.
func unseen(object map[string]any) map[string]any {
	object["metadata"] = map[string]any{"generation": 3}
	return object
}

// healths are objects by what they are, with their health in Argo CD's words. In Flux's a healthy
// object is current, a degraded one failed.
func healths() map[string]map[string]struct {
	object map[string]any
	health string
} {
	type row = struct {
		object map[string]any
		health string
	}
	return map[string]map[string]row{
		"NodePool": {
			"warms up":         {seen(map[string]string{"Ready": "False", "Degraded": "False"}), "Progressing"},
			"ready":            {seen(map[string]string{"Ready": "True", "Degraded": "False"}), "Healthy"},
			"its class is new": {seen(map[string]string{"Ready": "Unknown"}), "Progressing"},
			"degraded":         {seen(map[string]string{"Ready": "True", "Degraded": "True"}), "Degraded"},
			"changed":          {unseen(seen(map[string]string{"Ready": "True"})), "Progressing"},
		},
		"AWSNodeClass": {
			"ready":         {seen(map[string]string{"Ready": "True", "InUse": "False"}), "Healthy"},
			"refused":       {seen(map[string]string{"Ready": "False"}), "Degraded"},
			"not looked at": {seen(nil), "Progressing"},
			"changed":       {unseen(seen(map[string]string{"Ready": "False"})), "Progressing"},
		},
	}
}

func TestHealthInArgoCD(t *testing.T) {
	page := gitopsPage(t)["ConfigMap"]
	for kind, rows := range healths() {
		script := at[string](t, page, "data", "resource.customizations.health.stratos.sh_"+kind)
		for name, row := range rows {
			if got := luaHealth(t, script, row.object); got != row.health {
				t.Errorf("a %s that is %q is %q, want %q", kind, name, got, row.health)
			}
		}
		if got := luaHealth(t, script, map[string]any{"metadata": map[string]any{"generation": 1}}); got != "Progressing" {
			t.Errorf("a %s without a status is %q", kind, got)
		}
	}
}

// luaHealth runs a health check as Argo CD does, whose Lua is this one: the object is the global
// obj.
func luaHealth(t *testing.T, script string, object map[string]any) string {
	t.Helper()
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", luaValue(state, object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	health, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("returned %v", state.Get(-1))
	}
	return health.RawGetString("status").String()
}

func luaValue(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for name, under := range v {
			table.RawSetString(name, luaValue(state, under))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, entry := range v {
			table.Append(luaValue(state, entry))
		}
		return table
	case int:
		return lua.LNumber(v)
	}
	return lua.LString(fmt.Sprint(value))
}

func TestHealthInFlux(t *testing.T) {
	words := map[string]string{"Progressing": "inProgress", "Healthy": "current", "Degraded": "failed"}
	for _, entry := range at[[]any](t, gitopsPage(t)["Kustomization"], "spec", "healthCheckExprs") {
		check, _ := entry.(map[string]any)
		kind := at[string](t, check, "kind")
		rows := healths()[kind]
		if len(rows) == 0 {
			t.Errorf("nothing is known of the health of a %s", kind)
		}
		for name, row := range rows {
			if got := fluxHealth(t, check, row.object); got != words[row.health] {
				t.Errorf("a %s that is %q is %q, want %q", kind, name, got, words[row.health])
			}
		}
	}
}

// fluxHealth is what holds of an object first. What is neither failed nor current is in progress.
func fluxHealth(t *testing.T, check, object map[string]any) string {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("status", cel.DynType), cel.Variable("metadata", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"inProgress", "failed", "current"} {
		ast, issues := env.Compile(at[string](t, check, word))
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		holds, _, err := program.Eval(object)
		if err != nil {
			t.Fatal(err)
		}
		if holds.Value() == true {
			return word
		}
	}
	return "inProgress"
}
