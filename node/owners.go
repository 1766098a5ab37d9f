package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/jobs"
	"github.com/apoidea/apoidea/node/manners"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/urlsets"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// The first byte of a request tells what it is. Service owner: links, session; service worker: offer, and what placing.Probes says.
const (
	tagLinks   = 'L'
	tagSession = 'S'
	tagOffer   = 'O'
)

// What hosts' owners and workers ask of each other. Of an answer that names places in a list, each is one of the list that was sent.
var (
	sendLinks = rpc.Method[*wire.Links, *wire.LinksReply]{
		Service: rpc.ServiceOwner, Tag: tagLinks,
		Check: func(q *wire.Links, a *wire.LinksReply) error {
			return placesIn(len(q.GetUrl()), "links reply", a.GetBusy(), a.GetMoved())
		},
	}
	says   = rpc.Method[*wire.Session, *wire.SessionReply]{Service: rpc.ServiceOwner, Tag: tagSession}
	offers = rpc.Method[*wire.Offer, *wire.OfferReply]{
		Service: rpc.ServiceWorker, Tag: tagOffer, Within: offerTimeout,
		Check: func(q *wire.Offer, a *wire.OfferReply) error {
			return placesIn(len(q.GetHosts()), "offer reply", a.GetDeclined())
		},
	}
	wishes = manners.WishesAt(rpc.ServiceOwner)
)

// placesIn says what is wrong with places in a list of n.
func placesIn(n int, what string, lists ...[]uint32) error {
	for _, list := range lists {
		for _, i := range list {
			if uint64(i) >= uint64(n) { //nolint:gosec // a length
				return fmt.Errorf("%s: index %d of %d", what, i, n)
			}
		}
	}
	return nil
}

// reportGrace is what workers get to report to the new owner of a host before it grants the host's URLs: a little longer than they wait between two
// tries.
const reportGrace = 1500 * time.Millisecond

// seenMemory bounds the filters of the URL sets in bytes: a million URLs take about 2 MB.
const seenMemory = 24 << 20

// owners is the owner's side of hosts in this peer: the state machine with its loop, and everything that its effects set going.
type owners struct {
	loop     *ownerLoop
	courier  *courier
	mailbox  *mailbox
	book     *jobs.Book
	sets     *urlsets.Sets
	self     peer.ID
	router   *rpc.Router
	log      *slog.Logger
	place    func(ctx context.Context, p owner.Place) owner.Placement
	offerOwn func(hosts []string) (declined []int)
	// heard is told what workers say they have in hand.
	heard func(worker string, backlog, capacity uint32)
	// declined is told why a worker took no offer.
	declined func(worker, why string) (paused bool)
	serves   func(key ring.Key) bool

	life  context.Context //nolint:containedctx // of what effects set going; ends with run
	end   context.CancelFunc
	mu    sync.Mutex // guards ended, and that nothing is spawned after it
	ended bool
	wg    sync.WaitGroup

	taken taken // touched on the loop only

	space *storage.Keyspace
	// toWorker prepares a context for a call to a worker.
	toWorker func(ctx context.Context, id peer.ID) context.Context
	domains  *manners.Domains
	// inquiries are questions to the owners of domains.
	inquiries inquiries
	// prove checks that a site asks for something itself.
	prove func(ctx context.Context, s optout.Subject, a optout.Action) error
	// leasesEnd is when the last lease is over that a peer may have given which is not in the ring any more; told is how long ago that was as another peer
	// saw it, 0 if nobody did. The zero time: it may have given one a moment ago.
	leasesEnd func(id peer.ID, told time.Duration) time.Time
}

// mine answers the owner's question which hosts are this peer's.
type mine func(key ring.Key) bool

// Mine implements owner.Ring.
func (m mine) Mine(key ring.Key) bool { return m(key) }

