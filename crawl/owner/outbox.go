package owner

import (
	"slices"
	"strconv"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dht/ring"
)

// againPerStep bounds how many pages met at a smaller depth have their links emitted anew in one step.
const againPerStep = 64

// OutLink is a link for the owner of another host.
type OutLink struct {
	// ID is given to Sent when the link's owner has acknowledged it.
	ID    uint64
	Job   job.ID
	URL   string
	Host  string
	Key   ring.Key // position of Host
	Depth uint32
	Hops  uint8
	Kind  link.Kind
}

// outbox is the part of the outbox that lies in memory. An entry holds the links of one page and is deleted when all have been acknowledged;
// after a crash they are all sent again.
type outbox struct {
	queue   []OutLink
	head    int
	entries map[uint64]*outEntry
	byKey   map[string]uint64
	again   []uint64 // entries whose links are to be emitted anew
	againAt int64    // not before, as their jobs are not known yet
	links   int      // of the entries in memory
	lastID  uint64
	spilled bool   // entries may lie on disk alone
	cursor  []byte // where the search for those goes on, nil at the beginning
	missed  bool   // the search left some for want of room
}

type outEntry struct {
	pos  Pos
	job  *jobState
	hash uint64
	at   uint32
	key  string
	n    int
	left int
	sent []uint64 // bits
	// rest are the links that are still to be emitted anew, of an entry of which some were.
	rest []outlink
}

func newOutbox() outbox {
	return outbox{entries: make(map[uint64]*outEntry), byKey: make(map[string]uint64)}
}

func (b *outbox) queued() int { return len(b.queue) - b.head }

// linkIDBits is room for the links of an entry.
const linkIDBits = 16

// outgoing keeps the links for other owners: on disk with the pages that they stand on, and in the outbox as far as memory has room.
type outgoing struct {
	*step
	jobs  *jobTable
	hosts *hostTable
	box   outbox
}

// put writes an entry of a host's outbox; one of the same page and depth is replaced, with its links kept.
func (g *outgoing) put(h *host, js *jobState, hash uint64, depth uint32, list linkList) {
	key := outboxKey(h.pos, js.id, hash, depth)
	if raw, ok := g.buf.get(key); ok {
		if had, err := decodeLinks(raw); err == nil {
			links := merge(had.links, list.links)
			if len(links) == len(had.links) && (had.again || !list.again) {
				return // nothing new, and what is under way stays so
			}
			list.again, list.links = list.again || had.again, links
		}
		g.drop(h, js, key, raw)
	}
	g.buf.set(key, list.encode())
	n := int64(max(len(list.links), 1))
	js.c.outbox += n
	js.c.entries++
	h.rec.outbox++
	g.hosts.touched(h)
	g.jobs.changed(js)
	g.hold(h.pos, js, key, hash, depth, &list)
}

// merge adds the links of more that are not in links.
func merge(links, more []outlink) []outlink {
	have := make(map[outlink]struct{}, len(links))
	for _, k := range links {
		have[k] = struct{}{}
	}
	for _, k := range more {
		if _, ok := have[k]; !ok {
			links = append(links, k)
		}
	}
	return links
}

// putAgain notes that a page's recorded links are to be emitted as of a smaller depth: in a later step, so that a long chain of pages
// becomes no endless step; durably, so that no crash forgets it.
func (g *outgoing) putAgain(h *host, js *jobState, hash uint64, depth uint32) {
	g.put(h, js, hash, depth, linkList{again: true})
}

// drop deletes an entry.
func (g *outgoing) drop(h *host, js *jobState, key, raw []byte) {
	n := int64(1)
	if list, err := decodeLinks(raw); err == nil {
		n = int64(max(len(list.links), 1))
	}
	if id, ok := g.box.byKey[string(key)]; ok {
		g.box.drop(id)
	}
	g.buf.delete(key)
	js.c.outbox -= n
	js.c.entries--
	h.rec.outbox--
	g.hosts.touched(h)
	g.jobs.changed(js)
}

