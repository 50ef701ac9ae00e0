package check

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrint(t *testing.T) {
	var out strings.Builder
	results := []Result{
		ok("a", "fine"), notChecked("longer", "why\nnot"),
		wrong("b", "kubectl get b", "%s", Several([]string{"z", "y", "x", "w"})),
	}
	if err := Print(&out, results); err != nil {
		t.Fatal(err)
	}
	want := "ok            a        fine\n" +
		"not checked   longer   why not\n" +
		"wrong         b        w; x; y; and 1 more; run: kubectl get b\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if !AnyWrong(results) || AnyWrong(results[:2]) {
		t.Error("AnyWrong does not follow the lines")
	}
}
