package main

import (
	"bytes"
	"fmt"
	"html"

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
	latency bool
}

// ringPicture draws the ring, see [ringsvg.OfRing].
func ringPicture(r *control.Ring, hosts []control.HostLine, latency bool) []byte {
	g := &picture{latency: latency}
	var sum control.Counters
	for i := range r.Members {
		sum.Add(&r.Members[i].Counters)
	}
	d := ringsvg.OfRing(r, hosts, ringsvg.Options{Latency: latency})
	d.Radius, d.ArcWidth, d.Height, d.LabelGap, d.MarkRadius = 300, pictureArcWidth, pictureHeight-180, 16, 3.5
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

func (g *picture) text(x, y float64, text string) {
	fmt.Fprintf(g, `<text class="legend" x="%.1f" y="%.1f">%s</text>`+"\n", x, y, html.EscapeString(text))
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
	item(fmt.Sprintf(`<path class="arc" d="M%.1f %g h28" stroke="%s"/>`, x, y, ringsvg.Color(0)), "arc: the keys that a peer owns", 330)
	item(fmt.Sprintf(`<circle class="dot" cx="%.1f" cy="%g" r="9" fill="%s"/>`, x+14, y, ringsvg.Color(0)), "its position, the end of its arc", 330)
	if g.latency {
		for k, behind := range []float64{0, 2, 10, 100} {
			fmt.Fprintf(g, `<circle cx="%.1f" cy="%g" r="4.5" fill="%s"/>`, x+3+10*float64(k), y, ringsvg.FarLatency(behind, 0))
		}
		item("", "a host: green, the nearest peer measured; red, 100 ms farther (gray: not measured)", 0)
		return
	}
	item(fmt.Sprintf(`<circle cx="%.1f" cy="%g" r="3.5" fill="%s"/><circle class="mark none" cx="%.1f" cy="%g" r="3.5"/>`, x+7, y, ringsvg.Color(0), x+22, y),
		"a host, in the color of its worker (gray: none)", 430)
	item(fmt.Sprintf(`<path class="thread" d="M%.1f %g h28" stroke="%s" stroke-width="4"/>`, x, y, ringsvg.Color(0)), "hosts crawled by another peer, in the color of the owner", 0)
}
