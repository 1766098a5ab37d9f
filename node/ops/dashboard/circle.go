package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/node/control"
)

// The dimensions of the picture, in its own units around the center.
const (
	circleWidth  = 640.0
	circleHeight = 420.0
	circleRadius = 148.0
	arcWidth     = 16.0
	labelRadius  = circleRadius + 26
	labelGap     = 19.0
	// dotGap is the minimum distance of two dots as a share of the circle: both radii and a margin.
	dotGap = (8 + 5.5 + 2.5) / (2 * math.Pi * circleRadius)
	// centreRadius is the radius around the text in the center that threads avoid.
	centreRadius = 74.0
)

// Limits of the drawing; more would be a gray band.
const (
	maxDots   = 512
	maxLabels = 16
	maxName   = 11 // bytes of a name
	maxMarks  = 128
)

// drawing is a picture under construction.
type drawing struct{ bytes.Buffer }

func around(at, radius float64) (x, y float64) {
	sin, cos := math.Sincos(2 * math.Pi * at)
	return radius * sin, -radius * cos
}

// svg draws the ring: the arcs of this peer and its leaf set, with a gap where no known peer owns;
// a dot for each known peer; a mark at the key of each host being crawled, green if its worker has
// the lowest measured round trip time, else red; a line to each peer that crawls hosts for this
// one.
func (c *Circle) svg(hosts []Host) template.HTML {
	d := new(drawing)
	fmt.Fprintf(d, `<svg class="circle" viewBox="%g %g %g %g" role="img" aria-labelledby="circle-title circle-words">`,
		-circleWidth/2, -circleHeight/2, circleWidth, circleHeight)
	fmt.Fprintf(d, `<title id="circle-title">The ring as this peer knows it</title><desc id="circle-words">%s</desc>`, html.EscapeString(c.words()))
	fmt.Fprintf(d, `<circle class="track" r="%g"/>`, circleRadius)
	c.spread()
	others := c.Others[:min(len(c.Others), maxDots)]
	for i := range others {
		d.arc(&others[i], fmt.Sprintf("a%d", i%2))
	}
	d.arc(&c.Self, "self")
	for i := range others {
		d.thread(&c.Self, &others[i])
	}
	for i := range hosts[:min(len(hosts), maxMarks)] {
		if hosts[i].Owner == "" {
			x, y := around(hosts[i].At, circleRadius-arcWidth/2-7)
			class, title := "mark", hosts[i].Name
			switch behind := hosts[i].Behind(); {
			case behind > 0:
				class, title = "mark far", fmt.Sprintf("%s: another peer is %.0f ms closer than its worker", title, behind)
			case hosts[i].RTT > 0:
				class, title = "mark near", title+": its worker is the closest peer that measured it"
			}
			fmt.Fprintf(d, `<circle class="%s" cx="%.1f" cy="%.1f" r="2"><title>%s</title></circle>`, class, x, y, html.EscapeString(title))
		}
	}
	for i := range others {
		d.dot(&others[i])
	}
	d.dot(&c.Self)
	d.labels(append([]Place{c.Self}, others...))
	fmt.Fprintf(d, `<text class="count" y="-2">%s</text><text class="said" y="22">%s</text></svg>`, thousands(int64(c.Size)), html.EscapeString(c.state()))
	return template.HTML(d.String()) // untrusted names are escaped above
}

