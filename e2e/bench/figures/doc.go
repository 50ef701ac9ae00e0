// Package figures turns what was measured into figures: quantiles, exponents of growth, rows that
// say whether a target was met, and the table in a page of the docs. It measures nothing itself.
package figures
