package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// cost says what the nodes of all pools cost, and how many pools have no price; "" where none has
// one.
func cost(pools []Pool) string {
	totals, unknown := map[string]float64{}, 0
	for _, p := range pools {
		if p.Currency == "" {
			unknown++
			continue
		}
		totals[p.Currency] += p.Cost
	}
	var parts []string
	for _, currency := range slices.Sorted(maps.Keys(totals)) {
		parts = append(parts, fmt.Sprintf("%.2f %s per hour", totals[currency], currency))
	}
	if len(parts) > 0 && unknown > 0 {
		parts = append(parts, fmt.Sprintf("pools without a price: %d", unknown))
	}
	return strings.Join(parts, "  ")
}

// costCell is the cost of a pool in its row.
func costCell(p Pool) string {
	if p.Currency == "" {
		return "-"
	}
	return fmt.Sprintf("%.2f", p.Cost)
}
