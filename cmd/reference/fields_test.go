package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/stratos-sh/stratos/crds"
)

// TestEveryFieldHasARow: docs/api.md has each field of each kind, and no other.
func TestEveryFieldHasARow(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, part := range generated.FindAllStringSubmatch(string(page), -1) {
		words := strings.Fields(part[2])
		for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(part[0], -1) {
			for _, path := range words[2:] {
				if row[1] != path {
					rows[words[1]+"."+path+"."+strings.ReplaceAll(row[1], "[]", "")] = true
				}
			}
		}
	}
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, d := range all {
		root := d.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			collect(d.Spec.Names.Kind+"."+part, root.Properties[part], want)
		}
	}
	if len(want) < 100 {
		t.Fatalf("%d fields", len(want))
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("fields (-definitions +page):\n%s", diff)
	}
}

// collect takes the paths of all fields below a schema, but for those of a condition.
func collect(path string, s apiextensionsv1.JSONSchemaProps, into map[string]bool) {
	if s.Items != nil {
		s = *s.Items.Schema
	}
	for name, field := range s.Properties {
		into[path+"."+name] = true
		if name != "conditions" {
			collect(path+"."+name, field, into)
		}
	}
}

func TestRowsOfFields(t *testing.T) {
	for name, c := range map[string]struct {
		kind  string
		paths []string
		want  string
	}{
		"numbers": {"NodePool", []string{"spec"}, "| `poolSize` | integer | required | 1 to 1000 | PoolSize is the largest "},
		"a rule of several fields": {"NodePool", []string{"spec"},
			"| `spec` | object | required | minStandby must not exceed poolSize; "},
		"a default and a rule": {"NodePool", []string{"spec.preWarm"}, "| `timeout` | string | `10m` | " +
			"at most 32 characters; timeout must be a duration from 1s to 24h, such as 10m | Timeout is how long "},
		"values": {"NodePool", []string{"spec"},
			"| `preWarm.timeoutAction` | string | `stop` | `stop`, `terminate` | TimeoutAction says "},
		"elements": {"NodePool", []string{"spec.preWarm"}, "| `imagesToPull` | []string |  | at most 100 items; " +
			"each once; each: 1 to 512 characters; `^[a-zA-Z0-9]("},
		"a list by keys": {"NodePool", []string{"spec.template"},
			"| `networkAgents` | []object |  | 1 to 10 items; each `namespace` and `name` once | "},
		"fields of a list":   {"NodePool", []string{"spec.template"}, "| `networkAgents[].name` | string | required | "},
		"an amount":          {"KindNodeClass", []string{"spec"}, "| `reserved` | map of quantity |  | at most 32 keys; "},
		"a number or a text": {"NodePool", []string{"spec.disruption"}, "| `budget` | integer or string | `10%` | "},
		"a time":             {"NodePool", []string{"status"}, "| `lastWarmupFailure.time` | time | required |  | "},
		"a bar":              {"AWSNodeClass", []string{"spec.nodeImage"}, "; `^([0-9]{12}\\|self)$` | "},
		"fields of two paths": {"NodePool", []string{"spec.template.taints", "spec.template.startupTaints"},
			"| `effect` | string | required | `NoSchedule`, `PreferNoSchedule`, `NoExecute` | "},
		"an address is no link": {"AWSNodeClass", []string{"spec.bootstrap"}, " such as `https://0123456789ABCDEF."},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fieldTable(c.kind, c.paths, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("no %q in\n%s", c.want, got)
			}
		})
	}
}

func TestFieldsOfAnotherTableHaveNoRow(t *testing.T) {
	got, err := fieldTable("NodePool", []string{"spec"}, map[string]bool{"spec.preWarm": true})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "\n| `preWarm` |") || strings.Contains(got, "\n| `preWarm.") {
		t.Errorf("table\n%s", got)
	}
}

func TestMarkersThatAreWrong(t *testing.T) {
	end := "<!-- end of generated -->\n"
	for name, c := range map[string]struct{ page, want string }{
		"none":               {"text\n", "0 parts"},
		"no end":             {"<!-- generated: events -->\n" + "<!-- generated: alerts -->\n" + end, "1 parts"},
		"an unknown word":    {"<!-- generated: songs -->\n" + end, `nothing is known of ["songs"]`},
		"an unknown kind":    {"<!-- generated: fields Pool spec -->\n" + end, "no kind Pool"},
		"an unknown path":    {"<!-- generated: fields NodePool spec.pool -->\n" + end, "no field pool in spec.pool"},
		"fields that differ": {"<!-- generated: fields NodePool spec.preWarm spec.scaleUp -->\n" + end, "has other fields"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := fill(c.page); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

// TestTextAroundATableStays, and what stood between the marks goes.
func TestTextAroundATableStays(t *testing.T) {
	mark := "<!-- generated: fields NodePool spec.template.taints -->\n"
	got, err := fill("before\n" + mark + "old\n<!-- end of generated -->\nafter\n")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "before\n"+mark+"\n| field |") ||
		!strings.HasSuffix(got, "|\n\n<!-- end of generated -->\nafter\n") || strings.Contains(got, "old") {
		t.Errorf("page\n%s", got)
	}
	if again, err := fill(got); err != nil || again != got {
		t.Errorf("filled again (error %v)\n%s", err, again)
	}
}
