package report

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Plot is a chart: lines over a common axis, or groups of bars.
type Plot struct {
	Name  string // of the file, without .svg
	Title string // above the chart
	X, Y  string // what the axes show, with its unit
	Lines []Line // over a common axis
	// Bars are drawn side by side over Groups; a chart with bars has no Lines.
	Groups []string
	Bars   []Bars // one value for each of Groups
	// LogX and LogY select logarithmic axes: a zero is drawn at the edge, which is labeled 0, and
	// negative values are omitted.
	LogX, LogY bool
	// YMin and YMax are always included in the axis, if they differ.
	YMin, YMax float64
	// Marks are vertical lines at events.
	Marks   []Mark
	Caption string // below the chart, in as many lines as it needs
}

// Line is one line of a chart.
type Line struct {
	Label string    // in the legend
	X, Y  []float64 // as many of one as of the other
	// Low and High are the ends of error bars, one for each point; nil without.
	Low, High []float64
	// Dots draws only the points, Dashed a dashed line.
	Dots, Dashed bool
}

// Add appends a point.
func (l *Line) Add(x, y float64) { l.X, l.Y = append(l.X, x), append(l.Y, y) }

// Bars are the bars of one kind, one per group.
type Bars struct {
	Label  string    // in the legend
	Values []float64 // one for each group
}

// Mark is a vertical line with a label.
type Mark struct {
	X     float64 // where it stands
	Label string  // the word on it
}

// palette has colors for all kinds of color vision (Okabe and Ito), strongest first.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#804820"}

// The size of a chart, and what stands around the lines: the title above, the axes and the caption
// below and on the left, the legend on the right, where nothing that is drawn can lie under it.
const (
	plotWidth, plotHeight = 860, 440 // without the caption
	plotTop, plotBase     = 48, 388
	// headRoom is the share of the height above all lines, for labels of marks.
	headRoom = 0.06
	// captionSize and captionLine are the font size and the distance of lines of the caption.
	captionSize, captionLine = 10, 14
)

// wide estimates the width of a text of a font size.
func wide(text string, size float64) float64 { return 0.56 * size * float64(len([]rune(text))) }

// wrapped breaks a text between words into lines of at most a width.
func wrapped(text string, width, size float64) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		if last := len(lines) - 1; last >= 0 && wide(lines[last]+" "+word, size) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// axis maps values to places in the picture.
type axis struct {
	low, high float64 // values at its ends
	from, to  float64 // where they lie
	log       bool
	zero      bool // a logarithmic axis begins with a zero
}

func (a *axis) at(v float64) float64 {
	share := (v - a.low) / (a.high - a.low)
	switch {
	case a.log && v <= 0:
		share = 0
	case a.log:
		share = math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return a.from + share*(a.to-a.from)
}

// take widens the axis to a value.
func (a *axis) take(v float64) {
	if a.log && v <= 0 {
		a.zero = true
		return
	}
	a.low, a.high = min(a.low, v), max(a.high, v)
}

// settle sets the bounds of an axis without values or with one.
func (a *axis) settle() {
	switch {
	case a.low > a.high && a.log:
		a.low, a.high = 1, 10
	case a.low > a.high:
		a.low, a.high = 0, 1
	case a.low == a.high && a.log:
		a.low, a.high = a.low/2, a.high*2
	case a.low == a.high:
		a.low, a.high = a.low-1, a.high+1
	}
	if a.zero {
		a.low /= 2 // apart from the smallest value
	}
}

func (a *axis) ticks() []tick {
	switch {
	case a.zero:
		return append(logTicks(a.low*1.5, a.high), tick{0, "0"})
	case a.log:
		return logTicks(a.low, a.high)
	}
	return ticks(a.low, a.high)
}

// sheet is a chart being drawn.
type sheet struct {
	*Plot
	bytes.Buffer
	x, y axis
}

// SVG draws the chart. Equal charts give equal bytes.
func (p *Plot) SVG() []byte {
	s := &sheet{Plot: p}
	empty := axis{low: math.Inf(1), high: math.Inf(-1)}
	s.x, s.y = empty, empty
	s.x.log, s.y.log = p.LogX, p.LogY
	s.bound()
	left := 0.0
	for _, t := range s.y.ticks() {
		left = max(left, wide(t.label, 11))
	}
	legend := 0.0
	for _, name := range s.names() {
		legend = max(legend, 40+wide(name, 12))
	}
	caption := wrapped(p.Caption, plotWidth-48, captionSize)
	s.x.from, s.x.to, s.y.from, s.y.to = 46+left, plotWidth-24-legend, plotBase, plotTop
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="Arial,Helvetica,'Liberation Sans',sans-serif" fill="#1d2430">`, plotWidth, plotHeight+captionLine*len(caption))
	s.WriteString("\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n")
	s.axes()
	s.WriteString("<g stroke-width=\"1.8\" stroke-linejoin=\"round\">\n")
	for i := range p.Lines {
		s.line(&p.Lines[i], palette[i%len(palette)])
	}
	s.bars()
	s.WriteString("</g>\n")
	for _, m := range p.Marks {
		s.stroke(s.x.at(m.X), plotBase, s.x.at(m.X), plotTop, `#1d2430" stroke-dasharray="3 3`)
		s.text(s.x.at(m.X)-6, plotTop+9, 11, "end", m.Label)
	}
	s.legend()
	for i, line := range caption {
		s.text(24, float64(plotHeight+captionLine*i), captionSize, "start", line)
	}
	s.WriteString("</svg>\n")
	return s.Bytes()
}

