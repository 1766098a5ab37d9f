package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/owner/buffer"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// step is what all parts of an owner stand on: what it was made with, the time, what is written,
// and what comes of the step under way.
type step struct {
	cfg    Config
	ring   Ring
	seen   Seen
	specs  Jobs
	buf    *buffer.Buffer
	ledger *ledger.Ledger

	now, start int64       // Unix ms
	read       int64       // Unix ms: inputs that came before are in
	within     func() bool // whether the step may go on; nil: it may
	dirty      []*host
	dirtyJobs  []*jobState
	wanted     int // wishes for URLs that the step will serve
	ready      Ready
}

// boundsOf are what the budget of a job is drawn and promised within.
func (s *step) boundsOf(spec *job.Spec) budget.Bounds {
	return budget.Bounds{Pages: spec.MaxPages, Bytes: spec.MaxBytes, Reserve: s.cfg.ByteReserve, Draw: s.cfg.DrawPages}
}

// owedAfter is until when politeness is owed after a lease that ended, by this peer's clock,
// without a word: its worker stopped a quarter of the TTL before.
func (s *step) owedAfter(end int64) int64 {
	return end - s.cfg.TTL.Milliseconds()/4 + s.cfg.Delay.Milliseconds()
}

// politeAt is when a host may be asked again, back-offs aside.
func (s *step) politeAt(h *host) int64 { return max(h.rec.NotBefore, s.owedAfter(h.bar)) }

// ahead says whether an epoch is one that no host has come to: a lease takes more than a
// millisecond. So there is always a later one that others take as well.
func (s *step) ahead(e ondisk.Epoch) bool {
	const room = 1 << 40 // for clocks that differ
	return e.Counter > uint64(max(s.now, 0))+room
}

// latest is until when at most somebody waits for a host or a URL, and no clock of ours is ahead of
// it.
func (s *step) latest() int64 {
	longest := s.cfg.MaxRetryAfter
	for _, wait := range s.cfg.Backoff {
		longest = max(longest, wait)
	}
	return s.now + longest.Milliseconds()
}

// optedOut says why nothing of a host is fetched; empty if it may be.
func (s *step) optedOut(h *host) string {
	if h.rec.OptOut.On {
		return "the site has opted out: " + h.rec.OptOut.Why
	}
	return s.cfg.OptOuts.Host(h.rec.Name)
}

// Within bounds the step that was begun: room is asked between pieces of work, and once it says
// that there is none what is left of a list is for a later step. It says so from then on.
func (s *step) Within(room func() bool) { s.within = room }

// HasRoom says whether the step may take in more; always unless [Owner.Within] bounds it. Between
// the inputs of a step.
func (s *step) HasRoom() bool {
	return s.within == nil || s.wanted < wantsAtOnce && s.buf.Len()+writesOfHost*max(len(s.dirty), s.ledger.Len()) < writesAtOnce && s.within()
}

// restsUntil is until when nothing at all of a host is fetched.
func (s *step) restsUntil(h *host) int64 { return max(s.politeAt(h), h.rec.BackoffUntil, h.bar) }
