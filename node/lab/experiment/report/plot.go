package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Plot is a chart: lines over a common axis, or groups of bars.
type Plot struct {
	Name  string // of the file, without .svg
	Title string // above the chart
	X, Y  string // what the axes show, with its unit
	Lines []Line // over a common axis
	// Bars stand over Groups, one of each beside the others; then there are no Lines.
	Groups []string
	Bars   []Bars // one value for each of Groups
	// LogX and LogY are for figures over several orders of magnitude; values of zero and below are
	// left out.
	LogX, LogY bool
	// YMin and YMax bound the picture where they differ.
	YMin, YMax float64
	// Marks are upright lines at moments, such as a disaster.
	Marks []Mark
}

// Line is one line of a chart.
type Line struct {
	Label string    // in the legend
	X, Y  []float64 // as many of one as of the other
	// Dots draws the points alone, Dashed a broken line.
	Dots, Dashed bool
}

// Add appends a point.
func (l *Line) Add(x, y float64) { l.X, l.Y = append(l.X, x), append(l.Y, y) }

// Bars are the bars of one kind, one for each group.
type Bars struct {
	Label  string    // in the legend
	Values []float64 // one for each group
}

// Mark is an upright line with a word on it.
type Mark struct {
	X     float64 // where it stands
	Label string  // the word on it
}

// palette has colours that people with any eyes tell apart (Okabe and Ito), the strongest first.
var palette = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
	color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
	color.RGBA{R: 0x66, G: 0x66, B: 0x66, A: 0xff},
	color.RGBA{R: 0x80, G: 0x48, B: 0x20, A: 0xff},
}

var (
	ink   = color.RGBA{R: 0x1d, G: 0x24, B: 0x30, A: 0xff}
	faint = color.RGBA{R: 0xe4, G: 0xe6, B: 0xea, A: 0xff}
	paper = color.RGBA{R: 0xff, G: 0xff, B: 0xff, A: 0xff}
)

// The size of a chart.
const (
	plotWidth  = 860 * vg.Length(1)
	plotHeight = 440 * vg.Length(1)
	// legendGap is between the chart and its legend, which stands on its right: nothing that is
	// drawn can lie under it.
	legendGap = 14 * vg.Length(1)
	// widerFonts is how much wider letters may be where the font is another one.
	widerFonts = 1.12
)

// headRoom is the share of the height above all lines; the words of marks stand there.
const headRoom = 0.06

// chart is a plot with the legend beside it.
type chart struct {
	*plot.Plot
	names plot.Legend
}

// SVG draws the chart. The same chart is the same picture, byte for byte.
func (p *Plot) SVG() ([]byte, error) {
	c := p.canvas()
	var err error
	if len(p.Bars) > 0 {
		err = p.drawBars(c)
	} else {
		err = p.drawLines(c)
	}
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", p.Name, err)
	}
	p.bound(c)
	if err := p.drawMarks(c); err != nil {
		return nil, fmt.Errorf("chart %s: %w", p.Name, err)
	}
	sheet := vgsvg.New(plotWidth, plotHeight)
	area := draw.New(sheet)
	area.FillPolygon(paper, []vg.Point{{}, {X: plotWidth}, {X: plotWidth, Y: plotHeight}, {Y: plotHeight}})
	area = draw.Crop(area, 14, -22, 12, -14)
	width := widerFonts * c.names.Rectangle(area).Size().X
	if width > 0 {
		c.names.Draw(draw.Crop(area, area.Size().X-width, 0, 0, 0))
		width += legendGap
	}
	c.Draw(draw.Crop(area, 0, -width, 0, 0))
	var b bytes.Buffer
	if _, err := sheet.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("chart %s: %w", p.Name, err)
	}
	// Where the font is not there, one of its kind.
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), nil
}

// bound sets how high the picture is.
func (p *Plot) bound(c *chart) {
	// Where nothing is left to draw an axis has bounds all the same, and a logarithmic one no zero.
	for axis, log := range map[*plot.Axis]bool{&c.X: p.LogX, &c.Y: p.LogY} {
		if log && axis.Min > axis.Max {
			axis.Min, axis.Max = 1, 10
		}
	}
	if p.YMin != p.YMax {
		c.Y.Min, c.Y.Max = p.YMin, p.YMax
	} else if !p.LogY && c.Y.Min > 0 && c.Y.Min < c.Y.Max/2 {
		c.Y.Min = 0 // so that heights compare
	}
	switch {
	case p.YMin != p.YMax && len(p.Marks) == 0 || math.IsInf(c.Y.Max-c.Y.Min, 0): // an empty chart has no height
	case p.LogY:
		c.Y.Max *= math.Pow(c.Y.Max/c.Y.Min, headRoom)
	default:
		c.Y.Max += (c.Y.Max - c.Y.Min) * headRoom
	}
}

