package dashboard

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// paint is a colour by the name of a class: what it looks like in the light and in the dark is the
// style sheet's. Texts in it are anchored at their start, middle or end, so that they stay in their
// place in whatever font the reader has.
type paint struct{ class, anchor string }

// RGBA implements color.Color, for those who ask.
func (paint) RGBA() (r, g, b, a uint32) { return 0, 0, 0, 0xffff }

// canvas is a vg.Canvas that writes SVG without a single colour or style, which would be forbidden
// by the page's policy: classes only.
type canvas struct {
	bytes.Buffer
	width, height vg.Length
	now           pen
	stack         []pen
}

// pen is the state that Push keeps. Rotation and scale are not used by our charts, and not kept.
type pen struct {
	width vg.Length
	dash  []vg.Length
	class paint
	shift vg.Point
}

var _ vg.CanvasSizer = (*canvas)(nil)

func newCanvas(width, height vg.Length) *canvas {
	c := &canvas{width: width, height: height}
	vg.Initialize(c)
	return c
}

// Size implements vg.CanvasSizer.
func (c *canvas) Size() (x, y vg.Length) { return c.width, c.height }

// SetLineWidth implements vg.Canvas.
func (c *canvas) SetLineWidth(w vg.Length) { c.now.width = w }

// SetLineDash implements vg.Canvas.
func (c *canvas) SetLineDash(pattern []vg.Length, _ vg.Length) { c.now.dash = pattern }

// SetColor implements vg.Canvas; what is no paint is drawn in the colour of text.
func (c *canvas) SetColor(to color.Color) { c.now.class, _ = to.(paint) }

// Rotate implements vg.Canvas.
func (c *canvas) Rotate(float64) {}

// Scale implements vg.Canvas.
func (c *canvas) Scale(_, _ float64) {}

// Translate implements vg.Canvas.
func (c *canvas) Translate(pt vg.Point) { c.now.shift = c.now.shift.Add(pt) }

// Push implements vg.Canvas.
func (c *canvas) Push() { c.stack = append(c.stack, c.now) }

// Pop implements vg.Canvas.
func (c *canvas) Pop() {
	c.now = c.stack[len(c.stack)-1]
	c.stack = c.stack[:len(c.stack)-1]
}

// DrawImage implements vg.Canvas; charts have none.
func (c *canvas) DrawImage(vg.Rectangle, image.Image) {}

// Stroke implements vg.Canvas.
func (c *canvas) Stroke(p vg.Path) {
	if c.now.width <= 0 || len(p) == 0 {
		return
	}
	fmt.Fprintf(c, `<path class="l %s" stroke-width="%s"`, c.now.class.class, unit(c.now.width))
	if len(c.now.dash) > 0 {
		c.WriteString(` stroke-dasharray="`)
		for i, d := range c.now.dash {
			if i > 0 {
				c.WriteByte(' ')
			}
			c.WriteString(unit(d))
		}
		c.WriteByte('"')
	}
	c.path(p)
}

// Fill implements vg.Canvas.
func (c *canvas) Fill(p vg.Path) {
	fmt.Fprintf(c, `<path class="f %s"`, c.now.class.class)
	c.path(p)
}

// path writes an outline in whole tenths, each point relative to the one before: half as long as in
// places.
func (c *canvas) path(p vg.Path) {
	c.WriteString(` d="`)
	var px, py int
	for _, k := range p {
		x, y := c.tenths(k.Pos)
		switch k.Type {
		case vg.MoveComp:
			fmt.Fprintf(c, "M%s %s", tenth(x), tenth(y))
		case vg.LineComp:
			fmt.Fprintf(c, "l%s %s", tenth(x-px), tenth(y-py))
		case vg.CloseComp:
			c.WriteString("z")
			continue
		default: // arcs and curves: none in our charts
			continue
		}
		px, py = x, y
	}
	c.WriteString("\"/>\n")
}

// tenths is where a point lies in the picture, which has its origin at the top.
func (c *canvas) tenths(p vg.Point) (x, y int) {
	p = p.Add(c.now.shift)
	return int(math.Round(10 * float64(p.X))), int(math.Round(10 * float64(c.height-p.Y)))
}

func tenth(n int) string { return strconv.FormatFloat(float64(n)/10, 'f', -1, 64) }

func unit(l vg.Length) string { return strconv.FormatFloat(float64(l), 'f', -1, 64) }

// FillString implements vg.Canvas.
func (c *canvas) FillString(f font.Face, pt vg.Point, text string) {
	switch c.now.class.anchor {
	case "end":
		pt.X += f.Width(text)
	case "middle":
		pt.X += f.Width(text) / 2
	}
	x, y := c.tenths(pt)
	fmt.Fprintf(c, `<text class="%s" x="%s" y="%s"`, c.now.class.class, tenth(x), tenth(y))
	if a := c.now.class.anchor; a != "" {
		fmt.Fprintf(c, ` text-anchor="%s"`, a)
	}
	fmt.Fprintf(c, ">%s</text>\n", html.EscapeString(text))
}
