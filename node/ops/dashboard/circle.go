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
	"github.com/apoidea/apoidea/node/ops/ringsvg"
	"github.com/apoidea/apoidea/node/ops/words"
)

// The dimensions of the picture, in its own units around the center.
const (
	circleWidth  = 640.0
	circleHeight = 420.0
	circleRadius = 148.0
	// dotGap is the minimum distance of two dots as a share of the circle: both radii and a margin.
	dotGap = (8 + 5.5 + 2.5) / (2 * math.Pi * circleRadius)
)

// Limits of the drawing; more would be a gray band.
const (
	maxDots   = 512
	maxLabels = 16
	maxName   = 11 // bytes of a name
	maxMarks  = 128
)

// svg draws the ring: the arcs of this peer and its leaf set, with a gap where no known peer owns;
// a dot for each known peer; a mark at the key of each host being crawled, green if its worker has
// the lowest measured round trip time, else red; a line to each peer that crawls hosts for this
// one.
func (c *Circle) svg(hosts []Host) template.HTML {
	r := ringsvg.Ring{Radius: circleRadius, ArcWidth: 16, Height: circleHeight - 24, LabelGap: 19, MarkRadius: 2, Count: words.Thousands(int64(c.Size)), State: c.state()}
	c.spread()
	others := c.Others[:min(len(c.Others), maxDots)]
	for i := range others {
		p := &others[i]
		r.Peers = append(r.Peers, p.drawing(fmt.Sprintf("a%d", i%2), len(others) < maxLabels))
		if p.Crawls > 0 {
			r.Threads = append(r.Threads, ringsvg.Thread{
				From: c.Self.drawn, To: p.drawn, Hosts: p.Crawls, Title: fmt.Sprintf("%s crawls %d hosts for this peer", words.Short(p.Peer), p.Crawls),
			})
		}
	}
	r.Peers = append(r.Peers, c.Self.drawing("self", true))
	for i := range hosts[:min(len(hosts), maxMarks)] {
		if hosts[i].Owner == "" {
			m := ringsvg.Mark{At: hosts[i].At, Title: hosts[i].Name}
			switch behind := hosts[i].Behind(); {
			case behind > 0:
				m.Class, m.Title = "far", fmt.Sprintf("%s: another peer is %.0f ms closer than its worker", m.Title, behind)
			case hosts[i].RTT > 0:
				m.Class, m.Title = "near", m.Title+": its worker is the closest peer that measured it"
			}
			r.Marks = append(r.Marks, m)
		}
	}
	var d bytes.Buffer
	fmt.Fprintf(&d, `<svg class="circle" viewBox="%g %g %g %g" role="img" aria-labelledby="circle-title circle-words">`,
		-circleWidth/2, -circleHeight/2, circleWidth, circleHeight)
	fmt.Fprintf(&d, `<title id="circle-title">The ring as this peer knows it</title><desc id="circle-words">%s</desc>`, html.EscapeString(c.words()))
	r.Draw(&d)
	d.WriteString("</svg>")
	return template.HTML(d.String()) // untrusted names are escaped
}

// drawing returns how a peer is drawn.
func (p *Place) drawing(arc string, labeled bool) ringsvg.Peer {
	self := p.Side == sideSelf
	d := ringsvg.Peer{At: p.At, Share: p.share(), Dot: p.drawn, DotRadius: 3, ArcClass: arc, Class: "known", Title: p.what(self)}
	switch {
	case self:
		d.Class, d.DotRadius = "self", 8
	case p.Leaf:
		d.Class, d.DotRadius = "leaf", 5.5
	}
	if p.Suspect {
		d.Class += " suspect"
		d.ArcClass += " suspect"
	}
	switch {
	case !labeled:
	case self:
		d.Name = "this peer"
	default:
		d.Name, d.Detail = string(p.Name), words.Short(p.Peer)
		if len(d.Name) > maxName {
			d.Name = d.Name[:maxName-1] + "…"
		}
	}
	return d
}

// unserved returns the share of the ring without a known owner; known is false unless the leaf set
// is the whole ring.
func (c *Circle) unserved() (share float64, known bool) {
	leaves, sum := 0, c.Self.share()
	for i := range c.Others {
		if c.Others[i].Leaf {
			leaves++
			sum += c.Others[i].share()
		}
	}
	if leaves+1 < c.Size {
		return 0, false
	}
	share = max(1-sum, 0)
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
