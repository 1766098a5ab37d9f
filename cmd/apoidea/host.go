package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/control"
)

func newHost(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "host HOST",
		Short:   "Show all that is known of a host: owner, worker, robots, delays, who measured what",
		Example: "  apoidea host example.org\n  apoidea host docs.localhost:8080 --json",
		Args:    exactly("a host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := g.client()
			defer c.Close()
			h, err := c.Host(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), h)
			}
			return printHost(cmd.OutOrStdout(), h)
		},
	}
}

func printHost(out io.Writer, h *control.Host) error {
	rows := [][]string{{"host", h.Host}, {"key", h.Key}, {"owner", h.Owner}}
	if !h.Known {
		rows = append(rows, []string{"state", "never met: no job has a URL of it"})
		return table(out, rows)
	}
	worker := "none at present"
	if h.Worker != "" {
		worker = fmt.Sprintf("%s, lease epoch %s, %s left", h.Worker, h.Epoch, seconds(h.LeaseS))
	}
	rows = append(rows, []string{"worker", worker}, []string{"addresses", strings.Join(h.Addrs, " ")})
	if h.NotBeforeS > 0 {
		rows = append(rows, []string{"next request", fmt.Sprintf("in %s %s", seconds(h.NotBeforeS), h.Backoff)})
	}
	for _, r := range h.Robots {
		rows = append(rows, []string{"robots " + r.Origin, fmt.Sprintf("%s, %s old, %d bytes", r.Verdict, seconds(r.AgeS), r.Bytes)})
	}
	if h.PlacedBy != "" {
		rows = append(rows, []string{"placed by", h.PlacedBy + ": " + h.PlacedWhy})
	}
	for _, m := range h.Placement {
		text := fmt.Sprintf("%.2f ms", m.RTTMs)
		if m.Error != "" {
			text = m.Error
		}
		if m.Chosen {
			text += ", chosen"
		}
		rows = append(rows, []string{"  " + short(m.Peer), text})
	}
	for _, j := range h.Jobs {
		rows = append(rows, []string{"job " + j.Job, fmt.Sprintf("%d seen, %d done, %d pending, %d leased", j.Accepted, j.Done, j.Pending, j.Leased)})
	}
	return table(out, rows)
}

func newWhy(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "why URL",
		Short:   "Tell why a URL is or is not crawled",
		Example: "  apoidea why https://example.org/private/",
		Args:    exactly("a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := g.client()
			defer c.Close()
			w, err := c.Why(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if g.json {
				return printJSON(out, w)
			}
			rows := [][]string{{"URL", w.URL}, {"host", w.Host}, {"owner", w.Owner}}
			for _, j := range w.Jobs {
				rows = append(rows, []string{"job " + j.Job, j.Text})
			}
			if w.Text != "" {
				rows = append(rows, []string{"", w.Text})
			}
			return table(out, rows)
		},
	}
}
