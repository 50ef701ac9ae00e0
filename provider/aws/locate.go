package aws

import (
	"regexp"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/provider"
)

var _ provider.Locator = (*Cloud)(nil)

// zoneRegion finds the region at the beginning of a zone's name: us-east-1 in us-east-1a, and
// us-west-2 in the local zone us-west-2-lax-1a.
var zoneRegion = regexp.MustCompile(`^[a-z]+(?:-[a-z]+)+-\d+`)

// place is the region of an instance by its Node's providerID, and when that was last said.
type place struct {
	region regionName
	seen   time.Time
}

// Locate implements provider.Locator. No class may name the region of a Node any more.
func (c *Cloud) Locate(instanceID, providerID string) {
	if name := regionOf(providerID); name != "" && wellFormed(instanceID) {
		c.index.locate(instanceID, place{region: name, seen: time.Now()})
	}
}

// regionOf reads the region from a providerID such as aws:///us-east-1a/i-0abc; "" where it names
// none.
func regionOf(providerID string) regionName {
	rest, ok := strings.CutPrefix(providerID, "aws:///")
	if !ok {
		return ""
	}
	zone, _, _ := strings.Cut(rest, "/")
	return regionName(zoneRegion.FindString(zone))
}

func (x *index) locate(id string, p place) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places[id] = p
}

func (x *index) place(id string) (regionName, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p, ok := x.places[id]
	return p.region, ok
}
