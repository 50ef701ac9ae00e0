package definitions

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

func TestCRDsExplain(t *testing.T) {
	s := newServer(t)
	s.awaitPublished(t)
	t.Run("every field has a text", func(t *testing.T) { testEveryFieldExplained(t, s) })
	t.Run("a field in words", func(t *testing.T) { testFieldsInWords(t, s) })
	t.Run("names", func(t *testing.T) { testNames(t, s) })
	t.Run("columns", func(t *testing.T) { testColumns(t, s) })
}

// testEveryFieldExplained walks the fields that kubectl knows, the way a person would.
func testEveryFieldExplained(t *testing.T, s *server) {
	for kind, least := range map[string]int{"nodepools.stratos.sh": 40, "awsnodeclasses.stratos.sh": 40} {
		t.Run(kind, func(t *testing.T) {
			tree := s.kubectl(t, "explain", kind+".spec", "--recursive")
			paths := fieldPaths(tree)
			if len(paths) < least {
				t.Fatalf("%d fields, want at least %d:\n%s", len(paths), least, tree)
			}
			// One level at a time: kubectl prints a text for each field of the level.
			parents := map[string]bool{"": true}
			for _, p := range paths {
				if dot := strings.LastIndexByte(p, '.'); dot >= 0 {
					parents[p[:dot]] = true
				}
			}
			for parent := range parents {
				at := strings.TrimSuffix(kind+".spec."+parent, ".")
				text := s.kubectl(t, "explain", at)
				if strings.Contains(text, "<no description>") {
					t.Errorf("kubectl explain %s has fields without a text:\n%s", at, text)
				}
				for _, p := range paths {
					if dot := strings.LastIndexByte(p, '.'); parent == p[:max(dot, 0)] && !explains(text, p[dot+1:]) {
						t.Errorf("kubectl explain %s says nothing of %s:\n%s", at, p[dot+1:], text)
					}
				}
			}
		})
	}
}

// fieldLine is a field in kubectl's tree: two blanks more for each level, a name, a tab, a type.
var fieldLine = regexp.MustCompile(`^( +)([a-zA-Z]+)\t<`)

// fieldPaths are the dotted paths in what kubectl explain --recursive prints.
func fieldPaths(tree string) []string {
	_, fields, _ := strings.Cut(tree, "\nFIELDS:\n")
	var at, paths []string
	for line := range strings.SplitSeq(fields, "\n") {
		m := fieldLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		level := len(m[1])/2 - 1
		at = append(at[:min(level, len(at))], m[2])
		paths = append(paths, strings.Join(at, "."))
	}
	return paths
}