// drop takes an entry out of memory. What Outbox handed out of it may be acknowledged later without effect; what it did not is skipped.
func (b *outbox) drop(id uint64) {
	e := b.entries[id]
	b.links -= e.n
	delete(b.entries, id)
	delete(b.byKey, e.key)
}

// hold takes an entry into memory if there is room.
func (g *outgoing) hold(pos Pos, js *jobState, key []byte, hash uint64, depth uint32, list *linkList) bool {
	b := &g.box
	n := max(len(list.links), 1)
	if b.links > 0 && b.links+n > g.cfg.MaxOutbox || b.queued()+n > 2*g.cfg.MaxOutbox+maxList { // what was dropped lies in the queue until it is skipped
		b.spilled, b.missed = true, true
		return false
	}
	b.lastID++
	e := &outEntry{pos: pos, job: js, hash: hash, at: depth, key: string(key), n: n, left: n, sent: make([]uint64, (n+63)/64)}
	b.entries[b.lastID], b.byKey[e.key] = e, b.lastID
	b.links += n
	if list.again {
		b.again = append(b.again, b.lastID)
		return true
	}
	for i, k := range list.links {
		name := link.Host(k.url)
		b.queue = append(b.queue, OutLink{
			ID: b.lastID<<linkIDBits | uint64(i), Job: js.id, URL: k.url, Host: name, Key: g.hosts.keyOf(name), Depth: k.depth, Hops: k.hops, Kind: k.kind,
		})
	}
	return true
}

// Outbox returns up to limit links that were not returned before, oldest first. The caller keeps each until it is acknowledged by its owner and then
// calls Sent; links of a job that was canceled may be dropped the same way. It may be called between steps; links may leave before the step that
// found them is on disk, as a link is never wrong.
func (o *Owner) Outbox(limit int) []OutLink { return o.outgoing.box.next(limit) }

// Sent says that links were acknowledged by the owners of their hosts. Part of a step.
func (o *Owner) Sent(ids []uint64) { o.outgoing.sent(ids) }

// next takes up to limit links off the queue, and skips those of entries that were dropped.
func (b *outbox) next(limit int) []OutLink {
	var out []OutLink
	for len(out) < limit && b.head < len(b.queue) {
		k := b.queue[b.head]
		b.queue[b.head] = OutLink{}
		b.head++
		if b.entries[k.ID>>linkIDBits] != nil {
			out = append(out, k)
		}
	}
	if b.head == len(b.queue) {
		b.queue, b.head = b.queue[:0], 0
	} else if b.head > len(b.queue)/2 && b.head > 1024 {
		b.queue = append([]OutLink(nil), b.queue[b.head:]...)
		b.head = 0
	}
	return out
}

// sent says that links were acknowledged by the owners of their hosts. Part of a step.
func (g *outgoing) sent(ids []uint64) {
	b := &g.box
	for _, id := range ids {
		e := b.entries[id>>linkIDBits]
		i := id & (1<<linkIDBits - 1)
		if e == nil || i >= uint64(e.n) || e.sent[i/64]&(1<<(i%64)) != 0 {
			continue
		}
		e.sent[i/64] |= 1 << (i % 64)
		if e.left--; e.left > 0 {
			continue
		}
		if h := g.hosts.at(e.pos); h != nil {
			if raw, ok := g.buf.get([]byte(e.key)); ok {
				g.drop(h, e.job, []byte(e.key), raw)
			}
		}
	}
}

// at returns the host at a position, nil if there is none (any more).
func (t *hostTable) at(pos Pos) *host {
	if h := t.byPos[pos]; h != nil {
		t.touch(h)
		return h
	}
	return t.load(pos, "", ring.Key{})
}

// again emits the links of some pages that were met at a smaller depth.
func (em *emitter) again() {
	b := &em.outgoing.box
	if em.now < b.againAt {
		return
	}
	for range min(againPerStep, len(b.again)) {
		id := b.again[0]
		if e := b.entries[id]; e != nil && !em.jobs.knows(e.job) {
			b.again, b.againAt = append(b.again[1:], id), em.now+askEvery
			continue
		} else if e != nil && !em.emitAgain(e) {
			return // the rest of them in a later step
		}
		b.again = b.again[1:]
		if !em.HasRoom() {
			break
		}
	}
	if len(b.again) == 0 {
		b.again = nil
	}
}

