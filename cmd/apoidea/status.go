package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/words"
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
			c := g.client()
			defer c.Close()
			s, err := c.Status(cmd.Context(), ring)
			if err != nil {
				return err
			}
			if g.json {
				return words.JSON(cmd.OutOrStdout(), s)
			}
			return printStatus(cmd.OutOrStdout(), s, ring)
		},
	}
	cmd.Flags().BoolVar(&ring, "ring", false, "sum the counters over all members of the ring")
	return cmd
}

func printStatus(out io.Writer, s *control.Status, ring bool) error {
	who := "peer"
	if ring {
		who = "ring, asked of peer"
	}
	rows := [][]string{
		{who, s.Peer},
		{"state", s.State},
		{"up", words.Seconds(s.UptimeS)},
		{"network", s.Network + ", version " + s.Version},
		{"ring", fmt.Sprintf("%d members, stable %v, %s", s.Ring.Members, s.Ring.Stable, arcText(s))},
		{"pages", fmt.Sprintf("%d new, %d duplicates, %s", s.Pages, s.Duplicates, words.Bytes(s.Bytes))},
		{"other", fmt.Sprintf("%d redirects, %d errors, %d denied by robots.txt, %d fetched again", s.Redirects, s.Errors, s.RobotsDenied, s.Refetched) + leftText(&s.Counters)},
		{"URLs", fmt.Sprintf("%d seen, %d pending, %d leased, %d in the outbox", s.URLsSeen, s.URLsPending, s.URLsLeased, s.Outbox)},
		{"hosts", fmt.Sprintf("%d owned, %d leased out", s.HostsOwned, s.HostsLeased)},
		{"counted", map[bool]string{false: "in all runs of this data directory, for the hosts that this peer owns", true: "in all runs, by all members"}[ring]},
	}
	if s.Reached != "" && !ring {
		rows = append(rows, []string{"reached", reachedText(s.Reached)})
	}
	if s.LinksLeftOut > 0 {
		rows = append(rows, []string{"left out", fmt.Sprintf("%d links, beyond the bounds of one page", s.LinksLeftOut)})
	}
	if s.URLsWaiting > 0 {
		rows = append(rows, []string{"retries", fmt.Sprintf("%d wait, the next in %s", s.URLsWaiting, words.Seconds(s.NextRetryS))})
	}
	rows = append(rows, waitRows(s)...)
	if s.Holding != "" {
		rows = append(rows, []string{"holding", s.Holding + words.Until(s.HoldingUntil, time.Now())})
	}
	if s.Stalled != nil {
		rows = append(rows, []string{"stalled", stalledText(s.Stalled)})
	}
	if s.SeenLoss > 0 {
		rows = append(rows, []string{"expected loss", fmt.Sprintf("%.4f %% of URLs (--seen bloom)", 100*s.SeenLoss)})
	}
	if s.Dashboard != "" && !ring {
		rows = append(rows, []string{"dashboard", s.Dashboard + " (`apoidea dashboard` prints a link with buttons)"})
	}
	if err := words.Table(out, rows); err != nil || len(s.Peers) == 0 {
		return err
	}
	fmt.Fprintln(out)
	if err := printPeers(out, s.Peers); err != nil || ring {
		return err
	}
	_, err := fmt.Fprintln(out, "-: not known here; status --ring asks every member")
	return err
}

// stalledText says that nothing moves in a peer.
func stalledText(s *control.Stalled) string {
	text := fmt.Sprintf("nothing has moved since %s, though there is work: %s", s.Since.Local().Format(time.TimeOnly), s.Work)
	if s.Stacks != "" {
		text += "; what hangs is in " + s.Stacks
	}
	return text
}

// reachedText says in words how others reach the peer.
func reachedText(reached string) string {
	switch reached {
	case "direct":
		return "direct"
	case "mapped":
		return "mapped: at a port that the router forwards"
	case "relayed":
		return "relayed: by members of the ring, as nobody can dial this peer"
	case "not":
		return "not: nobody can dial this peer, and nobody relays for it"
	default:
		return reached + ": nobody has tried yet"
	}
}

// printPeers lists peers; of what nobody was asked for there is a dash.
func printPeers(out io.Writer, peers []control.PeerLine) error {
	rows := [][]string{{"PEER", "ROLE", "STATE", "POSITION", "RTT", "COORDINATE", "ARC", "HOSTS", "PAGES", "ADDRESS"}}
	for _, p := range peers {
		state, arc, hosts, pages, rtt := p.State, "-", "-", "-", "-"
		if p.State != "" { // it spoke for itself
			arc, hosts, pages = fmt.Sprintf("%.1f %%", 100*p.ArcShare), words.Number(p.Hosts), words.Number(p.Pages)
		}
		if p.Error != "" {
			state = p.Error
		}
		if p.RTTMs > 0 {
			rtt = fmt.Sprintf("%.2f ms", p.RTTMs)
		}
		rows = append(rows, []string{
			words.Short(p.Peer), p.Role, words.OrDash(state), words.OrDash(words.Key(p.Position)), rtt, coordinateText(&p), arc, hosts, pages, words.OrDash(p.Addr),
		})
	}
	return words.Table(out, rows)
}

// coordinateText is how far a peer is by network coordinates.
func coordinateText(p *control.PeerLine) string {
	if p.CoordinateMs == nil || p.CoordinateError == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f ms ±%.0f %%", *p.CoordinateMs, 100**p.CoordinateError)
}

func newPeers(g *globals) *cobra.Command {
	var addrs bool
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "List this peer's neighbours on the ring, or with --addrs how others reach this peer",
		Long: `List the neighbours of this peer on the ring; each is asked.

With --addrs, print the addresses at which other machines can dial this peer, one a line, best first. Any of them, or all in quotes, is what --bootstrap of
another peer takes.`,
		Example: "  apoidea peers --json\n  apoidea run --bootstrap \"$(ssh there apoidea peers --addrs)\" --listen all",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := g.client()
			defer c.Close()
			if addrs {
				s, err := c.Status(cmd.Context(), false)
				if err != nil {
					return err
				}
				return g.printAddrs(cmd.OutOrStdout(), cmd.ErrOrStderr(), s.Addrs)
			}
			peers, err := c.Peers(cmd.Context())
			if err != nil {
				return err
			}
			if g.json {
				return words.JSON(cmd.OutOrStdout(), peers)
			}
			return printPeers(cmd.OutOrStdout(), peers)
		},
	}
	cmd.Flags().BoolVar(&addrs, "addrs", false, "print the addresses at which other machines can dial this peer, for their --bootstrap")
	return cmd
}

// printAddrs prints what others can dial; a peer on loopback only has nothing but that for others on this machine.
func (g *globals) printAddrs(out, errOut io.Writer, own []string) error {
	addrs, elsewhere := node.DialAddrs(own)
	if !elsewhere && !g.quiet {
		fmt.Fprintln(errOut, "this peer listens on loopback: only peers of this machine can dial it (run --listen all lets others)")
	}
	if g.json {
		return words.JSON(out, addrs)
	}
	for _, a := range addrs {
		fmt.Fprintln(out, a)
	}
	return nil
}

// arcText says which part of the ring a peer answers for.
func arcText(s *control.Status) string {
	switch {
	case s.Role == "worker":
		return "a worker: others cannot dial this peer, so it owns nothing"
	case s.Ring.Arc[1] == "":
		return "no arc"
	default:
		return fmt.Sprintf("arc (%s, %s]", words.Key(s.Ring.Arc[0]), words.Key(s.Ring.Arc[1]))
	}
}
