package owner

import (
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

// outbox is the part of the links for other owners that lies in memory. An entry holds those of one page; after a crash they are all sent again.
//
//	state      next      because
//	on disk    held      hold: there is room; its links are queued, or it has a turn to be emitted anew
//	held       on disk   drop: it is replaced, or its host goes to another owner
//	held       gone      acknowledge: the last of its links has arrived
//
// What there is no room for stays on disk: spilled says so until a search has met all of it.
type outbox struct {
	most    int // links in memory
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

// outEntry is an entry in memory.
type outEntry struct {
	pos  ring.Pos
	job  *jobState
	hash uint64
	at   uint32
	key  string
	n    int
	left int
	sent []uint64 // bits
	// rest are the links that are still to be emitted anew, of an entry of which some were.
	rest []ondisk.Link
}

// linkIDBits is room for the links of an entry, of which there are maxList at most.
const linkIDBits = 16

func newOutbox(most int) outbox {
	return outbox{most: most, entries: make(map[uint64]*outEntry), byKey: make(map[string]uint64)}
}

func (b *outbox) queued() int { return len(b.queue) - b.head }

// room says whether memory has room for the links of an entry; if not, it is to be searched for on disk.
func (b *outbox) room(n int) bool {
	if b.links > 0 && b.links+n > b.most || b.queued()+n > 2*b.most+ondisk.MaxList { // what was dropped lies in the queue until it is skipped
		b.spilled, b.missed = true, true
		return false
	}
	return true
}

// mayRefill says whether entries may lie on disk alone, and memory has room for some.
func (b *outbox) mayRefill() bool { return b.spilled && b.links <= b.most/2 }

// hold takes an entry into memory, and returns its number.
func (b *outbox) hold(e *outEntry) (id uint64) {
	b.lastID++
	e.left, e.sent = e.n, make([]uint64, (e.n+63)/64)
	b.entries[b.lastID], b.byKey[e.key] = e, b.lastID
	b.links += e.n
	return b.lastID
}

// drop takes an entry out of memory. What Outbox handed out of it may be acknowledged later without effect; what it did not is skipped.
func (b *outbox) drop(id uint64) {
	e := b.entries[id]
	b.links -= e.n
	delete(b.entries, id)
	delete(b.byKey, e.key)
}

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

// acknowledge notes that a link has arrived, and returns its entry with the last of them.
func (b *outbox) acknowledge(id uint64) *outEntry {
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

// turn is the entry whose links are to be emitted anew first; nil if that was dropped.
func (b *outbox) turn() *outEntry { return b.entries[b.again[0]] }

// putOff gives the first of them its turn behind the others, and none before a time.
func (b *outbox) putOff(until int64) { b.again, b.againAt = append(b.again[1:], b.again[0]), until }

// pass ends the turn of the first.
func (b *outbox) pass() {
	if b.again = b.again[1:]; len(b.again) == 0 {
		b.again = nil
	}
}

// againNext is when the next of them has its turn; never if there is none.
func (b *outbox) againNext() int64 {
	if len(b.again) == 0 {
		return never
	}
	return b.againAt
}
