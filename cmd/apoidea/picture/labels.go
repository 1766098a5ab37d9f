package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
)

// label is the words beside one member.
type label struct {
	member int
	angle  float64
	right  bool
	y      float64
}

// labels writes the members beside the ring, in a column on either side in ring order, without
// overlap, each with a line to its dot. A full side has one line per label, or no labels.
func (g *graph) labels() {
	var sides [2][]label
	for i := range g.ring.Members {
		a := turn(g.ring.Members[i].Position)
		l := label{member: i, angle: a, right: math.Sin(a) >= 0}
		_, l.y = point(a, graphRadius+44)
		side := 0
		if l.right {
			side = 1
		}
		sides[side] = append(sides[side], l)
	}
	worked := g.worked()
	fuller := float64(max(len(sides[0]), len(sides[1])) - 1)
	gap := labelGap
	if fuller*gap > labelEnd-labelTop {
		gap = labelLine
	}
	if fuller*gap > labelEnd-labelTop {
		return
	}
	for _, side := range sides {
		spread(side, gap)
		for _, l := range side {
			g.label(l, gap == labelGap, worked)
		}
	}
}

// spread moves labels apart to a minimum gap, by the least distance.
func spread(side []label, gap float64) {
	slices.SortFunc(side, func(a, b label) int { return cmp.Or(cmp.Compare(a.y, b.y), a.member-b.member) })
	// Labels that lie over one another form a block, which stands centred on where its members
	// would like to be; blocks that touch become one.
	type block struct {
		first, count int
		centre       float64
	}
	height := func(b block) float64 { return float64(b.count-1) * gap }
	var blocks []block
	for i, l := range side {
		b := block{i, 1, l.y}
		b.centre = clamp(b.centre, labelTop, labelEnd)
		for len(blocks) > 0 {
			above := blocks[len(blocks)-1]
			if above.centre+height(above)/2+gap <= b.centre-height(b)/2 {
				break
			}
			blocks = blocks[:len(blocks)-1]
			count := above.count + b.count
			b = block{above.first, count, (above.centre*float64(above.count) + b.centre*float64(b.count)) / float64(count)}
			b.centre = clamp(b.centre, labelTop+height(b)/2, labelEnd-height(b)/2)
		}
		blocks = append(blocks, b)
	}
	for _, b := range blocks {
		for k := range b.count {
			side[b.first+k].y = b.centre - height(b)/2 + float64(k)*gap
		}
	}
}

func clamp(v, low, high float64) float64 { return max(low, min(v, high)) }

// worked counts the hosts that each member crawls at present.
func (g *graph) worked() map[string]int {
	counts := make(map[string]int)
	for i := range g.ring.Members {
		for worker, hosts := range g.ring.Members[i].Delegated {
			counts[worker] += hosts
		}
	}
	return counts
}

func (g *graph) label(l label, two bool, worked map[string]int) {
	m := &g.ring.Members[l.member]
	side, anchor := -1.0, "end"
	if l.right {
		side, anchor = 1, "start"
	}
	x0, y0 := point(l.angle, graphRadius+arcWidth/2+3)
	x1, y1 := point(l.angle, graphRadius+arcWidth/2+18)
	x2 := graphX + side*(labelX-10)
	fmt.Fprintf(g, `<path class="lead" d="M%.1f %.1f L%.1f %.1f L%.1f %.1f L%.1f %.1f" fill="none"/>`+"\n",
		x0, y0, x1, y1, x2-side*14, l.y, x2, l.y)
	x := graphX + side*labelX
	state := ""
	if m.State != "crawling" && m.State != "idle" {
		state = m.State + ", "
	}
	if two {
		facts := fmt.Sprintf("%sowns %s (%s), crawls %d", state, words.Counted(m.HostsOwned, "host"), words.Counted(m.Pages, "page"), worked[m.Peer])
		g.text(x, l.y+1, "ink", fmt.Sprintf(`font-size="15" font-weight="600" text-anchor="%s"`, anchor), words.Named(words.Short(m.Peer), string(m.Name)))
		g.text(x, l.y+18, "soft", fmt.Sprintf(`font-size="12.5" text-anchor="%s"`, anchor), facts)
		return
	}
	g.text(x, l.y+4, "soft", fmt.Sprintf(`font-size="11" text-anchor="%s"`, anchor), fmt.Sprintf("%s: %s%s, %s", words.Named(words.Short(m.Peer), string(m.Name)), state, words.Counted(m.HostsOwned, "host"), words.Counted(m.Pages, "page")))
}

// legend explains the signs along the bottom.
func (g *graph) legend() {
	if len(g.ring.Members) == 0 {
		return
	}
	const y = graphHeight - 34
	colour := g.colour(0)
	x := 48.0
	item := func(sign, text string, width float64) {
		g.WriteString(sign)
		g.text(x+40, y+5, "soft", `font-size="13"`, text)
		x += width
	}
	item(fmt.Sprintf(`<path d="M%.1f %g h28" stroke="%s" stroke-width="14"/>`, x, y, colour), "arc: the keys that a peer owns", 285)
	item(fmt.Sprintf(`<circle class="rim" cx="%.1f" cy="%g" r="9" fill="%s" stroke-width="3"/>`, x+14, y, colour), "its position, the end of its arc", 255)
	if g.latency {
		for k, behind := range []float64{0, 2, 10, 100} {
			fmt.Fprintf(g, `<circle cx="%.1f" cy="%g" r="4.5" fill="%s"/>`, x+3+10*float64(k), y, far(behind, 0))
		}
		item("", "a host: green, the nearest peer measured; red, 100 ms farther (gray: not measured)", 540)
		return
	}
	item(fmt.Sprintf(`<circle cx="%.1f" cy="%g" r="3.5" fill="%s"/><circle class="soft" fill-opacity="0.45" cx="%.1f" cy="%g" r="3.5"/>`, x+7, y, colour, x+22, y),
		"a host, in the color of its worker (gray: none)", 405)
	fmt.Fprintf(g, `<path d="M%.1f %g h16" stroke="%s" stroke-opacity="0.6" stroke-width="4"/>`, x, y, colour)
	g.arrow(x+18, y, 0, 8, colour)
	item("", "hosts crawled for the owner", 0)
}
