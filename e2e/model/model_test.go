package model

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestFile(t *testing.T) {
	b, err := os.ReadFile(os.Getenv("F"))
	if err != nil {
		return
	}
	tr, err := Parse(string(b))
	if err != nil {
		t.Fatal(err)
	}
	t.Error(Play(tr, func(s string) { fmt.Println(s) }))
}

func TestTry(t *testing.T) {
	from, to := uint64(1), uint64(20)
	if v := os.Getenv("FROM"); v != "" {
		n, _ := strconv.Atoi(v)
		from, to = uint64(n), uint64(n)
	}
	if v := os.Getenv("TO"); v != "" {
		n, _ := strconv.Atoi(v)
		to = uint64(n)
	}
	began := time.Now()
	var journal func(string)
	if os.Getenv("J") != "" {
		journal = func(s string) { fmt.Println(s) }
	}
	for seed := from; seed <= to; seed++ {
		tr := Generate(seed)
		if err := Play(tr, journal); err != nil {
			t.Errorf("seed %d: %v", seed, err)
			if os.Getenv("S") != "" {
				s := Shrink(tr, 150)
				fmt.Println(s)
				fmt.Println(Play(s, nil))
			}
		}
	}
	fmt.Println(time.Since(began) / time.Duration(to-from+1))
}
