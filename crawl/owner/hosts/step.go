package hosts

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/owner/buffer"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Step is what all parts of an owner stand on: what it was made with, the time, what is written,
// and what comes of the step under way.
type Step struct {
	Cfg    Config
	Ring   Ring
	Seen   Seen
	Specs  Jobs
	Buf    *buffer.Buffer
	Ledger *ledger.Ledger

	Now, Start int64       // Unix ms
	Read       int64       // Unix ms: inputs that came before are in
	Room       func() bool // whether the step may go on; nil: it may
	dirty      []*Host
	dirtyJobs  []*JobState
	Wanted     int // wishes for URLs that the step will serve
	Ready      Ready
}

// Book is the host's part of a job, opened if it has none.
func (s *Step) Book(h *Host, js *JobState) *Job {
	hj := h.Job(js)
	if hj == nil {
		hj = &Job{Account: s.Ledger.Open(js.Job, h.Pos, h), State: js}
		h.Jobs = append(h.Jobs, hj)
	}
	return hj
}

// LastAt is when a URL is due that goes behind others.
func (s *Step) LastAt() int64 { return s.Now + min(lastFor*s.Cfg.Delay.Milliseconds(), LastMost) }

// Spends says what a job has used up of its share of a host.
func (s *Step) Spends(hj *Job) Spent {
	switch {
	case s.Cfg.MaxRequests > 0 && hj.Tally.Requests() >= s.Cfg.MaxRequests:
		return spentRequests
	case s.Cfg.MaxHostBytes > 0 && hj.Tally.Bytes() >= s.Cfg.MaxHostBytes:
		return spentBytes
	case hj.Tally.Counters().Exhausted && s.Cfg.MaxRequests > 0:
		return spentGrowth
	default:
		return SpentNothing
	}
}

// SpentText says for people what was used up.
func (s *Step) SpentText(hj *Job) string {
	switch s.Spends(hj) {
	case spentRequests:
		return fmt.Sprintf("the job has made as many requests to the host as it may (--max-requests-per-host %d)", s.Cfg.MaxRequests)
	case spentBytes:
		return fmt.Sprintf("the job has as many bytes of the host as it may (--max-bytes-per-host %d)", s.Cfg.MaxHostBytes)
	case spentGrowth:
		return fmt.Sprintf("the host's own pages led to over %d URLs, and %d requests are what one gets of which others name so few (--max-requests-per-host 0 lifts it)", growsTo, firstRequests)
	default:
		return ""
	}
}

// RequestsLeft is how many more requests the job may make to the host: those made and those that
// may be under way count, with as many bytes as the host's pages had so far.
func (s *Step) RequestsLeft(hj *Job) int64 {
	left := int64(1 << 62)
	if s.Spends(hj) != SpentNothing {
		return 0
	}
	if s.Cfg.MaxRequests > 0 {
		left = s.Cfg.MaxRequests - hj.Tally.Requests() - hj.Tally.Out()
	}
	if mean := hj.Tally.Bytes() / max(hj.Tally.Requests(), 1); s.Cfg.MaxHostBytes > 0 && mean > 0 {
		left = min(left, (s.Cfg.MaxHostBytes-hj.Tally.Bytes())/mean-hj.Tally.Out()+1)
	}
	return left
}

// BoundsOf are what the budget of a job is drawn and promised within.
func (s *Step) BoundsOf(spec *job.Spec) budget.Bounds {
	return budget.Bounds{Pages: spec.MaxPages, Bytes: spec.MaxBytes, Reserve: s.Cfg.ByteReserve, Draw: s.Cfg.DrawPages}
}

// OwedAfter is until when politeness is owed after a lease that ended, by this peer's clock,
// without a word: its worker stopped a quarter of the TTL before.
func (s *Step) OwedAfter(end int64) int64 {
	return end - s.Cfg.TTL.Milliseconds()/4 + s.Cfg.Delay.Milliseconds()
}

// PoliteAt is when a host may be asked again, back-offs aside.
func (s *Step) PoliteAt(h *Host) int64 { return max(h.Rec.NotBefore, s.OwedAfter(h.bar)) }

// Ahead says whether an epoch is one that no host has come to: a lease takes more than a
// millisecond. So there is always a later one that others take as well.
func (s *Step) Ahead(e ondisk.Epoch) bool {
	const room = 1 << 40 // for clocks that differ
	return e.Counter > uint64(max(s.Now, 0))+room
}

// Latest is until when at most somebody waits for a host or a URL, and no clock of ours is ahead of
// it.
func (s *Step) Latest() int64 {
	longest := s.Cfg.MaxRetryAfter
	for _, wait := range s.Cfg.Backoff {
		longest = max(longest, wait)
	}
	return s.Now + longest.Milliseconds()
}

// WhyOptedOut says why nothing of a host is fetched; empty if it may be.
func (s *Step) WhyOptedOut(h *Host) string {
	if h.Rec.OptOut.On {
		return "the site has opted out: " + h.Rec.OptOut.Why
	}
	return s.Cfg.OptOuts.Host(h.Rec.Name)
}

// Within bounds the step that was begun: room is asked between pieces of work, and once it says
// that there is none what is left of a list is for a later step. It says so from then on.
func (s *Step) Within(room func() bool) { s.Room = room }

// HasRoom says whether the step may take in more; always unless Owner.Within bounds it. Between
// the inputs of a step.
func (s *Step) HasRoom() bool {
	return s.Room == nil || s.Wanted < wantsAtOnce && s.Buf.Len()+writesOfHost*max(len(s.dirty), s.Ledger.Len()) < writesAtOnce && s.Room()
}

// RestsUntil is until when nothing at all of a host is fetched.
func (s *Step) RestsUntil(h *Host) int64 { return max(s.PoliteAt(h), h.Rec.BackoffUntil, h.bar) }