// unserved returns the share of the ring without a known owner; known is false unless the leaf set
// is the whole ring.
func (c *Circle) unserved() (share float64, known bool) {
	leaves := 0
	places := []Place{c.Self}
	for i := range c.Others {
		if c.Others[i].Leaf {
			leaves++
			places = append(places, c.Others[i])
		}
	}
	if leaves+1 < c.Size {
		return 0, false
	}
	type stretch struct{ from, to float64 }
	var served []stretch
	for i := range places {
		switch p := &places[i]; {
		case !p.Serves:
		case p.Whole:
			return 0, true
		case p.ArcFrom < p.At:
			served = append(served, stretch{p.ArcFrom, p.At})
		default:
			served = append(served, stretch{0, p.At}, stretch{p.ArcFrom, 1})
		}
	}
	slices.SortFunc(served, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	reach := 0.0
	for _, s := range served {
		share += max(s.from-reach, 0)
		reach = max(reach, s.to)
	}
	share += max(1-reach, 0)
	if share < 1e-9 { // positions are drawn with less digits than they have
		share = 0
	}
	return share, true
}

// serving sets the arcs of peers from a walk: after a failure, peers that are not neighbors
// announce their arc up to twenty seconds later.
func (c *Circle) serving(members []control.PeerLine) {
	if share, known := c.unserved(); known && share == 0 {
		return
	}
	for i := range c.Others {
		p := &c.Others[i]
		for j := range members {
			if m := &members[j]; m.Peer == p.Peer && m.ArcShare > 0 {
				p.Serves, p.Whole, p.ArcFrom = true, m.ArcShare >= 1, math.Mod(p.At-m.ArcShare+1, 1)
			}
		}
	}
}

// spread sets the position of each dot. It moves the dots of this peer and its leaf set apart until
// none overlap.
func (c *Circle) spread() {
	near := []*Place{&c.Self}
	for i := range c.Others {
		c.Others[i].drawn = c.Others[i].At
		if c.Others[i].Leaf {
			near = append(near, &c.Others[i])
		}
	}
	c.Self.drawn = c.Self.At
	if len(near) < 2 || len(near) > maxLabels+1 {
		return
	}
	slices.SortFunc(near, func(a, b *Place) int { return cmp.Compare(a.At, b.At) })
	for range 100 {
		moved := false
		for i, p := range near {
			next := near[(i+1)%len(near)]
			gap := next.drawn - p.drawn
			if i == len(near)-1 {
				gap++
			}
			if push := (dotGap - gap) / 2; push > 1e-6 {
				p.drawn -= push
				next.drawn += push
				moved = true
			}
		}
		if !moved {
			return
		}
	}
}

// state describes what this peer knows of the others. Only a walk determines whether the ring is
// consistent.
func (c *Circle) state() string {
	word := "peers"
	if c.Size == 1 {
		word = "peer"
	}
	suspects := 0
	for i := range c.Others {
		if c.Others[i].Suspect {
			suspects++
		}
	}
	_, known := c.unserved()
	switch {
	case suspects > 0:
		return fmt.Sprintf("%s, %d not responding", word, suspects)
	case known:
		return word
	default:
		return "peers (estimate)"
	}
}

// words describes the picture for screen readers.
func (c *Circle) words() string {
	return fmt.Sprintf("%d %s. This peer knows %d and owns %.1f percent of the ring.", c.Size, c.state(), len(c.Others)+1, 100*c.Self.share())
}

// share returns the share of the ring that a peer owns.
func (p *Place) share() float64 {
	switch {
	case !p.Serves:
		return 0
	case p.Whole:
		return 1
	default:
		return math.Mod(p.At-p.ArcFrom+1, 1)
	}
}

// what describes the peer of a dot.
func (p *Place) what(self bool) string {
	text := "peer " + strings.TrimSpace(string(p.Name)+" "+p.Peer)
	switch {
	case self:
		text = "this " + text
	case p.Side != "":
		text += ", " + p.Side
	case p.Leaf:
		text += ", in the leaf set"
	default:
		text += ", outside the leaf set"
	}
	if p.Serves {
		text += fmt.Sprintf("; owns %.1f %% of the ring", 100*p.share())
	}
	if p.Suspect {
		text += "; it does not answer"
	}
	return text
}

func (d *drawing) arc(p *Place, class string) {
	if !p.Serves {
		return
	}
	title := "<title>" + html.EscapeString(p.what(class == "self")) + "</title>"
	if p.Suspect {
		class += " suspect"
	}
	if p.Whole {
		fmt.Fprintf(d, `<circle class="arc %s" r="%g">%s</circle>`, class, circleRadius, title)
		return
	}
	share := p.share()
	gap := min(0.0012, share/4) // between arcs, to separate them
	x0, y0 := around(p.ArcFrom+gap, circleRadius)
	x1, y1 := around(p.At-gap, circleRadius)
	large := 0
	if share-2*gap > 0.5 {
		large = 1
	}
	fmt.Fprintf(d, `<path class="arc %s" d="M%.1f %.1fA%g %g 0 %d 1 %.1f %.1f">%s</path>`, class, x0, y0, circleRadius, circleRadius, large, x1, y1, title)
}

// thread draws a line from this peer to one that crawls hosts for it.
func (d *drawing) thread(self, p *Place) {
	if p.Crawls == 0 {
		return
	}
	x0, y0 := around(self.drawn, circleRadius-arcWidth/2-14)
	x1, y1 := around(p.drawn, circleRadius-arcWidth/2-14)
	x, y := bend(x0, y0, x1, y1)
	fmt.Fprintf(d, `<path class="thread" stroke-width="%.1f" d="M%.1f %.1fQ%.1f %.1f %.1f %.1f"><title>%s crawls %d hosts for this peer</title></path>`,
		min(1.2+0.6*math.Log2(float64(p.Crawls)+1), 5), x0, y0, x, y, x1, y1, html.EscapeString(short(p.Peer)), p.Crawls)
}

// bend returns the control point that pulls a thread towards the center, but not through the text
// there. The middle of the thread is halfway between that point and the chord's.
func bend(x0, y0, x1, y1 float64) (x, y float64) {
	const pull = 0.35 // of the remaining distance to the center
	mx, my := (x0+x1)/2, (y0+y1)/2
	far := math.Hypot(mx, my)
	if far < 1 { // across the center: around the text
		mx, my = -(y1-y0)/2, (x1-x0)/2
		scale := 2 * centreRadius / math.Hypot(mx, my)
		return scale * mx, scale * my
	}
	reach := max(pull*far, 2*centreRadius-far)
	return mx / far * reach, my / far * reach
}

func (d *drawing) dot(p *Place) {
	x, y := around(p.drawn, circleRadius)
	class, r := "known", 3.0
	switch {
	case p.Side == sideSelf:
		class, r = "self", 8
	case p.Leaf:
		class, r = "leaf", 5.5
	}
	if p.Suspect {
		class += " suspect"
	}
	fmt.Fprintf(d, `<circle class="dot %s" cx="%.1f" cy="%.1f" r="%g"><title>%s</title></circle>`, class, x, y, r, html.EscapeString(p.what(p.Side == sideSelf)))
}

// label is the name next to a peer.
type label struct {
	place *Place
	x, y  float64 // of the peer's dot
	at    float64 // vertical position of the text
}

// labels draws the names of peers on both sides of the circle, from top to bottom, without overlap.
func (d *drawing) labels(places []Place) {
	if len(places) > maxLabels {
		places = places[:1]
	}
	var sides [2][]label
	for i := range places {
		p := &places[i]
		x, y := around(p.drawn, labelRadius)
		side := 0
		if x >= 0 {
			side = 1
		}
		sides[side] = append(sides[side], label{p, x, y, y})
	}
	for i := range sides {
		apart(sides[i])
		for _, l := range sides[i] {
			d.label(&l, i == 1)
		}
	}
}

// apart moves labels down until none overlap, and up again if they left the picture.
func apart(side []label) {
	slices.SortFunc(side, func(a, b label) int { return cmp.Compare(a.y, b.y) })
	const edge = circleHeight/2 - 12
	low := -edge
	for i := range side {
		side[i].at = max(side[i].y, low)
		low = side[i].at + labelGap
	}
	high := edge
	for i := len(side) - 1; i >= 0; i-- {
		side[i].at = min(side[i].at, high)
		high = side[i].at - labelGap
	}
}

func (d *drawing) label(l *label, right bool) {
	// Follow the circle at that height.
	x := math.Sqrt(max(labelRadius*labelRadius-l.at*l.at, 0))
	x = max(x, math.Abs(l.x))
	anchor, step := "start", 4.0
	if !right {
		anchor, x, step = "end", -x, -4
	}
	x0, y0 := around(l.place.drawn, circleRadius+arcWidth/2+3)
	fmt.Fprintf(d, `<path class="lead" d="M%.1f %.1fL%.1f %.1f"/>`, x0, y0, x, l.at)
	class, id, called := "name", short(l.place.Peer), string(l.place.Name)
	if len(called) > maxName {
		called = called[:maxName-1] + "…"
	}
	switch {
	case l.place.Side == sideSelf:
		class, id, called = "name self", "", "this peer"
	case l.place.Suspect:
		class = "name suspect"
	}
	fmt.Fprintf(d, `<text class="%s" text-anchor="%s" x="%.1f" y="%.1f"><tspan>%s</tspan> <tspan class="id">%s</tspan></text>`, class, anchor, x+step, l.at+4, html.EscapeString(called), html.EscapeString(id))
}