// bound sets the ranges of the axes.
func (s *sheet) bound() {
	for i := range s.Lines {
		for _, p := range s.points(&s.Lines[i]) {
			s.x.take(p[0])
			s.y.take(p[1])
		}
		for k := range s.Lines[i].Low {
			s.y.take(s.Lines[i].Low[k])
			s.y.take(s.Lines[i].High[k])
		}
	}
	for _, m := range s.Marks {
		s.x.take(m.X)
	}
	for _, b := range s.Bars {
		s.x.low, s.x.high = -0.5, float64(len(s.Groups))-0.5
		s.y.take(0)
		for _, v := range b.Values {
			if finite(v) {
				s.y.take(v)
			}
		}
	}
	empty := s.y.low > s.y.high
	if s.YMin != s.YMax {
		s.y.take(s.YMin)
		s.y.take(s.YMax)
	}
	s.x.settle()
	s.y.settle()
	if s.YMin == s.YMax && !s.LogY && s.y.low > 0 && s.y.low < s.y.high/2 {
		s.y.low = 0 // so that heights compare
	}
	switch {
	case s.YMin != s.YMax && len(s.Marks) == 0 || empty:
	case s.LogY:
		s.y.high *= math.Pow(s.y.high/s.y.low, headRoom)
	default:
		s.y.high += (s.y.high - s.y.low) * headRoom
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// points leaves out what cannot be drawn.
func (p *Plot) points(l *Line) (points [][2]float64) {
	for i := range min(len(l.X), len(l.Y)) {
		x, y := l.X[i], l.Y[i]
		if finite(x) && finite(y) && (!p.LogX || x >= 0) && (!p.LogY || y >= 0) {
			points = append(points, [2]float64{x, y})
		}
	}
	return points
}

func (s *sheet) stroke(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(s, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour)
}

func (s *sheet) text(x, y, size float64, anchor, text string) {
	fmt.Fprintf(s, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"%s\">%s</text>\n", x, y, size, anchor, html.EscapeString(text))
}

// axes draws the grid and all texts around it.
func (s *sheet) axes() {
	middle := (s.x.from + s.x.to) / 2
	s.text(middle, 28, 17, "middle", s.Title)
	s.text(middle, plotHeight-14, 13, "middle", s.X)
	fmt.Fprintf(s, "<g transform=\"rotate(-90)\">\n")
	s.text(-(plotTop+plotBase)/2, 24, 13, "middle", s.Y)
	s.WriteString("</g>\n")
	for _, t := range s.y.ticks() {
		y := s.y.at(t.value)
		if t.label != "" {
			s.stroke(s.x.from, y, s.x.to, y, "#e4e6ea")
		}
		s.stroke(s.x.from-5, y, s.x.from, y, "#1d2430")
		s.text(s.x.from-8, y+4, 11, "end", t.label)
	}
	at := s.x.ticks()
	if len(s.Bars) > 0 {
		at = nil
		for i, g := range s.Groups {
			at = append(at, tick{float64(i), g})
		}
	}
	for _, t := range at {
		x := s.x.at(t.value)
		if t.label != "" && len(s.Bars) == 0 {
			s.stroke(x, plotBase, x, plotTop, "#e4e6ea")
		}
		s.stroke(x, plotBase, x, plotBase+5, "#1d2430")
		s.text(x, plotBase+18, 11, "middle", t.label)
	}
	s.stroke(s.x.from, plotBase, s.x.to, plotBase, "#1d2430")
	s.stroke(s.x.from, plotBase, s.x.from, plotTop, "#1d2430")
}

func (s *sheet) line(l *Line, colour string) {
	points := s.points(l)
	if len(points) == 0 {
		return
	}
	if l.Dots {
		for _, p := range points {
			fmt.Fprintf(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", s.x.at(p[0]), s.y.at(p[1]), colour)
		}
		return
	}
	for k, x := range l.X[:len(l.Low)] {
		s.stroke(s.x.at(x), s.y.at(l.Low[k]), s.x.at(x), s.y.at(l.High[k]), colour)
	}
	fmt.Fprintf(s, `<polyline fill="none" stroke="%s"%s points="`, colour, dashes(l))
	for _, p := range points {
		fmt.Fprintf(s, "%.1f,%.1f ", s.x.at(p[0]), s.y.at(p[1]))
	}
	s.WriteString("\"/>\n")
}

func dashes(l *Line) string {
	if l.Dashed {
		return ` stroke-dasharray="6 4"`
	}
	return ""
}

func (s *sheet) bars() {
	width := 0.8 / float64(max(len(s.Bars), 1)) // as parts of a group's
	width = min(width, 60/(s.x.at(1)-s.x.at(0)))
	for i, b := range s.Bars {
		for k, v := range b.Values {
			if !finite(v) {
				continue
			}
			x := float64(k) + width*(float64(i)-float64(len(s.Bars))/2)
			y0, y := s.y.at(max(0, s.y.low)), s.y.at(v)
			fmt.Fprintf(s, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
				s.x.at(x), min(y, y0), s.x.at(x+width)-s.x.at(x), math.Abs(y0-y), palette[i%len(palette)])
		}
	}
}

// names returns the legend: labels of lines and bars in order, empty for lines without points.
func (s *sheet) names() (names []string) {
	for i := range s.Lines {
		name := s.Lines[i].Label
		if len(s.points(&s.Lines[i])) == 0 {
			name = ""
		}
		names = append(names, name)
	}
	for _, b := range s.Bars {
		names = append(names, b.Label)
	}
	return names
}

func (s *sheet) legend() {
	x, y := s.x.to+14, plotTop+10.0
	for i, name := range s.names() {
		colour := palette[i%len(palette)]
		switch {
		case name == "":
			continue
		case len(s.Bars) > 0:
			fmt.Fprintf(s, "<rect x=\"%.1f\" y=\"%.1f\" width=\"22\" height=\"10\" fill=\"%s\"/>\n", x, y-9, colour)
		case s.Lines[i].Dots:
			fmt.Fprintf(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", x+11, y-4, colour)
		default:
			fmt.Fprintf(s, "<path d=\"M%.1f %.1fh22\" stroke=\"%s\" stroke-width=\"1.8\"%s/>\n", x, y-4, colour, dashes(&s.Lines[i]))
		}
		s.text(x+26, y, 12, "start", name)
		y += 19
	}
}

// tick is a position on an axis; some have no label where there are many.
type tick struct {
	value float64
	label string
}

// ticks of a linear axis: four to eight, at round values.
func ticks(low, high float64) (all []tick) {
	step := math.Pow(10, math.Floor(math.Log10(high-low)))
	for _, finer := range []float64{2, 2.5, 2} {
		if (high-low)/step < 4 {
			step /= finer
		}
	}
	for k := math.Ceil(low / step); k*step <= high+step/1e6; k++ {
		all = append(all, tick{k * step, tickLabel(k * step)})
	}
	return all
}

// logTicks have a label at each power of ten, and where there are few of those also at twice and
// five times of it.
func logTicks(low, high float64) (all []tick) {
	few := high/low < 1000
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for k := 1.0; k < 10; k++ {
			v := k * math.Pow(10, power)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := tick{value: v}
			if k == 1 || few && (k == 2 || k == 5) {
				t.label = tickLabel(v)
			}
			all = append(all, t)
		}
	}
	return all
}

func tickLabel(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return strconv.FormatFloat(v/1e9, 'g', 4, 64) + "G"
	case a >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case a >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	default:
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
}
