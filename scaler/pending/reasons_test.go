package pending

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/extender/fit"
)

// TestTheClosestPoolComesFirst: what passes by itself comes before what a person would have to
// change, and equally close pools by name.
func TestTheClosestPoolComesFirst(t *testing.T) {
	at := func(why string, reason fit.Reason) assessment {
		return assessment{why: why, closeness: closenessOf(&fit.Refusal{Reason: reason})}
	}
	judged := []assessment{
		at("pool selector", fit.ReasonAffinity), at("pool taint", fit.ReasonTaint), at("pool spread", fit.ReasonSpread),
		{why: "pool paused", closeness: withheld}, at("pool small", fit.ReasonResources),
		{why: "pool full", closeness: withoutRoomNow}, at("pool volume", fit.ReasonVolume),
		{why: "pool busy", closeness: withoutRoomNow}, at("pool cordoned", fit.ReasonUnschedulable),
		at("pool ports", fit.ReasonPorts), at("pool malformed", fit.Reason("")),
	}
	want := "pool busy; pool full; pool paused; pool spread; pool volume; pool ports; pool small; " +
		"pool cordoned; pool taint; pool malformed; pool selector"
	if got := inOrder(judged); got != want {
		t.Errorf("reasons\n%s\nwant\n%s", got, want)
	}
}

// TestReasonsAreBounded: as many pools as fit, and how many are left out. The first stands whole,
// however long it is.
func TestReasonsAreBounded(t *testing.T) {
	var many []assessment
	for k := range 100 {
		many = append(many, assessment{why: fmt.Sprintf("pool number-%02d has no standby node with room now", k)})
	}
	got := inOrder(many)
	named := strings.Count(got, "has no standby node")
	if len(got) > maxReasons+len("; and 100 more") || named < 10 ||
		!strings.HasSuffix(got, fmt.Sprintf("; and %d more", 100-named)) {
		t.Errorf("%d bytes name %d pools: %s", len(got), named, got)
	}
	long := strings.Repeat("x", 2*maxReasons)
	if got := inOrder([]assessment{{why: long}, {why: "y"}}); got != long+"; and 1 more" {
		t.Errorf("%d bytes", len(got))
	}
}
