package owner

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Merging is union (design, section 4, invariant 4): for each part of a record there is an order, and the greater of two wins, so that copies may be merged
// any number of times and in any order. What an owner learned and a stale copy must not bring back is left out: that a host is down, and what is
// promised of a budget to a URL that is here already.

// importer merges records of other owners into this one's.
type importer struct {
	*step
	jobs     *jobTable
	hosts    *hostTable
	urls     *urlSets
	agenda   *agenda
	outgoing *outgoing
	leases   *leases
	reviewer *reviewer
}

// admitRecord refuses a host's record that none of our owners writes, since what goes into grants of it would be refused by every worker, and moves what would
// come later than anything that we write: of two values the greater wins, so nothing would ever come after it.
func (m *importer) admitRecord(r *hostRecord) error {
	if !isHost("http://", r.name) && !isHost("https://", r.name) {
		return errors.New("not the name of a host")
	}
	for _, addr := range r.addrs {
		if len(addr) != 4 && len(addr) != 16 {
			return fmt.Errorf("address of %d bytes", len(addr))
		}
	}
	if m.ahead(r.epoch) {
		return fmt.Errorf("epoch %d is ahead of its time", r.epoch.Counter)
	}
	latest := m.latest()
	r.notBefore, r.backoffUntil = min(r.notBefore, latest), min(r.backoffUntil, latest)
	r.placedAt, r.optOut.at = min(r.placedAt, latest), min(r.optOut.at, latest)
	return nil
}

// isHost says whether a name is that of a host whose URLs begin so.
func isHost(scheme, name string) bool {
	canonical, err := link.Canonical(scheme + name + "/")
	return err == nil && link.Host(canonical) == name
}

// host merges the record of the host itself. Its worker may still hold a lease, until then.
func (m *importer) host(h *host, in *hostRecord, until int64) {
	m.leases.claimed(h, in, until)
	if h.rec.merge(in) {
		m.reviewer.optOutChanged(h)
	}
	m.hosts.touched(h)
	m.agenda.schedule(h)
}

func (m *importer) record(h *host, rec kv.Record) error {
	kind, tail := rec.Key[1+ring.PosSize], rec.Key[1+ring.PosSize+1:]
	if kind == kindRobots {
		return m.robots(h, string(tail), rec)
	}
	if len(tail) < job.IDSize {
		return errFormat
	}
	js := m.jobs.of(job.ID(tail))
	tail = tail[job.IDSize:]
	switch kind {
	case kindReady, kindDelayed:
		return m.pending(h, js, kind, tail, rec.Value)
	case kindEntry:
		return m.entry(h, js, tail, rec.Value)
	case kindOutlinks:
		return m.outlinks(h, js, tail, rec)
	case kindOutbox:
		return m.outbox(h, js, tail, rec.Value)
	case kindCounters:
		return m.counters(h, js, tail, rec.Value)
	case kindNovelty:
		return m.novelty(h, js, tail, rec)
	default:
		return errFormat
	}
}

// robots merges the state of an origin's robots.txt: the one had later wins.
func (m *importer) robots(h *host, origin string, rec kv.Record) error {
	if !h.hasOrigin(origin) {
		return errFormat
	}
	in, err := decodeRobots(rec.Value)
	if err != nil {
		return err
	}
	raw, ok := m.buf.get(rec.Key)
	if had, err := decodeRobots(raw); ok && err == nil {
		order := cmp.Or(in.Fetched.Compare(had.Fetched), in.Expires.Compare(had.Expires), bytes.Compare(rec.Value, raw))
		if order <= 0 {
			return nil
		}
	}
	m.buf.set(rec.Key, rec.Value)
	return nil
}

// hasOrigin says whether an origin is one of the host's two.
func (h *host) hasOrigin(origin string) bool {
	return origin == "http://"+h.rec.name || origin == "https://"+h.rec.name
}

// maxCounted bounds what is counted of one host and not anew from its URLs: no sum of hosts that can be sent runs over.
const maxCounted = 1 << 32

// counters takes what is not counted anew from the URLs.
func (m *importer) counters(h *host, js *jobState, tail, value []byte) error {
	in, err := decodeCounters(value)
	if err != nil {
		return err
	}
	if len(tail) > 0 || max(in.refetched, in.requests, in.cut) > maxCounted {
		return errFormat
	}
	hj := h.job(js, true)
	if hj.c.merge(&in) {
		m.hosts.changed(h, hj)
	}
	return nil
}

