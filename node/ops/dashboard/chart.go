package dashboard

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

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

// The charts show the last ten minutes, in slots of three seconds.
const (
	slotTime  = 3 * time.Second
	slotCount = 200
)

// patience is the maximum interval of two samples that is interpolated; a longer one is shown as a
// gap, because the process was stopped.
const patience = 5 * time.Second

// point is the data of the charts at one moment; rates are per second.
type point struct {
	Pages, Duplicates, Sites, Peers, Queue, Cap float64
}

func (p *point) add(q *point) {
	p.Pages += q.Pages
	p.Duplicates += q.Duplicates
	p.Sites += q.Sites
	p.Peers += q.Peers
	p.Queue += q.Queue
	p.Cap += q.Cap
}

// history stores the means of the gauges in the latest time slots. It takes time as an argument and
// is not safe for concurrent use.
type history struct {
	slots [slotCount]slot
	head  int64 // the index in time of the newest slot
	last  Gauges
	at    time.Time // of the last sample, zero before the first
}

type slot struct {
	sum point
	n   float64
}

func (h *history) slot(index int64) *slot { return &h.slots[index%slotCount] }

// add records a sample. One that is not later than the last only becomes the base of the next.
func (h *history) add(now time.Time, g Gauges) {
	defer func() { h.last, h.at = g, now }()
	gap := now.Sub(h.at).Seconds()
	if h.at.IsZero() || gap <= 0 || gap > patience.Seconds() {
		return
	}
	rate := func(was, is int64) float64 { return float64(max(is-was, 0)) / gap }
	p := point{
		Pages: rate(h.last.Pages, g.Pages), Duplicates: rate(h.last.Duplicates, g.Duplicates),
		Sites: rate(h.last.SiteBytes, g.SiteBytes), Peers: rate(h.last.PeerBytes, g.PeerBytes),
		Queue: float64(g.Queue), Cap: float64(g.CapBps),
	}
	h.record(now, &p)
}

// record adds p to the slots between the last sample and now, the slot of now included.
func (h *history) record(now time.Time, p *point) {
	to := now.UnixNano() / int64(slotTime)
	if to < h.head { // the clock was set back
		clear(h.slots[:])
		h.head = 0
	}
	for i := max(h.head+1, to-slotCount+1); i <= to; i++ {
		*h.slot(i) = slot{}
	}
	h.head = to
	for i := min(h.at.UnixNano()/int64(slotTime)+1, to); i <= to; i++ {
		s := h.slot(i)
		s.sum.add(p)
		s.n++
	}
}

// means returns the means of the last slotCount-1 complete slots before now, oldest first. Missing
// values are NaN.
func (h *history) means(now time.Time) []point {
	out := make([]point, slotCount-1)
	end := now.UnixNano() / int64(slotTime)
	for i := range out {
		index, f := end-int64(len(out)-i), math.NaN()
		var sum point
		if s := h.slot(index); index > h.head-slotCount && index <= h.head && s.n > 0 {
			sum, f = s.sum, 1/s.n
		}
		sum.Pages, sum.Duplicates, sum.Sites, sum.Peers, sum.Queue, sum.Cap = f*sum.Pages, f*sum.Duplicates, f*sum.Sites, f*sum.Peers, f*sum.Queue, f*sum.Cap
		out[i] = sum
	}
	return out
}
