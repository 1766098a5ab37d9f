// Package hosts runs the owner of hosts in a peer: it drives the state machine of crawl/owner,
// serves workers and senders of links, and executes the effects of its steps. Links to hosts of
// other owners wait in its outbox.
//
// Invariants:
//   - one goroutine runs steps, another waits for the disk: nothing is acknowledged that a crash
//     could lose, and no lock is held during disk or network operations;
//   - replies and effects are released in the order of their steps (TestReleaseInOrder);
//   - a request longer than a step continues in the next ones, with queries answered in between
//     (TestQuestionsComeBetween);
//   - links taken from the owner stay in its outbox until they are on disk at the other owner
//     (TestOutboxKeepsWhatIsNotTaken), and the links in flight are bounded.
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
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage/kv"
)

// seenMemory bounds the filters of the URL sets in bytes: a million URLs take about 2 MB.
const seenMemory = 12 << 20

// Jobs is the owner's interface to the jobs known here.
type Jobs interface {
	owner.Jobs
	// Want requests an unknown job in the background.
	Want(id job.ID)
	// Draw requests a part of the budget from a job's owner.
	Draw(ctx context.Context, id job.ID, d *wire.Draw) (*wire.JobReply, error)
}

// Deps are the dependencies of an Owners.
type Deps struct {
	Self   peer.ID          // this peer
	Router *rpc.Router      // reports which hosts are this peer's, and finds other owners
	Store  kv.Store         // stores the hosts; its writes include the replicas
	Now    func() time.Time // the lease clock
	Jobs   Jobs             // specs of jobs, and their budgets
	// Place chooses the worker of a host.
	Place func(ctx context.Context, p owner.Place) owner.Placement
	// OfferOwn offers hosts to this peer's own worker, and returns the declined ones.
	OfferOwn func(hosts []string) (declined []int)
	// ToWorker prepares a context for a call to a worker.
	ToWorker func(ctx context.Context, id peer.ID) context.Context
	// SetLoad receives the load that workers report, Declined the reason of a declined offer.
	SetLoad  func(worker string, backlog, capacity uint32)
	Declined func(worker, why string) (paused bool) // receives the reason of a declined offer
	// Unasked receives the number of outcomes reported for hosts that the worker never had.
	Unasked func(worker peer.ID, outcomes int)
	// Admit requests admissions of hosts asynchronously; the replies go to Admitted.
	Admit func(list []owner.Admission)
	// LeasesEnd returns the end of the last lease that a peer which left the ring may have granted;
	// see the function of that name.
	LeasesEnd func(id peer.ID, told time.Duration) time.Time
	Log       *slog.Logger // reports failed calls of other peers
}

// Owners is the owner of this peer's hosts: the state machine with its loop, and the effects of its
// steps. Its methods are safe for concurrent use.
type Owners struct {
	*Loop
	deps     Deps
	courier  *sender
	outbox   *outbox
	sets     *dedup.Sets[owner.SetID]
	taken    taken         // touched on the loop only
	posters  *rate.Limiter // of links from job posters that are not members
	ofPoster *loop.Paces

	life  context.Context //nolint:containedctx // of effects; ends with Run
	end   context.CancelFunc
	mu    sync.Mutex // guards ended, and that nothing is spawned after it
	ended bool
	wg    sync.WaitGroup
}

// mine implements owner.Ring.
type mine func(key ring.Key) bool

// Mine implements owner.Ring.
func (m mine) Mine(key ring.Key) bool { return m(key) }

// New reads the hosts. They are driven once Run is called.
func New(cfg owner.Config, d Deps) (*Owners, error) {
	w := &Owners{deps: d, taken: make(taken), posters: rate.NewLimiter(postersTimes*posterLinks, postersTimes*posterBurst), ofPoster: loop.NewPaces(posterLinks, posterBurst, loop.MaxPeers)}
	w.life, w.end = context.WithCancel(context.Background())
	kind := dedup.Exact
	if cfg.SeenBloom {
		kind = dedup.Paper
	}
	var o *owner.Owner
	w.sets = dedup.NewSets(kind, func(set owner.SetID, yield func(uint64) bool) error { return o.Hashes(set, yield) }, seenMemory)
	o, err := owner.New(cfg, d.Store, w.sets, d.Jobs, mine(d.Router.Ring.Serves), d.Now())
	if err != nil {
		return nil, err
	}
	w.Loop = newLoop(o, d.Now, w.effects, d.Log)
	w.courier = &sender{router: d.Router, self: d.Self, local: w.Links, log: d.Log}
	w.outbox = newOutbox(w.courier, w.takeOutbox, func(ids []uint64) { w.Post(func(o *owner.Owner) { o.Sent(ids) }) })
	return w, nil
}

// Run drives the owner until ctx ends, and waits for running effects.
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

// Spawn runs fn concurrently with the loop; Run waits for it. It does nothing once the loop has
// ended, since results could no longer be processed.
func (w *Owners) Spawn(fn func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.wg.Go(func() { fn(w.life) })
	}
}

// Serves returns nil if the host is this peer's, or the error to reply with.
func (w *Owners) Serves(host string) error {
	if key := ring.HostKey(host); !w.deps.Router.Ring.Serves(key) {
		return w.deps.Router.Moved(key)
	}
	return nil
}

// OptOut records an opt-out of a host or its withdrawal. It returns when that is on disk, here and
// at the required replicas.
func (w *Owners) OptOut(ctx context.Context, host string, out bool, by string) (changed bool, err error) {
	var did bool
	if err := w.Do(ctx, func(o *owner.Owner) { did = o.OptOut(host, out, by) }); err != nil {
		return false, err // did may still be written
	}
	return did, nil
}

// Taken returns the counts of input accepted from other peers by job, for commands that wait for an
// idle ring. It is called in a step, see Look.
func (w *Owners) Taken() map[string]uint64 { return w.taken.report() }

// RecordsCame counts an arrival or departure of hosts.
func (w *Owners) RecordsCame() { w.Post(func(*owner.Owner) { w.taken.hosts() }) }

// ExpectedLoss returns the expected share of URLs lost to false positives of the paper's filters.
func (w *Owners) ExpectedLoss(ctx context.Context) (loss float64, err error) {
	err = w.Look(ctx, func(*owner.Owner) { loss = w.sets.Stats().ExpectedLoss })
	return loss, err
}

// Admitted applies the reply to an admission request.
func (w *Owners) Admitted(a owner.Admission, v domain.Verdict) {
	w.Post(func(o *owner.Owner) { o.Admitted(a, v) })
}

// JobChanged applies a change of a known job. Like the following methods it does not block.
func (w *Owners) JobChanged(id job.ID) { w.post(func(o *owner.Owner) { o.JobChanged(id) }) }

// PeerGone stops offers to a peer.
func (w *Owners) PeerGone(id peer.ID) { w.post(func(o *owner.Owner) { o.PeerDead(string(id)) }) }

// OptOutsChanged applies a change of this peer's own lists.
func (w *Owners) OptOutsChanged() { w.post(func(o *owner.Owner) { o.OptOutsChanged() }) }

// SettledChanged applies the arrival of an arc's hosts.
func (w *Owners) SettledChanged() { w.post(func(o *owner.Owner) { o.SettledChanged() }) }

func (w *Owners) post(fn func(o *owner.Owner)) {
	w.Spawn(func(context.Context) { w.Post(fn) })
}
