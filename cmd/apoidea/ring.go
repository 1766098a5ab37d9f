package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
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
	cmd.AddCommand(newRingLookup(g), newRingHosts(g), newRingGraph(g))
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
