// Package picture draws the ring as SVG.
package picture

import (
	"bytes"
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
	"github.com/apoidea/apoidea/node/control"
)

// The picture's measures in SVG units.
const (
	graphWidth  = 1340.0
	graphHeight = 960.0
	graphX      = graphWidth / 2 // centre of the circle
	graphY      = 500.0
	graphRadius = 300.0
	arcWidth    = 26.0
	// labelX is how far from the centre the columns of labels stand, labelTop and labelEnd between
	// what heights.
	labelX   = graphRadius + 96
	labelTop = 130.0
	labelEnd = 868.0
	// labelGap is the least distance of two labels with two lines, labelLine that of labels with
	// one.
	labelGap  = 40.0
	labelLine = 15.0
)

// MaxHosts bounds the marks of hosts in a picture; more would be a grey band.
const MaxHosts = 2000

// graphStyle has plain colours first, for viewers without variables and media queries, and then
// those of a dark page.
const graphStyle = `<style>
.paper{fill:#fdfcf8}.ink{fill:#1d2430}.soft{fill:#667085}.lead{stroke:#b9c0cc}.rim{stroke:#fdfcf8}.track{stroke:#eceae2}
@media (prefers-color-scheme:dark){.paper{fill:#14181f}.ink{fill:#e8ebf0}.soft{fill:#98a2b3}.lead{stroke:#465061}.rim{stroke:#14181f}.track{stroke:#222935}}
</style>
`

// graph is a picture being drawn.
type graph struct {
	bytes.Buffer
	ring    *control.Ring
	latency bool
	// place of each member in ring.Members, by name.
	place map[string]int
}

// Ring draws the ring: an arc for each member with a dot at its position, a mark for each host in
// the color of its worker, and a band from each owner to its workers. With latency, a host is
// green if its last worker is as near as any peer measured, and redder the farther it is.
func Ring(r *control.Ring, hosts []control.HostLine, latency bool) []byte {
	g := &graph{ring: r, latency: latency, place: make(map[string]int, len(r.Members))}
	for i := range r.Members {
		g.place[r.Members[i].Peer] = i
	}
	fmt.Fprintf(g, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif">`+"\n",
		graphWidth, graphHeight)
	g.WriteString(graphStyle)
	fmt.Fprintf(g, `<rect class="paper" width="%g" height="%g"/>`+"\n", graphWidth, graphHeight)
	g.title()
	fmt.Fprintf(g, `<circle class="track" cx="%g" cy="%g" r="%g" fill="none" stroke-width="%g"/>`+"\n", graphX, graphY, graphRadius, arcWidth)
	g.bands()
	for i := range r.Members {
		g.arc(i)
	}
	for i := range hosts {
		g.host(&hosts[i])
	}
	for i := range r.Members {
		x, y := point(turn(r.Members[i].Position), graphRadius)
		fmt.Fprintf(g, `<circle class="rim" cx="%.1f" cy="%.1f" r="%.1f" fill="%s" stroke-width="3"/>`+"\n", x, y, dotRadius(len(r.Members)), g.colour(i))
	}
	g.labels()
	g.legend()
	g.WriteString("</svg>\n")
	return g.Bytes()
}

// turn is where a position lies on the circle, in radians clockwise from the top.
func turn(position string) float64 {
	digits := position[:min(13, len(position))] // 52 bits: what a float holds
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0
	}
	return 2 * math.Pi * float64(v) / math.Pow(16, float64(len(digits)))
}

func point(a, radius float64) (x, y float64) {
	return graphX + radius*math.Sin(a), graphY - radius*math.Cos(a)
}

func dotRadius(members int) float64 { return max(2.5, min(9, 9*32/float64(max(members, 1)))) }

// colour returns the color of member i: hues a golden angle apart, so that neighbors differ.
func (g *graph) colour(i int) string { return hsl(math.Mod(215+137.508*float64(i), 360), 0.60, 0.52) }

// hsl returns a color in hexadecimal notation.
func hsl(hue, saturation, lightness float64) string {
	channel := func(n float64) int {
		k := math.Mod(n+hue/30, 12)
		a := saturation * min(lightness, 1-lightness)
		return int(math.Round(255 * (lightness - a*max(-1, min(k-3, 9-k, 1)))))
	}
	return fmt.Sprintf("#%02x%02x%02x", channel(0), channel(8), channel(4))
}

func (g *graph) text(x, y float64, class, rest, text string) {
	fmt.Fprintf(g, `<text class="%s" x="%.1f" y="%.1f" %s>%s</text>`+"\n", class, x, y, rest, html.EscapeString(text))
}

// title writes the header of the picture.
func (g *graph) title() {
	var sum control.Counters
	for i := range g.ring.Members {
		sum.Add(&g.ring.Members[i].Counters)
	}
	name := ""
	if len(g.ring.Members) > 0 {
		name = ", network " + g.ring.Members[0].Network
	}
	g.text(48, 62, "ink", `font-size="30" font-weight="700"`, fmt.Sprintf("A ring of %s", words.Counted(int64(len(g.ring.Members)), "peer")))
	g.text(48, 88, "soft", `font-size="16"`, control.RingWord(g.ring.State())+name)
	right := `font-size="16" text-anchor="end"`
	g.text(graphWidth-48, 62, "soft", right, fmt.Sprintf("%s, %s being crawled; %s seen, %s pending",
		words.Counted(sum.HostsOwned, "host"), words.Thousands(sum.HostsLeased), words.Counted(sum.URLsSeen, "URL"), words.Thousands(sum.URLsPending+sum.URLsLeased)))
	g.text(graphWidth-48, 88, "soft", right, fmt.Sprintf("%s, %s, %s",
		words.Counted(sum.Pages, "page"), words.Counted(sum.Duplicates, "duplicate"), words.Counted(sum.Errors, "error")))
}

