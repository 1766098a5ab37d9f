// Package hosts is the owner's side of hosts in a peer: it drives the state machine of crawl/owner,
// answers workers and senders of links, and sets going what comes of its steps. Links to the hosts
// of others wait in its outbox.
//
// What it promises:
//   - one goroutine makes steps, another waits for the disk: nothing is acknowledged that a crash
//     could lose, and no lock spans disk or network;
//   - answers and effects leave in the order of their steps (TestReleaseInOrder);
//   - a request that is longer than a step goes on in the next ones, and questions are answered in
//     between (TestQuestionsComeBetween);
//   - what the outbox took out of the owner is in it until the other owner has it on disk
//     (TestOutboxKeepsWhatIsNotTaken), and what is on its way is bounded.
package hosts

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/urlsets"
	"github.com/apoidea/apoidea/storage/kv"
)

// seenMemory bounds the filters of the URL sets in bytes: a million URLs take about 2 MB.
const seenMemory = 12 << 20

// Jobs is what the owner asks of the jobs that this peer knows.
type Jobs interface {
	owner.Jobs
	// Want has a job that is not known asked for in the background.
	Want(id job.ID)
	// Draw asks a job's owner for a part of its budget.
	Draw(ctx context.Context, id job.ID, d *wire.Draw) (*wire.JobReply, error)
}

// Deps is what the owner's side uses of the peer.
type Deps struct {
	Self   peer.ID          // this peer
	Router *rpc.Router      // says which hosts are this peer's, and finds the owners of the others
	Store  kv.Store         // keeps the hosts; what it has written is with the replicas too
	Now    func() time.Time // the lease clock
	Jobs   Jobs             // specs of jobs, and their budgets
	// Place chooses the worker of a host.
	Place func(ctx context.Context, p owner.Place) owner.Placement
	// OfferOwn offers hosts to this peer's own worker, and returns which it does not take.
	OfferOwn func(hosts []string) (declined []int)
	// ToWorker prepares a context for a call to a worker.
	ToWorker func(ctx context.Context, id peer.ID) context.Context
	// Heard is told what workers say they have in hand, Declined why one took no offer.
	Heard    func(worker string, backlog, capacity uint32)
	Declined func(worker, why string) (paused bool) // is told why a worker took no offer
	// Unasked is told how many outcomes a worker reported of hosts that it never had.
	Unasked func(worker peer.ID, outcomes int)
	// Admit asks whether jobs may have hosts, beside what calls it; Admitted and Stale are told the
	// answers.
	Admit func(list []owner.Admission)
	// LeasesEnd is when the last lease is over that a peer may have given which is not in the ring
	// any more; see the function of that name.
	LeasesEnd func(id peer.ID, told time.Duration) time.Time
	Log       *slog.Logger // hears what went wrong with others
}

// Owners is the owner's side of the hosts of this peer: the state machine with its loop, and
// everything that its effects set going. Its methods are safe for concurrent use.
type Owners struct {
	*Loop
	deps     Deps
	courier  *courier
	outbox   *outbox
	sets     *urlsets.Sets
	taken    taken         // touched on the loop only
	posters  *rate.Limiter // of links from those who post jobs and are no members
	ofPoster *loop.Paces

	life  context.Context //nolint:containedctx // of what effects set going; ends with Run
	end   context.CancelFunc
	mu    sync.Mutex // guards ended, and that nothing is spawned after it
	ended bool
	wg    sync.WaitGroup
}

// mine answers the owner's question which hosts are this peer's.
type mine func(key ring.Key) bool

// Mine implements owner.Ring.
func (m mine) Mine(key ring.Key) bool { return m(key) }

