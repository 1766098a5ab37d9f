// Package ringsvg draws a ring of peers as SVG: for each peer an arc, a dot and a label, a mark for
// each host, and a thread from an owner to each peer that crawls hosts for it.
//
// Elements have class names and, if a color is given, the attribute fill or stroke, but no inline
// styles, which the content policy of the dashboard forbids.
package ringsvg

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
)

// Ring is a ring to draw around the origin. Positions are shares of a turn, clockwise from the top.
type Ring struct {
	Radius, ArcWidth float64
	Height           float64 // of the area of the labels
	LabelGap         float64 // minimum distance of two labels
	MarkRadius       float64
	Peers            []Peer // the last is drawn above the others
	Threads          []Thread
	Marks            []Mark
	Count, State     string // text in the center
}

// Peer is a peer on the ring.
type Peer struct {
	At           float64 // end of its arc, position of its dot
	Share        float64 // of the ring; 0: no arc, 1: all of it
	DotRadius    float64
	ArcClass     string // added to the class of the arc
	Class        string // added to the classes of dot and label
	Color        string // of arc and dot; empty: by class
	Title        string // shown on the arc and the dot
	Name, Detail string // label; none if both are empty
}

// Thread is a line from a peer to one that crawls hosts for it.
type Thread struct {
	From, To     float64
	Hosts        int
	Color, Title string // an empty color: by class
}

// Mark is a mark at the key of a host.
type Mark struct {
	At                  float64
	Class, Color, Title string // Class is added to the class of the mark; an empty color: by class
}

// point returns the coordinates of a position.
func point(at, radius float64) (x, y float64) {
	sin, cos := math.Sincos(2 * math.Pi * at)
	return radius * sin, -radius * cos
}

// Draw appends the elements to an SVG document.
func (r *Ring) Draw(d *bytes.Buffer) {
	fmt.Fprintf(d, `<circle class="track" r="%g"/>`+"\n", r.Radius)
	for i := range r.Peers {
		r.arc(d, &r.Peers[i])
	}
	for i := range r.Threads {
		r.thread(d, &r.Threads[i])
	}
	for i := range r.Marks {
		m := &r.Marks[i]
		x, y := point(m.At, r.Radius-r.ArcWidth/2-7)
		fmt.Fprintf(d, `<circle %s cx="%.1f" cy="%.1f" r="%g">%s</circle>`+"\n", looks("mark", m.Class, "fill", m.Color), x, y, r.MarkRadius, title(m.Title))
	}
	for i := range r.Peers {
		p := &r.Peers[i]
		x, y := point(p.At, r.Radius)
		fmt.Fprintf(d, `<circle %s cx="%.1f" cy="%.1f" r="%g">%s</circle>`+"\n", looks("dot", p.Class, "fill", p.Color), x, y, p.DotRadius, title(p.Title))
	}
	r.labels(d)
	fmt.Fprintf(d, `<text class="count" y="-2">%s</text><text class="said" y="22">%s</text>`+"\n", html.EscapeString(r.Count), html.EscapeString(r.State))
}

// looks returns the attributes class and, with a color, fill or stroke.
func looks(class, more, attribute, color string) string {
	if more != "" {
		class += " " + more
	}
	if color == "" {
		return fmt.Sprintf(`class="%s"`, class)
	}
	return fmt.Sprintf(`class="%s" %s="%s"`, class, attribute, color)
}

func title(text string) string { return "<title>" + html.EscapeString(text) + "</title>" }

func (r *Ring) arc(d *bytes.Buffer, p *Peer) {
	class := looks("arc", p.ArcClass, "stroke", p.Color)
	switch {
	case p.Share == 0:
		return
	case p.Share > 0.999:
		fmt.Fprintf(d, `<circle %s r="%g">%s</circle>`+"\n", class, r.Radius, title(p.Title))
		return
	}
	gap := min(0.0012, p.Share/4) // between arcs, to separate them
	x0, y0 := point(p.At-p.Share+gap, r.Radius)
	x1, y1 := point(p.At-gap, r.Radius)
	large := 0
	if p.Share-2*gap > 0.5 {
		large = 1
	}
	fmt.Fprintf(d, `<path %s d="M%.1f %.1fA%g %g 0 %d 1 %.1f %.1f">%s</path>`+"\n", class, x0, y0, r.Radius, r.Radius, large, x1, y1, title(p.Title))
}

