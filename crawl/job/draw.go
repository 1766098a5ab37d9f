package job

import (
	"errors"
	"fmt"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// silentMs is the time after which a silent peer's account no longer delays the end of a budget.
// Its tokens stay drawn while it is a member, so the budget is not exceeded if it returns; owners
// repeat their accounts every half minute while they hold tokens.
const silentMs = 120_000

// A peer other than this one may hold a heldShare-th of a budget, but at least heldPages or
// heldBytes (16 reserves), beyond what it has reported as used.
const (
	heldShare = 6
	heldPages = 16
	heldBytes = 64 << 20
)

// maxTotal bounds each total of an account: 64 TiB, or as many pages. The sum over wire.MaxAccounts
// of them cannot overflow.
const maxTotal = 1 << 46

// Draw draws from a job's budget for a peer. The reply must not be sent before wait has returned.
// It never grants more than the budget, even if messages are lost, repeated or reordered.
func (r *Registry) Draw(nowMs int64, id ID, peer []byte, d *wire.Draw) (reply *wire.JobReply, wait func() error, err error) {
	rec, err := r.record(id)
	if err != nil {
		return nil, nil, err
	}
	sums, err := r.quotasOf(id)
	if err != nil {
		return nil, nil, err
	}
	account := &wire.Account{}
	known, err := r.load(key(id, kindPeer, peer...), account)
	if err != nil {
		return nil, nil, err
	}
	if !known && sums.peers >= wire.MaxAccounts {
		return nil, nil, fmt.Errorf("draw of job %s: limit of %d accounts reached", id, sums.peers)
	}
	account.Peer = peer
	pages, bytes := &sums.pages, &sums.bytes
	mine, yours := pagesIn(account), bytesIn(account)
	maxPages, maxBytes := pages.mostHeld(heldPages), bytes.mostHeld(heldBytes)
	if string(peer) == r.Self {
		maxPages, maxBytes = maxTotal, maxTotal
	}
	pages.update(mine, d.GetDrawnPages(), d.GetReturnPages(), d.GetUsedPages(), maxPages)
	bytes.update(yours, d.GetDrawnBytes(), d.GetReturnBytes(), d.GetUsedBytes(), maxBytes)
	// A peer that needs both gets both or none: else each of two peers might hold what the other
	// needs.
	short := d.GetPages() > 0 && pages.left() == 0 || d.GetBytes() > 0 && bytes.left() < max(d.GetMinBytes(), 1)
	if State(rec.GetState()).Grants() && !short {
		pages.grant(mine, d.GetDrawnPages(), min(d.GetPages(), maxPages-min(mine.held(), maxPages)))
		bytes.grant(yours, d.GetDrawnBytes(), min(d.GetBytes(), maxBytes-min(yours.held(), maxBytes)))
	}
	account.HeardMs = nowMs
	var encode error
	wait, err = r.store.Update(func(b kv.Batch) { encode = put(b, key(id, kindPeer, peer...), account) })
	if err = errors.Join(err, encode); err != nil {
		delete(r.quotas, id) // force a new sum from the store
		return nil, nil, fmt.Errorf("draw of job %s: %w", id, err)
	}
	if !known {
		sums.peers++
	}
	reply = &wire.JobReply{Pages: account.GetPagesDrawn(), Bytes: account.GetBytesDrawn()}
	if pages.emptyFor(1) || bytes.emptyFor(d.GetMinBytes()) {
		reply.Exhausted, err = r.exhausted(nowMs, id, sums, d.GetMinBytes())
	}
	return reply, wait, err
}

// exhausted reports whether less than a useful part of a budget is left, and no recently active
// peer could return tokens. A time far ahead, set by an earlier owner's clock, does not count as
// activity.
func (r *Registry) exhausted(nowMs int64, id ID, sums *quotas, minBytes uint64) (bool, error) {
	var pages, bytes uint64
	err := r.accounts(id, func(a *wire.Account) {
		if !silent(a, nowMs) {
			pages += pagesIn(a).held()
			bytes += bytesIn(a).held()
		}
	})
	return sums.pages.emptyFor(1) && pages == 0 || sums.bytes.emptyFor(minBytes) && bytes == 0, err
}

func silent(a *wire.Account, nowMs int64) bool {
	since := nowMs - a.GetHeardMs()
	return since > silentMs || since < -silentMs
}

// Silent returns the peers that hold tokens of a job and have not reported lately.
func (r *Registry) Silent(nowMs int64, id ID) (peers []string, err error) {
	err = r.accounts(id, func(a *wire.Account) {
		if silent(a, nowMs) && pagesIn(a).held()+bytesIn(a).held() > 0 {
			peers = append(peers, string(a.GetPeer()))
		}
	})
	return peers, err
}

// Reclaim returns the tokens that a peer holds to the budget, because it has left the ring. If it
// comes back and uses them, the budget is exceeded by as many. They are on disk once a later draw
// is.
func (r *Registry) Reclaim(id ID, peer string) error {
	a, k := &wire.Account{}, key(id, kindPeer, []byte(peer)...)
	if known, err := r.load(k, a); err != nil || !known {
		return err
	}
	for _, t := range []totals{pagesIn(a), bytesIn(a)} {
		*t.returned = max(*t.returned, *t.drawn-min(*t.used, *t.drawn))
	}
	delete(r.quotas, id)
	var encode error
	_, err := r.store.Update(func(b kv.Batch) { encode = put(b, k, a) })
	if err = errors.Join(err, encode); err != nil {
		return fmt.Errorf("reclaiming tokens of job %s: %w", id, err)
	}
	return nil
}

func (r *Registry) accounts(id ID, fn func(*wire.Account)) error {
	var bad error
	err := r.store.Scan(key(id, kindPeer), key(id, kindPeer+1), func(_, value []byte) bool {
		a := new(wire.Account)
		if bad = decode(value, a); bad == nil {
			fn(a)
		}
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return fmt.Errorf("accounts of job %s: %w", id, err)
	}
	return nil
}

// quotas are the two budgets of a job. They are computed from the accounts and never stored, so
// they always agree with them, regardless of how the accounts arrived.
type quotas struct {
	pages, bytes quota
	peers        int
}

func (r *Registry) quotasOf(id ID) (*quotas, error) {
	if p := r.quotas[id]; p != nil {
		return p, nil
	}
	spec := new(wire.JobSpec)
	if ok, err := r.load(key(id, kindSpec), spec); err != nil || !ok {
		return nil, errors.Join(err, unknown(id, ok || err != nil))
	}
	p := &quotas{pages: quota{budget: spec.GetMaxPages()}, bytes: quota{budget: spec.GetMaxBytes()}}
	err := r.accounts(id, func(a *wire.Account) {
		p.peers++
		p.pages.out += pagesIn(a).out()
		p.bytes.out += bytesIn(a).out()
	})
	if err != nil {
		return nil, err
	}
	if len(r.quotas) >= maxQuotas {
		clear(r.quotas)
	}
	r.quotas[id] = p
	return p, nil
}

// maxQuotas bounds the cached quotas.
const maxQuotas = 4096

// totals are those of one budget in an account. Each only grows.
type totals struct{ drawn, returned, used *uint64 }

func pagesIn(a *wire.Account) totals { return totals{&a.PagesDrawn, &a.PagesReturned, &a.PagesUsed} }

func bytesIn(a *wire.Account) totals { return totals{&a.BytesDrawn, &a.BytesReturned, &a.BytesUsed} }

// out returns the tokens that the peer holds or has used; used tokens cannot have been returned.
func (t totals) out() uint64 { return *t.drawn - min(*t.returned, *t.drawn-min(*t.used, *t.drawn)) }

// held returns the tokens that the peer might still return.
func (t totals) held() uint64 { return t.out() - min(*t.used, t.out()) }

// quota is one of the two budgets of a job, and the tokens that all peers hold or have used.
type quota struct{ budget, out uint64 }

// update merges the totals reported by a peer. They only grow; drawn grows here if this record is
// older than the peer's, but not beyond what it may hold; a peer cannot return or use more than it
// drew.
func (p *quota) update(t totals, drawn, returned, used, most uint64) {
	p.out -= t.out()
	*t.drawn = max(*t.drawn, min(drawn, maxTotal, min(returned, maxTotal)+min(used, maxTotal)+most))
	*t.returned = max(*t.returned, min(returned, *t.drawn-min(*t.used, *t.drawn)))
	*t.used = max(*t.used, min(used, *t.drawn-*t.returned))
	p.out += t.out()
}

// left returns the tokens that no peer holds or has used.
func (p *quota) left() uint64 { return p.budget - min(p.out, p.budget) }

// mostHeld returns how many tokens a peer may hold.
func (p *quota) mostHeld(least uint64) uint64 { return max(p.budget/heldShare, least) }

// grant adds to the peer's drawn tokens, unless the peer has not yet received an earlier grant.
func (p *quota) grant(t totals, known, want uint64) {
	if known < *t.drawn {
		return
	}
	p.out -= t.out()
	*t.drawn += min(want, p.budget-min(p.out+t.out(), p.budget), maxTotal-*t.drawn)
	p.out += t.out()
}

// emptyFor reports whether less than n is left of a budget.
func (p *quota) emptyFor(n uint64) bool { return p.budget > 0 && p.left() < max(n, 1) }
