package hosts

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
)

const (
	// maxBatch is how many links go to a peer in one message at the most.
	maxBatch = 256
	// lingerFirst is how long a batch waits to fill while few peers are written to; with many it grows in proportion, up to lingerMost, so
	// that small rings stay quick and large ones batch.
	lingerFirst = 100 * time.Millisecond
	lingerMost  = 30 * time.Second
	lingerPeers = 32
	// outboxTake is how many links are taken out of the owner at a time, and outboxHeld how many may be on their way.
	outboxTake = 2048
	outboxHeld = 16 * 1024
	// sendersMost bounds the batches under way at once.
	sendersMost = 16
	// sendAgain is the wait before links that were not taken are sent again.
	sendAgain = 500 * time.Millisecond
	// linksTimeout bounds one batch: the receiver answers when its disk has it. It also bounds the search for the owners of a batch.
	linksTimeout = 10 * time.Second
)

// outLink is a link on its way to the owner of its host.
type outLink struct {
	id    uint64 // in the owner's outbox
	job   job.ID
	url   string
	host  string
	depth uint32
	hops  uint8
	kind  link.Kind
}

func (l *outLink) key() ring.Key {
	if l.host == "" {
		l.host = link.Host(l.url)
	}
	return ring.HostKey(l.host)
}

// courier takes links to the owners of their hosts.
type courier struct {
	router *rpc.Router
	self   peer.ID
	// local takes a batch into this peer's own owner.
	local func(ctx context.Context, m *wire.Links) (*wire.LinksReply, error)
	log   *slog.Logger
}

// deliver sends links to the believed owners of their hosts and returns those that were not taken: keep them and try again.
func (c *courier) deliver(ctx context.Context, links []outLink) (left []outLink) {
	groups := make(map[peer.ID][]outLink)
	var order []peer.ID
	search, cancel := context.WithTimeout(ctx, linksTimeout)
	defer cancel()
	for _, l := range links {
		to, err := c.router.Owner(search, l.key(), false)
		if err != nil {
			left = append(left, l)
			continue
		}
		if groups[to.ID] == nil {
			order = append(order, to.ID)
		}
		groups[to.ID] = append(groups[to.ID], l)
	}
	for _, to := range order {
		left = append(left, c.send(ctx, to, groups[to])...)
	}
	return left
}

// send gives a batch to one peer and returns what it did not take. What has moved is looked up, so that the next try goes elsewhere.
func (c *courier) send(ctx context.Context, to peer.ID, links []outLink) (left []outLink) {
	for len(links) > maxBatch {
		left = append(left, c.send(ctx, to, links[:maxBatch])...)
		links = links[maxBatch:]
	}
	reply, err := c.put(ctx, to, batchOf(links))
	if err != nil {
		c.log.Debug("links not taken", "peer", to, "links", len(links), "err", err)
		return append(left, links...)
	}
	for _, i := range reply.GetBusy() {
		left = append(left, links[i])
	}
	for n, i := range reply.GetMoved() {
		left = append(left, links[i])
		if n == 0 {
			c.learn(ctx, links[i].key())
		}
	}
	return left
}

// learn asks around for the owner of a key that somebody turned out not to serve, so that the next try goes elsewhere; if nobody knows, that
// one will tell.
func (c *courier) learn(ctx context.Context, key ring.Key) {
	ctx, cancel := context.WithTimeout(ctx, linksTimeout)
	defer cancel()
	_, _ = c.router.Owner(ctx, key, true)
}

func (c *courier) put(ctx context.Context, to peer.ID, m *wire.Links) (*wire.LinksReply, error) {
	ctx, cancel := context.WithTimeout(ctx, linksTimeout)
	defer cancel()
	if to == c.self {
		return c.local(ctx, m)
	}
	return sendLinks.Call(ctx, c.router, to, m)
}

// takeOutbox takes links out of the owner, which keeps them until they are sent.
func (w *Owners) takeOutbox(ctx context.Context, n int) ([]owner.OutLink, error) {
	var out []owner.OutLink
	if err := w.Look(ctx, func(o *owner.Owner) { out = o.Outbox(n) }); err != nil {
		return nil, err // and out may still be written
	}
	return out, nil
}

// SendSeeds hands a job's seeds, from one on, to the owners of their hosts, and returns how many of them are on disk there.
func (w *Owners) SendSeeds(ctx context.Context, spec *job.Spec, from int) (sent int, err error) {
	left := 0
	for seeds := range slices.Chunk(spec.Seeds[from:], maxBatch) {
		batch := make([]outLink, len(seeds))
		for i, u := range seeds {
			batch[i] = outLink{job: spec.ID, url: u, kind: link.KindPage}
		}
		left += len(w.courier.deliver(ctx, batch))
		if left == 0 {
			sent += len(batch) // seeds are counted in their order: what comes behind one that is stuck is sent again, which does no harm
		}
	}
	if left > 0 {
		return sent, fmt.Errorf("%d seeds are not taken yet", left)
	}
	return sent, nil
}

// batchOf puts links into columns.
func batchOf(links []outLink) *wire.Links {
	m := &wire.Links{Rules: link.RulesVersion}
	jobs := make(map[job.ID]uint32)
	hops, kinds := false, false
	for i := range links {
		l := &links[i]
		n, ok := jobs[l.job]
		if !ok {
			n = uint32(len(m.GetJobIds())) //nolint:gosec // at most maxBatch
			jobs[l.job] = n
			m.JobIds = append(m.JobIds, l.job[:])
		}
		m.Url = append(m.Url, []byte(l.url))
		m.Job = append(m.Job, n)
		m.Depth = append(m.Depth, l.depth)
		m.Hops = append(m.Hops, l.hops)
		m.Kind = append(m.Kind, byte(l.kind))
		hops, kinds = hops || l.hops > 0, kinds || l.kind != link.KindPage
	}
	if !hops {
		m.Hops = nil
	}
	if !kinds {
		m.Kind = nil
	}
	return m
}

