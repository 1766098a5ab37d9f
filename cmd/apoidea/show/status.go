// Package show prints the answers of node/control for people, as tables or lines.
package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// Status prints the status of a peer, or with ring that of all members together.
func Status(out io.Writer, s *control.Status, ring bool) error {
	who := "peer"
	if ring {
		who = "ring, via peer"
	}
	rows := [][]string{
		{who, words.Named(s.Peer, string(s.Name))},
		{"state", s.State},
		{"up", words.Seconds(s.UptimeS)},
		{"network", s.Network + ", version " + s.Version},
		{"ring", ringText(s) + ", " + arcText(s)},
		{"pages", words.Singular(fmt.Sprintf("%d new, %d duplicates, %s", s.Pages, s.Duplicates, words.Bytes(s.Bytes)))},
		{"other", words.Singular(fmt.Sprintf("%d redirects, %d errors, %d denied by robots.txt, %d fetched again", s.Redirects, s.Errors, s.RobotsDenied, s.Refetched) + leftText(&s.Counters))},
		{"URLs", fmt.Sprintf("%d seen, %d pending, %d leased, %d in the outbox", s.URLsSeen, s.URLsPending, s.URLsLeased, s.Outbox)},
		{"hosts", fmt.Sprintf("%d owned, %d leased out", s.HostsOwned, s.HostsLeased)},
		{"scope", map[bool]string{false: "hosts owned by this peer, all runs (all members: status --ring)", true: "all members, all runs"}[ring]},
	}
	if !ring {
		own := words.Counted(s.OwnPages, "page") + ", " + words.Bytes(s.OwnBytes) + " since start"
		if s.OwnRevisits > 0 {
			own += fmt.Sprintf("; %s, %d not modified", words.Counted(s.OwnRevisits, "revisit"), s.OwnNotModified)
		}
		rows = slices.Insert(rows, 5, []string{"fetched here", own})
	}
	if s.Admission != nil && !ring {
		rows = append(rows, []string{"admission", admissionText(s.Admission)})
	}
	if s.Reached != "" && !ring {
		rows = append(rows, []string{"reached", reachedText(s.Reached)})
	}
	if s.LinksLeftOut > 0 {
		rows = append(rows, []string{"skipped", words.Singular(fmt.Sprintf("%d links over the limits of a page", s.LinksLeftOut))})
	}
	if s.URLsWaiting > 0 {
		rows = append(rows, []string{"retries", fmt.Sprintf("%d pending, next in %s", s.URLsWaiting, words.Seconds(s.NextRetryS))})
	}
	rows = append(rows, waitRows(s)...)
	if s.Holding != "" {
		rows = append(rows, []string{"throttled", s.Holding + words.Until(s.HoldingUntil, time.Now())})
	}
	if s.SeenLoss > 0 {
		rows = append(rows, []string{"expected loss", fmt.Sprintf("%.4f %% of URLs (--seen bloom)", 100*s.SeenLoss)})
	}
	if s.Dashboard != "" && !ring {
		rows = append(rows, []string{"dashboard", s.Dashboard + " (to log in: apoidea dashboard)"})
	}
	if err := words.Table(out, rows); err != nil || len(s.Peers) == 0 {
		return err
	}
	fmt.Fprintln(out)
	if err := Peers(out, s.Peers); err != nil || ring {
		return err
	}
	_, err := fmt.Fprintln(out, "-: unknown to this peer; status --ring asks every member")
	return err
}

// ringText has the number of members and the state of the ring, or of the peer's neighbors.
func ringText(s *control.Status) string {
	if s.Ring.State == "" {
		return words.Singular(fmt.Sprintf("%d members known, neighbors %s", s.Ring.Members, strings.Replace(s.Ring.Neighbours, control.NeighboursSettled, "stable", 1)))
	}
	return words.Singular(fmt.Sprintf("%d members, %s", s.Ring.Members, control.RingWord(s.Ring.State)))
}

// Running is the periodic line of a peer without --until-idle.
func Running(s *control.Status) string {
	text := fmt.Sprintf("%s, %d pages and %s fetched; %d members; %d hosts owned", s.State, s.OwnPages, words.Bytes(s.OwnBytes), s.Ring.Members, s.HostsOwned)
	if s.Holding != "" {
		text += "; " + s.Holding
	}
	return words.Singular(text)
}

// Outcome sums a crawl up.
func Outcome(c *control.Counters) string {
	return words.Singular(fmt.Sprintf("%d pages, %d duplicates, %d redirects, %d errors, %d denied by robots.txt", c.Pages, c.Duplicates, c.Redirects, c.Errors, c.RobotsDenied) + leftText(c))
}

// leftText counts what was skipped on purpose.
func leftText(c *control.Counters) string {
	text := ""
	if c.NoIndex > 0 {
		text += fmt.Sprintf(", %s not archived because of noindex (see --archive-noindex)", words.Counted(c.NoIndex, "page"))
	}
	if c.Traps > 0 {
		text += fmt.Sprintf(", %d skipped as traps", c.Traps)
	}
	if c.OutOfBudget > 0 {
		text += fmt.Sprintf(", %d over a limit", c.OutOfBudget)
	}
	if c.LinksCut > 0 {
		text += fmt.Sprintf(", %d links dropped", c.LinksCut)
	}
	return text
}

// reachedText describes the reachability of the peer.
func reachedText(reached string) string {
	switch reached {
	case "direct":
		return "direct"
	case "mapped":
		return "mapped: through a port forwarded by the router"
	case "relayed":
		return "relayed: through members of the ring; direct dials fail"
	case "not":
		return "not: direct dials fail, and no member relays"
	default:
		return "not known yet: no peer has tried to dial this one"
	}
}

