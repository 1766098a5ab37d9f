package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
)

func newStatus(g *globals) *cobra.Command {
	var ring bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the state of this peer or of the whole ring",
		Example: "  apoidea status\n  apoidea status --ring --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Status, error) { return c.Status(cmd.Context(), ring) },
				func(out io.Writer, s *control.Status) error { return show.Status(out, s, ring) })
		},
	}
	cmd.Flags().BoolVar(&ring, "ring", false, "add up the counters of all ring members")
	return cmd
}

func newPeers(g *globals) *cobra.Command {
	var addrs, checks bool
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "List neighbors, or the addresses of this peer",
		Long: `List the neighbors of this peer on the ring. Each neighbor is queried. Requests rejected in the last hour follow, by peer and reason.

With --trust, list the workers that reported pages to this peer (run --check-rate). CHECKED: pages chosen for a second fetch; AGREED: confirmed;
UNCLEAR: no second worker, or a page that changes; LOST: two others contradicted it, and its pages of unfinished jobs are fetched again.

With --addrs, print the addresses at which other machines can dial this peer, one per line, best first. Pass one of them, or all in quotes, to --bootstrap
of another peer.`,
		Example: "  apoidea peers --json\n  apoidea peers --trust\n  apoidea run --bootstrap \"$(ssh there apoidea peers --addrs)\" --listen all",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := show.Peers
			switch {
			case addrs:
				return g.printAddrs(cmd)
			case checks:
				shown = show.Trust
			}
			return ask(g, cmd, func(c *control.Client) ([]control.PeerLine, error) { return c.Peers(cmd.Context()) }, shown)
		},
	}
	cmd.Flags().BoolVar(&checks, "trust", false, "list workers with the checks of their pages")
	cmd.Flags().BoolVar(&addrs, "addrs", false, "print the addresses at which other machines can dial this peer")
	return cmd
}

// printAddrs prints the dialable addresses; those of loopback if there are no others.
func (g *globals) printAddrs(cmd *cobra.Command) error {
	return ask(g, cmd, func(c *control.Client) ([]string, error) {
		s, err := c.Status(cmd.Context(), false)
		if err != nil {
			return nil, err
		}
		addrs, elsewhere := node.DialAddrs(s.Addrs)
		if !elsewhere {
			fmt.Fprintln(g.hints(cmd.ErrOrStderr()), "this peer listens on loopback: only local peers can dial it (for others: run --listen all)")
		}
		return addrs, nil
	}, func(out io.Writer, addrs []string) error {
		for _, a := range addrs {
			fmt.Fprintln(out, a)
		}
		return nil
	})
}
