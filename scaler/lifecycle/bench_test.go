package lifecycle

import "testing"

// BenchmarkDecide decides once for each row of the table.
func BenchmarkDecide(b *testing.B) {
	var rows []Observation
	for _, row := range table() {
		rows = append(rows, row.observation())
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, o := range rows {
			Decide(o, epoch())
		}
	}
}