// canvas is an empty chart with its axes.
func (p *Plot) canvas() *chart {
	c := &chart{plot.New(), plot.NewLegend()}
	sans := func(size vg.Length) font.Font { return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size} }
	c.BackgroundColor = paper
	c.Title.Text, c.Title.TextStyle.Font, c.Title.TextStyle.Color, c.Title.Padding = p.Title, sans(17), ink, 10
	for _, axis := range []*plot.Axis{&c.X, &c.Y} {
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color = sans(13), ink
		axis.Tick.Label.Font, axis.Tick.Label.Color = sans(11), ink
		axis.Color, axis.Tick.Color = ink, ink
		axis.LineStyle.Width, axis.Tick.LineStyle.Width = 0.8, 0.8
		axis.Padding = 4
		axis.Tick.Marker = ticks{}
	}
	c.X.Label.Text, c.Y.Label.Text = p.X, p.Y
	c.X.Label.Padding, c.Y.Label.Padding = 4, 6
	if p.LogX {
		c.X.Scale, c.X.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	if p.LogY {
		c.Y.Scale, c.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	c.names.TextStyle.Font, c.names.TextStyle.Color = sans(12), ink
	c.names.Top, c.names.Left, c.names.Padding, c.names.ThumbnailWidth, c.names.YOffs = true, true, 4, 22, -32
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	c.Add(grid)
	return c
}

// ticks of a linear axis: four to eight, at round values.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) (all []plot.Tick) {
	if !(high > low) {
		return []plot.Tick{{Value: low, Label: tickLabel(low)}}
	}
	step := math.Pow(10, math.Floor(math.Log10(high-low)))
	for _, finer := range []float64{2, 2.5, 2} {
		if (high-low)/step < 4 {
			step /= finer
		}
	}
	for k := math.Ceil(low / step); k*step <= high+step/1e6; k++ {
		all = append(all, plot.Tick{Value: k * step, Label: tickLabel(k * step)})
	}
	return all
}

// logTicks have a label at each power of ten, and where there are few of those also at twice and
// five times of it.
type logTicks struct{}

// Ticks implements plot.Ticker.
func (logTicks) Ticks(low, high float64) (all []plot.Tick) {
	few := high/low < 1000
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for k := 1.0; k < 10; k++ {
			v := k * math.Pow(10, power)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if k == 1 || few && (k == 2 || k == 5) {
				t.Label = tickLabel(v)
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

func (p *Plot) drawLines(c *chart) error {
	for i := range p.Lines {
		l := &p.Lines[i]
		points := p.points(l)
		if len(points) == 0 {
			continue
		}
		colour := palette[i%len(palette)]
		if l.Dots {
			dots, err := plotter.NewScatter(points)
			if err != nil {
				return err
			}
			dots.Shape, dots.Radius, dots.Color = draw.CircleGlyph{}, 3.5, colour
			c.Add(dots)
			p.legend(c, l.Label, dots)
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color, line.Width = colour, 1.8
		if l.Dashed {
			line.Dashes = []vg.Length{6, 4}
		}
		c.Add(line)
		p.legend(c, l.Label, line)
	}
	return nil
}

// points leaves out what cannot be drawn.
func (p *Plot) points(l *Line) plotter.XYs {
	var points plotter.XYs
	for i := range min(len(l.X), len(l.Y)) {
		x, y := l.X[i], l.Y[i]
		if math.IsNaN(x+y) || math.IsInf(x+y, 0) || p.LogX && x <= 0 || p.LogY && y <= 0 {
			continue
		}
		points = append(points, plotter.XY{X: x, Y: y})
	}
	return points
}

func (p *Plot) legend(c *chart, label string, thumbs ...plot.Thumbnailer) {
	if label != "" {
		c.names.Add(label, thumbs...)
	}
}

func (p *Plot) drawBars(c *chart) error {
	room := plotWidth * 0.62 / vg.Length(max(len(p.Groups), 1)) // for each group
	width := min(room*0.8/vg.Length(len(p.Bars)), 60)
	for i := range p.Bars {
		values := make(plotter.Values, len(p.Groups))
		copy(values, p.Bars[i].Values)
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		bars.Color = palette[i%len(palette)]
		bars.LineStyle.Width = 0
		bars.Offset = width * (vg.Length(i) - vg.Length(len(p.Bars)-1)/2)
		c.Add(bars)
		p.legend(c, p.Bars[i].Label, bars)
	}
	c.NominalX(p.Groups...)
	return nil
}

func (p *Plot) drawMarks(c *chart) error {
	for _, m := range p.Marks {
		bottom, top := c.Y.Min, c.Y.Max
		line, err := plotter.NewLine(plotter.XYs{{X: m.X, Y: bottom}, {X: m.X, Y: top}})
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = ink, 1, []vg.Length{3, 3}
		c.Add(line)
		label, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: m.X, Y: top}}, Labels: []string{m.Label + "  "}})
		if err != nil {
			return err
		}
		label.TextStyle[0].Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 11}
		label.TextStyle[0].Color = ink
		label.TextStyle[0].XAlign, label.TextStyle[0].YAlign = draw.XRight, draw.YTop
		c.Add(label)
	}
	return nil
}
