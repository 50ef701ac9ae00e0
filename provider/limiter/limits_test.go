package limiter

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Limit
	}{
		"burst and refill":       {"5/2", Limit{5, 2}},
		"a refill below one":     {"1/0.25", Limit{1, 0.25}},
		"the most":               {"10000/10000", Limit{10000, 10000}},
		"no limit at all":        {"off", Limit{}},
		"what String writes":     {Limit{20, 0.5}.String(), Limit{20, 0.5}},
		"what String calls none": {Limit{}.String(), Limit{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.text)
			if err != nil || got != c.want {
				t.Errorf("Parse(%q) is %v, %v, want %v", c.text, got, err, c.want)
			}
		})
	}
	for _, text := range []string{"", "5", "/", "5/", "/2", "0/2", "-1/2", "5/0", "5/-2", "5/NaN", "5/Inf", "1.5/2",
		"5/2/1", "10001/1", "1/10001", "OFF", "5 / 2"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "5/2") ||
			!strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("Parse(%q) is %v, %v; it must be refused with what is allowed", text, got, err)
		}
	}
}

// However many replicas share a limit, together they have no more of it, as long as each can have a
// token.
func TestSharesAreNoMoreThanTheWhole(t *testing.T) {
	for op, whole := range Default() {
		for replicas := 1; replicas <= 10; replicas++ {
			part := whole.Share(1 / float64(replicas))
			if part.Burst < 1 || part.PerSecond <= 0 {
				t.Errorf("%s: one of %d replicas has %v", op, replicas, part)
			}
			if replicas <= whole.Burst && part.Burst*replicas > whole.Burst {
				t.Errorf("%s: %d replicas have a burst of %d each, together more than %d", op, replicas, part.Burst, whole.Burst)
			}
			if sum := part.PerSecond * float64(replicas); math.Abs(sum-whole.PerSecond) > 1e-9 {
				t.Errorf("%s: %d replicas refill %v a second together, want %v", op, replicas, sum, whole.PerSecond)
			}
		}
	}
	if diff := cmp.Diff(Limit{}, Limit{}.Share(0.5)); diff != "" {
		t.Errorf("a share of no limit (-want +got):\n%s", diff)
	}
}
