package ledger

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/storage/kv"
)

// Accept adds a URL to the set as ready, and returns its record; false if the space for the host's
// waiting URLs is used up.
func (a *Account) Accept(hash uint64, url string, depth uint32, hops uint8, kind link.Kind, via uint64) (p ondisk.Pending, ok bool) {
	if a.room.overfull(url, &a.Tally.c) {
		a.CutLink()
		return p, false
	}
	p = ondisk.Pending{Spot: ondisk.Spot{Depth: depth, Seq: a.seq.Number()}, Hash: hash, Hops: hops, Kind: kind, URL: url, Via: via}
	a.put(&p)
	a.Learn(hash)
	a.marks.lower(p.Spot)
	return p, true
}

// Learn adds a URL to the set without a record: Wait or Conclude must follow.
func (a *Account) Learn(hash uint64) {
	a.both(func(c *ondisk.Counters) { c.Accepted++ })
	if err := a.ledger.seen.Add(ondisk.SetID{Pos: a.Pos, Job: a.Job.ID}, hash); err != nil {
		a.ledger.buf.Fail(err)
	}
}

// Entry returns the entry of a URL; false if it is not in the set, or after an error, which ends
// the owner.
func (a *Account) Entry(hash uint64) (n ondisk.Entry, ok bool) {
	n, ok, err := a.Peek(hash)
	if err != nil {
		a.ledger.buf.Fail(err)
	}
	return n, ok
}

// Peek is Entry for queries and imports: a corrupt entry is an error of the call alone.
func (a *Account) Peek(hash uint64) (n ondisk.Entry, ok bool, err error) {
	raw, ok := a.ledger.buf.Get(ondisk.EntryKey(a.Pos, a.Job.ID, hash))
	if !ok {
		return n, false, nil
	}
	n, err = ondisk.DecodeEntry(raw)
	return n, err == nil, err
}

// Pending reads a pending record; a missing one is an inconsistency, and the buffer fails.
func (a *Account) Pending(at ondisk.Spot) (ondisk.Pending, bool) {
	raw, ok := a.ledger.buf.Get(at.Key(a.Pos, a.Job.ID))
	if !ok {
		a.ledger.buf.Fail(fmt.Errorf("owner: pending record of job %s at %x is missing", a.Job.ID, a.Pos))
		return ondisk.Pending{}, false
	}
	p, err := ondisk.DecodePending(at, raw)
	if err != nil {
		a.ledger.buf.Fail(err)
		return ondisk.Pending{}, false
	}
	return p, true
}

// put writes a pending record at its position, and the URL's entry.
func (a *Account) put(p *ondisk.Pending) {
	p.Rank = 0
	if spec := a.Job.Spec; spec != nil && spec.Ordered() && p.Due == 0 {
		if rank := spec.Rank(p.URL, p.Depth); rank != p.Depth {
			p.Rank = rank
		}
	}
	a.ledger.buf.Set(p.Key(a.Pos, a.Job.ID), p.Encode())
	a.entry(p.Hash, &ondisk.Entry{At: p.Spot})
}

func (a *Account) entry(hash uint64, n *ondisk.Entry) {
	a.ledger.buf.Set(ondisk.EntryKey(a.Pos, a.Job.ID, hash), n.Encode())
}

// Rewrite updates a pending record at its position.
func (a *Account) Rewrite(p *ondisk.Pending) {
	a.ledger.buf.Set(p.Key(a.Pos, a.Job.ID), p.Encode())
}

// Move replaces the pending record at a position by p, which may lie elsewhere. Out reports whether
// the URL is at a worker.
func (a *Account) Move(had ondisk.Spot, p *ondisk.Pending, out bool) {
	a.ledger.buf.Delete(had.Key(a.Pos, a.Job.ID))
	delayed := waits(p.Spot) - waits(had)
	a.Tally.waits(delayed)
	a.changed()
	a.put(p)
	if out {
		a.Tally.outDelayed += delayed
	} else {
		a.marks.lower(p.Spot)
	}
}

