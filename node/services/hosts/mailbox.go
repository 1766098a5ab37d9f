package hosts

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
	// MaxBatchLinks is the maximum of links in one message to a peer.
	MaxBatchLinks = 256
	// TakeLinks is the number of links taken from the owner at a time, and Held the limit of links in
	// the mailbox.
	TakeLinks    = 2048
	MaxHeldLinks = 16 * 1024
	// RetryAfter is the delay before links that were not accepted are sent again.
	RetryAfter = 500 * time.Millisecond

	// lingerFirst is the time for which a batch waits to fill with few destinations; with many it
	// grows in proportion, up to lingerMost, so that small rings are fast and large ones batch.
	lingerFirst = 100 * time.Millisecond
	lingerMost  = 30 * time.Second
	lingerPeers = 32
)

// Mailbox is the send queue of an owner's outgoing links, batched by destination peer: a state
// machine for one goroutine. A batch is sent when it is full or has lingered, the longer the more
// destinations there are. Links that were not accepted are retried after a pause, at the then
// presumed owner.
type Mailbox struct {
	believed func(ring.Key) string
	queues   []*queue // in order of creation, none of them full
	byPeer   map[string]*queue
	full     []Batch
	// parked holds links that were not accepted, oldest first: regardless of their number, none is
	// sent again before Again has passed.
	parked []parked
	held   int // queued, parked and in flight
}

// Batch is a message for one peer.
type Batch struct {
	To    string // peer ID; empty: the owner of the links must be looked up
	Links []owner.OutLink
}

// queue is a batch being filled.
type queue struct {
	Batch
	due time.Time
}

// parked are links that wait until due.
type parked struct {
	links []owner.OutLink
	due   time.Time
}

// NewMailbox returns an empty mailbox. Believed returns the presumed owner of a key, empty if
// unknown.
func NewMailbox(believed func(ring.Key) string) *Mailbox {
	return &Mailbox{believed: believed, byPeer: make(map[string]*queue)}
}

// Room reports whether more links may be taken from the owner.
func (b *Mailbox) Room() bool { return b.held < MaxHeldLinks }

// Put queues links taken from the owner.
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

// gather queues a link for its presumed owner; with hurry the batch is sent when the link is due.
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
	if q.Links = append(q.Links, *l); len(q.Links) == MaxBatchLinks {
		b.full = append(b.full, b.close(q))
	}
}

func (b *Mailbox) close(q *queue) Batch {
	delete(b.byPeer, q.To)
	at := slices.Index(b.queues, q)
	b.queues = slices.Delete(b.queues, at, at+1)
	return q.Batch
}

// Next returns the next batch to send: one that is full, or has lingered.
func (b *Mailbox) Next(now time.Time) (Batch, bool) {
	for len(b.parked) > 0 && !now.Before(b.parked[0].due) {
		links := b.parked[0].links
		b.parked[0], b.parked = parked{}, b.parked[1:]
		for i := range links {
			b.gather(&links[i], now, true)
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

// Wake returns the time of the next batch; the zero time: none until more links are put.
func (b *Mailbox) Wake() (at time.Time) {
	earlier := func(due time.Time) {
		if at.IsZero() || due.Before(at) {
			at = due
		}
	}
	if len(b.full) > 0 {
		return time.Unix(0, 0) // already due
	}
	if len(b.parked) > 0 {
		earlier(b.parked[0].due)
	}
	for _, q := range b.queues {
		earlier(q.due)
	}
	return at
}

// Back reports the result of a batch: the number of accepted links, and those to be sent again
// after a pause.
func (b *Mailbox) Back(now time.Time, taken int, left []owner.OutLink) {
	b.held -= taken
	if len(left) > 0 {
		b.parked = append(b.parked, parked{left, now.Add(RetryAfter)})
	}
}

// Split divides the links of a message by its reply into accepted ones and others, and returns the
// first that has moved, if any.
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

// Message encodes links in columns. Columns of zeros are omitted.
func Message(links []owner.OutLink) *wire.Links {
	m := &wire.Links{Rules: link.RulesVersion}
	jobs := make(map[job.ID]uint32)
	hops, kinds := false, false
	var sources wire.SourceTable
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
		sources.Add(l.Source)
		hops, kinds = hops || l.Hops > 0, kinds || l.Kind != link.KindPage
	}
	if !hops {
		m.Hops = nil
	}
	if !kinds {
		m.Kind = nil
	}
	m.Sources, m.Source = sources.Columns()
	return m
}
