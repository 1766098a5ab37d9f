package outbox

import (
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
)

// OutLink is a link for the owner of another host.
type OutLink struct {
	// ID is given to Sent when the link's owner has acknowledged it.
	ID    uint64
	Job   job.ID    // that follows it
	URL   string    // canonical
	Host  string    // of the URL
	Key   ring.Key  // position of Host
	Depth uint32    // links from a seed
	Hops  uint8     // redirects followed to come here
	Kind  link.Kind // what it was found as
}

// Outbox is the part of the links for other owners that lies in memory.
//
//	state      next      because
//	on disk    held      Hold: there is room; its links are queued, or it has a turn to be emitted anew
//	held       on disk   Remove: it is replaced, or its host goes to another owner
//	held       gone      Acknowledge: the last of its links has arrived
//
// What there is no room for stays on disk: spilled says so until a search has met all of it.
type Outbox struct {
	most    int // links in memory
	queue   []OutLink
	head    int
	entries map[uint64]*Entry
	byKey   map[string]uint64
	again   []uint64 // entries whose links are to be emitted anew
	againAt int64    // not before, as their jobs are not known yet
	links   int      // of the entries in memory
	lastID  uint64
	spilled bool   // entries may lie on disk alone
	cursor  []byte // where the search for those goes on, nil at the beginning
	missed  bool   // the search left some for want of room
}

// Entry is an entry in memory.
type Entry struct {
	Pos  ring.Pos // of the page's host
	Job  job.ID   // that follows the links
	Hash uint64   // of the page
	At   uint32   // depth at which it was met
	Key  string   // under which the entry lies on disk
	n    int
	left int
	sent []uint64 // bits
	// Rest are the links that are still to be emitted anew, of an entry of which some were.
	Rest []ondisk.Link
}

// never is the time of what does not come by itself.
const never = int64(1<<63 - 1)

// linkIDBits is room for the links of an entry, of which there are ondisk.MaxList at most.
const linkIDBits = 16

// New returns an outbox with room for so many links.
func New(most int) Outbox {
	return Outbox{most: most, entries: make(map[uint64]*Entry), byKey: make(map[string]uint64)}
}

// Queued is how many links Next has yet to return, those of dropped entries among them.
func (b *Outbox) Queued() int { return len(b.queue) - b.head }

// room says whether memory has room for the links of an entry; if not, it is to be searched for on
// disk.
func (b *Outbox) room(n int) bool {
	if b.links > 0 && b.links+n > b.most || b.Queued()+n > 2*b.most+ondisk.MaxList { // what was dropped lies in the queue until it is skipped
		b.spilled, b.missed = true, true
		return false
	}
	return true
}

// Spill says that entries may lie on disk alone.
func (b *Outbox) Spill() { b.spilled = true }

// Resume begins the search for those, or goes on with it, and returns the key from which.
func (b *Outbox) Resume(first []byte) []byte {
	if b.cursor == nil {
		b.missed, b.cursor = false, first
	}
	return slices.Clone(b.cursor)
}

// Passed has the search go on behind a key.
func (b *Outbox) Passed(key []byte) { b.cursor = append(append(b.cursor[:0], key...), 0) }

// BackTo has the search go on from a key.
func (b *Outbox) BackTo(key []byte) { b.cursor = key }

// Searched ends the search.
func (b *Outbox) Searched() { b.cursor, b.spilled = nil, b.missed }

// MayRefill says whether entries may lie on disk alone, and memory has room for some.
func (b *Outbox) MayRefill() bool { return b.spilled && b.links <= b.most/2 }

// Hold takes an entry into memory if there is room: its links are queued, or it has a turn.
func (b *Outbox) Hold(e *Entry, list *ondisk.Links, keyOf func(host string) ring.Key) bool {
	e.n = max(len(list.Links), 1)
	if !b.room(e.n) {
		return false
	}
	b.lastID++
	id := b.lastID
	e.left, e.sent = e.n, make([]uint64, (e.n+63)/64)
	b.entries[id], b.byKey[e.Key] = e, id
	b.links += e.n
	if list.Again {
		b.again = append(b.again, id)
		return true
	}
	for i, k := range list.Links {
		name := link.Host(k.URL)
		b.queue = append(b.queue, OutLink{
			ID: id<<linkIDBits | uint64(i), Job: e.Job, URL: k.URL, Host: name, Key: keyOf(name), Depth: k.Depth, Hops: k.Hops, Kind: k.Kind,
		})
	}
	return true
}

// Holds says whether the entry of a key is in memory.
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

// drop takes an entry out of memory. What Outbox handed out of it may be acknowledged later without
// effect; what it did not is skipped.
func (b *Outbox) drop(id uint64) {
	e := b.entries[id]
	b.links -= e.n
	delete(b.entries, id)
	delete(b.byKey, e.Key)
}

// Next takes up to limit links off the queue, and skips those of entries that were dropped.
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

// Acknowledge notes that a link has arrived, and returns its entry with the last of them.
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

// Turns is how many entries may have their links emitted anew at present.
func (b *Outbox) Turns(now int64) int {
	if now < b.againAt {
		return 0
	}
	return len(b.again)
}

// Turn is the entry whose links are to be emitted anew first; nil if that was dropped.
func (b *Outbox) Turn() *Entry { return b.entries[b.again[0]] }

// PutOff gives the first of them its turn behind the others, and none before a time.
func (b *Outbox) PutOff(until int64) { b.again, b.againAt = append(b.again[1:], b.again[0]), until }

// Pass ends the turn of the first.
func (b *Outbox) Pass() {
	if b.again = b.again[1:]; len(b.again) == 0 {
		b.again = nil
	}
}

// AgainNext is when the next of them has its turn; never if there is none.
func (b *Outbox) AgainNext() int64 {
	if len(b.again) == 0 {
		return never
	}
	return b.againAt
}
