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
		Short:   "Show what this peer, or with --ring the whole ring, is doing",
		Example: "  apoidea status\n  apoidea status --ring --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(g, cmd, func(c *control.Client) (*control.Status, error) { return c.Status(cmd.Context(), ring) },
				func(out io.Writer, s *control.Status) error { return show.Status(out, s, ring) })
		},
	}
	cmd.Flags().BoolVar(&ring, "ring", false, "sum the counters over all members of the ring")
	return cmd
}

func newPeers(g *globals) *cobra.Command {
	var addrs bool
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "List this peer's neighbours on the ring, or with --addrs how others reach this peer",
		Long: `List the neighbours of this peer on the ring; each is asked. Below them stands whose requests this peer refused in the last hour, and why.

With --addrs, print the addresses at which other machines can dial this peer, one a line, best first. Any of them, or all in quotes, is what --bootstrap of
another peer takes.`,
		Example: "  apoidea peers --json\n  apoidea run --bootstrap \"$(ssh there apoidea peers --addrs)\" --listen all",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if addrs {
				return g.printAddrs(cmd)
			}
			return ask(g, cmd, func(c *control.Client) ([]control.PeerLine, error) { return c.Peers(cmd.Context()) }, show.Peers)
		},
	}
	cmd.Flags().BoolVar(&addrs, "addrs", false, "print the addresses at which other machines can dial this peer, for their --bootstrap")
	return cmd
}

// printAddrs prints what others can dial; a peer on loopback only has nothing but that for others
// on this machine.
func (g *globals) printAddrs(cmd *cobra.Command) error {
	return ask(g, cmd, func(c *control.Client) ([]string, error) {
		s, err := c.Status(cmd.Context(), false)
		if err != nil {
			return nil, err
		}
		addrs, elsewhere := node.DialAddrs(s.Addrs)
		if !elsewhere {
			fmt.Fprintln(g.hints(cmd.ErrOrStderr()), "this peer listens on loopback: only peers of this machine can dial it (run --listen all lets others)")
		}
		return addrs, nil
	}, func(out io.Writer, addrs []string) error {
		for _, a := range addrs {
			fmt.Fprintln(out, a)
		}
		return nil
	})
}
