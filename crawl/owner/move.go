package owner

import (
	"bytes"
	"fmt"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dht/ring"
)

// KV is one record on its way between owners.
type KV struct{ Key, Value []byte }

// rangeOf are the keys of the hosts at positions in [lo, hi); a zero hi is the end of the circle.
func rangeOf(lo, hi Pos) (from, to []byte) {
	from = hostPrefix(lo)
	if to = hostPrefix(hi); hi == (Pos{}) {
		to = []byte{spaceHost + 1}
	}
	return from, to
}

// Export calls fn for the records of the hosts at positions in [lo, hi), in key order, key and value lent, until it returns false. A zero hi is
// the end of the circle. Between the inputs of a step, or between steps.
func (o *Owner) Export(lo, hi Pos, fn func(key, value []byte) bool) error {
	o.flush()
	from, to := rangeOf(lo, hi)
	o.buf.scan(from, to, fn)
	return o.buf.err
}

// Import merges records of another owner into this one's: the union of URLs, outcomes and outboxes; an outcome beats pending, a page beats an
// error, the smaller depth and the later epoch win. Any number of times and in any order of calls, with the records of a host in key order in each.
// A record that does not belong where its key says is refused with an error, the ones before it taken. Part of a step.
func (o *Owner) Import(kvs []KV) error {
	var h *host
	for _, kv := range kvs {
		if len(kv.Key) < 1+posSize+1 || kv.Key[0] != spaceHost {
			return fmt.Errorf("import: key %.40x is none of a host", kv.Key)
		}
		pos := Pos(kv.Key[1:])
		if kv.Key[1+posSize] == kindHost {
			rec, err := decodeHost(kv.Value)
			if err != nil {
				return fmt.Errorf("import: %w", err)
			}
			if PosOf(ring.HostKey(rec.name)) != pos {
				return fmt.Errorf("import: host %q lies elsewhere", rec.name)
			}
			h = o.open(rec.name)
			o.importHost(h, &rec)
			continue
		}
		if h == nil || h.pos != pos {
			if h = o.at(pos); h == nil {
				return fmt.Errorf("import: record of an unknown host at %x", pos)
			}
		}
		if err := o.importRecord(h, kv); err != nil {
			return fmt.Errorf("import: %s: %w", h.rec.name, err)
		}
	}
	return o.buf.err
}

// importHost merges the record of the host itself. Its worker may still hold a lease.
func (o *Owner) importHost(h *host, in *hostRecord) {
	r := &h.rec
	if in.worker != "" && h.lease == nil {
		h.bar = max(h.bar, o.now+o.cfg.TTL.Milliseconds())
		r.worker = in.worker
	}
	if in.epoch.After(r.epoch) && h.lease == nil {
		r.epoch = in.epoch
	}
	r.notBefore = max(r.notBefore, in.notBefore)
	if in.backoffUntil > r.backoffUntil {
		r.backoffUntil, r.backoffReason, r.failOutcome = in.backoffUntil, in.backoffReason, in.failOutcome
	}
	r.fails = max(r.fails, in.fails)
	if in.placedAt > r.placedAt {
		r.placed, r.placedAt, r.placedWhy, r.measured = in.placed, in.placedAt, in.placedWhy, in.measured
	}
	if len(r.addrs) == 0 {
		r.addrs = in.addrs
	}
	r.secure = r.secure || in.secure
	o.touched(h)
	o.schedule(h)
}

func (o *Owner) importRecord(h *host, kv KV) error {
	kind, tail := kv.Key[1+posSize], kv.Key[1+posSize+1:]
	if kind == kindRobots {
		if _, ok := o.buf.get(kv.Key); !ok {
			o.buf.set(kv.Key, kv.Value)
		}
		return nil
	}
	if len(tail) < job.IDSize {
		return errFormat
	}
	js := o.job(job.ID(tail))
	tail = tail[job.IDSize:]
	switch kind {
	case kindReady, kindDelayed:
		return o.importPending(h, js, kind, tail, kv.Value)
	case kindEntry:
		return o.importEntry(h, js, tail, kv.Value)
	case kindOutlinks:
		if _, err := decodeLinks(kv.Value); err != nil || len(tail) != 8 {
			return errFormat
		}
		if _, ok := o.buf.get(kv.Key); !ok {
			o.buf.set(kv.Key, kv.Value)
		}
	case kindOutbox:
		list, err := decodeLinks(kv.Value)
		if err != nil || len(tail) != 12 {
			return errFormat
		}
		d := dec{b: tail}
		hash := d.hash()
		at, _ := readyPlace(append(append([]byte(nil), d.b...), make([]byte, 8)...))
		if _, ok := o.buf.get(kv.Key); !ok {
			o.putOutbox(h, js, hash, at.depth, list)
		}
	case kindCounters: // counted anew from the URLs
	default:
		return errFormat
	}
	return nil
}

func (o *Owner) importPending(h *host, js *jobState, kind byte, tail, value []byte) error {
	at, ok := readyPlace(tail)
	if kind == kindDelayed {
		at, ok = delayedPlace(tail)
	}
	p, err := decodePending(at, value)
	if !ok || err != nil || link.Host(p.url) != h.rec.name || link.Hash(js.id, p.url) != p.hash {
		return errFormat
	}
	a := arrival{outlink: outlink{p.url, p.depth, p.hops, p.kind}, js: js, host: h.rec.name, hash: p.hash}
	if raw, ok := o.buf.get(entryKey(h.pos, js.id, p.hash)); ok {
		if js.known || o.knows(js) {
			o.meet(h, &a, raw)
		}
		return nil
	}
	hj := o.hostJob(h, js, true)
	o.count(h, hj, p.depth)
	o.addSeen(h, js, p.hash)
	p.promised, p.promisedBytes, p.seq = false, 0, 0 // the promise is another peer's
	due := p.due
	p.due = 0
	o.wait(h, hj, &p, due)
	return nil
}