// arc draws the keys that a member owns: from its predecessor to itself.
func (g *graph) arc(i int) {
	m := &g.ring.Members[i]
	title := fmt.Sprintf("<title>%s owns %.1f %% of the ring: %s</title>", html.EscapeString(m.Peer), 100*m.ArcShare, words.Counted(m.HostsOwned, "host"))
	end, span := turn(m.Position), m.ArcShare*2*math.Pi
	if m.ArcShare > 0.999 {
		fmt.Fprintf(g, `<circle cx="%g" cy="%g" r="%g" fill="none" stroke="%s" stroke-width="%g">%s</circle>`+"\n",
			graphX, graphY, graphRadius, g.colour(i), arcWidth, title)
		return
	}
	gap := min(0.006, span/4)
	x0, y0 := point(end-span+gap, graphRadius)
	x1, y1 := point(end-gap, graphRadius)
	large := 0
	if span-2*gap > math.Pi {
		large = 1
	}
	fmt.Fprintf(g, `<path d="M%.1f %.1f A%g %g 0 %d 1 %.1f %.1f" fill="none" stroke="%s" stroke-width="%g">%s</path>`+"\n",
		x0, y0, graphRadius, graphRadius, large, x1, y1, g.colour(i), arcWidth, title)
}

// host marks the position of a host, in the color of its worker.
func (g *graph) host(h *control.HostLine) {
	x, y := point(turn(h.Key), graphRadius-arcWidth/2-9)
	style := `class="soft" fill-opacity="0.45"`
	who := "not being crawled"
	if g.latency {
		if h.RTTMs > 0 {
			style = fmt.Sprintf(`fill="%s"`, far(h.RTTMs, h.LeastRTTMs))
		}
		fmt.Fprintf(g, `<circle %s cx="%.1f" cy="%.1f" r="4.5"><title>%s</title></circle>`+"\n", style, x, y, html.EscapeString(h.Host+", "+distance(h)))
		return
	}
	if i, ok := g.place[h.Worker]; ok {
		style, who = fmt.Sprintf(`fill="%s"`, g.colour(i)), "crawled by "+words.Short(h.Worker)
	}
	fmt.Fprintf(g, `<circle %s cx="%.1f" cy="%.1f" r="3.5"><title>%s, %s, %s pending</title></circle>`+"\n",
		style, x, y, html.EscapeString(h.Host), html.EscapeString(who), words.Number(h.Pending))
}

// farthest is by how many milliseconds too far further distance shows no more.
const farthest = 100

// far returns the color of an RTT relative to the least one: green, or yellow to red.
func far(ms, least float64) string {
	behind := control.Behind(ms, least)
	if behind == 0 {
		return hsl(145, 0.60, 0.40)
	}
	return hsl(48*(1-math.Log(min(behind, farthest))/math.Log(farthest)), 0.85, 0.50)
}

// distance describes the RTT of a host's worker.
func distance(h *control.HostLine) string {
	switch {
	case h.PlacedAt == "":
		return "not crawled yet"
	case h.RTTMs == 0:
		return words.Short(h.PlacedAt) + " did not measure it"
	}
	return fmt.Sprintf("%.1f ms from %s; minimum measured %.1f ms", h.RTTMs, words.Short(h.PlacedAt), h.LeastRTTMs)
}

// bands draws the workers: from the middle of the owner's arc, in its color, to the worker.
func (g *graph) bands() {
	for i := range g.ring.Members {
		m := &g.ring.Members[i]
		for _, worker := range slices.Sorted(maps.Keys(m.Delegated)) { // so that the same ring gives the same picture
			hosts := m.Delegated[worker]
			j, ok := g.place[worker]
			if !ok || j == i || hosts <= 0 {
				continue
			}
			to := turn(g.ring.Members[j].Position)
			x0, y0 := point(turn(m.Position)-m.ArcShare*math.Pi, graphRadius-arcWidth/2-20)
			x1, y1 := point(to, graphRadius-arcWidth/2-26)
			width := min(1.5+1.2*math.Log2(float64(hosts)+1), 9)
			bend := 0.3 + 0.5*math.Hypot(x1-x0, y1-y0)/(2*graphRadius) // towards the centre, and the more so the farther it goes
			cx, cy := (x0+x1)/2*(1-bend)+graphX*bend, (y0+y1)/2*(1-bend)+graphY*bend
			fmt.Fprintf(g, `<g><title>%s crawls %s for %s</title><path d="M%.1f %.1f Q%.1f %.1f %.1f %.1f" fill="none" stroke="%s" stroke-opacity="0.6" stroke-width="%.1f" stroke-linecap="round"/>`,
				html.EscapeString(worker), words.Counted(int64(hosts), "host"), html.EscapeString(m.Peer), x0, y0, cx, cy, x1, y1, g.colour(i), width)
			g.arrow(x1, y1, math.Atan2(y1-cy, x1-cx), 5+width, g.colour(i))
			g.WriteString("</g>\n")
		}
	}
}

// arrow is a head at x, y that points along the direction.
func (g *graph) arrow(x, y, direction, size float64, colour string) {
	corner := func(turned, far float64) (float64, float64) {
		return x + far*math.Cos(direction+turned), y + far*math.Sin(direction+turned)
	}
	ax, ay := corner(0, size)
	bx, by := corner(2.3, size*0.8)
	cx, cy := corner(-2.3, size*0.8)
	fmt.Fprintf(g, `<path d="M%.1f %.1f L%.1f %.1f L%.1f %.1f Z" fill="%s"/>`, ax, ay, bx, by, cx, cy, colour)
}