func (m *importer) pending(h *host, js *jobState, kind byte, tail, value []byte) error {
	at, ok := readyPlace(tail)
	if kind == kindDelayed {
		at, ok = delayedPlace(tail)
	}
	p, err := decodePending(at, value)
	if !ok || err != nil {
		return errFormat
	}
	return m.waiting(h, js, p)
}

// waiting merges a URL that waits.
func (m *importer) waiting(h *host, js *jobState, p pending) error {
	if link.Host(p.url) != h.rec.name || link.Hash(js.id, p.url) != p.hash {
		return errFormat
	}
	p.due = min(p.due, m.latest())
	hj := h.job(js, true)
	raw, ok := m.buf.get(entryKey(h.pos, js.id, p.hash))
	if !ok {
		m.urls.count(h, hj, p.depth)
		m.urls.addSeen(h, js, p.hash)
		if p.foreign = p.promised; p.promised {
			hj.c.promises(1)
		}
		p.seq = 0
		due := p.due
		p.due = 0
		m.urls.wait(h, hj, &p, due)
		return nil
	}
	n, err := decodeEntry(raw)
	if err != nil {
		return err
	}
	hj.c.shallower(p.depth)
	m.hosts.changed(h, hj)
	if !n.done {
		m.mergePending(h, hj, n.at, &p)
	} else if p.depth < n.final.Depth {
		n.final.Depth = p.depth
		m.buf.set(entryKey(h.pos, js.id, p.hash), n.encode())
		m.outgoing.shallower(h, js, p.hash, p.depth)
	}
	return nil
}

// mergePending merges two states of a URL without an outcome.
func (m *importer) mergePending(h *host, hj *hostJob, at place, in *pending) {
	had, ok := m.urls.pending(h, hj.state, at)
	if !ok {
		return
	}
	p := had
	p.depth, p.hops, p.kind = min(p.depth, in.depth), min(p.hops, in.hops), min(p.kind, in.kind) // a page before a requisite
	p.lapses = max(p.lapses, in.lapses)
	if in.tries > p.tries || in.tries == p.tries && in.due > p.due {
		p.tries, p.due = in.tries, in.due
	}
	if p == had {
		return
	}
	m.buf.delete(had.key(h.pos, hj.state.id))
	delayed := waits(&p) - waits(&had)
	hj.c.waits(delayed)
	m.urls.put(h, hj.state, &p)
	if it := h.lease.item(p.hash); it != nil {
		hj.c.waitsOut(delayed)
		it.pending = p
		it.url = ""
	} else {
		hj.lower(p.place)
	}
	m.agenda.schedule(h)
}

func waits(p *pending) int64 {
	if p.due > 0 {
		return 1
	}
	return 0
}

// shallower has the recorded links of a page that is done emitted again, as it is known at a smaller depth, or with more links, than they were.
func (g *outgoing) shallower(h *host, js *jobState, hash uint64, depth uint32) {
	if _, ok := g.buf.get(outlinksKey(h.pos, js.id, hash)); ok {
		g.putAgain(h, js, hash, depth)
	}
}

func (m *importer) entry(h *host, js *jobState, tail, value []byte) error {
	in, err := decodeEntry(value)
	if err != nil || len(tail) != 8 {
		return errFormat
	}
	d := dec{b: tail}
	hash := d.hash()
	switch {
	case in.done:
	case in.waits == nil:
		return nil // its pending record tells
	case in.waits.hash != hash:
		return errFormat
	default:
		return m.waiting(h, js, *in.waits)
	}
	f := &in.final
	if hash != link.Hash(js.id, f.URL) || link.Host(f.URL) != h.rec.name {
		return errFormat
	}
	hj := h.job(js, true)
	raw, ok := m.buf.get(entryKey(h.pos, js.id, hash))
	if !ok {
		m.urls.count(h, hj, f.Depth)
		m.urls.addSeen(h, js, hash)
		p := pending{hash: hash, url: f.URL, hops: f.Hops, kind: f.Kind, tries: f.Tries, place: place{depth: f.Depth}}
		m.urls.conclude(h, hj, &p, *f)
		return nil
	}
	n, err := decodeEntry(raw)
	if err != nil {
		return err
	}
	hj.c.shallower(f.Depth)
	m.hosts.changed(h, hj)
	if n.done {
		m.mergeDone(h, hj, hash, &n, f)
	} else {
		m.mergeOutcome(h, hj, n.at, f)
	}
	return nil
}

