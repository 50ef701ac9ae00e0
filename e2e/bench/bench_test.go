package main

import (
	"math"
	"testing"
)

func TestParseScale(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "1/8": 0.125, "0.5": 0.5, "0": 0, "2": 0, "1/0": 0, "x": 0,
		"1/x": 0, "-1/2": 0, "NaN": 0, "": 0} {
		t.Run(text, func(t *testing.T) {
			got, err := parseScale(text)
			if (err != nil) != (want == 0) || math.Abs(got-want) > 1e-9 {
				t.Errorf("got %v, %v; want %v", got, err, want)
			}
		})
	}
}
