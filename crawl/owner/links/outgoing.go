package links

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// refillLinks bounds the links that one step loads into memory, give or take an entry.
const refillLinks = 4096

// Outgoing stores links for other owners: on disk with their pages, and in the memory outbox within
// its limit.
type Outgoing struct {
	*hosts.Step
	jobs  *hosts.JobTable
	hosts *hosts.Table
	Box   Outbox
}

// Remove removes the entries of a host that is handed off.
func (g *Outgoing) Remove(h *hosts.Host) {
	if h.Rec.Outbox == 0 {
		return
	}
	g.Box.Leave(h.Pos)
	prefix := ondisk.HostPrefix(h.Pos, ondisk.KindOutbox)
	g.Buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		if list, err := ondisk.DecodeLinks(value); err == nil && len(key) >= ondisk.JobPrefixLen {
			js := g.jobs.Of(ondisk.JobIn(key))
			js.Queued(-1, -int64(len(list.Links)))
			g.jobs.Changed(js)
		}
		return true
	})
}

// Put writes an entry of a host's outbox; it replaces one of the same page, and keeps its links.
func (g *Outgoing) Put(h *hosts.Host, js *hosts.JobState, hash uint64, list ondisk.Links) {
	key := ondisk.OutboxKey(h.Pos, js.ID, hash)
	if raw, ok := g.Buf.Get(key); ok {
		if had, err := ondisk.DecodeLinks(raw); err == nil {
			links := ondisk.Union(had.Links, list.Links)
			from := ondisk.Earlier(had.Source, list.Source)
			if len(links) == len(had.Links) && (from == had.Source || *from == *had.Source) {
				return // nothing new, and the entry in flight stays
			}
			list.Links, list.Source, list.Rest = links, from, max(list.Rest, had.Rest)
		}
		g.drop(h, js, key, raw)
	}
	g.Buf.Set(key, list.Encode())
	js.Queued(1, int64(len(list.Links)))
	h.Rec.Queued(1)
	g.hosts.Touched(h)
	g.jobs.Changed(js)
	g.hold(h.Pos, js.ID, key, &list)
}

// drop deletes an entry.
func (g *Outgoing) drop(h *hosts.Host, js *hosts.JobState, key, raw []byte) {
	list, err := ondisk.DecodeLinks(raw)
	if err != nil {
		g.Buf.Fail(err)
		return
	}
	g.Box.Remove(key)
	g.Buf.Delete(key)
	js.Queued(-1, -int64(len(list.Links)))
	h.Rec.Queued(-1)
	g.hosts.Touched(h)
	g.jobs.Changed(js)
}

// hold loads an entry into memory if there is space.
func (g *Outgoing) hold(pos ring.Pos, id job.ID, key []byte, list *ondisk.Links) bool {
	return g.Box.Hold(&Entry{Pos: pos, Job: id, Key: string(key)}, list, g.hosts.KeyOf)
}

// Sent removes links that were acknowledged by the owners of their hosts. Part of a step.
func (g *Outgoing) Sent(ids []uint64) {
	for _, id := range ids {
		e := g.Box.Acknowledge(id)
		if e == nil {
			continue
		}
		if h := g.hosts.At(e.Pos); h != nil {
			if raw, ok := g.Buf.Get([]byte(e.Key)); ok {
				g.drop(h, g.jobs.Of(e.Job), []byte(e.Key), raw)
			}
		}
	}
}

// Refill loads entries from the store that did not fit into memory, or are of an earlier process.
func (g *Outgoing) Refill() {
	b := &g.Box
	if !b.MayRefill() {
		return
	}
	g.hosts.Flush()
	var found []ring.Pos
	end, passed := true, 0
	g.Buf.Scan(b.Resume([]byte{ondisk.SpaceWork}), []byte{ondisk.SpaceWork + 1}, func(key, value []byte) bool {
		if passed++; len(found) == hosts.SweepHosts || passed > hosts.SweepPasses {
			end = false
			return false
		}
		b.Passed(key)
		if len(key) == 1+ring.PosSize && len(value) == 2 && value[1]&hosts.WorkOutbox != 0 {
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

// refillFrom loads the entries of a host; false if there may be more than the step has capacity
// for.
func (g *Outgoing) refillFrom(pos ring.Pos, room *int) (through bool) {
	through = true
	prefix := ondisk.HostPrefix(pos, ondisk.KindOutbox)
	g.Buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		if g.Box.Holds(key) || len(key) < ondisk.JobPrefixLen {
			return true
		}
		list, err := ondisk.DecodeLinks(value)
		if err != nil {
			g.Buf.Fail(err)
			return false
		}
		if !g.hold(pos, ondisk.JobIn(key), key, &list) {
			return false
		}
		*room -= len(list.Links)
		through = *room > 0
		return through
	})
	return through
}