// New reads the hosts. They are driven once Run is called.
func New(cfg owner.Config, d Deps) (*Owners, error) {
	w := &Owners{deps: d, taken: make(taken), posters: rate.NewLimiter(postersTimes*posterLinks, postersTimes*posterBurst), ofPoster: loop.NewPaces(posterLinks, posterBurst)}
	w.life, w.end = context.WithCancel(context.Background())
	kind := dedup.Exact
	if cfg.SeenBloom {
		kind = dedup.Paper
	}
	w.sets = urlsets.New(kind, seenMemory)
	o, err := owner.New(cfg, d.Store, w.sets, d.Jobs, mine(d.Router.Ring.Serves), d.Now())
	if err != nil {
		return nil, err
	}
	w.sets.ReadFrom(o)
	w.Loop = newLoop(o, d.Now, w.effects, d.Log)
	w.courier = &courier{router: d.Router, self: d.Self, local: w.Links, log: d.Log}
	w.outbox = newOutbox(w.courier, w.takeOutbox, func(ids []uint64) { w.Post(func(o *owner.Owner) { o.Sent(ids) }) })
	return w, nil
}

// Run drives the owner until ctx ends, and waits for what its effects set going.
func (w *Owners) Run(ctx context.Context) error {
	err := w.run(ctx)
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.end()
	w.wg.Wait()
	return err
}

// RunOutbox sends links to the owners of their hosts until ctx ends.
func (w *Owners) RunOutbox(ctx context.Context) error { return w.outbox.run(ctx) }

// Spawn runs fn beside the loop; Run waits for it. Once the loop has ended there is nothing left
// that fn could tell, and it does not run.
func (w *Owners) Spawn(fn func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.wg.Go(func() { fn(w.life) })
	}
}

// Serves says, as the error to answer with, whether a host is this peer's.
func (w *Owners) Serves(host string) error {
	if key := ring.HostKey(host); !w.deps.Router.Ring.Serves(key) {
		return w.deps.Router.Moved(key)
	}
	return nil
}

// OptOut notes that somebody wants a host left alone, or crawled again. It returns when that is on
// the disks that count.
func (w *Owners) OptOut(ctx context.Context, host string, out bool, by string) (changed bool, err error) {
	var did bool
	if err := w.Do(ctx, func(o *owner.Owner) { did = o.OptOut(host, out, by) }); err != nil {
		return false, err // and did may still be written
	}
	return did, nil
}

// Taken counts, by jobs, what was taken in from others, for those who wait for the ring to be idle.
// It is called in a step, see Look.
func (w *Owners) Taken() map[string]uint64 { return w.taken.report() }

// RecordsCame counts that hosts came or went.
func (w *Owners) RecordsCame() { w.Post(func(*owner.Owner) { w.taken.hosts() }) }

// ExpectedLoss is how many URLs filters have taken for known ones, in the mean.
func (w *Owners) ExpectedLoss() float64 { return w.sets.ExpectedLoss() }

// Admitted is told whether a job may have a host.
func (w *Owners) Admitted(a owner.Admission, v domain.Verdict) {
	w.Post(func(o *owner.Owner) { o.Admitted(a, v) })
}

// Stale is told that a job gets no more hosts of a domain.
func (w *Owners) Stale(id job.ID, name string) { w.Post(func(o *owner.Owner) { o.Stale(id, name) }) }

// JobChanged is told of a job that this peer knows. Like the rest that is told it does not block.
func (w *Owners) JobChanged(id job.ID) { w.tell(func(o *owner.Owner) { o.JobChanged(id) }) }

// PeerGone is told of a peer to which nothing is to be offered any more.
func (w *Owners) PeerGone(id peer.ID) { w.tell(func(o *owner.Owner) { o.PeerDead(string(id)) }) }

// OptOutsChanged is told when this peer's own lists are others.
func (w *Owners) OptOutsChanged() { w.tell(func(o *owner.Owner) { o.OptOutsChanged() }) }

// SettledChanged is told when the hosts of an arc are here.
func (w *Owners) SettledChanged() { w.tell(func(o *owner.Owner) { o.SettledChanged() }) }

func (w *Owners) tell(fn func(o *owner.Owner)) {
	w.Spawn(func(context.Context) { w.Post(fn) })
}