// mailbox gathers the owner's outgoing links by destination and sends them in batches.
type mailbox struct {
	courier *courier
	take    func(ctx context.Context, n int) ([]owner.OutLink, error)
	sent    func(ids []uint64)
	wake    chan struct{}

	queues map[peer.ID]*outQueue
	// parked are links that were not taken, the oldest first: however many there are, none is sent again before sendAgain is over.
	parked []parkedLinks
	held   int // in queues, parked and on their way
	now    func() time.Time
}

// parkedLinks rest until due.
type parkedLinks struct {
	links []outLink
	due   time.Time
}

// outQueue is what waits for one destination.
type outQueue struct {
	links []outLink
	due   time.Time
}

// batchDone is what a sender brings back.
type batchDone struct {
	taken []uint64
	left  []outLink
}

func newMailbox(c *courier, take func(ctx context.Context, n int) ([]owner.OutLink, error), sent func(ids []uint64)) *mailbox {
	return &mailbox{courier: c, take: take, sent: sent, wake: make(chan struct{}, 1), queues: make(map[peer.ID]*outQueue), now: time.Now}
}

// run moves links until ctx ends. What is on its way then stays in the owner's outbox and is sent again by the next run.
func (b *mailbox) run(ctx context.Context) error {
	done := make(chan batchDone, sendersMost)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	senders := 0
	defer func() {
		for ; senders > 0; senders-- {
			<-done
		}
	}()
	for {
		if b.held < outboxHeld {
			more, err := b.collect(ctx)
			if err != nil {
				return loop.UnlessStopping(err)
			}
			if more {
				b.nudge()
			}
		}
		b.unpark()
		senders += b.flush(ctx, done, sendersMost-senders)
		timer.Reset(b.next(senders))
		select {
		case <-b.wake:
		case <-timer.C:
		case d := <-done:
			senders--
			b.back(d)
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *mailbox) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// collect takes links out of the owner and sorts them by destination; more says that there may be further ones.
func (b *mailbox) collect(ctx context.Context) (more bool, err error) {
	links, err := b.take(ctx, outboxTake)
	if err != nil {
		return false, err
	}
	for _, k := range links {
		b.enqueue(outLink{id: k.ID, job: k.Job, url: k.URL, host: k.Host, depth: k.Depth, hops: k.Hops, kind: k.Kind}, b.linger())
	}
	b.held += len(links)
	return len(links) == outboxTake, nil
}

// enqueue puts a link to those for its believed owner; the empty name gathers those whose owner has to be looked up.
func (b *mailbox) enqueue(l outLink, wait time.Duration) {
	var to peer.ID
	if p, ok := b.courier.router.Ring.Guess(l.key()); ok {
		to = p.ID
	}
	q := b.queues[to]
	if q == nil {
		q = &outQueue{}
		b.queues[to] = q
	}
	if due := b.now().Add(wait); len(q.links) == 0 || due.Before(q.due) {
		q.due = due
	}
	q.links = append(q.links, l)
}

func (b *mailbox) linger() time.Duration {
	return min(lingerFirst*time.Duration(1+len(b.queues)/lingerPeers), lingerMost)
}

// flush starts senders for the batches that are full or due.
func (b *mailbox) flush(ctx context.Context, done chan<- batchDone, room int) (started int) {
	now := b.now()
	for to, q := range b.queues {
		if len(q.links) == 0 {
			delete(b.queues, to)
			continue
		}
		for len(q.links) > 0 && started < room && (len(q.links) >= maxBatch || !now.Before(q.due)) {
			n := min(len(q.links), maxBatch)
			batch := q.links[:n:n]
			q.links = q.links[n:]
			started++
			go func() { // run waits for it
				left := b.courier.deliver(ctx, batch)
				done <- batchDone{taken: takenOf(batch, left), left: left}
			}()
		}
	}
	return started
}

func takenOf(batch, left []outLink) []uint64 {
	missing := make(map[uint64]struct{}, len(left))
	for _, l := range left {
		missing[l.id] = struct{}{}
	}
	ids := make([]uint64, 0, len(batch)-len(left))
	for _, l := range batch {
		if _, ok := missing[l.id]; !ok {
			ids = append(ids, l.id)
		}
	}
	return ids
}

// back takes a sender's result: what was taken leaves the outbox, the rest is sent again a little later.
func (b *mailbox) back(d batchDone) {
	b.held -= len(d.taken)
	if len(d.taken) > 0 {
		b.sent(d.taken)
	}
	if len(d.left) > 0 {
		b.parked = append(b.parked, parkedLinks{d.left, b.now().Add(sendAgain)})
	}
}

// unpark puts links that have rested enough to those of their owner, who may be another by now. They leave at once.
func (b *mailbox) unpark() {
	now := b.now()
	for len(b.parked) > 0 && !now.Before(b.parked[0].due) {
		for _, l := range b.parked[0].links {
			b.enqueue(l, 0)
		}
		b.parked = b.parked[1:]
	}
	if len(b.parked) == 0 {
		b.parked = nil
	}
}

// next is how long until a batch is due.
func (b *mailbox) next(senders int) time.Duration {
	wait := time.Hour
	if senders == sendersMost {
		return wait // one of them will come back
	}
	now := b.now()
	if len(b.parked) > 0 {
		wait = b.parked[0].due.Sub(now)
	}
	for _, q := range b.queues {
		if len(q.links) > 0 {
			wait = min(wait, q.due.Sub(now))
		}
	}
	return max(wait, time.Millisecond)
}
