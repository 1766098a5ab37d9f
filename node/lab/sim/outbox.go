package sim

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
)

// The rules of the node's outbox: a batch leaves when it is full or has lingered, the longer the more peers are written to.
const (
	maxBatch     = 256
	lingerFirst  = 100 * time.Millisecond
	lingerMost   = 30 * time.Second
	lingerPeers  = 32
	outboxTake   = 2048
	outboxHeld   = 16 * 1024
	sendAgain    = 500 * time.Millisecond
	linksTimeout = 10 * time.Second
)

// mailbox gathers the owner's outgoing links by destination and sends them in batches.
type mailbox struct {
	c      *crawlPeer
	queues []*outQueue // in the order in which they were opened
	held   int
}

// outQueue is what waits for one destination; the empty name is that of links whose owner has to be looked up.
type outQueue struct {
	to    peer.ID
	links []owner.OutLink
}

func newMailbox(c *crawlPeer) *mailbox { return &mailbox{c: c} }

// collect takes links out of the owner and sorts them by destination.
func (b *mailbox) collect() {
	for b.held < outboxHeld {
		links := b.c.owner.Outbox(outboxTake)
		b.held += len(links)
		linger := min(lingerFirst*time.Duration(1+len(b.queues)/lingerPeers), lingerMost)
		for _, l := range links {
			b.enqueue(l, linger)
		}
		if len(links) < outboxTake {
			return
		}
	}
}

// enqueue puts a link to those for its believed owner.
func (b *mailbox) enqueue(l owner.OutLink, wait time.Duration) {
	var to peer.ID
	if p, ok := b.c.Guess(l.Key); ok {
		to = p.ID
	}
	i := slices.IndexFunc(b.queues, func(q *outQueue) bool { return q.to == to })
	if i < 0 {
		i = len(b.queues)
		q := &outQueue{to: to}
		b.queues = append(b.queues, q)
		b.c.Host.After(wait, func() { b.flush(q) })
	}
	q := b.queues[i]
	if q.links = append(q.links, l); len(q.links) >= maxBatch {
		b.flush(q)
	}
}

// flush sends what waits for a destination.
func (b *mailbox) flush(q *outQueue) {
	i := slices.Index(b.queues, q)
	if i < 0 {
		return // it was full before it was due
	}
	b.queues = slices.Delete(b.queues, i, i+1)
	if q.to != "" {
		b.send(q.to, q.links)
		return
	}
	// Links of one host have one owner.
	byHost := make(map[string][]owner.OutLink)
	var hosts []string
	for _, l := range q.links {
		if byHost[l.Host] == nil {
			hosts = append(hosts, l.Host)
		}
		byHost[l.Host] = append(byHost[l.Host], l)
	}
	for _, host := range hosts {
		links := byHost[host]
		b.c.Lookup(links[0].Key, func(found dht.Lookup, err error) {
			if err != nil {
				b.park(links)
				return
			}
			b.send(found.Owner.ID, links)
		})
	}
}

// send gives a batch to one peer. What has moved is looked up, so that the next try goes elsewhere.
func (b *mailbox) send(to peer.ID, links []owner.OutLink) {
	m := batchOf(links)
	b.c.deliver(to, m, func(r *wire.LinksReply, err error) {
		if err != nil {
			if key := links[0].Key; to != b.c.Peer.ID {
				b.c.Lookup(key, func(dht.Lookup, error) {})
			}
			b.park(links)
			return
		}
		left := make(map[uint32]bool)
		for n, i := range r.GetMoved() {
			left[i] = true
			if n == 0 {
				b.c.Lookup(links[i].Key, func(dht.Lookup, error) {})
			}
		}
		for _, i := range r.GetBusy() {
			left[i] = true
		}
		var parked []owner.OutLink
		var sent []uint64
		for i, l := range links {
			if left[uint32(i)] { //nolint:gosec // an index of a bounded list
				parked = append(parked, l)
			} else {
				sent = append(sent, l.ID)
			}
		}
		b.held -= len(sent)
		if len(sent) > 0 {
			b.c.do(func(o *owner.Owner) { o.Sent(sent) }, b.collect)
		}
		b.park(parked)
	})
}

// park keeps links that were not taken, and sends them again a little later to whoever is their owner then.
func (b *mailbox) park(links []owner.OutLink) {
	if len(links) == 0 {
		return
	}
	b.c.Host.After(sendAgain, func() {
		for _, l := range links {
			b.enqueue(l, 0)
		}
	})
}

// deliver hands a batch of links to a peer's owner.
func (c *crawlPeer) deliver(to peer.ID, m *wire.Links, done func(*wire.LinksReply, error)) {
	w := c.world
	var reply *wire.LinksReply
	if to == c.Peer.ID {
		c.do(func(o *owner.Owner) { reply = o.Links(m) }, func() { done(reply, nil) })
		return
	}
	w.request(c, to, &request{
		Purpose: Links, Size: 1 + proto.Size(m), Timeout: linksTimeout,
		Handle: func(target *crawlPeer, answer func(int, any)) {
			target.do(func(o *owner.Owner) { reply = o.Links(m) }, func() { answer(proto.Size(reply), reply) })
		},
		Done: func(answer any, err error) {
			r, _ := answer.(*wire.LinksReply)
			done(r, err)
		},
	})
}

// batchOf puts links into columns.
func batchOf(links []owner.OutLink) *wire.Links {
	m := &wire.Links{Rules: link.RulesVersion}
	columns := make(map[job.ID]uint32)
	for i := range links {
		l := &links[i]
		n, ok := columns[l.Job]
		if !ok {
			n = uint32(len(m.GetJobIds())) //nolint:gosec // at most maxBatch
			columns[l.Job] = n
			m.JobIds = append(m.JobIds, l.Job[:])
		}
		m.Url, m.Job, m.Depth = append(m.Url, []byte(l.URL)), append(m.Job, n), append(m.Depth, l.Depth)
		m.Hops, m.Kind = append(m.Hops, l.Hops), append(m.Kind, byte(l.Kind))
	}
	return m
}
