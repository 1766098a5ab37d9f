package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"

	"github.com/apoidea/apoidea/node/control"
)

// The picture's measures in SVG units.
const (
	graphSize   = 960.0
	graphCentre = graphSize / 2
	graphRadius = 300.0
	labelRadius = graphRadius + 46
	arcWidth    = 26.0
)

// ringSVG draws the ring as a circle of arcs, one colour a peer, with a dot where each peer sits, and inside a curve from each owner to
// each worker that holds hosts of it, as thick as there are hosts.
func ringSVG(r *control.Ring) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="ui-sans-serif, system-ui, sans-serif">`, graphSize, graphSize)
	b.WriteString(`<style>
:root{--ink:#1d2430;--soft:#6b7686;--paper:#fdfcf8}
@media (prefers-color-scheme:dark){:root{--ink:#e8ebf0;--soft:#98a2b3;--paper:#14181f}}
text{fill:var(--ink)}.soft{fill:var(--soft)}</style>`)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="var(--paper)"/>`, graphSize, graphSize)
	n := len(r.Members)
	angle := make(map[string]float64, n)
	for _, m := range r.Members {
		angle[m.Peer] = turn(m.Position)
	}
	drawDelegations(&b, r, angle)
	for i, m := range r.Members {
		drawMember(&b, m, i, n)
	}
	drawCentre(&b, r)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// turn is where a position lies on the circle, in radians clockwise from the top.
func turn(position string) float64 {
	v, err := strconv.ParseUint(position[:min(13, len(position))], 16, 64)
	if err != nil {
		return 0
	}
	return 2 * math.Pi * float64(v) / math.Pow(16, float64(min(13, len(position))))
}

func point(a, radius float64) (x, y float64) {
	return graphCentre + radius*math.Sin(a), graphCentre - radius*math.Cos(a)
}

// hue spreads the members' colours evenly, so that neighbours differ.
func hue(i, n int) string {
	step := 360 / float64(max(n, 1))
	h := math.Mod(float64(i)*step*float64(coprimeStep(n)), 360)
	return fmt.Sprintf("hsl(%.0f 62%% 52%%)", h)
}

// coprimeStep is a stride through n colours that puts neighbours far apart and still visits each.
func coprimeStep(n int) int {
	for s := n/2 + 1; s > 1; s-- {
		if gcd(s, n) == 1 {
			return s
		}
	}
	return 1
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func drawMember(b *bytes.Buffer, m control.Member, i, n int) {
	end := turn(m.Position)
	colour := hue(i, n)
	if n == 1 {
		fmt.Fprintf(b, `<circle cx="%g" cy="%g" r="%g" fill="none" stroke="%s" stroke-width="%g"/>`, graphCentre, graphCentre, graphRadius, colour, arcWidth)
	} else {
		span := m.ArcShare * 2 * math.Pi
		gap := math.Min(0.006, span/4)
		x0, y0 := point(end-span+gap, graphRadius)
		x1, y1 := point(end-gap, graphRadius)
		large := 0
		if span > math.Pi {
			large = 1
		}
		fmt.Fprintf(b, `<path d="M%.1f %.1f A%g %g 0 %d 1 %.1f %.1f" fill="none" stroke="%s" stroke-width="%g"><title>%s owns %.1f %% of the ring, %d hosts</title></path>`,
			x0, y0, graphRadius, graphRadius, large, x1, y1, colour, arcWidth, m.Peer, 100*m.ArcShare, m.HostsOwned)
	}
	x, y := point(end, graphRadius)
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s" stroke="var(--paper)" stroke-width="3"/>`, x, y, 9.0, colour)
	if n > 64 {
		return // labels would lie over one another
	}
	lx, ly := point(end, labelRadius)
	anchor := "middle"
	if s := math.Sin(end); s > 0.25 {
		anchor = "start"
	} else if s < -0.25 {
		anchor = "end"
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="15" text-anchor="%s"><tspan font-weight="600">%s</tspan><tspan class="soft" x="%.1f" dy="17" font-size="12.5">%d hosts, %d pages</tspan></text>`,
		lx, ly-4, anchor, html.EscapeString(short(m.Peer)), lx, m.HostsOwned, m.Pages)
}

func drawDelegations(b *bytes.Buffer, r *control.Ring, angle map[string]float64) {
	for i, m := range r.Members {
		for worker, hosts := range m.Delegated {
			to, ok := angle[worker]
			if !ok || worker == m.Peer || hosts == 0 {
				continue
			}
			x0, y0 := point(angle[m.Peer], graphRadius-arcWidth/2-4)
			x1, y1 := point(to, graphRadius-arcWidth/2-4)
			fmt.Fprintf(b, `<path d="M%.1f %.1f Q%g %g %.1f %.1f" fill="none" stroke="%s" stroke-opacity="0.55" stroke-width="%.1f"><title>%d hosts of %s are crawled by %s</title></path>`,
				x0, y0, graphCentre, graphCentre, x1, y1, hue(i, len(r.Members)), math.Min(1+math.Log2(float64(hosts)+1), 8), hosts, m.Peer, worker)
		}
	}
}

func drawCentre(b *bytes.Buffer, r *control.Ring) {
	var sum control.Counters
	for _, m := range r.Members {
		sum.Add(&m.Counters)
	}
	state := "ring closed"
	if !r.Closed {
		state = "ring not closed"
	}
	lines := []struct {
		size   int
		weight int
		text   string
	}{
		{30, 700, fmt.Sprintf("%d peers", len(r.Members))},
		{17, 400, state},
		{17, 400, fmt.Sprintf("%d hosts, %d at work", sum.HostsOwned, sum.HostsLeased)},
		{17, 400, fmt.Sprintf("%d pages, %d duplicates", sum.Pages, sum.Duplicates)},
		{17, 400, fmt.Sprintf("%d URLs seen, %d pending", sum.URLsSeen, sum.URLsPending)},
	}
	y := graphCentre - 46.0
	for _, l := range lines {
		fmt.Fprintf(b, `<text x="%g" y="%.1f" text-anchor="middle" font-size="%d" font-weight="%d" paint-order="stroke" stroke="var(--paper)" stroke-width="4">%s</text>`,
			graphCentre, y, l.size, l.weight, html.EscapeString(l.text))
		y += 27
	}
}
