package links

import (
	"math"

	"github.com/apoidea/apoidea/crawl/job"
)

// cash is what came to URLs with links, see [job.Credit], in memory alone: what is forgotten counts
// for less, and nothing else hangs on it.
type cash struct{ latest }

func newCash(most int) cash { return cash{newLatest(most)} }

// add adds to a URL's, and says what it had.
func (c *cash) add(hash uint64, share float64) (was, is float64) {
	noted, _ := c.get(hash)
	was = float64(math.Float32frombits(noted))
	is = was + share
	c.put(hash, math.Float32bits(float32(is)))
	return was, is
}

// due says whether a link that the owner of its host has been told of is to be told again: as its
// pages have given it a 1 since. So there are no more such links than pages.
func (c *cash) due(hash uint64, share float64) bool {
	if _, is := c.add(hash, share); is < 1 {
		return false
	}
	c.put(hash, 0)
	return true
}

// Again gives a link that another owner has told of before the cash for which it tells of it again.
func (in *Intake) Again(a *Arrival) {
	if in.Known.covers(a.memo(), math.MaxUint32) {
		a.Share = 1
	}
}

// credit notes the cash that a link brings to its URL, which goes ahead with it while it waits.
func (in *Intake) credit(a *Arrival) {
	if a.Js == nil || a.Js.Spec == nil || a.Js.Spec.Order != job.ByLinks || a.Share <= 0 {
		return
	}
	was, is := in.cash.add(a.Hash, a.Share)
	credit := job.CreditOf(1 + is)
	if credit == job.CreditOf(1+was) {
		return
	}
	h := in.hosts.Find(a.Host)
	if h == nil || h.Job(a.Js) == nil {
		return
	}
	hj := h.Job(a.Js)
	n, ok := hj.Entry(a.Hash)
	if !ok || n.Done || n.At.Due > 0 || h.Lease.Item(a.Hash) != nil {
		return
	}
	if p, ok := hj.Pending(n.At); ok && p.Credit < credit {
		p.Credit = credit
		hj.Move(n.At, &p, false)
		in.hosts.Touched(h)
	}
}
