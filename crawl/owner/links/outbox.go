package links

import (
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
)

// OutLink is a link for the owner of another host.
type OutLink struct {
	// ID is passed to Sent when the link's owner has acknowledged it.
	ID    uint64
	Job   job.ID    // job of the link
	URL   string    // canonical
	Host  string    // host of the URL
	Key   ring.Key  // position of Host
	Depth uint32    // links from a seed
	Hops  uint8     // redirects followed to it
	Kind  link.Kind // how it was found
	// Source is the page with the link, shared by its links; nil: none, as of a seed.
	Source *link.Source
}

// Outbox is the memory queue of links for the owners of other hosts. An entry holds the links of
// one page; it stays on disk until the last of them is acknowledged, so all are sent again after a
// crash. The outbox reads no disk: it tracks where the scan for further entries continues. Memory
// is bounded; no link is returned twice while its entry is in memory; every entry is found, since a
// scan is repeated until it has loaded all of them.
//
//	state      next      because
//	on disk    held      Hold: there is space; its links are queued
//	held       on disk   Remove: it is replaced, or its host is handed off
//	held       gone      Acknowledge: the last of its links was acknowledged
//
// Entries without space stay on disk: spilled is set until a scan has loaded all of them.
type Outbox struct {
	most    int // limit of links in memory
	queue   []OutLink
	head    int
	entries map[uint64]*Entry
	byKey   map[string]uint64
	links   int // of the entries in memory
	lastID  uint64
	spilled bool   // entries may be on disk alone
	cursor  []byte // position of the scan for those, nil at the beginning
	missed  bool   // the scan skipped some for lack of space
}

// Entry is an entry in memory.
type Entry struct {
	Pos  ring.Pos // of the page's host
	Job  job.ID   // job of the links
	Key  string   // key of the entry on disk
	n    int
	left int
	sent []uint64 // bits
}

// linkIDBits is the ID space of an entry's links, at most ondisk.MaxList.
const linkIDBits = 16

// NewOutbox returns an outbox for up to most links.
func NewOutbox(most int) Outbox {
	return Outbox{most: most, entries: make(map[uint64]*Entry), byKey: make(map[string]uint64)}
}

// Queued returns the number of links that Next has yet to return or skip.
func (b *Outbox) Queued() int { return len(b.queue) - b.head }

// room reports whether memory has space for the links of an entry; if not, a scan must load it
// later.
func (b *Outbox) room(n int) bool {
	if b.links > 0 && b.links+n > b.most || b.Queued()+n > 2*b.most+ondisk.MaxList { // the queue includes dropped links
		b.spilled, b.missed = true, true
		return false
	}
	return true
}

// Spill records that entries may be on disk alone.
func (b *Outbox) Spill() { b.spilled = true }

// Resume begins or continues the scan, and returns its first key.
func (b *Outbox) Resume(first []byte) []byte {
	if b.cursor == nil {
		b.missed, b.cursor = false, first
	}
	return slices.Clone(b.cursor)
}

// Passed continues the scan behind a key.
func (b *Outbox) Passed(key []byte) { b.cursor = append(append(b.cursor[:0], key...), 0) }

// BackTo continues the scan at a key.
func (b *Outbox) BackTo(key []byte) { b.cursor = key }

// Searched ends the scan.
func (b *Outbox) Searched() { b.cursor, b.spilled = nil, b.missed }

// MayRefill reports whether entries may be on disk alone, and memory has space for some.
func (b *Outbox) MayRefill() bool { return b.spilled && b.links <= b.most/2 }

// Hold loads an entry and queues its links if there is space.
func (b *Outbox) Hold(e *Entry, list *ondisk.Links, keyOf func(host string) ring.Key) bool {
	e.n = len(list.Links)
	if !b.room(e.n) {
		return false
	}
	b.lastID++
	id := b.lastID
	e.left, e.sent = e.n, make([]uint64, (e.n+63)/64)
	b.entries[id], b.byKey[e.Key] = e, id
	b.links += e.n
	for i, k := range list.Links {
		name := link.Host(k.URL)
		b.queue = append(b.queue, OutLink{
			ID: id<<linkIDBits | uint64(i), Job: e.Job, URL: k.URL, Host: name, Key: keyOf(name), Depth: k.Depth, Hops: k.Hops, Kind: k.Kind, Source: list.Source,
		})
	}
	return true
}

// Holds reports whether the entry of a key is in memory.
func (b *Outbox) Holds(key []byte) bool {
	_, held := b.byKey[string(key)]
	return held
}

// Remove drops the entry of a key, if it is in memory.
func (b *Outbox) Remove(key []byte) {
	if id, held := b.byKey[string(key)]; held {
		b.drop(id)
	}
}

// Leave drops the entries of a host.
func (b *Outbox) Leave(pos ring.Pos) {
	for id, e := range b.entries {
		if e.Pos == pos {
			b.drop(id)
		}
	}
}

// drop removes an entry from memory. Late acknowledgments of its links have no effect, and its
// queued links are skipped.
func (b *Outbox) drop(id uint64) {
	e := b.entries[id]
	b.links -= e.n
	delete(b.entries, id)
	delete(b.byKey, e.Key)
}

// Next removes up to limit links from the queue, and skips those of dropped entries.
func (b *Outbox) Next(limit int) []OutLink {
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

// Acknowledge marks a link as acknowledged, and returns its entry with the last of them.
func (b *Outbox) Acknowledge(id uint64) *Entry {
	e := b.entries[id>>linkIDBits]
	i := id & (1<<linkIDBits - 1)
	if e == nil || i >= uint64(e.n) || e.sent[i/64]&(1<<(i%64)) != 0 {
		return nil
	}
	e.sent[i/64] |= 1 << (i % 64)
	if e.left--; e.left > 0 {
		return nil
	}
	return e
}
