package top

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) time.Time { return epoch().Add(-d) }

// plain is the text without colors.
func plain(lines []string) []string {
	colors := regexp.MustCompile("\x1b\\[[0-9]*m")
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = strings.TrimRight(colors.ReplaceAllString(line, ""), " ")
	}
	return out
}

// many is more than any screen has room for.
func many(pools, starts, pods int) *Data {
	d := &Data{Context: "test", Now: epoch(), Problem: "the API server does not answer"}
	for i := range pools {
		n := int32(i)
		d.Pools = append(d.Pools, Pool{Name: fmt.Sprintf("pool-%02d", i), Status: "Ready", Running: n, Starting: n % 3,
			Standby: 7 - n%8, Warmup: n % 2, Size: 5 + n, Cost: float64(n), Currency: "USD"})
	}
	for i := range starts {
		d.Starts = append(d.Starts, Start{Node: fmt.Sprintf("ip-10-0-0-%d.ec2.internal", i), Pool: "pool-01",
			Since: ago(time.Duration(i) * time.Second), Usual: 14 * time.Second})
	}
	for i := range pods {
		d.Pods = append(d.Pods, Pod{Name: fmt.Sprintf("shop/web-%03d", i), Cause: "Claimed",
			Why: strings.Repeat("long words ", 20), Since: ago(time.Duration(i) * time.Minute)})
	}
	return d
}

// TestAScreenStaysWithinItsBounds: whatever there is to show, and however small the terminal is.
func TestAScreenStaysWithinItsBounds(t *testing.T) {
	for _, d := range []*Data{{}, many(1, 0, 0), many(40, 40, 200), many(3, 0, 500)} {
		for width := 1; width < 200; width += 7 {
			for height := 1; height < 60; height += 3 {
				lines := plain(draw(d, choice{}, width, height))
				if len(lines) != height {
					t.Fatalf("%d lines at %dx%d", len(lines), width, height)
				}
				for _, line := range lines {
					if len([]rune(line)) > width {
						t.Fatalf("a line of %d columns at %dx%d: %s", len([]rune(line)), width, height, line)
					}
				}
			}
		}
	}
}

// TestEachSectionHasItsPart: pools, starts and pods that do not all fit are each shown in part.
func TestEachSectionHasItsPart(t *testing.T) {
	screen := strings.Join(plain(draw(many(40, 2, 200), choice{}, 120, 40)), "\n")
	for _, want := range []string{"POOL (40)", "pool-00", "START (2)", "ip-10-0-0-0", "ip-10-0-0-1", "PENDING POD (200)",
		"shop/web-199", "and 28 more", "! the API server does not answer"} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q in\n%s", want, screen)
		}
	}
}

func TestBarOfAPool(t *testing.T) {
	for name, c := range map[string]struct {
		pool Pool
		want string
	}{
		"empty":                            {Pool{Size: 10}, "··········"},
		"half of it runs":                  {Pool{Running: 5, Size: 10}, "█████·····"},
		"a node of each state":             {Pool{Running: 2, Starting: 2, Standby: 2, Warmup: 2, Other: 2, Size: 10}, "██▓▓▒▒░░▪▪"},
		"one of a hundred is seen":         {Pool{Running: 1, Standby: 1, Size: 100}, "█▒········"},
		"more nodes than its size":         {Pool{Running: 20, Size: 10}, "██████████"},
		"the last state has no room":       {Pool{Running: 100, Other: 1, Size: 100}, "█████████▪"},
		"all of a small pool, a wide bar":  {Pool{Running: 1, Standby: 1, Size: 2}, "█████▒▒▒▒▒"},
		"the size is 0, which is no error": {Pool{}, "··········"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, plain([]string{bar(c.pool, 10)})[0]); diff != "" {
				t.Errorf("bar (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCostOfAllPools(t *testing.T) {
	usd, eur, none := Pool{Cost: 1.5, Currency: "USD"}, Pool{Cost: 0.25, Currency: "EUR"}, Pool{}
	for want, pools := range map[string][]Pool{
		"":                                     {none},
		"3.00 USD per hour":                    {usd, usd},
		"0.25 EUR per hour  1.50 USD per hour": {usd, eur},
		"1.50 USD per hour  pools without a price: 2": {none, usd, none},
	} {
		if got := cost(pools); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestProgressOfAStart(t *testing.T) {
	for _, c := range []struct {
		elapsed, usual time.Duration
		want           string
	}{
		{7 * time.Second, 14 * time.Second, "█████·····"},
		{0, 14 * time.Second, "··········"},
		{-time.Second, 14 * time.Second, "··········"},
		{14 * time.Second, 14 * time.Second, "██████████"},
		{20 * time.Second, 14 * time.Second, "█████████!"},
		{time.Second, 0, ""},
	} {
		if got := plain([]string{progress(c.elapsed, c.usual, 10)})[0]; got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.elapsed, c.usual, got, c.want)
		}
	}
}

// TestOrdersOfPools: the names decide among equal ones.
func TestOrdersOfPools(t *testing.T) {
	d := &Data{Pools: []Pool{
		{Name: "b", Status: "Ready", Standby: 3, Running: 1, Cost: 2, Currency: "USD"},
		{Name: "c", Status: "LaunchFailing", Standby: 9, Running: 1},
		{Name: "a", Status: "Ready", Standby: 1, Running: 5, Cost: 1, Currency: "USD"},
	}}
	for i, want := range []string{"abc", "cab", "abc", "abc", "bac"} {
		var got string
		for _, row := range pools(d, choice{sort: i}, 80).rows {
			got += row[:1]
		}
		if got != want {
			t.Errorf("by %s: %s, want %s", orders()[i].name, got, want)
		}
	}
}

// TestFilter chooses among pools, the starts of pools, and pods by name and reason.
func TestFilter(t *testing.T) {
	d := &Data{Now: epoch(), Pools: []Pool{{Name: "gpu"}, {Name: "general"}},
		Starts: []Start{{Node: "n1", Pool: "gpu"}, {Node: "n2", Pool: "general"}},
		Pods: []Pod{{Name: "ml/gpu-1"}, {Name: "shop/web", Why: "pool gpu: is at its poolSize"},
			{Name: "shop/api", Why: "pool general"}}}
	c := choice{}
	for _, key := range []struct{ name, text string }{
		{"g", "g"}, {"x", "x"}, {"backspace", ""}, {"p", "p"}, {"enter", ""},
	} {
		c = typed(c, key.name, key.text)
	}
	got := []int{len(pools(d, c, 80).rows), len(starts(d, c, 80).rows), len(pods(d, c, 80).rows)}
	if diff := cmp.Diff([]int{1, 1, 2}, got); diff != "" || c.filter != "gp" || c.typing {
		t.Errorf("%+v, pools, starts and pods (-want +got):\n%s", c, diff)
	}
	if c = typed(c, "esc", ""); c.filter != "" {
		t.Errorf("filter %q after Esc", c.filter)
	}
}
