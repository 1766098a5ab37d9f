package hosts

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
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

const (
	// hangsAll timeouts in a row are a problem of the host; where every other URL times out, so many
	// are rare.
	hangsAll = 6
	// A pattern with hangsPart timeouts, and over hangsPart timeouts per answer, comes after others. A
	// retry comes after others from one timeout in hangsAgain answers on.
	hangsPart  = 4
	hangsAgain = 16
	maxHangs   = 16 // patterns
)

// hangs counts the timeouts and answers of a host by URL pattern, with and without the last
// segment, since the first timeout: patterns that time out come after others. In memory alone.
type hangs struct {
	met   bool // the host has answered
	some  bool // a request has timed out
	row   int  // timeouts in a row
	parts map[uint32]hangsOf
}

// hangsOf are the counts of a pattern.
type hangsOf struct{ hung, answered int }

func (p hangsOf) last() bool { return p.hung >= hangsPart && p.hung > hangsPart*p.answered }

func (p hangsOf) often() bool { return p.hung > 0 && p.hung*hangsAgain > p.answered }

// Answered counts an answer.
func (h *hangs) Answered(url string) {
	h.met, h.row = true, 0
	if h.some {
		h.count(url, hangsOf{answered: 1})
	}
}

// Hung counts a timeout. It reports whether that is a problem of the URL alone and not of the host,
// and whether its pattern comes after others from now on.
func (h *hangs) Hung(url string) (alone, found bool) {
	h.some = true
	if h.row++; h.row > hangsAll || !h.met {
		return false, false
	}
	before := h.Last(url, false)
	h.count(url, hangsOf{hung: 1})
	return true, !before && h.Last(url, false)
}

// count adds to the pattern of a URL. If there are too many, those without a timeout are dropped,
// and then all.
func (h *hangs) count(url string, n hangsOf) {
	for _, key := range [...]uint32{trap.Pattern(url), trap.Names(url)} {
		of, known := h.parts[key]
		if !known && len(h.parts) >= maxHangs {
			for other, of := range h.parts {
				if of.hung == 0 {
					delete(h.parts, other)
				}
			}
		}
		if h.parts == nil || len(h.parts) >= maxHangs && !known {
			h.parts = make(map[uint32]hangsOf)
		}
		h.parts[key] = hangsOf{of.hung + n.hung, of.answered + n.answered}
	}
}

// Last reports whether a URL comes after others of its host: its pattern times out, or does so
// often and the URL was tried before.
func (h *hangs) Last(url string, again bool) bool {
	if !h.some {
		return false
	}
	for _, key := range [...]uint32{trap.Pattern(url), trap.Names(url)} {
		if of := h.parts[key]; of.last() || again && of.often() {
			return true
		}
	}
	return false
}

// Domains is the state of registrable domains: which of them are full.
type Domains struct {
	*Step
	Full map[DomainJob]domain.Verdict // domains that get no more hosts in a job, with the reason
}

// DomainJob identifies a domain in a job.
type DomainJob struct {
	ID     job.ID
	Domain string
}

// admissionEvery is the delay in ms before an unanswered admission request is repeated.
const admissionEvery = 5_000

// maxFullDomains bounds the full domains in memory; for a forgotten one, admission is requested
// again.
const maxFullDomains = 1 << 14

// TurnedAway returns the reason why a job may not have another host of a domain.
func (d *Domains) TurnedAway(v domain.Verdict) string {
	switch v {
	case domain.Ported:
		return fmt.Sprintf("the job reached its limit of ports of its name (%d)", domain.MaxPorts)
	default:
		return "its domain reached its limit of hosts in the job"
	}
}

// admitted reports whether a job may have a host, by the state known here.
func (d *Domains) admitted(h *Host, hj *Job) bool {
	return !d.Cfg.Admission || hj.Tally.Counters().Admission == domain.Admitted || domain.Plain(h.Rec.Name)
}

// ask sends missing admission requests of a host, and returns the time of the next check.
func (d *Domains) ask(h *Host) (again int64) {
	if again = Never; !d.Cfg.Admission || h.Frozen > 0 {
		return again
	}
	for _, hj := range h.Jobs {
		if hj.Tally.Counters().Admission != domain.Unknown || hj.Tally.Open() == 0 || d.admitted(h, hj) || d.WhyOptedOut(h) != "" {
			continue
		}
		if !d.Ring.Mine(h.Key) {
			return Never
		}
		if hj.askedAt == 0 || d.Now-hj.askedAt >= admissionEvery {
			hj.askedAt = max(d.Now, 1)
			d.Ready.Admissions = append(d.Ready.Admissions, Admission{hj.State.ID, h.Rec.Name})
		}
		again = min(again, hj.askedAt+admissionEvery)
	}
	return again
}

// SetFull records that a domain gets no more hosts in a job, and why.
func (d *Domains) SetFull(c DomainJob, v domain.Verdict) {
	if len(d.Full) >= maxFullDomains {
		clear(d.Full)
	}
	d.Full[c] = v
}
