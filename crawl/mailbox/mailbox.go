// Package mailbox gathers the outgoing links of an owner by the peers that they go to, and says
// which batch leaves when: a plain state machine, which peers and simulations drive.
//
// A batch leaves when it is full or has lingered, the longer the more peers are written to. What
// was not taken rests a little, and then goes to whoever is believed to be its owner by then.
package mailbox

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// Most is how many links go to a peer in one message at the most.
	Most = 256
	// Take is how many links are taken out of the owner at a time, and Held how many may be on
	// their way.
	Take = 2048
	Held = 16 * 1024
	// Again is the wait before links that were not taken are sent again.
	Again = 500 * time.Millisecond

	// lingerFirst is how long a batch waits to fill while few peers are written to; with many it
	// grows in proportion, up to lingerMost, so that small rings stay quick and large ones batch.
	lingerFirst = 100 * time.Millisecond
	lingerMost  = 30 * time.Second
	lingerPeers = 32
)

// Mailbox holds links on their way. It is for one goroutine.
type Mailbox struct {
	// Patient has links that are sent again wait with what is gathered for their peer already.
	// Without it all of that leaves at once.
	Patient bool

	believed func(ring.Key) string
	queues   []*queue // in the order in which they were opened, none of them full
	byPeer   map[string]*queue
	full     []Batch
	// parked are links that were not taken, the oldest first: however many there are, none is sent
	// again before Again is over.
	parked []parked
	held   int // gathered, parked and on their way
}

// Batch is what leaves for one peer.
type Batch struct {
	To    string // the peer; empty: whose these links are has to be looked up
	Links []owner.OutLink
}

// queue is a batch that gathers.
type queue struct {
	Batch
	due time.Time
}

// parked are links that rest until due.
type parked struct {
	links []owner.OutLink
	due   time.Time
}

// New returns an empty mailbox. Believed names the peer that is believed to own a key, and is empty
// where nobody is.
func New(believed func(ring.Key) string) *Mailbox {
	return &Mailbox{believed: believed, byPeer: make(map[string]*queue)}
}

// Room says whether there is room to take more links out of the owner.
func (b *Mailbox) Room() bool { return b.held < Held }

// Put gathers links that came out of the owner.
func (b *Mailbox) Put(now time.Time, links []owner.OutLink) {
	b.held += len(links)
	due := now.Add(b.linger())
	for i := range links {
		b.gather(&links[i], due, false)
	}
}

func (b *Mailbox) linger() time.Duration {
	return min(lingerFirst*time.Duration(1+len(b.queues)/lingerPeers), lingerMost)
}

// gather puts a link to those for its believed owner; hurry has them leave when the link is due.
func (b *Mailbox) gather(l *owner.OutLink, due time.Time, hurry bool) {
	to := b.believed(l.Key)
	q := b.byPeer[to]
	if q == nil {
		q = &queue{Batch{To: to}, due}
		b.queues, b.byPeer[to] = append(b.queues, q), q
	}
	if hurry && due.Before(q.due) {
		q.due = due
	}
	if q.Links = append(q.Links, *l); len(q.Links) == Most {
		b.full = append(b.full, b.close(q))
	}
}

func (b *Mailbox) close(q *queue) Batch {
	delete(b.byPeer, q.To)
	at := slices.Index(b.queues, q)
	b.queues = slices.Delete(b.queues, at, at+1)
	return q.Batch
}

// Next is the next batch to leave: one that is full, or has lingered.
func (b *Mailbox) Next(now time.Time) (Batch, bool) {
	for len(b.parked) > 0 && !now.Before(b.parked[0].due) {
		links := b.parked[0].links
		b.parked[0], b.parked = parked{}, b.parked[1:]
		for i := range links {
			b.gather(&links[i], now, !b.Patient)
		}
	}
	if len(b.full) > 0 {
		batch := b.full[0]
		b.full[0], b.full = Batch{}, b.full[1:]
		return batch, true
	}
	for _, q := range b.queues {
		if !now.Before(q.due) {
			return b.close(q), true
		}
	}
	return Batch{}, false
}

// Wake is when Next has a batch; the zero time: not before more links are put.
func (b *Mailbox) Wake() (at time.Time) {
	earlier := func(due time.Time) {
		if at.IsZero() || due.Before(at) {
			at = due
		}
	}
	if len(b.full) > 0 {
		return time.Unix(0, 0) // by now
	}
	if len(b.parked) > 0 {
		earlier(b.parked[0].due)
	}
	for _, q := range b.queues {
		earlier(q.due)
	}
	return at
}

// Back says what became of a batch: how many of its links were taken. What is left is sent again a
// little later.
func (b *Mailbox) Back(now time.Time, taken int, left []owner.OutLink) {
	b.held -= taken
	if len(left) > 0 {
		b.parked = append(b.parked, parked{left, now.Add(Again)})
	}
}

// Split parts the links of a message into those that were taken by its answer and those that were
// not, and returns the first that has moved, if one has.
func Split(links []owner.OutLink, reply *wire.LinksReply) (taken []uint64, left []owner.OutLink, moved *owner.OutLink) {
	not := make(map[uint32]bool)
	for _, i := range reply.GetBusy() {
		not[i] = true
	}
	for n, i := range reply.GetMoved() {
		not[i] = true
		if n == 0 {
			moved = &links[i]
		}
	}
	for i := range links {
		if not[uint32(i)] { // an index of a bounded list
			left = append(left, links[i])
		} else {
			taken = append(taken, links[i].ID)
		}
	}
	return taken, left, moved
}

// Message puts links into columns. Those that are all zero are left out.
func Message(links []owner.OutLink) *wire.Links {
	m := &wire.Links{Rules: link.RulesVersion}
	jobs := make(map[job.ID]uint32)
	hops, kinds := false, false
	for i := range links {
		l := &links[i]
		n, ok := jobs[l.Job]
		if !ok {
			n = uint32(len(m.GetJobIds())) // at most Most
			jobs[l.Job] = n
			m.JobIds = append(m.JobIds, l.Job[:])
		}
		m.Url = append(m.Url, []byte(l.URL))
		m.Job = append(m.Job, n)
		m.Depth = append(m.Depth, l.Depth)
		m.Hops = append(m.Hops, l.Hops)
		m.Kind = append(m.Kind, byte(l.Kind))
		hops, kinds = hops || l.Hops > 0, kinds || l.Kind != link.KindPage
	}
	if !hops {
		m.Hops = nil
	}
	if !kinds {
		m.Kind = nil
	}
	return m
}