// arcText describes the part of the ring that a peer owns.
func arcText(s *control.Status) string {
	switch {
	case s.Role == "worker":
		return "worker; " + s.WhyWorker()
	case s.Ring.Arc[1] == "":
		return "no arc"
	default:
		return fmt.Sprintf("arc (%s, %s]", words.Key(s.Ring.Arc[0]), words.Key(s.Ring.Arc[1]))
	}
}

// Peers lists peers; an unknown value is a dash.
func Peers(out io.Writer, peers []control.PeerLine) error {
	rows := [][]string{{"PEER", "NAME", "ROLE", "STATE", "POSITION", "RTT", "COORDINATE", "ARC", "HOSTS", "PAGES", "ADDRESS"}}
	for _, p := range peers {
		state, arc, hosts, pages := p.State, "-", "-", "-"
		if p.State != "" { // it answered
			arc, hosts, pages = fmt.Sprintf("%.1f %%", 100*p.ArcShare), words.Number(p.Hosts), words.Number(p.Pages)
		}
		if p.Error != "" {
			state = p.Error
		}
		rows = append(rows, []string{
			words.Short(p.Peer), words.OrDash(string(p.Name)), strings.Replace(p.Role, "ring", "member", 1), words.OrDash(state), words.OrDash(words.Key(p.Position)), RTT(p.RTTMs), coordinateText(&p), arc, hosts, pages, words.OrDash(p.Addr),
		})
	}
	if err := words.List(out, rows); err != nil {
		return err
	}
	for _, p := range peers {
		if r := p.Refused; r != nil {
			line := fmt.Sprintf("rejected from %s: %s (%d may be retried); last %s, %s ago: %s", words.Short(p.Peer), words.Counted(r.Requests, "request"), r.Later, r.Request, words.Seconds(float64(r.AgoMS)/1000), r.Why)
			if _, err := fmt.Fprintln(out, words.Wrap(line, 2, words.Width(out))); err != nil {
				return err
			}
		}
	}
	return nil
}

// Trust lists workers with the checks of their pages.
func Trust(out io.Writer, peers []control.PeerLine) error {
	rows := [][]string{{"PEER", "NAME", "SINCE", "PAGES", "CHECKED", "AGREED", "UNCLEAR", "LOST"}}
	for _, p := range peers {
		if t := p.Trust; t != nil {
			row := []string{words.Short(p.Peer), words.OrDash(string(p.Name)), t.Since.Local().Format(time.DateTime)}
			for _, n := range []uint64{t.Pages, t.Checked, t.Agreed, t.Unclear, t.Lost} {
				row = append(row, words.Number(int64(n))) //nolint:gosec // counts
			}
			rows = append(rows, row)
		}
	}
	return words.List(out, rows)
}

// RTT is a cell with a round trip, a dash if there is none.
func RTT(ms float64) string {
	if ms == 0 {
		return words.OrDash("")
	}
	return fmt.Sprintf("%.2f ms", ms)
}

// coordinateText is how far a peer is by network coordinates.
func coordinateText(p *control.PeerLine) string {
	if p.CoordinateMs == nil || p.CoordinateError == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f ms ±%.0f %%", *p.CoordinateMs, 100**p.CoordinateError)
}

// Ring lists the members of a ring, clockwise.
func Ring(out io.Writer, r *control.Ring) error {
	var attached []string
	rows := [][]string{{"POSITION", "PEER", "NAME", "STATE", "ARC", "HOSTS", "LEASED", "PAGES", "RTT", "ADDRESS"}}
	for _, m := range r.Members {
		addr := ""
		if len(m.Addrs) > 0 {
			addr = m.Addrs[0]
		}
		for _, id := range m.Attached {
			attached = append(attached, words.Short(id))
		}
		rows = append(rows, []string{
			words.Key(m.Position), words.Short(m.Peer), words.OrDash(string(m.Name)), m.State, fmt.Sprintf("%.1f %%", 100*m.ArcShare), words.Number(m.HostsOwned), words.Number(m.HostsLeased),
			words.Number(m.Pages), RTT(m.RTTMs), addr,
		})
	}
	if err := words.List(out, rows); err != nil {
		return err
	}
	state := "the ring is " + control.RingWord(r.State())
	if r.Error != "" {
		state += ": " + r.Error
	}
	if len(attached) > 0 {
		slices.Sort(attached)
		attached = slices.Compact(attached)
		state += fmt.Sprintf("; %d workers reachable through relays only: %s", len(attached), strings.Join(attached, " "))
	}
	_, err := fmt.Fprintln(out, words.Singular(fmt.Sprintf("%d members; %s", len(r.Members), state)))
	return err
}

// Lookup prints a lookup; with self, the peer that was asked, also its hops.
func Lookup(out io.Writer, l *control.Lookup, self string) error {
	return words.Table(out, lookupRows(l, self))
}

func lookupRows(l *control.Lookup, self string) [][]string {
	rows := [][]string{
		{"host", l.Host},
		{"key", l.Key},
		{"owner", words.Named(l.Owner, string(l.Name))},
		{"address", l.Addr},
		{"arc", fmt.Sprintf("(%s, %s]", words.Key(l.Arc[0]), words.Key(l.Arc[1]))},
		{"calls", fmt.Sprint(l.Calls)},
	}
	if self == "" {
		return rows
	}
	start := self + "  this peer"
	if l.Owner == self && l.Calls == 0 {
		start += ", the owner: its arc has the key, no peer was asked"
	}
	rows = append(rows, []string{"hop 0", start})
	for i, hop := range l.Trace {
		rows = append(rows, []string{fmt.Sprintf("hop %d", i+1), fmt.Sprintf("%s  %.2f ms  %s", hop.Peer, hop.LatencyMs, hop.Answer)})
	}
	return rows
}
