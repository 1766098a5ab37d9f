package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/ringsvg"
	"github.com/apoidea/apoidea/node/ops/words"
)

func newRing(g *globals) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:     "ring",
		Short:   "List the members of the ring",
		Example: "  apoidea ring\n  apoidea ring --watch\n  apoidea ring lookup https://example.org/ --trace\n  apoidea ring graph -o ring.svg",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				return g.watchRing(cmd.Context(), cmd.OutOrStdout())
			}
			return ask(g, cmd, func(c *control.Client) (*control.Ring, error) { return c.Ring(cmd.Context()) }, show.Ring)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "print ring events until interrupted")
	cmd.AddCommand(newRingLookup(g), newRingHosts(g), newRingGraph(g), newRingInvite(g), newRingRevoke(g), newRingAccept(g))
	return cmd
}

func (g *globals) watchRing(ctx context.Context, out io.Writer) error {
	c := g.client()
	defer c.Close()
	err := c.Watch(ctx, func(e control.RingEvent) error {
		if g.json {
			return words.Line(out, e)
		}
		_, err := fmt.Fprintf(out, "%s  %-8s %s\n", e.Time.Local().Format(time.TimeOnly), words.Legible(e.Event), words.Legible(e.Line()))
		return err
	})
	if ctx.Err() != nil {
		return nil // the interrupt is how a watch ends
	}
	return err
}

func newRingLookup(g *globals) *cobra.Command {
	var trace bool
	cmd := &cobra.Command{
		Use:     "lookup URL|HOST",
		Short:   "Find the owner of a host",
		Example: "  apoidea ring lookup example.org --trace",
		Args:    exactly("a URL or a host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			self := ""
			return ask(g, cmd, func(c *control.Client) (*control.Lookup, error) {
				l, err := c.Lookup(cmd.Context(), args[0])
				if err != nil {
					return nil, err
				}
				if !trace {
					l.Trace = nil
				}
				if trace && !g.json {
					s, err := c.Status(cmd.Context(), false)
					if err != nil {
						return nil, err
					}
					self = s.Peer
				}
				return l, nil
			}, func(out io.Writer, l *control.Lookup) error { return show.Lookup(out, l, self) })
		},
	}
	cmd.Flags().BoolVar(&trace, "trace", false, "print each peer that was asked, its latency and answer")
	return cmd
}

func newRingHosts(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "hosts",
		Short:   "List the hosts of the ring with owner and worker",
		Example: "  apoidea ring hosts --json | jq -r .host",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			out := cmd.OutOrStdout()
			rows := [][]string{{"HOST", "OWNER", "WORKER", "LAST AT", "SEEN", "PENDING", "PAGES", "RTT", "LEAST"}}
			err := c.Hosts(cmd.Context(), true, func(h control.HostLine) error {
				if g.json {
					return words.Line(out, h)
				}
				rows = append(rows, []string{h.Host, words.Short(h.Owner), words.OrDash(words.Short(h.Worker)), words.OrDash(words.Short(h.PlacedAt)), words.Number(h.Seen), words.Number(h.Pending), words.Number(h.Pages), show.RTT(h.RTTMs), show.RTT(h.LeastRTTMs)})
				return nil
			})
			if err != nil || g.json {
				return err
			}
			return words.List(out, rows)
		},
	}
}

func newRingGraph(g *globals) *cobra.Command {
	var output string
	var latency bool
	cmd := &cobra.Command{
		Use:     "graph",
		Short:   "Draw the ring as an SVG picture",
		Long:    "Draw the ring as an SVG picture: members, arcs, hosts and the workers of the hosts. The workers are those of this moment, so draw during a crawl.",
		Example: "  apoidea ring graph -o ring.svg\n  apoidea ring graph --latency -o near.svg\n  apoidea ring graph -o - | rsvg-convert -o ring.png",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			r, err := c.Ring(cmd.Context())
			if err != nil {
				return err
			}
			var hosts []control.HostLine
			if err := c.Hosts(cmd.Context(), true, func(h control.HostLine) error {
				if len(hosts) < maxPictureHosts {
					hosts = append(hosts, h)
				}
				return nil
			}); err != nil {
				return err
			}
			svg := ringPicture(r, hosts, latency)
			if output == "-" {
				_, err := cmd.OutOrStdout().Write(svg)
				return err
			}
			if err := os.WriteFile(output, svg, 0o644); err != nil {
				return fmt.Errorf("ring graph: %w", err)
			}
			return g.say(cmd.OutOrStdout(), map[string]any{"file": output, "members": len(r.Members), "closed": r.Closed},
				words.Singular(fmt.Sprintf("%s: %d members drawn", output, len(r.Members))))
		},
	}
	cmd.Flags().BoolVar(&latency, "latency", false, "color hosts by their worker's distance from the nearest peer measured")
	cmd.Flags().StringVarP(&output, "output", "o", "ring.svg", "output file; -: standard output")
	return cmd
}

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
