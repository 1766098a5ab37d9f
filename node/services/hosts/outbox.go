package hosts

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
)

const (
	// sendersMost bounds the batches in flight.
	sendersMost = 16
	// linksTimeout bounds one batch: the receiver replies when it is on its disk. It also bounds the
	// lookup of the owners of a batch.
	linksTimeout = 10 * time.Second
	// seedsAtOnce is the number of a job's seeds in flight: one batch for each owner in a small ring.
	seedsAtOnce = 16 * MaxBatchLinks
)

// sender sends links to the owners of their hosts.
type sender struct {
	router *rpc.Router
	self   peer.ID
	// local passes a batch to this peer's own owner.
	local func(ctx context.Context, m *wire.Links) (*wire.LinksReply, error)
	log   *slog.Logger
}

// deliver sends links to the presumed owners of their hosts, concurrently, and returns those that
// were not accepted, which must be retried.
func (c *sender) deliver(ctx context.Context, links []owner.OutLink) (left []owner.OutLink) {
	groups := make(map[peer.ID][]owner.OutLink)
	var order []peer.ID
	search, cancel := context.WithTimeout(ctx, linksTimeout)
	defer cancel()
	for _, l := range links {
		to, err := c.router.Owner(search, l.Key, false)
		if err != nil {
			left = append(left, l)
			continue
		}
		if groups[to.ID] == nil {
			order = append(order, to.ID)
		}
		groups[to.ID] = append(groups[to.ID], l)
	}
	var mu sync.Mutex // guards left
	var calls errgroup.Group
	calls.SetLimit(sendersMost)
	for _, to := range order {
		calls.Go(func() error {
			not := c.send(ctx, to, groups[to])
			mu.Lock()
			defer mu.Unlock()
			left = append(left, not...)
			return nil
		})
	}
	_ = calls.Wait() // links that were not accepted are in left
	return left
}

// send sends a batch to one peer and returns the links that were not accepted. Owners of moved
// links are looked up for the next try.
func (c *sender) send(ctx context.Context, to peer.ID, links []owner.OutLink) (left []owner.OutLink) {
	for len(links) > MaxBatchLinks {
		left = append(left, c.send(ctx, to, links[:MaxBatchLinks])...)
		links = links[MaxBatchLinks:]
	}
	reply, err := c.put(ctx, to, Message(links))
	if err != nil {
		c.log.Debug("links not accepted", "peer", to, "links", len(links), "err", err)
		return append(left, links...)
	}
	_, not, moved := Split(links, reply)
	if moved != nil {
		c.learn(ctx, moved.Key)
	}
	return append(left, not...)
}

// learn looks up the owner of a key that the presumed owner does not serve; without a result, the
// presumed owner is asked again and redirects.
func (c *sender) learn(ctx context.Context, key ring.Key) {
	ctx, cancel := context.WithTimeout(ctx, linksTimeout)
	defer cancel()
	_, _ = c.router.Owner(ctx, key, true)
}

func (c *sender) put(ctx context.Context, to peer.ID, m *wire.Links) (*wire.LinksReply, error) {
	ctx, cancel := context.WithTimeout(ctx, linksTimeout)
	defer cancel()
	if to == c.self {
		return c.local(ctx, m)
	}
	return linksMethod.Call(ctx, c.router, to, m)
}

// takeOutbox takes links from the owner, which stores them until they are sent.
func (w *Owners) takeOutbox(ctx context.Context, n int) ([]owner.OutLink, error) {
	var out []owner.OutLink
	if err := w.Look(ctx, func(o *owner.Owner) { out = o.Outbox(n) }); err != nil {
		return nil, err // out may still be written
	}
	return out, nil
}

// SendSeeds sends a job's seeds, starting at from, to the owners of their hosts, and returns how
// many are on disk there.
func (w *Owners) SendSeeds(ctx context.Context, spec *job.Spec, from int) (sent int, err error) {
	left := 0
	for seeds := range slices.Chunk(spec.Seeds[from:], seedsAtOnce) {
		batch := make([]owner.OutLink, len(seeds))
		for i, u := range seeds {
			host := link.Host(u)
			batch[i] = owner.OutLink{Job: spec.ID, URL: u, Host: host, Key: ring.HostKey(host), Kind: link.KindPage}
		}
		left += len(w.courier.deliver(ctx, batch))
		if left == 0 {
			sent += len(batch) // counted in order: seeds after a failed batch are sent again
		}
	}
	if left > 0 {
		return sent, fmt.Errorf("%d seeds are not accepted yet", left)
	}
	return sent, nil
}

// outbox sends the owner's outgoing links in the batches of a mailbox.
type outbox struct {
	courier *sender
	take    func(ctx context.Context, n int) ([]owner.OutLink, error)
	sent    func(ids []uint64)
	wake    chan struct{}
	box     *Mailbox
}

// batchDone is the result of a sent batch.
type batchDone struct {
	taken []uint64
	left  []owner.OutLink
}

func newOutbox(c *sender, take func(ctx context.Context, n int) ([]owner.OutLink, error), sent func(ids []uint64)) *outbox {
	believed := func(key ring.Key) string {
		p, _ := c.router.Ring.Guess(key)
		return string(p.ID)
	}
	return &outbox{courier: c, take: take, sent: sent, wake: make(chan struct{}, 1), box: NewMailbox(believed)}
}

// run sends links until ctx ends. Links in flight then stay in the owner's outbox and are sent
// again by the next run.
func (b *outbox) run(ctx context.Context) error {
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
		if b.box.Room() {
			links, err := b.take(ctx, TakeLinks)
			if err != nil {
				return loop.UnlessStopping(err)
			}
			b.box.Put(time.Now(), links)
			if len(links) == TakeLinks {
				loop.Wake(b.wake) // there may be more
			}
		}
		for ; senders < sendersMost; senders++ {
			batch, ok := b.box.Next(time.Now())
			if !ok {
				break
			}
			go func() { done <- b.send(ctx, batch.Links) }() // run waits for it
		}
		timer.Reset(b.next(senders))
		select {
		case <-b.wake:
		case <-timer.C:
		case d := <-done:
			senders--
			b.box.Back(time.Now(), len(d.taken), d.left)
			if len(d.taken) > 0 {
				b.sent(d.taken)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// send sends a batch.
func (b *outbox) send(ctx context.Context, batch []owner.OutLink) batchDone {
	left := b.courier.deliver(ctx, batch)
	missing := make(map[uint64]struct{}, len(left))
	for i := range left {
		missing[left[i].ID] = struct{}{}
	}
	taken := make([]uint64, 0, len(batch)-len(left))
	for i := range batch {
		if _, ok := missing[batch[i].ID]; !ok {
			taken = append(taken, batch[i].ID)
		}
	}
	return batchDone{taken, left}
}

// next returns the time until a batch is due.
func (b *outbox) next(senders int) time.Duration {
	at := b.box.Wake()
	if senders == sendersMost || at.IsZero() {
		return time.Hour // a sender or a new link wakes it
	}
	return max(time.Until(at), time.Millisecond)
}