func newOwners(n *Node) (*owners, error) {
	w := &owners{
		book: n.book, self: n.room.net.Self(), router: n.router, log: n.log, place: n.placer.Place, offerOwn: n.crawl.OfferOwn,
		serves: n.room.dht.Serves, heard: n.placer.Heard, declined: n.placer.Declined, domains: n.domains, prove: n.wishes.Prove,
	}
	w.life, w.end = context.WithCancel(context.Background())
	kind := dedup.Exact
	if n.cfg.Seen == "bloom" {
		kind = dedup.Paper
	}
	w.sets = urlsets.New(kind, seenMemory)
	cfg := owner.DefaultConfig(string(w.self))
	cfg.TTL, cfg.Delay, cfg.SeenBloom, cfg.Settled = n.cfg.LeaseTTL, n.cfg.Delay, n.cfg.Seen == "bloom", n.keeping.Settled
	placing := n.cfg.placing()
	cfg.Fetched, cfg.RequestTime = n.placer.Observe, placing.RequestTime()
	cfg.Admission, cfg.OptOuts = n.cfg.DomainHosts > 0, n.optOuts
	cfg.MaxRequests, cfg.PageHosts, cfg.Novelty = int64(n.cfg.MaxRequestsPerHost), n.cfg.PageHosts, n.cfg.Novelty
	w.space = n.store.Keyspace(storage.KeyspaceHosts)
	w.toWorker = n.room.toWorker
	w.leasesEnd = leasesEnd(n.room.watch, n.cfg.LeaseTTL, n.clock.Now)
	store := shippedSpace[kv.Batch](n, storage.KeyspaceHosts)
	o, err := owner.New(cfg, store, w.sets, n.book, mine(w.serves), n.clock.Now())
	if err != nil {
		return nil, err
	}
	w.sets.ReadFrom(o)
	w.loop = newOwnerLoop(o, n.clock.Now, w.effects, n.log)
	w.courier = &courier{router: n.router, self: w.self, local: w.links, log: n.log}
	w.mailbox = &mailbox{
		courier: w.courier, wake: make(chan struct{}, 1), queues: make(map[peer.ID]*outQueue), now: time.Now,
		take: w.takeOutbox,
		sent: func(ids []uint64) { w.loop.post(func(o *owner.Owner) { o.Sent(ids) }) },
	}
	w.inquiries.ask, w.inquiries.spawn = w.askAdmissions, w.spawn
	w.taken = make(taken)
	return w, nil
}

// leasesEnd goes by what this peer itself saw of the ring. A newcomer, which came when the others had given a peer up, goes by what it is told: else the
// hosts that a push brings it would stand still for another TTL.
func leasesEnd(watch *ringWatch, ttl time.Duration, now func() time.Time) func(id peer.ID, told time.Duration) time.Time {
	return func(id peer.ID, told time.Duration) time.Time {
		ago, seen := watch.leftAgo(id)
		switch {
		case seen:
		case told > 0:
			ago = told
		default:
			return time.Time{}
		}
		// What its workers fetched under its leases they are about to report here, and it is not to be fetched again.
		return now().Add(max(ttl-ago, reportGrace))
	}
}

func (w *owners) takeOutbox(ctx context.Context, n int) ([]owner.OutLink, error) {
	var links []owner.OutLink
	if err := w.loop.look(ctx, func(o *owner.Owner) { links = o.Outbox(n) }); err != nil {
		return nil, err
	}
	return links, nil
}

// deliver hands links to the owners of their hosts; see courier.
func (w *owners) deliver(ctx context.Context, links []outLink) (left []outLink) {
	return w.courier.deliver(ctx, links)
}

// run drives the owner until ctx ends, and waits for what its effects set going.
func (w *owners) run(ctx context.Context) error {
	err := w.loop.run(ctx)
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.end()
	w.wg.Wait()
	return err
}

func (w *owners) runOutbox(ctx context.Context) error { return w.mailbox.run(ctx) }

// handler answers workers and senders of links.
func (w *owners) handler() p2p.Handler {
	return rpc.Tagged{
		tagLinks:   sendLinks.Handle(func(ctx context.Context, _ peer.ID, m *wire.Links) (*wire.LinksReply, error) { return w.links(ctx, m) }),
		tagSession: says.Handle(w.session), wishes.Tag: wishes.Handle(w.takeOptOut),
	}.Handle
}

// links takes a batch of links; it returns when they are on disk.
func (w *owners) links(ctx context.Context, m *wire.Links) (*wire.LinksReply, error) {
	var d *owner.Delivery
	if err := w.loop.doOver(ctx, func(o *owner.Owner) bool {
		if d == nil {
			if ctx.Err() != nil {
				return true // whoever sent it has given up on this answer, and sends it again
			}
			d = o.Delivery(m)
		}
		if !d.Go() {
			return false
		}
		w.taken.links(m, d.Reply())
		return true
	}); err != nil {
		return nil, err
	}
	if d == nil {
		return nil, ctx.Err()
	}
	return d.Reply(), nil
}

