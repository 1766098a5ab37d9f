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
	"errors"
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
	"github.com/apoidea/apoidea/dht/calls"
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
	Net    rpc.Caller       // calls neighbors
	Now    func() time.Time // the lease clock
	// Neighbors returns the neighbors on the ring, and its size in peers.
	Neighbors func() (ids []peer.ID, size int)
	Jobs      Jobs // specs of jobs, and their budgets
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
	ofMember *loop.Paces   // of links by member and job
	ofHost   *loop.Paces   // of links by member, job and host
	hour     time.Duration // of the schedule of pages that are fetched again

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
	w := &Owners{
		deps: d, taken: make(taken), posters: rate.NewLimiter(postersTimes*posterLinks, postersTimes*posterBurst), ofPoster: loop.NewPaces(posterLinks, posterBurst, loop.MaxPeers),
		ofMember: loop.NewPaces(memberLinks, memberBurst, loop.MaxPeers), ofHost: loop.NewPaces(hostLinks, hostBurst, loop.MaxPeers),
	}
	cfg.Fill()
	w.hour = cfg.Day / 24
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

// NextClaim returns the first opt-out behind a host that is to be checked; false: there is none.
func (w *Owners) NextClaim(ctx context.Context, behind string) (c owner.Claim, ok bool, err error) {
	err = w.Look(ctx, func(o *owner.Owner) { c, ok = o.NextClaim(behind) })
	return c, ok, err
}

// Taken returns the counts of input accepted from other peers by job, for commands that wait for an
// idle ring. It is called in a step, see Look.
func (w *Owners) Taken() map[string]uint64 { return w.taken.report() }

// RecordsCame counts an arrival or departure of hosts.
func (w *Owners) RecordsCame() { w.Post(func(*owner.Owner) { w.taken[job.ID{}]++ }) }

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

// effects starts the effects of a step. It is called in order, once the step is on disk, and does
// not block.
func (w *Owners) effects(r owner.Ready) {
	for _, p := range r.Places {
		w.Spawn(func(ctx context.Context) {
			c := w.deps.Place(ctx, p)
			w.Post(func(o *owner.Owner) { o.Placed(p.Host, c) })
		})
	}
	for _, offer := range r.Offers {
		w.Spawn(func(ctx context.Context) { w.offer(ctx, offer) })
	}
	for _, id := range r.NeedJobs {
		w.deps.Jobs.Want(id)
	}
	for _, d := range r.Draws {
		w.Spawn(func(ctx context.Context) {
			reply, err := w.deps.Jobs.Draw(ctx, d.Job, d.Draw)
			if err != nil {
				w.deps.Log.Debug("budget not drawn", "job", d.Job.String(), "err", err)
			}
			w.Post(func(o *owner.Owner) { o.Drawn(d, reply) })
		})
	}
	if len(r.Admissions) > 0 {
		w.deps.Admit(r.Admissions)
	}
	if r.Outbox {
		loop.Wake(w.outbox.wake)
	}
}

// offerTimeout bounds an offer; the owner's own timeout is about equal.
const offerTimeout = 2 * time.Second

// offer offers hosts to a worker, and reports the declined ones to the owner.
func (w *Owners) offer(ctx context.Context, offer owner.Offer) {
	to := peer.ID(offer.Worker)
	var declined []int
	if to == w.deps.Self {
		declined = w.deps.OfferOwn(offer.Hosts)
	} else {
		var err error
		if declined, err = w.offerTo(ctx, to, offer.Hosts); err != nil {
			if refusal, ok := errors.AsType[*calls.Error](err); ok {
				w.deps.Declined(offer.Worker, refusal.Message)
			}
			w.deps.Log.Debug("offer failed", "peer", to, "hosts", len(offer.Hosts), "err", err)
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
	w.Post(func(o *owner.Owner) { o.Declined(offer.Worker, hosts) })
}

func (w *Owners) offerTo(ctx context.Context, to peer.ID, hosts []string) ([]int, error) {
	reply, err := OfferMethod.Call(w.deps.ToWorker(ctx, to), w.deps.Router, to, &wire.Offer{Hosts: hosts})
	if err != nil {
		return nil, err
	}
	var declined []int
	for _, i := range reply.GetDeclined() {
		declined = append(declined, int(i))
	}
	return declined, nil
}

// taken counts input from other peers by job: batches of links, and outcomes. Hosts that arrived or
// left count under the zero ID. If two ring walks find equal counts, nothing arrived in between.
// The number of accepted URLs does not suffice: a link to a known page at a smaller depth emits the
// page's links again.
type taken map[job.ID]uint64

// links counts a batch of links for the jobs of the accepted ones.
func (t taken) links(m *wire.Links, reply *wire.LinksReply) {
	refused := make(map[uint32]struct{}, len(reply.GetBusy())+len(reply.GetMoved()))
	for _, list := range [][]uint32{reply.GetBusy(), reply.GetMoved()} {
		for _, i := range list {
			refused[i] = struct{}{}
		}
	}
	last := -1
	for i := range m.GetUrl() {
		n := 0
		if len(m.GetJob()) > 0 {
			n = int(m.GetJob()[i])
		}
		if _, no := refused[uint32(i)]; no || n == last { // an index of a bounded list
			continue
		}
		last = n
		t[job.ID(m.GetJobIds()[n])]++
	}
}

// reports counts accepted outcomes by job.
func (t taken) reports(v *owner.Visit) {
	for id, n := range v.Taken {
		t[id] += n
	}
}

// report returns the counts in their wire form.
func (t taken) report() map[string]uint64 {
	out := make(map[string]uint64, len(t))
	for id, n := range t {
		out[id.String()] = n
	}
	return out
}
