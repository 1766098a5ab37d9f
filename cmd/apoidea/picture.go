package main

import (
	"bytes"
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/ringsvg"
	"github.com/apoidea/apoidea/node/ops/words"
)

// The dimensions of the picture in SVG units, around the center.
const (
	pictureWidth    = 1600.0
	pictureHeight   = 940.0
	pictureArcWidth = 26.0
	pictureMargin   = 48.0
)

// maxPictureHosts bounds the marks of hosts in a picture; more would be a gray band.
const maxPictureHosts = 2000

// pictureStyle has plain colors first, for viewers without variables and media queries, and then
// those of a dark page.
const pictureStyle = `<style>
.track,.arc{fill:none;stroke-width:26}.thread,.lead{fill:none}.thread{stroke-opacity:.6;stroke-linecap:round}.dot{stroke-width:3}.mark.none{fill-opacity:.45}
.count{font-size:64px;font-weight:700;text-anchor:middle}.said{font-size:18px;text-anchor:middle}.name{font-size:13px}.legend{font-size:13px}
.paper{fill:#fdfcf8}.name,.count{fill:#1d2430}.id,.said,.legend,.mark.none{fill:#667085}.lead{stroke:#b9c0cc}.dot{stroke:#fdfcf8}.track{stroke:#eceae2}
@media (prefers-color-scheme:dark){.paper{fill:#14181f}.name,.count{fill:#e8ebf0}.id,.said,.legend,.mark.none{fill:#98a2b3}.lead{stroke:#465061}.dot{stroke:#14181f}.track{stroke:#222935}}
</style>
`

// picture is a picture being drawn.
type picture struct {
	bytes.Buffer
	ring    *control.Ring
	latency bool
	// place of each member in ring.Members, by name.
	place map[string]int
}

// ringPicture draws the ring: an arc for each member with a dot at its position, a mark for each
// host in the color of its worker, and a line from each owner to its workers. With latency, a host
// is green if its last worker is as near as any peer measured, and redder the farther it is.
func ringPicture(r *control.Ring, hosts []control.HostLine, latency bool) []byte {
	g := &picture{ring: r, latency: latency, place: make(map[string]int, len(r.Members))}
	var sum control.Counters
	crawled := make(map[string]int) // hosts by worker
	for i := range r.Members {
		m := &r.Members[i]
		g.place[m.Peer] = i
		sum.Add(&m.Counters)
		for worker, n := range m.Delegated {
			crawled[worker] += n
		}
	}
	d := ringsvg.Ring{
		Radius: 300, ArcWidth: pictureArcWidth, Height: pictureHeight - 180, LabelGap: 16, MarkRadius: 3.5,
		Count: words.Thousands(int64(len(r.Members))), State: "peers, " + control.RingWord(r.State()),
	}
	if len(r.Members) == 1 {
		d.State = "peer"
	}
	for i := range r.Members {
		d.Peers = append(d.Peers, g.peer(i, crawled))
		d.Threads = append(d.Threads, g.threads(i)...)
	}
	for i := range hosts {
		d.Marks = append(d.Marks, g.host(&hosts[i]))
	}
	fmt.Fprintf(g, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="%g %g %g %g" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif">`+"\n",
		-pictureWidth/2, -pictureHeight/2, pictureWidth, pictureHeight)
	g.WriteString(pictureStyle)
	fmt.Fprintf(g, `<rect class="paper" x="%g" y="%g" width="%g" height="%g"/>`+"\n", -pictureWidth/2, -pictureHeight/2, pictureWidth, pictureHeight)
	d.Draw(&g.Buffer)
	text := fmt.Sprintf("%s, %s being crawled; %s seen, %s pending; %s, %s, %s", words.Counted(sum.HostsOwned, "host"), words.Thousands(sum.HostsLeased),
		words.Counted(sum.URLsSeen, "URL"), words.Thousands(sum.URLsPending+sum.URLsLeased),
		words.Counted(sum.Pages, "page"), words.Counted(sum.Duplicates, "duplicate"), words.Counted(sum.Errors, "error"))
	if len(r.Members) > 0 {
		text = "Network " + r.Members[0].Network + ": " + text
		g.legend()
	}
	g.text(pictureMargin-pictureWidth/2, pictureMargin-pictureHeight/2, text)
	g.WriteString("</svg>\n")
	return g.Bytes()
}

// angle returns where a position lies on the circle, as a share of a turn from the top.
func angle(position string) float64 {
	digits := position[:min(13, len(position))] // 52 bits: what a float holds
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0
	}
	return float64(v) / math.Pow(16, float64(len(digits)))
}

// color returns the color of member i: hues a golden angle apart, so that neighbors differ.
func color(i int) string { return hsl(math.Mod(215+137.508*float64(i), 360), 0.60, 0.52) }

// hsl returns a color in hexadecimal notation.
func hsl(hue, saturation, lightness float64) string {
	channel := func(n float64) int {
		k := math.Mod(n+hue/30, 12)
		a := saturation * min(lightness, 1-lightness)
		return int(math.Round(255 * (lightness - a*max(-1, min(k-3, 9-k, 1)))))
	}
	return fmt.Sprintf("#%02x%02x%02x", channel(0), channel(8), channel(4))
}

