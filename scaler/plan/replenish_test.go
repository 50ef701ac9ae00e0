package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLaunches(t *testing.T) {
	for name, c := range map[string]struct {
		pool Pool
		want int32
	}{
		"an empty pool":                          {Pool{PoolSize: 10, MinStandby: 3}, 3},
		"enough standby":                         {Pool{PoolSize: 10, MinStandby: 3, Standby: 3, Total: 3}, 0},
		"more than enough":                       {Pool{PoolSize: 10, MinStandby: 3, Standby: 5, Total: 5}, 0},
		"warming ones will be standby":           {Pool{PoolSize: 10, MinStandby: 3, Standby: 1, Warmup: 1, Total: 2}, 1},
		"pending launches will be too":           {Pool{PoolSize: 10, MinStandby: 3, Standby: 1, Total: 1, Pending: 2}, 0},
		"running ones are no standby":            {Pool{PoolSize: 10, MinStandby: 3, Total: 4}, 3},
		"poolSize leaves less room":              {Pool{PoolSize: 10, MinStandby: 3, Total: 8}, 2},
		"poolSize leaves no room":                {Pool{PoolSize: 10, MinStandby: 3, Total: 10}, 0},
		"pending launches take room":             {Pool{PoolSize: 10, MinStandby: 5, Total: 7, Pending: 2}, 1},
		"poolSize lowered below what there is":   {Pool{PoolSize: 2, MinStandby: 2, Total: 5}, 0},
		"minStandby lowered below what there is": {Pool{PoolSize: 9, MinStandby: 0, Standby: 5, Total: 5}, 0},
		"no standby wanted":                      {Pool{PoolSize: 9}, 0},
		"all of the pool standby":                {Pool{PoolSize: 4, MinStandby: 4}, 4},
		"the largest pool":                       {Pool{PoolSize: 1000, MinStandby: 1000}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Launches(c.pool); got != c.want {
				t.Errorf("%d launches, want %d", got, c.want)
			}
		})
	}
}

// Whatever stands, launches never take the pool past its size, and asking again after them asks for
// none.
func TestLaunchesNeverPassPoolSize(t *testing.T) {
	for size := int32(1); size <= 5; size++ {
		for least := int32(0); least <= size; least++ {
			for standby := int32(0); standby <= 6; standby++ {
				for others := int32(0); others <= 3; others++ {
					for pending := int32(0); pending <= 3; pending++ {
						p := Pool{PoolSize: size, MinStandby: least, Standby: standby, Total: standby + others, Pending: pending}
						n := Launches(p)
						if n < 0 || n > 0 && p.Total+p.Pending+n > p.PoolSize {
							t.Fatalf("%d launches of %+v", n, p)
						}
						p.Pending += n
						if again := Launches(p); again != 0 {
							t.Fatalf("%d more launches of %+v", again, p)
						}
					}
				}
			}
		}
	}
}

func TestSlotsRoundTrip(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Slots
		bad  bool
	}{
		"nothing launched yet":   {text: ""},
		"none pending":           {text: `{"next":7}`, want: Slots{Next: 7}},
		"some pending":           {text: `{"next":7,"pending":[4,6]}`, want: Slots{Next: 7, Pending: []int64{4, 6}}},
		"written by a person":    {text: `yes`, bad: true},
		"a list of other things": {text: `{"next":1,"pending":["a"]}`, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSlots(c.text)
			if (err != nil) != c.bad {
				t.Fatalf("error %v, want one: %v", err, c.bad)
			}
			if c.bad {
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("slots (-want +got):\n%s", diff)
			}
			if c.text != "" && got.String() != c.text {
				t.Errorf("written as %s, want %s", got.String(), c.text)
			}
		})
	}
}

// A number that was used once makes a token that the cloud may answer with an instance long gone.
func TestSlotsNeverReuseANumber(t *testing.T) {
	s := Slots{}
	used := map[int64]bool{}
	for round := range int64(20) {
		before := s.String()
		next := s.Reserve(int32(round % 4))
		if s.String() != before {
			t.Fatalf("Reserve changed its receiver from %s to %s", before, s)
		}
		for _, slot := range next.Pending[len(s.Pending):] {
			if used[slot] {
				t.Fatalf("slot %d reserved twice", slot)
			}
			used[slot] = true
		}
		parsed, err := ParseSlots(next.String()) // a restart in between
		if err != nil {
			t.Fatal(err)
		}
		s = parsed.Settle(map[int64]bool{round: true, round * 2: true})
	}
}

func TestSettleDropsWhatWasSeenAndNothingElse(t *testing.T) {
	was := Slots{Next: 9, Pending: []int64{4, 6, 8}}
	got := was.Settle(map[int64]bool{6: true, 1: true, 8: false})
	if diff := cmp.Diff(Slots{Next: 9, Pending: []int64{4, 8}}, got); diff != "" {
		t.Errorf("settled (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Slots{Next: 9, Pending: []int64{4, 6, 8}}, was); diff != "" {
		t.Errorf("Settle changed its receiver (-want +got):\n%s", diff)
	}
}
