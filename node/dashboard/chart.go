package dashboard

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The size of a chart, in units that are pixels where it is shown at its own width, and the size of
// its letters.
const (
	chartWidth  = 460 * vg.Length(1)
	chartHeight = 150 * vg.Length(1)
	chartText   = 11.5
)

// chartPoints is of how many points a curve is made: as many as there is room for.
const chartPoints = 200

// chart is a few curves over one span of time.
type chart struct {
	ID, Title string
	// Now is what the curves say at present, each with the class of its colour.
	Now    []reading
	curves []curve
	// least is the smallest height of the picture: less is too little to be shown large.
	least float64
	unit  func(float64) string
}

// reading is one curve's latest value, for the legend.
type reading struct{ Class, Name, Value string }

// curve is one line; those with an area are filled down to zero.
type curve struct {
	class  string
	values []float64
	area   bool
	dashed bool
}

// span is a length of time that charts can be asked for.
type span struct {
	Name, Title string
	of          func(*history) *track
	// looks are its parts that are shown while no more is known, the shortest first; the last is
	// all of it.
	looks []look
}

// look is what a chart shows of a span.
type look struct {
	length time.Duration
	title  string
	ticks  [3]string // at its beginning, in its middle, at its end
}

// spans are what can be asked for, the default first.
var spans = []span{
	{"10m", "10 minutes", func(h *history) *track { return &h.fine }, []look{
		{2 * time.Minute, "2 minutes", [3]string{"2 min ago", "1 min", "now"}},
		{4 * time.Minute, "4 minutes", [3]string{"4 min ago", "2 min", "now"}},
		{fineSpan, "10 minutes", [3]string{"10 min ago", "5 min", "now"}},
	}},
	{"24h", "24 hours", func(h *history) *track { return &h.coarse }, []look{
		{4 * time.Hour, "4 hours", [3]string{"4 h ago", "2 h", "now"}},
		{12 * time.Hour, "12 hours", [3]string{"12 h ago", "6 h", "now"}},
		{coarseSpan, "24 hours", [3]string{"24 h ago", "12 h", "now"}},
	}},
}

// lately is the part of a span in which something is known, in about chartPoints points.
type lately struct {
	*look
	points []point
}

// lately looks back over a span.
func (h *history) lately(now time.Time, s *span) lately {
	t := s.of(h)
	shown := &s.looks[len(s.looks)-1]
	for i := len(s.looks) - 2; i >= 0 && t.known(now) <= s.looks[i].length; i-- {
		shown = &s.looks[i]
	}
	n := int(shown.length / t.step)
	per := max(n/chartPoints, 1)
	return lately{shown, t.means(now, n/per, per)}
}

// charts are the four that the page shows.
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
			Now:    []reading{{"c-queue", "URLs pending", thousands(int64(latest.Queue))}},
		},
		{
			ID: "duplicates", Title: "Duplicates met", unit: perSecond, least: 1,
			curves: []curve{{class: "c-duplicates", values: pick(func(p *point) float64 { return p.Duplicates }), area: true}},
			Now:    []reading{{"c-duplicates", "known content", perSecond(latest.Duplicates)}},
		},
	}
}

// top is the height of the picture: the largest value, rounded up to a number that divides well.
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

// empty says that nothing is known yet.
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

// svg draws the chart.
func (c *chart) svg(s *look) (template.HTML, error) {
	p, top, err := c.axes(s)
	if err != nil {
		return "", fmt.Errorf("chart %s: %w", c.ID, err)
	}
	for i := range c.curves {
		if err := c.curves[i].draw(p); err != nil {
			return "", fmt.Errorf("chart %s: %w", c.ID, err)
		}
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, top
	sheet := newCanvas(chartWidth, chartHeight)
	p.Draw(draw.Crop(draw.New(sheet), 0, 0, 2, -14))
	words := []string{c.Title + " over the last " + s.title}
	for _, r := range c.Now {
		words = append(words, r.Name+" "+r.Value)
	}
	return template.HTML(fmt.Sprintf( // made here: numbers, classes and texts of our own, escaped
		`<svg class="chart" viewBox="0 0 %g %g" role="img" aria-label="%s">%s</svg>`, float64(chartWidth), float64(chartHeight),
		html.EscapeString(strings.Join(words, ", ")), sheet.String(),
	)), nil
}

// axes is a chart without its curves: lines at nothing, half and the top, with what they stand for
// written on them, and the time below.
func (c *chart) axes(s *look) (*plot.Plot, float64, error) {
	top := c.top()
	p := plot.New()
	p.BackgroundColor = nil
	p.HideAxes()
	for i, class := range []string{"axis", "grid", "grid"} {
		y := top * float64(i) / 2
		line, err := plotter.NewLine(plotter.XYs{{Y: y}, {X: 1, Y: y}})
		if err != nil {
			return nil, 0, err
		}
		line.Color, line.Width = paint{class: class}, 1
		p.Add(line)
	}
	values := plotter.XYLabels{XYs: plotter.XYs{{Y: top / 2}, {Y: top}}, Labels: []string{c.unit(top / 2), c.unit(top)}}
	times := plotter.XYLabels{XYs: plotter.XYs{{X: 0}, {X: 0.5}, {X: 1}}, Labels: s.ticks[:]}
	for _, l := range []struct {
		texts   plotter.XYLabels
		anchors []string
		lift    vg.Length
	}{{values, []string{"", ""}, 4}, {times, []string{"", "middle", "end"}, -15}} {
		labels, err := plotter.NewLabels(l.texts)
		if err != nil {
			return nil, 0, err
		}
		labels.Offset.Y = l.lift
		for i := range labels.TextStyle {
			style := &labels.TextStyle[i]
			style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: chartText}
			style.Color = paint{"t", l.anchors[i]}
			style.XAlign = map[string]text.XAlignment{"": text.XLeft, "middle": text.XCenter, "end": text.XRight}[l.anchors[i]]
		}
		p.Add(labels)
	}
	return p, top, nil
}

// draw adds the curve, in pieces where a part of it is not known.
func (c *curve) draw(p *plot.Plot) error {
	n := len(c.values)
	for from := 0; from < n; from++ {
		to := from
		var run plotter.XYs
		for ; to < n && !math.IsNaN(c.values[to]); to++ {
			run = append(run, plotter.XY{X: (float64(to) + 1) / float64(n), Y: c.values[to]})
		}
		if len(run) == 1 { // a dot is a short stroke
			run = append(plotter.XYs{{X: run[0].X - 0.5/float64(n), Y: run[0].Y}}, run...)
		}
		if len(run) > 0 {
			line, err := plotter.NewLine(run)
			if err != nil {
				return err
			}
			line.Color, line.Width = paint{class: c.class}, 1.8
			if c.area {
				line.FillColor = paint{class: c.class}
			}
			if c.dashed {
				line.Dashes, line.Width = []vg.Length{5, 4}, 1.4
			}
			p.Add(line)
		}
		from = to
	}
	return nil
}
