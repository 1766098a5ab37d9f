package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

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
