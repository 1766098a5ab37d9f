package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/owner/outbox"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// againPerStep bounds how many pages met at a smaller depth have their links emitted anew in one
// step.
const againPerStep = 64

// outgoing keeps the links for other owners: on disk with the pages that they stand on, and in the
// outbox as far as memory has room.
type outgoing struct {
	*step
	jobs  *jobTable
	hosts *hostTable
	box   outbox.Outbox
}

// put writes an entry of a host's outbox; one of the same page and depth is replaced, with its
// links kept.
func (g *outgoing) put(h *host, js *jobState, hash uint64, depth uint32, list ondisk.Links) {
	key := ondisk.OutboxKey(h.pos, js.ID, hash, depth)
	if raw, ok := g.buf.Get(key); ok {
		if had, err := ondisk.DecodeLinks(raw); err == nil {
			links := ondisk.Union(had.Links, list.Links)
			if len(links) == len(had.Links) && (had.Again || !list.Again) {
				return // nothing new, and what is under way stays so
			}
			list.Again, list.Links, list.Rest = list.Again || had.Again, links, max(list.Rest, had.Rest)
		}
		g.drop(h, js, key, raw)
	}
	g.buf.Set(key, list.Encode())
	n := int64(max(len(list.Links), 1))
	js.Queued(1, n)
	h.rec.Queued(1)
	g.hosts.touched(h)
	g.jobs.changed(js)
	g.hold(h.pos, js.ID, key, hash, depth, &list)
}

// putAgain notes that a page's recorded links are to be emitted as of a smaller depth: in a later
// step, so that a long chain of pages becomes no endless step; durably, so that no crash forgets
// it.
func (g *outgoing) putAgain(h *host, js *jobState, hash uint64, depth uint32) {
	g.put(h, js, hash, depth, ondisk.Links{Again: true})
}

// drop deletes an entry.
func (g *outgoing) drop(h *host, js *jobState, key, raw []byte) {
	n := int64(1)
	if list, err := ondisk.DecodeLinks(raw); err == nil {
		n = int64(max(len(list.Links), 1))
	}
	g.box.Remove(key)
	g.buf.Delete(key)
	js.Queued(-1, -n)
	h.rec.Queued(-1)
	g.hosts.touched(h)
	g.jobs.changed(js)
}

// hold takes an entry into memory if there is room.
func (g *outgoing) hold(pos ring.Pos, id job.ID, key []byte, hash uint64, depth uint32, list *ondisk.Links) bool {
	return g.box.Hold(&outbox.Entry{Pos: pos, Job: id, Hash: hash, At: depth, Key: string(key)}, list, g.hosts.keyOf)
}

// Outbox returns up to limit links that were not returned before, oldest first. The caller keeps
// each until it is acknowledged by its owner and then calls Sent; links of a job that was canceled
// may be dropped the same way. It may be called between steps; links may leave before the step that
// found them is on disk, as a link is never wrong.
func (o *Owner) Outbox(limit int) []outbox.OutLink { return o.outgoing.box.Next(limit) }

// Sent says that links were acknowledged by the owners of their hosts. Part of a step.
func (o *Owner) Sent(ids []uint64) { o.outgoing.sent(ids) }

// sent says that links were acknowledged by the owners of their hosts. Part of a step.
func (g *outgoing) sent(ids []uint64) {
	for _, id := range ids {
		e := g.box.Acknowledge(id)
		if e == nil {
			continue
		}
		if h := g.hosts.at(e.Pos); h != nil {
			if raw, ok := g.buf.Get([]byte(e.Key)); ok {
				g.drop(h, g.jobs.of(e.Job), []byte(e.Key), raw)
			}
		}
	}
}

// refill reads entries from the store that were left there for want of room, or by an earlier
// process.
func (g *outgoing) refill() {
	b := &g.box
	if !b.MayRefill() {
		return
	}
	g.hosts.flush()
	var found []ring.Pos
	end, passed := true, 0
	g.buf.Scan(b.Resume([]byte{ondisk.SpaceWork}), []byte{ondisk.SpaceWork + 1}, func(key, value []byte) bool {
		if passed++; len(found) == sweepHosts || passed > sweepPasses {
			end = false
			return false
		}
		b.Passed(key)
		if len(key) == 1+ring.PosSize && len(value) == 2 && value[1]&workOutbox != 0 {
			found = append(found, ring.Pos(key[1:]))
		}
		return true
	})
	room := refillLinks
	for _, pos := range found {
		if !g.refillFrom(pos, &room) {
			b.BackTo(ondisk.WorkKey(pos))
			end = false
			break
		}
	}
	if end {
		b.Searched()
	}
}

// refillLinks bounds the links that one step brings into memory, give or take those of an entry.
const refillLinks = 4096

// refillFrom reads the entries of a host; false if there may be more of them than the step has room
// for.
func (g *outgoing) refillFrom(pos ring.Pos, room *int) (through bool) {
	through = true
	prefix := ondisk.HostPrefix(pos, ondisk.KindOutbox)
	g.buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		if g.box.Holds(key) || len(key) < ondisk.JobPrefixLen {
			return true
		}
		hash, depth, ok := ondisk.PageIn(key[ondisk.JobPrefixLen:])
		if !ok {
			return true
		}
		list, err := ondisk.DecodeLinks(value)
		if err != nil {
			g.buf.Fail(err)
			return false
		}
		if !g.hold(pos, ondisk.JobIn(key), key, hash, depth, &list) {
			return false
		}
		*room -= len(list.Links)
		through = *room > 0
		return through
	})
	return through
}
