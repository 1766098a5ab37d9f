package job

import (
	"errors"
	"fmt"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// silentMs is after how long without a word a peer's account no longer holds up the end of a
// budget. What it drew stays drawn, so the budget is not overshot should it come back; owners
// repeat their accounts every half minute while they hold something.
const silentMs = 120_000

// maxTotal bounds each total of an account: 64 TiB, or as many pages. The sum over wire.MaxAccounts
// of them cannot overflow.
const maxTotal = 1 << 46

// Draw takes from a job's budget on behalf of a peer. The answer must not leave before wait has
// returned. It never grants more than the budget, whatever is lost, repeated or reordered on the
// way.
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
		return nil, nil, fmt.Errorf("draw of job %s: %d peers have drawn, at most as many may", id, sums.peers)
	}
	account.Peer = peer
	pages, bytes := &sums.pages, &sums.bytes
	mine, yours := pagesIn(account), bytesIn(account)
	pages.update(mine, d.GetDrawnPages(), d.GetReturnPages(), d.GetUsedPages())
	bytes.update(yours, d.GetDrawnBytes(), d.GetReturnBytes(), d.GetUsedBytes())
	// Whoever needs both gets both or none: else two peers might each hold what the other waits
	// for.
	short := d.GetPages() > 0 && pages.left() == 0 || d.GetBytes() > 0 && bytes.left() < max(d.GetMinBytes(), 1)
	if State(rec.GetState()).Grants() && !short {
		pages.grant(mine, d.GetDrawnPages(), d.GetPages())
		bytes.grant(yours, d.GetDrawnBytes(), d.GetBytes())
	}
	account.HeardMs = nowMs
	var encode error
	wait, err = r.store.Update(func(b kv.Batch) { encode = put(b, key(id, kindPeer, peer...), account) })
	if err = errors.Join(err, encode); err != nil {
		delete(r.quotas, id) // to be summed up from what the store says
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

// exhausted says whether nothing of use is left of a budget and no peer heard of lately holds a
// part that could come back. A clock that is far ahead, of an earlier owner, is no word of a peer
// either.
func (r *Registry) exhausted(nowMs int64, id ID, sums *quotas, minBytes uint64) (bool, error) {
	var pages, bytes uint64
	err := r.accounts(id, func(a *wire.Account) {
		if silent := nowMs - a.GetHeardMs(); silent <= silentMs && silent >= -silentMs {
			pages += pagesIn(a).held()
			bytes += bytesIn(a).held()
		}
	})
	return sums.pages.emptyFor(1) && pages == 0 || sums.bytes.emptyFor(minBytes) && bytes == 0, err
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

// quotas are the two budgets of a job. They are summed up from the accounts and never stored, so
// they cannot differ from them, whichever way these came here.
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

// maxQuotas bounds the sums in memory.
const maxQuotas = 4096

// totals are those of one budget in an account. Each only grows.
type totals struct{ drawn, returned, used *uint64 }

func pagesIn(a *wire.Account) totals { return totals{&a.PagesDrawn, &a.PagesReturned, &a.PagesUsed} }

func bytesIn(a *wire.Account) totals { return totals{&a.BytesDrawn, &a.BytesReturned, &a.BytesUsed} }

// out is what the peer holds or has used: nothing of what was used can have been given back.
func (t totals) out() uint64 { return *t.drawn - min(*t.returned, *t.drawn-min(*t.used, *t.drawn)) }

// held is what the peer might still give back.
func (t totals) held() uint64 { return t.out() - min(*t.used, t.out()) }

// quota is one of the two budgets of a job, and what all peers hold of it or have used.
type quota struct{ budget, out uint64 }

// update takes over what a peer says of its totals. They only grow; drawn grows here if this record
// is younger than the peer's, and no peer can give back or use what it did not draw.
func (p *quota) update(t totals, drawn, returned, used uint64) {
	p.out -= t.out()
	*t.drawn = max(*t.drawn, min(drawn, maxTotal))
	*t.returned = max(*t.returned, min(returned, *t.drawn-min(*t.used, *t.drawn)))
	*t.used = max(*t.used, min(used, *t.drawn-*t.returned))
	p.out += t.out()
}

// left is what no peer holds or has used.
func (p *quota) left() uint64 { return p.budget - min(p.out, p.budget) }

// grant adds to what the peer drew, unless it does not know yet of an earlier grant.
func (p *quota) grant(t totals, known, want uint64) {
	if known < *t.drawn {
		return
	}
	p.out -= t.out()
	*t.drawn += min(want, p.budget-min(p.out+t.out(), p.budget), maxTotal-*t.drawn)
	p.out += t.out()
}

// emptyFor says whether less than n is left of a budget.
func (p *quota) emptyFor(n uint64) bool { return p.budget > 0 && p.left() < max(n, 1) }
