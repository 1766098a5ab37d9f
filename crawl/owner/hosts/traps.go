package hosts

import (
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trap"
)

// Traps holds the trap states of jobs on hosts.
type Traps struct{ *Step }

const (
	// FewPages are too few to write a trap state at the end of a lease.
	FewPages = 32
	// lastFor is the wait of a URL that comes after others, in usual intervals between requests: then
	// it has its share of grants beside them. LastMost is the limit of waits for order in ms.
	lastFor  = 4
	LastMost = 30_000
)

// Of returns the trap state of a job on a host, from the store if it is not in memory.
func (t *Traps) Of(h *Host, hj *Job) *trap.State {
	if hj.Trap != nil {
		return hj.Trap
	}
	hj.Trap = new(trap.State)
	if hj.Tally.Requests() < FewPages {
		return hj.Trap
	}
	if raw, ok := t.Buf.Get(ondisk.TrapKey(h.Pos, hj.State.ID)); ok {
		if s, err := ondisk.DecodeTrap(raw); err != nil {
			t.Buf.Fail(err)
		} else {
			hj.Trap = s
		}
	}
	return hj.Trap
}

// save writes the trap state of a job on a host.
func (t *Traps) save(h *Host, hj *Job) {
	if hj.TrapMod && hj.Trap != nil {
		t.Buf.Set(ondisk.TrapKey(h.Pos, hj.State.ID), hj.Trap.Append([]byte{ondisk.Format}))
		if h.Lease == nil {
			hj.Trap = nil // unused until the next lease
		}
	}
	hj.TrapMod = false
}

// Text describes the rules that left URLs of a job on a host; empty: none did.
func (t *Traps) Text(h *Host, hj *Job) string {
	if hj.Tally.Counters().Outcomes[link.OutcomeTrap] == 0 && !hj.Tally.Counters().Trap {
		return ""
	}
	rules, most := hj.State.Rules(), trap.Rule(0)
	s := t.Of(h, hj)
	for rule := range s.Left {
		if s.Left[rule].N > s.Left[most].N {
			most = trap.Rule(rule) // an index
		}
	}
	if most == trap.None {
		most = trap.Hosts // left at another owner
	}
	return rules.Text(most)
}

// Outgrows reports whether a host that no seed names has used its requests: 10,000, and 100 more
// for each URL that a sitemap or another host named (after IRLbot, Lee et al. 2008).
func (t *Traps) Outgrows(h *Host, hj *Job) bool {
	if t.Cfg.MaxRequests == 0 || hj.Tally.Requests() < firstRequests || hj.Tally.Counters().Exhausted || hj.State.Seeded(h.Rec.Name) {
		return false
	}
	return hj.Tally.Requests() >= firstRequests+namedRequests*t.Of(h, hj).Named(hj.Tally.Accepted())
}

const firstRequests, namedRequests = 10_000, 100 // of Outgrows

// Spent is the limit that a job reached on a host.
type Spent uint8

const (
	SpentNothing Spent = iota
	spentRequests
	spentBytes
	spentGrowth
)