func waits(at ondisk.Spot) int64 {
	if at.Due > 0 {
		return 1
	}
	return 0
}

// Wait makes a URL that is no longer out pending again, ready or delayed until due.
func (a *Account) Wait(p *ondisk.Pending, due int64) {
	number := p.Seq
	a.Drop(p)
	if number == 0 || due > 0 {
		number = a.seq.Number()
	}
	p.Seq = number
	if p.Due = due; due > 0 {
		a.Tally.waits(1)
	}
	a.put(p)
	a.marks.lower(p.Spot)
	a.changed()
}

// Drop deletes the pending record of a URL: Wait or Conclude must follow. They drop it themselves,
// unless its depth, which determines its position, changes.
func (a *Account) Drop(p *ondisk.Pending) {
	if p.Seq == 0 {
		return // it had no record
	}
	a.ledger.buf.Delete(p.Key(a.Pos, a.Job.ID))
	if p.Due > 0 {
		a.Tally.waits(-1)
	}
	p.Seq = 0
	a.changed()
}

// Conclude stores the outcome of a URL that is not out. Depth, hops, kind, tries and source are
// those of the pending record.
func (a *Account) Conclude(p *ondisk.Pending, f ondisk.Final) {
	a.Drop(p)
	f.URL, f.Depth, f.Hops, f.Kind, f.Tries, f.Via = p.URL, p.Depth, p.Hops, p.Kind, p.Tries, p.Via
	a.finish(p.Hash, new(ondisk.Final), &f)
	a.both(func(c *ondisk.Counters) { c.Count(&f, 1) })
}

// Reopen makes a URL with an outcome pending again; paid: the job's budget has paid for it.
func (a *Account) Reopen(hash uint64, f *ondisk.Final, paid bool) {
	a.both(func(c *ondisk.Counters) { c.Count(f, -1) })
	if f.Revisit.Due > 0 {
		a.ledger.buf.Delete(ondisk.VisitKey(a.Pos, a.Job.ID, f.Revisit.Due, hash))
	}
	p := ondisk.Pending{Hash: hash, URL: f.URL, Hops: f.Hops, Kind: f.Kind, Via: f.Via, Spot: ondisk.Spot{Depth: f.Depth}}
	if paid && Bounded(a.Job.Spec) {
		a.Adopt(&p)
	}
	a.Wait(&p, 0)
}

// finish writes the entry of a URL with an outcome, and moves its next visit.
func (a *Account) finish(hash uint64, had, got *ondisk.Final) {
	if was, due := had.Revisit.Due, got.Revisit.Due; was != due {
		if was > 0 {
			a.ledger.buf.Delete(ondisk.VisitKey(a.Pos, a.Job.ID, was, hash))
		}
		if due > 0 {
			a.ledger.buf.Set(ondisk.VisitKey(a.Pos, a.Job.ID, due, hash), []byte{ondisk.Format})
		}
	}
	a.Visitable(got.Revisit.Due)
	a.entry(hash, &ondisk.Entry{Done: true, Final: *got})
}

// Visitable makes sure that the next walk includes a visit that is due at a time in Unix seconds;
// 0: none.
func (a *Account) Visitable(due uint32) {
	if due > 0 {
		a.marks.visit = min(a.marks.visit, int64(due)*1000)
	}
}

// NextVisit returns the earliest due time of a visit that is not out; Never if there is none.
func (a *Account) NextVisit() int64 { return a.marks.visit }

// Visits calls fn for the visits in the store by due time in Unix seconds, from NextVisit, until it
// returns false. It returns the due time in ms of the last, Never if there are no more.
func (a *Account) Visits(fn func(due uint32, hash uint64) (more bool)) (next int64) {
	next = Never
	buf, prefix := a.ledger.buf, ondisk.JobPrefix(a.Pos, ondisk.KindVisit, a.Job.ID)
	buf.Scan(ondisk.VisitKey(a.Pos, a.Job.ID, ondisk.Seconds(a.marks.visit), 0), kv.PrefixEnd(prefix), func(key, _ []byte) bool {
		due, hash, ok := ondisk.VisitIn(key[len(prefix):])
		switch {
		case !ok:
			buf.Fail(ondisk.ErrFormat)
		case !fn(due, hash):
			next = int64(due) * 1000
		default:
			return true
		}
		return false
	})
	return next
}

