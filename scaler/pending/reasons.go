package pending

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/extender/fit"
)

// maxReasons bounds the reasons in an event's note in bytes. The API server takes notes of 1024,
// and more words may follow on them.
const maxReasons = 800

// closeness says how near a pool came to serving a pod. What the pod's author would have to change
// is farther than what passes by itself.
type closeness int

const (
	selectsOthers  closeness = iota // the pod selects other nodes, or does not parse
	untolerated                     // it does not tolerate the taints
	tooLarge                        // it is larger than an empty node
	volumesApart                    // its volumes are elsewhere
	podsApart                       // other pods are in the way: anti-affinity, spread
	withheld                        // a person keeps the pool or its nodes from starting
	withoutRoomNow                  // the nodes are in use, or back off after failed starts
)

// closenessOf ranks a refusal by an empty node.
func closenessOf(r *fit.Refusal) closeness {
	switch r.Reason {
	case fit.ReasonTaint, fit.ReasonUnschedulable:
		return untolerated
	case fit.ReasonResources, fit.ReasonPorts:
		return tooLarge
	case fit.ReasonVolume:
		return volumesApart
	case fit.ReasonAntiAffinity, fit.ReasonPodAffinity, fit.ReasonSpread:
		return podsApart
	case fit.ReasonAffinity:
	}
	return selectsOthers
}

// inOrder joins the reasons of the pools, the closest pool first, within maxReasons. It changes the
// order of the list.
func inOrder(judged []assessment) string {
	slices.SortFunc(judged, func(a, b assessment) int {
		return cmp.Or(cmp.Compare(b.closeness, a.closeness), strings.Compare(a.why, b.why))
	})
	var text strings.Builder
	for i, a := range judged {
		if i > 0 && text.Len()+len("; ")+len(a.why) > maxReasons {
			fmt.Fprintf(&text, "; and %d more", len(judged)-i)
			break
		}
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(a.why)
	}
	return text.String()
}