// session takes what a worker says; it returns when that is on disk.
func (w *owners) session(ctx context.Context, from peer.ID, m *wire.Session) (*wire.SessionReply, error) {
	var v *owner.Visit
	if err := w.loop.doOver(ctx, func(o *owner.Owner) bool {
		if v == nil {
			v = o.Visit(string(from), m)
			w.heard(string(from), m.GetBacklog(), m.GetCapacity())
		}
		if !v.Go() {
			return false
		}
		w.taken.reports(m, v.Reply())
		return true
	}); err != nil {
		return nil, err
	}
	return v.Reply(), nil
}

// effects sets going what a step came to. It is called in order, once the step is on disk, and does not block.
func (w *owners) effects(r owner.Ready) {
	for _, p := range r.Places {
		w.spawn(func(ctx context.Context) {
			c := w.place(ctx, p)
			w.loop.post(func(o *owner.Owner) { o.Placed(p.Host, c) })
		})
	}
	for _, offer := range r.Offers {
		w.spawn(func(ctx context.Context) { w.offer(ctx, offer) })
	}
	for _, id := range r.NeedJobs {
		w.book.Want(id)
	}
	for _, d := range r.Draws {
		w.spawn(func(ctx context.Context) {
			reply, err := w.book.Draw(ctx, d.Job, d.Draw)
			if err != nil {
				w.log.Debug("budget not drawn", "job", d.Job.String(), "err", err)
			}
			w.loop.post(func(o *owner.Owner) { o.Drawn(d, reply) })
		})
	}
	for _, list := range manners.Questions(r.Admissions) {
		if !w.inquiries.put(list) {
			w.log.Debug("no room for a question for admissions", "domain", domain.Of(list[0].Host), "hosts", len(list))
		}
	}
	if r.Outbox {
		w.mailbox.nudge()
	}
}

// askAdmissions puts one question to the owner of a domain, and tells the owner of the hosts the answers.
func (w *owners) askAdmissions(ctx context.Context, list []owner.Admission) {
	if stale := w.domains.Ask(ctx, list, func(a owner.Admission, v domain.Verdict) {
		w.loop.post(func(o *owner.Owner) { o.Admitted(a, v) })
	}); stale {
		w.loop.post(func(o *owner.Owner) { o.Stale(list[0].Job, domain.Of(list[0].Host)) })
	}
}

// spawn runs fn beside the loop; run waits for it. Once the loop has ended there is nothing left that fn could tell, and it does not run.
func (w *owners) spawn(fn func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.wg.Go(func() { fn(w.life) })
	}
}

// offerTimeout bounds an offer; the owner gives up on it about then as well.
const offerTimeout = 2 * time.Second

// offer asks a worker to take hosts, and tells the owner which it did not.
func (w *owners) offer(ctx context.Context, offer owner.Offer) {
	to := peer.ID(offer.Worker)
	var declined []int
	if to == w.self {
		declined = w.offerOwn(offer.Hosts)
	} else {
		var err error
		if declined, err = w.offerTo(ctx, to, offer.Hosts); err != nil {
			if refusal, ok := errors.AsType[*p2p.Error](err); ok {
				w.declined(offer.Worker, refusal.Message)
			}
			w.log.Debug("offer not heard", "peer", to, "hosts", len(offer.Hosts), "err", err)
			declined = make([]int, len(offer.Hosts))
			for i := range declined {
				declined[i] = i
			}
		}
	}
	if len(declined) == 0 {
		return
	}
	hosts := make([]string, len(declined))
	for k, i := range declined {
		hosts[k] = offer.Hosts[i]
	}
	w.loop.post(func(o *owner.Owner) { o.Declined(offer.Worker, hosts) })
}

func (w *owners) offerTo(ctx context.Context, to peer.ID, hosts []string) ([]int, error) {
	reply, err := offers.Call(w.toWorker(ctx, to), w.router, to, &wire.Offer{Hosts: hosts})
	if err != nil {
		return nil, err
	}
	var declined []int
	for _, i := range reply.GetDeclined() {
		declined = append(declined, int(i))
	}
	return declined, nil
}

func (w *owners) jobChanged(id job.ID) {
	w.spawn(func(context.Context) { w.loop.post(func(o *owner.Owner) { o.JobChanged(id) }) })
}

// peerGone tells the owner that nothing is to be offered to a peer any more.
func (w *owners) peerGone(id peer.ID) {
	w.spawn(func(context.Context) { w.loop.post(func(o *owner.Owner) { o.PeerDead(string(id)) }) })
}