// Passed continues the next walk at a due time in ms: all earlier visits are out.
func (a *Account) Passed(next int64) { a.marks.visit = next }

// Correct replaces the outcome of a done URL, and its schedule.
func (a *Account) Correct(hash uint64, had, got *ondisk.Final) {
	a.finish(hash, had, got)
	a.both(func(c *ondisk.Counters) {
		c.Count(had, -1)
		c.Count(got, 1)
	})
}

// Lease records that a URL is out at a worker.
func (a *Account) Lease(p *ondisk.Pending) { a.Tally.lease(p, 1) }

// Returned records that a URL is no longer out, regardless of its next state.
func (a *Account) Returned(p *ondisk.Pending) { a.Tally.lease(p, -1) }

// Return makes a URL that was out pending again.
func (a *Account) Return(p *ondisk.Pending) {
	a.Returned(p)
	a.marks.lower(p.Spot)
}

// Promise reserves a part of the job's budget for a granted URL, unless one is reserved already.
func (a *Account) Promise(p *ondisk.Pending, now int64) {
	j := a.Job
	j.Budget.Granted = now
	if !Bounded(j.Spec) || p.Promised {
		return
	}
	p.Promised = true
	a.Tally.promises(1)
	a.changed()
	p.PromisedBytes = j.Budget.Promise(a.ledger.bounds(j.Spec))
	a.Rewrite(p)
}

// Adopt counts a reservation in the account of an earlier owner of the host, which has paid for it.
func (a *Account) Adopt(p *ondisk.Pending) {
	p.Promised, p.Foreign = true, true
	a.Tally.promises(1)
	a.changed()
}

// Settle ends the reservation of a URL: the fetched page and the bytes read are spent, and the rest
// is free again. The caller updates or deletes the record.
func (a *Account) Settle(p *ondisk.Pending, pages, size uint64) {
	if !p.Promised {
		return
	}
	j := a.Job
	a.Tally.promises(-1)
	a.changed()
	if !p.Foreign {
		j.Budget.Settle(j.Spec == nil || j.Spec.MaxPages > 0, p.PromisedBytes, pages, size)
	}
	p.Promised, p.Foreign, p.PromisedBytes = false, false, 0
}

// Cede books the reservations of URLs of a host that is handed off. A reservation in the host's
// records is paid for by the peer that drew it, regardless of which peer learns the outcome:
//
//   - This peer counts such a page, with its reserved bytes, as spent the moment it removes the
//     host. So no tokens that it holds could still be returned, and a budget is found exhausted
//     without waiting for this peer.
//   - The owner that imports the record keeps the reservation as foreign: it grants the URL without
//     a draw, counts it for the host's page limit, and does not add it to its own account.
//   - If this peer dies instead, its account at the job's owner lists the page as drawn and not
//     spent, which no longer counts as returnable after two minutes of silence. If it returns, it
//     hands off the host, and books the reservations then.
//
// So a page is paid for once, and no page is fetched unpaid: the budget is never exceeded. It is
// not fully used if a peer dies for good with drawn tokens that were not reserved, or if a URL with
// a reservation ends without a page after its host moved.
func (a *Account) Cede() {
	if a.Tally.c.Promised == 0 {
		return
	}
	var pages, bytes uint64
	for _, kind := range []byte{ondisk.KindReady, ondisk.KindDelayed} {
		prefix := ondisk.JobPrefix(a.Pos, kind, a.Job.ID)
		a.ledger.buf.Scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
			if p, err := ondisk.DecodeWaiting(value); err == nil && p.Promised && !p.Foreign {
				pages, bytes = pages+1, bytes+p.PromisedBytes
			}
			return true
		})
	}
	a.Job.Budget.Cede(pages, bytes)
}

