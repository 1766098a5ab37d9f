package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/control"
)

func newRing(g *globals) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:     "ring",
		Short:   "Walk the ring: its members, their arcs, states and work",
		Example: "  apoidea ring\n  apoidea ring --watch\n  apoidea ring lookup https://example.org/ --trace\n  apoidea ring graph -o ring.svg",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			if watch {
				return g.watchRing(cmd.Context(), cmd.OutOrStdout(), c)
			}
			r, err := c.Ring(cmd.Context())
			if err != nil {
				return err
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return printRing(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "tell what happens on the ring until interrupted")
	cmd.AddCommand(newRingLookup(g), newRingHosts(g), newRingGraph(g))
	return cmd
}

func (g *globals) watchRing(ctx context.Context, out io.Writer, c *control.Client) error {
	err := c.Watch(ctx, func(e control.RingEvent) error {
		if g.json {
			return printLine(out, e)
		}
		_, err := fmt.Fprintf(out, "%s  %-8s %s\n", e.Time.Local().Format(time.TimeOnly), e.Event, e.Text)
		return err
	})
	if ctx.Err() != nil {
		return nil // the interrupt is how a watch ends
	}
	return err
}

func printRing(out io.Writer, r *control.Ring) error {
	rows := [][]string{{"POSITION", "PEER", "STATE", "ARC", "HOSTS", "LEASED", "PAGES", "RTT", "ADDRESS"}}
	for _, m := range r.Members {
		addr := ""
		if len(m.Addrs) > 0 {
			addr = m.Addrs[0]
		}
		rows = append(rows, []string{
			keyText(m.Position), short(m.Peer), m.State, fmt.Sprintf("%.1f %%", 100*m.ArcShare), number(m.HostsOwned), number(m.HostsLeased),
			number(m.Pages), fmt.Sprintf("%.2f ms", m.RTTMs), addr,
		})
	}
	if err := table(out, rows); err != nil {
		return err
	}
	state := "closed: the arcs tile the whole circle"
	if !r.Closed {
		state = "not closed: " + r.Error
	}
	_, err := fmt.Fprintf(out, "%d members, %s\n", len(r.Members), state)
	return err
}

func newRingLookup(g *globals) *cobra.Command {
	var trace bool
	cmd := &cobra.Command{
		Use:     "lookup URL|HOST",
		Short:   "Find the peer that answers for a host",
		Example: "  apoidea ring lookup example.org --trace",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := g.client()
			defer c.Close()
			l, err := c.Lookup(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !trace {
				l.Trace = nil
			}
			out := cmd.OutOrStdout()
			if g.json {
				return printJSON(out, l)
			}
			rows := [][]string{
				{"host", l.Host}, {"key", l.Key}, {"owner", l.Owner}, {"address", l.Addr},
				{"arc", fmt.Sprintf("(%s, %s]", keyText(l.Arc[0]), keyText(l.Arc[1]))}, {"calls", fmt.Sprint(l.Calls)},
			}
			for i, hop := range l.Trace {
				rows = append(rows, []string{fmt.Sprintf("hop %d", i+1), fmt.Sprintf("%s  %.2f ms  %s", hop.Peer, hop.LatencyMs, hop.Answer)})
			}
			return table(out, rows)
		},
	}
	cmd.Flags().BoolVar(&trace, "trace", false, "name each peer that was asked, how long it took and what it answered")
	return cmd
}

func newRingHosts(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "hosts",
		Short:   "List the hosts known to the ring with owner and worker",
		Example: "  apoidea ring hosts --json | jq -r .host",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			out := cmd.OutOrStdout()
			rows := [][]string{{"HOST", "OWNER", "WORKER", "SEEN", "PENDING", "PAGES"}}
			err := c.Hosts(cmd.Context(), true, func(h control.HostLine) error {
				if g.json {
					return printLine(out, h)
				}
				rows = append(rows, []string{h.Host, short(h.Owner), short(h.Worker), number(h.Seen), number(h.Pending), number(h.Pages)})
				return nil
			})
			if err != nil || g.json {
				return err
			}
			return table(out, rows)
		},
	}
}

func newRingGraph(g *globals) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "graph",
		Short:   "Draw the ring: members, arcs, hosts and who works for whom",
		Example: "  apoidea ring graph -o ring.svg",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			r, err := c.Ring(cmd.Context())
			if err != nil {
				return err
			}
			picture := ringSVG(r)
			if output == "-" {
				_, err := cmd.OutOrStdout().Write(picture)
				return err
			}
			if err := os.WriteFile(output, picture, 0o644); err != nil {
				return fmt.Errorf("ring graph: %w", err)
			}
			if !g.quiet {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d members drawn\n", output, len(r.Members))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "ring.svg", "file to write, - for standard output")
	return cmd
}