func (g *picture) text(x, y float64, text string) {
	fmt.Fprintf(g, `<text class="legend" x="%.1f" y="%.1f">%s</text>`+"\n", x, y, html.EscapeString(text))
}

// peer returns how a member is drawn: the keys that it owns, from its predecessor to itself.
func (g *picture) peer(i int, crawled map[string]int) ringsvg.Peer {
	m := &g.ring.Members[i]
	state := ""
	if m.State != "crawling" && m.State != "idle" {
		state = m.State + ", "
	}
	return ringsvg.Peer{
		At: angle(m.Position), Share: m.ArcShare, Dot: angle(m.Position), DotRadius: max(2.5, min(9, 9*32/float64(len(g.ring.Members)))), Color: color(i),
		Title:  fmt.Sprintf("%s owns %.1f %% of the ring: %s", m.Peer, 100*m.ArcShare, words.Counted(m.HostsOwned, "host")),
		Name:   words.Named(words.Short(m.Peer), string(m.Name)),
		Detail: fmt.Sprintf("%s%s, %s, crawls %d", state, words.Counted(m.HostsOwned, "host"), words.Counted(m.Pages, "page"), crawled[m.Peer]),
	}
}

// threads returns a line from a member, in its color, to each worker of its hosts.
func (g *picture) threads(i int) (list []ringsvg.Thread) {
	m := &g.ring.Members[i]
	for _, worker := range slices.Sorted(maps.Keys(m.Delegated)) { // so that the same ring gives the same picture
		n := m.Delegated[worker]
		j, ok := g.place[worker]
		if !ok || j == i || n <= 0 {
			continue
		}
		list = append(list, ringsvg.Thread{
			From: angle(m.Position) - m.ArcShare/2, To: angle(g.ring.Members[j].Position), Hosts: n, Color: color(i),
			Title: fmt.Sprintf("%s crawls %s for %s", worker, words.Counted(int64(n), "host"), m.Peer),
		})
	}
	return list
}

// host returns the mark of a host, in the color of its worker.
func (g *picture) host(h *control.HostLine) ringsvg.Mark {
	m := ringsvg.Mark{At: angle(h.Key), Class: "none"}
	if g.latency {
		if h.RTTMs > 0 {
			m.Class, m.Color = "", farLatency(h.RTTMs, h.LeastRTTMs)
		}
		m.Title = h.Host + ", " + latencyText(h)
		return m
	}
	state := "not being crawled"
	if i, ok := g.place[h.Worker]; ok {
		m.Class, m.Color, state = "", color(i), "crawled by "+words.Short(h.Worker)
	}
	m.Title = fmt.Sprintf("%s, %s, %s pending", h.Host, state, words.Number(h.Pending))
	return m
}

// legend explains the signs along the bottom.
func (g *picture) legend() {
	const y = pictureHeight/2 - 34
	x := pictureMargin - pictureWidth/2
	item := func(sign, text string, width float64) {
		g.WriteString(sign)
		g.text(x+40, y+5, text)
		x += width
	}
	item(fmt.Sprintf(`<path class="arc" d="M%.1f %g h28" stroke="%s"/>`, x, y, color(0)), "arc: the keys that a peer owns", 330)
	item(fmt.Sprintf(`<circle class="dot" cx="%.1f" cy="%g" r="9" fill="%s"/>`, x+14, y, color(0)), "its position, the end of its arc", 330)
	if g.latency {
		for k, behind := range []float64{0, 2, 10, 100} {
			fmt.Fprintf(g, `<circle cx="%.1f" cy="%g" r="4.5" fill="%s"/>`, x+3+10*float64(k), y, farLatency(behind, 0))
		}
		item("", "a host: green, the nearest peer measured; red, 100 ms farther (gray: not measured)", 0)
		return
	}
	item(fmt.Sprintf(`<circle cx="%.1f" cy="%g" r="3.5" fill="%s"/><circle class="mark none" cx="%.1f" cy="%g" r="3.5"/>`, x+7, y, color(0), x+22, y),
		"a host, in the color of its worker (gray: none)", 430)
	item(fmt.Sprintf(`<path class="thread" d="M%.1f %g h28" stroke="%s" stroke-width="4"/>`, x, y, color(0)), "hosts crawled by another peer, in the color of the owner", 0)
}

// maxLegendLatency is by how many milliseconds too far further distance shows no more.
const maxLegendLatency = 100

// farLatency returns the color of an RTT relative to the least one: green, or yellow to red.
func farLatency(ms, least float64) string {
	behind := control.Behind(ms, least)
	if behind == 0 {
		return hsl(145, 0.60, 0.40)
	}
	return hsl(48*(1-math.Log(min(behind, maxLegendLatency))/math.Log(maxLegendLatency)), 0.85, 0.50)
}

// latencyText describes the RTT of a host's worker.
func latencyText(h *control.HostLine) string {
	switch {
	case h.PlacedAt == "":
		return "not crawled yet"
	case h.RTTMs == 0:
		return words.Short(h.PlacedAt) + " did not measure it"
	}
	return fmt.Sprintf("%.1f ms from %s; minimum measured %.1f ms", h.RTTMs, words.Short(h.PlacedAt), h.LeastRTTMs)
}
