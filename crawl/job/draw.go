package job

import (
	"errors"
	"fmt"

	"github.com/apoidea/apoidea/crawl/wire"
)

// silentMs is after how long without a word a peer's account no longer holds up the end of a budget. What it drew stays drawn, so the
// budget is not overshot should it come back; owners repeat their accounts every half minute while they hold something.
const silentMs = 120_000

// Draw takes from a job's budget on behalf of a peer. The answer must not leave before wait has returned. It never grants more than the
// budget, whatever is lost, repeated or reordered on the way.
func (r *Registry) Draw(nowMs int64, id ID, peer []byte, d *wire.Draw) (reply *wire.JobReply, wait func() error, err error) {
	rec, err := r.Get(id)
	if err != nil {
		return nil, nil, err
	}
	account := &wire.Account{Peer: peer}
	if _, err := r.load(key(id, kindPeer, peer...), account); err != nil {
		return nil, nil, err
	}
	grants := State(rec.GetState()).Grants()
	pages := purse{rec.GetSpec().GetMaxPages(), &rec.PagesDrawn, &rec.PagesReturned, &account.PagesDrawn, &account.PagesReturned, &account.PagesUsed}
	bytes := purse{rec.GetSpec().GetMaxBytes(), &rec.BytesDrawn, &rec.BytesReturned, &account.BytesDrawn, &account.BytesReturned, &account.BytesUsed}
	pages.settle(d.GetDrawnPages(), d.GetReturnPages(), d.GetUsedPages())
	bytes.settle(d.GetDrawnBytes(), d.GetReturnBytes(), d.GetUsedBytes())
	// Whoever needs both gets both or none: else two peers might each hold what the other waits for.
	short := d.GetPages() > 0 && pages.left() == 0 || d.GetBytes() > 0 && bytes.left() < max(d.GetMinBytes(), 1)
	if grants && !short {
		pages.grant(d.GetDrawnPages(), d.GetPages())
		bytes.grant(d.GetDrawnBytes(), d.GetBytes())
	}
	account.HeardMs = nowMs
	spec := rec.GetSpec()
	rec.Spec = nil
	var encode error
	wait, err = r.store.Update(func(b Batch) {
		encode = errors.Join(put(b, key(id, kindRecord), rec), put(b, key(id, kindPeer, peer...), account))
	})
	if err = errors.Join(err, encode); err != nil {
		return nil, nil, fmt.Errorf("draw of job %s: %w", id, err)
	}
	reply = &wire.JobReply{Pages: account.GetPagesDrawn(), Bytes: account.GetBytesDrawn()}
	if pages.emptyFor(1) || bytes.emptyFor(d.GetMinBytes()) {
		reply.Exhausted, err = r.exhausted(nowMs, id, spec, d.GetMinBytes())
	}
	return reply, wait, err
}

// exhausted says whether nothing of use is left of a budget and no peer heard of lately holds a part that could come back.
func (r *Registry) exhausted(nowMs int64, id ID, spec *wire.JobSpec, minBytes uint64) (bool, error) {
	var pages, pagesOut, bytes, bytesOut uint64
	var bad error
	lo := key(id, kindPeer)
	err := r.store.Scan(lo, key(id, kindPeer+1), func(_, value []byte) bool {
		a := new(wire.Account)
		if bad = decode(value, a); bad != nil {
			return false
		}
		pages += a.GetPagesDrawn() - a.GetPagesReturned()
		bytes += a.GetBytesDrawn() - a.GetBytesReturned()
		if nowMs-a.GetHeardMs() <= silentMs {
			pagesOut += a.GetPagesDrawn() - a.GetPagesReturned() - a.GetPagesUsed()
			bytesOut += a.GetBytesDrawn() - a.GetBytesReturned() - a.GetBytesUsed()
		}
		return true
	})
	if err = errors.Join(err, bad); err != nil {
		return false, fmt.Errorf("accounts of job %s: %w", id, err)
	}
	return spec.GetMaxPages() > 0 && pages >= spec.GetMaxPages() && pagesOut == 0 ||
		spec.GetMaxBytes() > 0 && bytes+max(minBytes, 1) > spec.GetMaxBytes() && bytesOut == 0, nil
}

// purse is one of the two budgets: the sums over all peers and the totals of the one that asks.
type purse struct {
	budget                uint64
	sumDrawn, sumReturned *uint64
	drawn, returned, used *uint64
}

// settle takes over the peer's totals. They only grow; drawn grows here if this record is younger than the peer's, and no peer can give
// back or use what it did not draw.
func (p purse) settle(drawn, returned, used uint64) {
	if drawn > *p.drawn {
		*p.sumDrawn += drawn - *p.drawn
		*p.drawn = drawn
	}
	if returned = min(returned, *p.drawn-min(*p.used, *p.drawn)); returned > *p.returned {
		*p.sumReturned += returned - *p.returned
		*p.returned = returned
	}
	*p.used = max(*p.used, min(used, *p.drawn-*p.returned))
}

// left is what no peer holds or has used.
func (p purse) left() uint64 {
	out := *p.sumDrawn - min(*p.sumReturned, *p.sumDrawn)
	return p.budget - min(out, p.budget)
}

// grant adds to what the peer drew, unless it does not know yet of an earlier grant.
func (p purse) grant(known, want uint64) {
	if known < *p.drawn {
		return
	}
	n := min(want, p.left())
	*p.drawn += n
	*p.sumDrawn += n
}

// emptyFor says whether less than n is left of a budget.
func (p purse) emptyFor(n uint64) bool { return p.budget > 0 && p.left() < max(n, 1) }