// emitAgain emits the links that an entry stands for, the entry's end with the last of them; false if there are more than the step has room for.
func (em *emitter) emitAgain(e *outEntry) (through bool) {
	h := em.hosts.at(e.pos)
	raw, ok := em.buf.get([]byte(e.key))
	if h == nil || !ok {
		return true
	}
	if e.job.state == job.StateCanceled {
		em.outgoing.drop(h, e.job, []byte(e.key), raw)
		return true
	}
	em.page = &pageHosts{}
	if e.rest == nil {
		var err error
		if e.rest, err = em.linksAgain(e, raw); err != nil {
			em.buf.fail(err)
			return true
		}
	}
	for len(e.rest) > linksAtOnce {
		em.forwardPiece(h, e.job, strconv.FormatUint(e.hash, 16), e.at, e.rest[:linksAtOnce])
		if e.rest = e.rest[linksAtOnce:]; !em.HasRoom() {
			return false
		}
	}
	em.outgoing.drop(h, e.job, []byte(e.key), raw)
	em.forward(h, e.job, e.hash, e.at, e.rest)
	return true
}

// linksAgain are the links that an entry stands for, with depths relative to the page's: the recorded ones, and those it holds itself.
func (em *emitter) linksAgain(e *outEntry, raw []byte) ([]outlink, error) {
	own, err := decodeLinks(raw)
	if err != nil {
		return nil, err
	}
	for i := range own.links {
		own.links[i].depth -= min(e.at, own.links[i].depth)
	}
	value, ok := em.buf.get(outlinksKey(e.pos, e.job.id, e.hash))
	if !ok {
		return own.links, nil
	}
	list, err := decodeLinks(value)
	return merge(list.links, own.links), err
}

// refill reads entries from the store that were left there for want of room, or by an earlier process.
func (g *outgoing) refill() {
	b := &g.box
	if !b.spilled || b.links > g.cfg.MaxOutbox/2 {
		return
	}
	g.hosts.flush()
	if b.cursor == nil {
		b.missed = false
		b.cursor = []byte{spaceWork}
	}
	var hosts []Pos
	end, passed := true, 0
	g.buf.scan(slices.Clone(b.cursor), []byte{spaceWork + 1}, func(key, value []byte) bool {
		if passed++; len(hosts) == sweepHosts || passed > sweepPasses {
			end = false
			return false
		}
		b.cursor = append(append(b.cursor[:0], key...), 0)
		if len(key) == 1+posSize && len(value) == 2 && value[1]&workOutbox != 0 {
			hosts = append(hosts, Pos(key[1:]))
		}
		return true
	})
	room := refillLinks
	for _, pos := range hosts {
		if !g.refillFrom(pos, &room) {
			b.cursor, end = workKey(pos), false
			break
		}
	}
	if end {
		b.cursor, b.spilled = nil, b.missed
	}
}

// refillLinks bounds the links that one step brings into memory, give or take those of an entry.
const refillLinks = 4096

// refillFrom reads the entries of a host; false if there may be more of them than the step has room for.
func (g *outgoing) refillFrom(pos Pos, room *int) (through bool) {
	through = true
	prefix := hostPrefix(pos, kindOutbox)
	g.buf.scan(prefix, prefixEnd(prefix), func(key, value []byte) bool {
		if _, held := g.box.byKey[string(key)]; held || len(key) != jobPrefixLen+12 {
			return true
		}
		list, err := decodeLinks(value)
		if err != nil {
			g.buf.fail(err)
			return false
		}
		id := job.ID(key[1+posSize+1 : jobPrefixLen])
		d := dec{b: key[jobPrefixLen:]}
		hash := d.hash()
		depth := uint32(d.b[0])<<24 | uint32(d.b[1])<<16 | uint32(d.b[2])<<8 | uint32(d.b[3])
		if !g.hold(pos, g.jobs.of(id), key, hash, depth, &list) {
			return false
		}
		*room -= len(list.links)
		through = *room > 0
		return through
	})
	return through
}