func (o *Owner) importEntry(h *host, js *jobState, tail, value []byte) error {
	in, err := decodeEntry(value)
	if err != nil || len(tail) != 8 {
		return errFormat
	}
	if !in.done {
		return nil // its pending record tells
	}
	f := &in.final
	hash := link.Hash(js.id, f.URL)
	d := dec{b: tail}
	if hash != d.hash() || link.Host(f.URL) != h.rec.name {
		return errFormat
	}
	hj := o.hostJob(h, js, true)
	raw, ok := o.buf.get(entryKey(h.pos, js.id, hash))
	if !ok {
		o.count(h, hj, f.Depth)
		o.addSeen(h, js, hash)
		p := pending{hash: hash, url: f.URL, hops: f.Hops, kind: f.Kind, tries: f.Tries, place: place{depth: f.Depth}}
		o.conclude(h, hj, &p, *f)
		return nil
	}
	n, err := decodeEntry(raw)
	if err != nil {
		return err
	}
	if n.done {
		return o.mergeDone(h, hj, hash, &n, f)
	}
	p, ok := o.pendingAt(h, js, n.at)
	if !ok {
		return o.buf.err
	}
	if it := h.lease.item(hash); it != nil {
		delete(h.lease.out, hash)
		o.notOut(hj, it)
	}
	o.settle(h, hj, &p, pageOf(f.Outcome), f.Size)
	smaller := p.depth < f.Depth
	p.hops, p.kind, p.tries = f.Hops, f.Kind, f.Tries
	o.dropPending(h, hj, &p)
	p.seq, p.depth = 0, min(p.depth, f.Depth)
	o.conclude(h, hj, &p, *f)
	if smaller {
		o.putAgain(h, js, hash, p.depth)
	}
	return nil
}

// mergeDone merges two outcomes of one URL: the one that knows more, of equals the one with the smaller record.
func (o *Owner) mergeDone(h *host, hj *hostJob, hash uint64, n *entry, in *Final) error {
	had := n.final
	kIn, kHad := knows(in.Outcome), knows(had.Outcome)
	if kIn > kHad || kIn == kHad && bytes.Compare(in.RecordID, had.RecordID) < 0 {
		n.final = *in
	}
	n.final.Depth = min(had.Depth, in.Depth)
	o.buf.set(entryKey(h.pos, hj.state.id, hash), n.encode())
	for _, c := range []*counters{&hj.c, &hj.state.c} {
		c.outcomes[had.Outcome]--
		c.outcomes[n.final.Outcome]++
		c.bytes += int64(n.final.Size) - int64(had.Size)
	}
	o.changed(h, hj)
	if in.Depth != had.Depth {
		o.putAgain(h, hj.state, hash, n.final.Depth)
	}
	return nil
}

// Remove forgets the hosts at positions in [lo, hi) once another owner has them on disk; a zero hi is the end of the circle. Part of a step.
func (o *Owner) Remove(lo, hi Pos) {
	o.flush()
	var list []Pos
	from, to := rangeOf(lo, hi)
	o.buf.scan(from, to, func(key, _ []byte) bool {
		if key[1+posSize] == kindHost {
			list = append(list, Pos(key[1:]))
		}
		return true
	})
	for _, pos := range list {
		if h := o.at(pos); h != nil {
			o.remove(h)
		}
	}
	o.known.clear()
	o.sent.clear()
	o.flush()
}

func (o *Owner) remove(h *host) {
	if h.lease != nil {
		o.endLease(h, released, 0)
	}
	o.endPlacing(h)
	o.flush()
	for id, e := range o.outbox.entries {
		if e.pos == h.pos {
			o.outbox.drop(id)
		}
	}
	entries, links := make(map[*jobState]int64), make(map[*jobState]int64)
	prefix := hostPrefix(h.pos, kindOutbox)
	o.buf.scan(prefix, prefixEnd(prefix), func(key, value []byte) bool {
		if list, err := decodeLinks(value); err == nil && len(key) >= jobPrefixLen {
			js := o.job(job.ID(key[1+posSize+1:]))
			entries[js]++
			links[js] += int64(max(len(list.links), 1))
		}
		return true
	})
	for js, n := range entries {
		js.c.entries -= n
		js.c.outbox -= links[js]
		o.changedJob(js)
	}
	for _, hj := range h.jobs {
		c := &hj.state.c
		c.accepted -= hj.c.accepted
		for i, n := range hj.c.outcomes {
			c.outcomes[i] -= n
		}
		c.delayed -= hj.c.delayed
		c.promised -= hj.c.promised
		c.bytes -= hj.c.bytes
		c.refetched -= hj.c.refetched
		o.changedJob(hj.state)
		o.seen.Drop(SetID{h.pos, hj.state.id})
	}
	o.totals.hosts--
	o.totalsMod = true
	o.buf.deleteRange(hostPrefix(h.pos), prefixEnd(hostPrefix(h.pos)))
	o.buf.delete(workKey(h.pos))
	h.jobs = nil
	o.forget(h)
	o.flush()
}
