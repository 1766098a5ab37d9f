package dashboard

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"

	"github.com/apoidea/apoidea/node/ops/words"
)

// The size of a chart, in pixels at its natural width. The curves are between top and base, the
// time labels below.
const (
	chartWidth  = 460
	chartHeight = 150
	chartTop    = 14
	chartBase   = 130
)

// chart is a set of curves over the last ten minutes.
type chart struct {
	ID, Title string
	// Now holds the current values of the curves, each with its color class.
	Now    []reading
	curves []curve
	// least is the minimum of the value axis, so that small values are not magnified.
	least float64
	unit  func(float64) string
}

// reading is the latest value of a curve, for the legend.
type reading struct{ Class, Name, Value string }

// curve is one line; one with an area is filled down to zero.
type curve struct {
	class  string
	values []float64
	area   bool
	dashed bool
}

func rateText(n float64) string { return words.Rate(int64(n)) }

// charts returns the four charts of the page.
func charts(points []point, latest *point) []chart {
	pick := func(of func(*point) float64) []float64 {
		values := make([]float64, len(points))
		for i := range points {
			values[i] = of(&points[i])
		}
		return values
	}
	perSecond := func(v float64) string { return countText(math.Round(v*10)/10) + "/s" }
	bandwidth := chart{
		ID: "bandwidth", Title: "Bandwidth", unit: rateText, least: 2000,
		curves: []curve{
			{class: "c-sites", values: pick(func(p *point) float64 { return p.Sites }), area: true},
			{class: "c-peers", values: pick(func(p *point) float64 { return p.Peers })},
		},
		Now: []reading{{"c-sites", "sites", rateText(latest.Sites)}, {"c-peers", "peers", rateText(latest.Peers)}},
	}
	if latest.Cap > 0 {
		bandwidth.curves = append(bandwidth.curves, curve{class: "c-cap", dashed: true, values: pick(func(p *point) float64 {
			if p.Cap == 0 {
				return math.NaN()
			}
			return p.Cap
		})})
		bandwidth.Now = append(bandwidth.Now, reading{"c-cap", "cap", rateText(latest.Cap)})
	}
	return []chart{
		{
			ID: "pages", Title: "Pages fetched", unit: perSecond, least: 1,
			curves: []curve{{class: "c-pages", values: pick(func(p *point) float64 { return p.Pages }), area: true}},
			Now:    []reading{{"c-pages", "new", perSecond(latest.Pages)}},
		},
		bandwidth,
		{
			ID: "queue", Title: "Queue", unit: countText, least: 4,
			curves: []curve{{class: "c-queue", values: pick(func(p *point) float64 { return p.Queue }), area: true}},
			Now:    []reading{{"c-queue", "URLs pending", words.Thousands(int64(latest.Queue))}},
		},
		{
			ID: "duplicates", Title: "Duplicates", unit: perSecond, least: 1,
			curves: []curve{{class: "c-duplicates", values: pick(func(p *point) float64 { return p.Duplicates }), area: true}},
			Now:    []reading{{"c-duplicates", "known content", perSecond(latest.Duplicates)}},
		},
	}
}

// top returns the end of the value axis: the maximum, rounded up.
func (c *chart) top() float64 {
	most := c.least
	for i := range c.curves {
		for _, v := range c.curves[i].values {
			if !math.IsNaN(v) {
				most = max(most, v)
			}
		}
	}
	scale := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{1, 2, 4, 5, 10} {
		if f*scale >= most {
			return f * scale
		}
	}
	return 10 * scale
}

// empty reports that there is no data yet.
func (c *chart) empty() bool {
	for i := range c.curves {
		for _, v := range c.curves[i].values {
			if !math.IsNaN(v) {
				return false
			}
		}
	}
	return true
}

// svg draws the chart with class names only, because of the page's content policy; the style sheet
// sets the colors of both themes.
func (c *chart) svg() template.HTML {
	parts := []string{c.Title + " over the last 10 minutes"}
	for _, r := range c.Now {
		parts = append(parts, r.Name+" "+r.Value)
	}
	d := new(bytes.Buffer)
	fmt.Fprintf(d, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, chartHeight, html.EscapeString(strings.Join(parts, ", ")))
	top := c.top()
	for i, class := range []string{"axis", "grid", "grid"} { // at zero, half and top
		y := chartBase - i*(chartBase-chartTop)/2
		fmt.Fprintf(d, `<path class="l %s" stroke-width="1" d="M0 %dh%d"/>`, class, y, chartWidth)
		if i > 0 {
			fmt.Fprintf(d, `<text class="t" x="0" y="%d">%s</text>`, y-4, html.EscapeString(c.unit(top*float64(i)/2)))
		}
	}
	for i, anchor := range []string{"start", "middle", "end"} {
		tick := []string{"10 min ago", "5 min", "now"}[i]
		fmt.Fprintf(d, `<text class="t" x="%d" y="%d" text-anchor="%s">%s</text>`, i*chartWidth/2, chartBase+15, anchor, tick)
	}
	for i := range c.curves {
		c.curves[i].draw(d, top)
	}
	d.WriteString("</svg>")
	return template.HTML(d.String()) // generated here: numbers, classes and escaped text
}

// draw adds the curve, with gaps where data is missing. Points are in tenths, relative to the
// previous one, which is half as long.
func (c *curve) draw(d *bytes.Buffer, top float64) {
	at := func(i float64) float64 { return math.Round(10*chartWidth*i/float64(len(c.values))) / 10 }
	height := func(v float64) float64 { return math.Round(10*(chartBase-(chartBase-chartTop)*v/top)) / 10 }
	for from := 0; from < len(c.values); from++ {
		var line strings.Builder
		begin, x, y := at(float64(from)+1), 0.0, 0.0
		to := from
		for ; to < len(c.values) && !math.IsNaN(c.values[to]); to++ {
			nextX, nextY := at(float64(to)+1), height(c.values[to])
			if to == from {
				fmt.Fprintf(&line, "M%g %g", nextX, nextY)
			} else {
				fmt.Fprintf(&line, "l%.4g %.4g", nextX-x, nextY-y)
			}
			x, y = nextX, nextY
		}
		switch {
		case to == from:
			continue
		case to == from+1: // a single point is a short stroke
			begin = at(float64(from) + 0.5)
			fmt.Fprintf(&line, "H%g", begin)
		}
		width := `"1.8"`
		if c.dashed {
			width = `"1.4" stroke-dasharray="5 4"`
		}
		if c.area {
			fmt.Fprintf(d, `<path class="f %s" d="%sV%dH%gz"/>`, c.class, line.String(), chartBase, begin)
		}
		fmt.Fprintf(d, `<path class="l %s" stroke-width=%s d="%s"/>`, c.class, width, line.String())
		from = to
	}
}
