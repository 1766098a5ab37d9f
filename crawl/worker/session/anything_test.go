package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
)

// check holds a machine's parts against each other.
func (b *bench) check() error {
	untold, listed := make(map[*Lease]int), 0
	kin := 0
	for _, n := range b.perDomain {
		kin += n
	}
	for _, s := range b.Sessions() {
		sum := int64(0)
		for _, r := range append(slices.Clone(s.reports), s.sending...) {
			sum += int64(r.size)
			untold[r.Lease]++
		}
		if sum != s.bytes {
			return fmt.Errorf("%s: %d bytes of reports, counted as %d", s.owner, sum, s.bytes)
		}
		for i, l := range s.leases {
			listed++
			if l.place != i || s.hosts[l.Host] != l || l.owner != s.owner || l.over || b.Lease(l.Host) != l {
				return fmt.Errorf("%s: place %d: %+v", s.owner, i, l)
			}
		}
		if len(s.hosts) != len(s.leases) {
			return fmt.Errorf("%s: %d hosts, %d leases", s.owner, len(s.hosts), len(s.leases))
		}
		if !s.Over() && s.at.IsZero() && len(s.sending) == 0 {
			return fmt.Errorf("%s: something is left to say and never will be", s.owner)
		}
	}
	for l, n := range untold {
		if l.untold != n {
			return fmt.Errorf("%s: %d outcomes are to be told, counted as %d", l.Host, n, l.untold)
		}
	}
	if listed != b.Leases() || kin != b.Leases() {
		return fmt.Errorf("%d leases are listed and %d counted by domain, of %d", listed, kin, b.Leases())
	}
	return nil
}

// anything lets an event happen that may: owners offer, grant, refuse, revoke and send elsewhere as
// they like.
func (b *bench) anything(rnd *rand.Rand, epoch *uint64) *Turn {
	owners := []string{"one", "two", "three"}
	hosts := []string{"a.example", "b.example", "c.example", "x.farm.example", "y.farm.example"}
	host, owner := hosts[rnd.IntN(len(hosts))], owners[rnd.IntN(len(owners))]
	l := b.Lease(host)
	held := l != nil && l.Granted()
	b.now = b.now.Add(time.Duration(rnd.IntN(300)) * time.Millisecond)
	switch n := rnd.IntN(12); {
	case n == 0:
		b.offer(owner, host)
	case n == 1 && l != nil && rnd.IntN(4) == 0:
		b.Close(b.now, l, time.Duration(rnd.IntN(3))*time.Second, "so")
	case n == 2:
		b.Lapse(b.now, b.clock())
	case n < 6 && held && len(b.windows[host]) > 0 && !l.Closing():
		b.fetch(l)
	default:
		if len(b.Sessions()) == 0 {
			return nil
		}
		s := b.Sessions()[rnd.IntN(len(b.Sessions()))]
		if s.Over() {
			b.End(s)
			return nil
		}
		m := b.Turn(b.now, s, s.Begin(), nil)
		if rnd.IntN(5) == 0 {
			b.Unanswered(b.now, s, m)
			return m
		}
		reply, routes := new(wire.SessionReply), make(map[string]string)
		for _, w := range m.Message.GetHosts() {
			switch rnd.IntN(8) {
			case 0:
				reply.Refused = append(reply.Refused, w.GetHost())
			case 1:
				reply.Moved = append(reply.Moved, w.GetHost())
				routes[w.GetHost()] = owners[rnd.IntN(len(owners))]
			case 2:
				reply.Revoked = append(reply.Revoked, w.GetHost())
			default:
				if w.GetWant() == 0 {
					break
				}
				g := grant(w.GetHost(), 0, rnd.IntN(5))
				if g.Epoch = w.GetEpoch(); g.Epoch == nil || rnd.IntN(10) == 0 {
					*epoch++
					g.Epoch = &wire.Epoch{Counter: *epoch}
				}
				g.More, g.GiveBack = rnd.IntN(2) == 0, rnd.IntN(6) == 0
				reply.Grants = append(reply.Grants, g)
			}
		}
		b.Answered(b.now, s, m, reply, b.clock(), routes)
		return m
	}
	return nil
}

// TestAnything: whatever happens, the parts of a machine fit each other and nothing is left unsaid;
// and the same events make the same messages.
func TestAnything(t *testing.T) {
	for seed := range uint64(200) {
		var told [2][]*wire.Session
		for run := range told {
			b := newBench(t, func(c *Config) { c.MaxReports = 20 })
			rnd := rand.New(rand.NewPCG(seed, 1)) // a test
			epoch := uint64(0)
			for step := range 300 {
				if m := b.anything(rnd, &epoch); m != nil {
					told[run] = append(told[run], m.Message)
				}
				if err := b.check(); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
		}
		if !slices.EqualFunc(told[0], told[1], func(a, b *wire.Session) bool { return proto.Equal(a, b) }) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}
