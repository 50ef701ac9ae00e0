package figures

import (
	"fmt"
	"math"
	"strings"
)

// Point is one cost at one size.
type Point struct{ Size, Cost float64 }

// Exponent is that of the power law that fits the points best: 1 is linear, 2 quadratic, 0
// independent of the size. It is the slope of the least squares line through the logarithms. It is
// false where fewer than two sizes have a cost above zero.
func Exponent(points []Point) (float64, bool) {
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		if p.Size <= 0 || p.Cost <= 0 {
			continue
		}
		x, y := math.Log(p.Size), math.Log(p.Cost)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	spread := n*sxx - sx*sx
	if n < 2 || spread <= 1e-9 {
		return 0, false
	}
	return (n*sxy - sx*sy) / spread, true
}

// Grown is the row that shows how a cost grows. The target is what the exponent may be; the cost
// itself is named by its unit. Costs are read as what is above that of an empty world only if the
// caller has taken that off.
func Grown(name string, unit Unit, points []Point, most float64, words string) Row {
	shown := make([]string, len(points))
	for i, p := range points {
		shown[i] = fmt.Sprintf("%.0f: %s", p.Size, Figure{p.Cost, unit})
	}
	row := Row{Name: name, Note: strings.Join(shown, ", ")}
	exponent, ok := Exponent(points)
	if !ok {
		row.Failure = "fewer than two sizes were measured"
		return row
	}
	row.Ours, row.Target = &Figure{exponent, Exponents}, &Target{Words: words, Limit: most}
	return row
}