// explains reports whether kubectl's text of a level has a line of the field with a text of several
// words below it.
func explains(text, field string) bool {
	lines := strings.Split(text, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  "+field+"\t<") })
	if i < 0 {
		return false
	}
	for _, l := range lines[i+1:] {
		if strings.HasPrefix(l, "    ") && !strings.HasPrefix(strings.TrimSpace(l), "enum:") {
			return len(strings.Fields(l)) >= 2
		}
	}
	return false
}

// testFieldsInWords looks up a few texts that people need, at several depths.
func testFieldsInWords(t *testing.T, s *server) {
	tests := map[string][]string{
		"nodepools.stratos.sh": {"warmed up", "stopped"},
		"snp.spec.minStandby":  {"standby nodes", "<integer>", "poolSize"},
		"nodepools.stratos.sh.spec.template.startupTaints.effect":   {"NoSchedule", "PreferNoSchedule", "NoExecute"},
		"nodepools.stratos.sh.spec.scaleDown.emptyNodeTTL":          {"empty", "stopped"},
		"nodepools.stratos.sh.status.conditions":                    {"Ready"},
		"awsnc.spec.blockDeviceMappings.deleteOnTermination":        {"<boolean>"},
		"awsnodeclasses.stratos.sh.spec.metadataOptions.httpTokens": {"required", "optional"},
	}
	for field, wants := range tests {
		t.Run(field, func(t *testing.T) {
			text := s.kubectl(t, "explain", field)
			for _, want := range wants {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
		})
	}
}

func testNames(t *testing.T, s *server) {
	tests := map[string]struct {
		args []string
		want []string
	}{
		"all of the group, with short names": {
			[]string{"--api-group=stratos.sh"},
			[]string{
				"awsnodeclasses awsnc stratos.sh/v1alpha1 false AWSNodeClass",
				"kindnodeclasses kindnc stratos.sh/v1alpha1 false KindNodeClass",
				"nodepools np,snp stratos.sh/v1alpha1 false NodePool",
			},
		},
		"the category": {
			[]string{"--categories=stratos"},
			[]string{
				"awsnodeclasses awsnc stratos.sh/v1alpha1 false AWSNodeClass",
				"kindnodeclasses kindnc stratos.sh/v1alpha1 false KindNodeClass",
				"nodepools np,snp stratos.sh/v1alpha1 false NodePool",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := s.kubectl(t, append([]string{"api-resources", "--no-headers", "--sort-by=name"}, tt.args...)...)
			if diff := cmp.Diff(tt.want, table(out)); diff != "" {
				t.Errorf("kubectl api-resources (-want +got):\n%s", diff)
			}
		})
	}
}

func testColumns(t *testing.T, s *server) {
	seeds := assert.Examples(t, "seeds", 20)
	pool, class := seeds["readme-nodepool"], seeds["readme-awsnodeclass"]
	for _, f := range []assert.Example{pool, class} {
		if err := s.client.Create(t.Context(), f.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	s.kubectl(t, "patch", "snp", pool.GetName(), "--subresource=status", "--type=merge", "--patch", `{"status": {
		"standby": 3, "warmup": 1, "starting": 2, "running": 4, "stopping": 5, "terminating": 6, "total": 21,
		"conditions": [{"type": "Ready", "status": "True", "reason": "PoolReady", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"},
		{"type": "Paused", "status": "True", "reason": "Paused", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}}`)
	tests := map[string]struct {
		args []string
		want []string
	}{
		"pools": {
			[]string{"get", "nodepools"},
			[]string{"NAME STANDBY STARTING RUNNING READY PAUSED AGE", "workers 3 2 4 True True *"},
		},
		"pools, wide": {
			[]string{"get", "snp", "-o", "wide"},
			[]string{
				"NAME STANDBY STARTING RUNNING READY PAUSED AGE POOL-SIZE MIN-STANDBY WARMUP STOPPING TERMINATING " +
					"USUAL-START CLASS WEIGHT",
				"workers 3 2 4 True True * 10 3 1 5 6 workers 10",
			},
		},
		"classes": {
			[]string{"get", "awsnc"},
			[]string{"NAME TYPE READY AGE", "workers m5.large *"},
		},
		"classes, wide": {
			[]string{"get", "awsnc", "-o", "wide"},
			[]string{"NAME TYPE READY AGE AMI REGION RUNNING/H STOPPED/H", "workers m5.large * us-east-1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, table(age.ReplaceAllString(s.kubectl(t, tt.args...), " * "))); diff != "" {
				t.Errorf("kubectl %s (-want +got):\n%s", strings.Join(tt.args, " "), diff)
			}
		})
	}
	both := s.kubectl(t, "get", "stratos", "-o", "name")
	if diff := cmp.Diff([]string{"awsnodeclass.stratos.sh/workers", "nodepool.stratos.sh/workers"},
		table(both)); diff != "" {
		t.Errorf("kubectl get stratos (-want +got):\n%s", diff)
	}
}

// age is a column that moves while the test runs.
var age = regexp.MustCompile(` [0-9]+m?[0-9]*s( |\n)`)

// table is the output's lines without empty ones, each with its cells one blank apart.
func table(out string) []string {
	var lines []string
	for line := range strings.SplitSeq(out, "\n") {
		if cells := strings.Fields(line); len(cells) > 0 {
			lines = append(lines, strings.Join(cells, " "))
		}
	}
	return lines
}