// mergeOutcome gives a URL that waits here the outcome that it has elsewhere.
func (m *importer) mergeOutcome(h *host, hj *hostJob, at place, f *Final) {
	p, ok := m.urls.pending(h, hj.state, at)
	if !ok {
		return
	}
	if it := h.lease.item(p.hash); it != nil {
		delete(h.lease.out, p.hash)
		hj.c.returned(&it.pending)
	}
	m.urls.settle(h, hj, &p, pageOf(f.Outcome), f.Size)
	m.urls.drop(h, hj, &p)
	smaller := p.depth < f.Depth
	p.hops, p.kind, p.tries = f.Hops, f.Kind, f.Tries
	p.seq, p.depth = 0, min(p.depth, f.Depth)
	m.urls.conclude(h, hj, &p, *f)
	if smaller {
		m.outgoing.shallower(h, hj.state, p.hash, p.depth)
	}
}

// mergeDone merges two outcomes of one URL.
func (m *importer) mergeDone(h *host, hj *hostJob, hash uint64, n *entry, in *Final) {
	had := n.final
	if in.beats(&had) {
		n.final = *in
	}
	n.final.Depth = min(had.Depth, in.Depth)
	m.buf.set(entryKey(h.pos, hj.state.id, hash), n.encode())
	hj.c.corrected(&had, &n.final)
	if in.Depth < had.Depth {
		m.outgoing.shallower(h, hj.state, hash, in.Depth)
	}
}

// beats orders outcomes of one URL, their depths aside: that which knows more, the one with a record, the smaller record, and any order for the rest.
func (f *Final) beats(g *Final) bool {
	if order := cmp.Or(cmp.Compare(knows(f.Outcome), knows(g.Outcome)), cmp.Compare(len(f.RecordID), len(g.RecordID))); order != 0 {
		return order > 0
	}
	if order := bytes.Compare(f.RecordID, g.RecordID); order != 0 {
		return order < 0
	}
	a, b := entry{done: true, final: *f}, entry{done: true, final: *g}
	a.final.Depth, b.final.Depth = 0, 0
	return bytes.Compare(a.encode(), b.encode()) < 0
}

// outlinks merges the links of a page that is done.
func (m *importer) outlinks(h *host, js *jobState, tail []byte, rec kv.Record) error {
	in, err := decodeLinks(rec.Value)
	if err != nil || len(tail) != 8 {
		return errFormat
	}
	union, rest := in.links, in.rest
	if raw, ok := m.buf.get(rec.Key); ok {
		had, err := decodeLinks(raw)
		if err != nil {
			return err
		}
		if union, rest = merge(had.links, in.links), max(had.rest, in.rest); len(union) == len(had.links) && rest == had.rest {
			return nil
		}
	}
	list := linkList{links: sorted(union), rest: rest}
	m.buf.set(rec.Key, list.encode())
	d := dec{b: tail}
	hash := d.hash()
	if raw, ok := m.buf.get(entryKey(h.pos, js.id, hash)); ok {
		if n, err := decodeEntry(raw); err == nil && n.done {
			m.outgoing.putAgain(h, js, hash, n.final.Depth)
		}
	}
	return nil
}

func (m *importer) outbox(h *host, js *jobState, tail, value []byte) error {
	in, err := decodeLinks(value)
	if err != nil || len(tail) != 12 {
		return errFormat
	}
	d := dec{b: tail}
	hash := d.hash()
	depth := uint32(d.b[0])<<24 | uint32(d.b[1])<<16 | uint32(d.b[2])<<8 | uint32(d.b[3])
	in.links = sorted(in.links)
	m.outgoing.put(h, js, hash, depth, in)
	return nil
}

// sorted puts links into an order that does not tell how they came together.
func sorted(links []outlink) []outlink {
	slices.SortFunc(links, func(a, b outlink) int {
		return cmp.Or(cmp.Compare(a.url, b.url), cmp.Compare(a.depth, b.depth), cmp.Compare(a.hops, b.hops), cmp.Compare(a.kind, b.kind))
	})
	links = slices.Compact(links)
	return links[:min(len(links), maxList)]
}