// Hashes calls fn for the hashes of the set in no order, until it returns false.
func (a *Account) Hashes(fn func(hash uint64) bool) {
	a.ledger.buf.Hashes(ondisk.SetID{Pos: a.Pos, Job: a.Job.ID}, a.Tally.c.Accepted, fn)
}

// Walk is an ordered scan of the waiting URLs that remembers skipped records. It reads the store
// alone: a record written since the last flush is not met, and keeps its due time.
type Walk struct {
	account *Account
	delayed bool
	mark    ondisk.Spot // first skipped record, if any
	marked  bool
}

// Walk calls visit for the delayed URLs from the first due time on, or for the ready URLs, until it
// returns false. The next walk visits records again unless [Walk.Leave] or [Walk.Pass] was called
// for them.
func (a *Account) Walk(delayed bool, visit func(w *Walk, p *ondisk.Pending) (more bool)) {
	kind, from := byte(ondisk.KindReady), a.marks.from
	if delayed {
		kind, from = ondisk.KindDelayed, ondisk.Spot{Due: a.marks.nextDue}
	}
	w := &Walk{account: a, delayed: delayed, mark: from}
	a.scan(kind, from, func(p *ondisk.Pending) bool { return visit(w, p) })
	switch {
	case delayed && w.marked:
		a.marks.nextDue = min(w.mark.Due, a.marks.unsaved)
	case delayed:
		a.marks.nextDue = a.marks.unsaved
	default:
		a.marks.from = w.mark
	}
}

// Leave marks a record as skipped.
func (w *Walk) Leave(at ondisk.Spot) {
	if !w.marked {
		w.mark, w.marked = at, true
	}
}

// Pass continues behind a record.
func (w *Walk) Pass(at ondisk.Spot) {
	if !w.marked {
		w.mark = at
	}
}

// Missed reports whether the next walk would skip a record at a position, which never happens for a
// record that is not out.
func (a *Account) Missed(at ondisk.Spot) bool {
	return at.Due > 0 && at.Due < a.marks.nextDue || at.Due == 0 && at.Before(a.marks.from)
}

// scan reads pending records of a kind.
func (a *Account) scan(kind byte, from ondisk.Spot, visit func(p *ondisk.Pending) (more bool)) {
	buf := a.ledger.buf
	prefix := ondisk.JobPrefix(a.Pos, kind, a.Job.ID)
	buf.Scan(from.Key(a.Pos, a.Job.ID), kv.PrefixEnd(prefix), func(key, value []byte) bool {
		at, ok := ondisk.SpotIn(kind, key[len(prefix):])
		p, err := ondisk.DecodePending(at, value)
		if !ok || err != nil {
			buf.Fail(ondisk.ErrFormat)
			return false
		}
		return visit(&p)
	})
}

// ConcludeAll gives up to limit pending URLs a shared outcome, except those that are out (skip),
// and returns their number.
func (a *Account) ConcludeAll(limit int, skip func(hash uint64) bool, f ondisk.Final) int {
	var doomed []ondisk.Pending
	for _, kind := range []byte{ondisk.KindReady, ondisk.KindDelayed} {
		from := a.marks.from
		if kind == ondisk.KindDelayed {
			from = ondisk.Spot{Due: 1}
		}
		a.scan(kind, from, func(p *ondisk.Pending) bool {
			if !skip(p.Hash) {
				doomed = append(doomed, *p)
			}
			return len(doomed) < limit
		})
		if len(doomed) >= limit {
			break
		}
	}
	for i := range doomed {
		p := &doomed[i]
		a.Settle(p, 0, 0)
		if p.Due == 0 {
			a.marks.from = p.Spot
		}
		a.Conclude(p, f)
	}
	if a.Tally.Waiting() == 0 {
		a.marks.nextDue = Never
	}
	return len(doomed)
}
