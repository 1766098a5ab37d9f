package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// anewLent is why a host is placed anew that was asked for.
const anewLent = "placed anew, as it was lent meanwhile for the rules of another host"

// circleAfter in ms of waiting a lease is ended for who waits, if nothing else has ended it. It may be that its worker waits in turn for the host for whose
// sake this one is asked for, or for one that waits for that. In each such circle a host waits for one whose name comes behind its own, so it is enough to do
// that for those.
const circleAfter = 15_000

// lender lends hosts for one request.
type lender struct {
	*step
	hosts  *hostTable
	agenda *agenda
	leases *leases
	loans  *loans
}

// Lend answers a peer that asks for a host because the robots.txt of another one leads there, or that has done with it; nil if another peer owns the host. While
// it is lent nobody gets a lease on it. A host with a record is owed politeness until the loan is over as far as its record goes, so that a later owner, and this
// one after a crash, wait as well; one without gets none by this. Part of a step.
func (o *Owner) Lend(peer string, m *wire.Loan) *wire.LoanReply {
	key := ring.HostKey(m.GetHost())
	switch {
	case !o.ring.Mine(key):
		return nil
	case !o.cfg.Settled(key):
		return &wire.LoanReply{WaitMs: lookFirst}
	}
	h := o.hosts.find(m.GetHost())
	if m.GetNumber() > 0 {
		o.lender.back(h, peer, m)
		return &wire.LoanReply{}
	}
	return o.lender.lend(h, peer, m)
}

// lend lends a host, of which h is nil if it has no record.
func (ln *lender) lend(h *host, peer string, m *wire.Loan) *wire.LoanReply {
	if h == nil {
		if why := ln.cfg.OptOuts.Host(m.GetHost()); why != "" {
			return &wire.LoanReply{Refused: ondisk.Clip(why)}
		}
		return ln.reply(ln.loans.ask(ln.now, m.GetHost(), peer, false, 0))
	}
	if why := ln.optedOut(h); why != "" {
		return &wire.LoanReply{Refused: ondisk.Clip(why)}
	}
	if h.frozen > 0 || h.lease != nil && h.lease.session.peer == peer { // it has yet to hear that it holds the host, or we that it does not
		return &wire.LoanReply{WaitMs: lookFirst}
	}
	a := ln.loans.ask(ln.now, h.rec.Name, peer, h.lease != nil, ln.restsUntil(h))
	switch {
	case a.fresh:
		h.rec.Reserve(a.until + ln.loans.delay)
		ln.hosts.touched(h)
	case h.lease != nil && a.waited >= circleAfter && m.GetSake() < h.rec.Name:
		ln.leases.end(h, released, h.lease.expires)
	case h.lease != nil && !h.search.replace:
		h.search.again(anewLent)
	}
	ln.agenda.schedule(h)
	return ln.reply(a)
}

func (ln *lender) reply(a asked) *wire.LoanReply {
	if a.number > 0 {
		return &wire.LoanReply{Number: a.number, LentMs: uint32(a.until - ln.now)} //nolint:gosec // at most loanTime
	}
	return &wire.LoanReply{WaitMs: uint32(min(a.wait, wire.MaxWaitMs))} //nolint:gosec // bounded
}

// back ends a loan: what is owed is the delay after the request.
func (ln *lender) back(h *host, peer string, m *wire.Loan) {
	until, ok := ln.loans.back(ln.now, m.GetHost(), peer, m.GetNumber())
	if !ok || h == nil {
		return
	}
	h.rec.Unreserve(until+ln.loans.delay, 0)
	h.rec.Owe(ln.now + ln.loans.delay)
	ln.hosts.touched(h)
	ln.agenda.schedule(h)
}