func (r *Ring) thread(d *bytes.Buffer, t *Thread) {
	x0, y0 := point(t.From, r.Radius-1.4*r.ArcWidth)
	x1, y1 := point(t.To, r.Radius-1.4*r.ArcWidth)
	x, y := r.bend(x0, y0, x1, y1)
	width := r.ArcWidth / 16 * min(1.2+0.6*math.Log2(float64(t.Hosts)+1), 5)
	fmt.Fprintf(d, `<path %s stroke-width="%.1f" d="M%.1f %.1fQ%.1f %.1f %.1f %.1f">%s</path>`+"\n", looks("thread", "", "stroke", t.Color), width, x0, y0, x, y, x1, y1, title(t.Title))
}

// centre returns the radius around the text in the center that threads avoid.
func (r *Ring) centre() float64 { return r.Radius / 2 }

// bend returns the control point that pulls a thread towards the center, but not through the text
// there. The middle of the thread is halfway between that point and the chord's.
func (r *Ring) bend(x0, y0, x1, y1 float64) (x, y float64) {
	const pull = 0.35 // of the remaining distance to the center
	mx, my := (x0+x1)/2, (y0+y1)/2
	far := math.Hypot(mx, my)
	if far < 1 { // across the center: around the text
		mx, my = -(y1-y0)/2, (x1-x0)/2
		scale := 2 * r.centre() / math.Hypot(mx, my)
		return scale * mx, scale * my
	}
	reach := max(pull*far, 2*r.centre()-far)
	return mx / far * reach, my / far * reach
}

// label is the text next to a peer.
type label struct {
	peer *Peer
	x, y float64 // where it would be without others
	at   float64 // vertical position of the text
}

// labels draws the names of peers on both sides of the ring without overlap, or none if there are
// too many.
func (r *Ring) labels(d *bytes.Buffer) {
	var sides [2][]label
	for i := range r.Peers {
		p := &r.Peers[i]
		if p.Name == "" && p.Detail == "" {
			continue
		}
		x, y := point(p.At, r.labelRadius())
		side := 0
		if x >= 0 {
			side = 1
		}
		sides[side] = append(sides[side], label{p, x, y, y})
	}
	if float64(max(len(sides[0]), len(sides[1]))-1)*r.LabelGap > r.Height {
		return
	}
	for i := range sides {
		r.apart(sides[i])
		for _, l := range sides[i] {
			r.label(d, &l, i == 1)
		}
	}
}

func (r *Ring) labelRadius() float64 { return r.Radius + r.ArcWidth/2 + 18 }

// apart moves labels down until none overlap, and up again if they left the area.
func (r *Ring) apart(side []label) {
	slices.SortStableFunc(side, func(a, b label) int { return cmp.Compare(a.y, b.y) })
	low := -r.Height / 2
	for i := range side {
		side[i].at = max(side[i].y, low)
		low = side[i].at + r.LabelGap
	}
	high := r.Height / 2
	for i := len(side) - 1; i >= 0; i-- {
		side[i].at = min(side[i].at, high)
		high = side[i].at - r.LabelGap
	}
}

func (r *Ring) label(d *bytes.Buffer, l *label, right bool) {
	// Follow the circle at that height.
	x := math.Sqrt(max(r.labelRadius()*r.labelRadius()-l.at*l.at, 0))
	x = max(x, math.Abs(l.x))
	anchor, step := "start", 4.0
	if !right {
		anchor, x, step = "end", -x, -4
	}
	x0, y0 := point(l.peer.At, r.Radius+r.ArcWidth/2+3)
	fmt.Fprintf(d, `<path class="lead" d="M%.1f %.1fL%.1f %.1f"/>`, x0, y0, x, l.at)
	fmt.Fprintf(d, `<text %s text-anchor="%s" x="%.1f" y="%.1f"><tspan>%s</tspan> <tspan class="id">%s</tspan></text>`+"\n",
		looks("name", l.peer.Class, "", ""), anchor, x+step, l.at+4, html.EscapeString(l.peer.Name), html.EscapeString(l.peer.Detail))
}
