package placing

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
)

// ServiceSamples is where owners that place by the strategy adaptive tell each other what they
// learnt.
const ServiceSamples = "lessons"

const (
	// samplesEvery is how often a peer tells its leaf set what it learnt since, if anything: a
	// message costs as much as a probe, and a crawl of small hosts may be over in a minute.
	samplesEvery = time.Second
	// samplesKept bounds the samples kept for neighbours that come later: some hundred sites are
	// what the strategy trains on.
	samplesKept = 512
	// samplesPerMinute bounds what is learnt of one neighbour: a sample costs some tenths of a
	// millisecond.
	samplesPerMinute = 2048
	samplesTimeout   = 5 * time.Second
	// greetings are the messages, a greetEvery apart, after which it is known how far a new
	// neighbour is: what is done beside only ever adds to a round trip.
	greetings  = 6
	greetEvery = 250 * time.Millisecond
	// samplesMute is how long a neighbour that takes no samples, since it places hosts otherwise,
	// is left alone.
	samplesMute = 10 * time.Minute
)

// sampleGossip shares what the strategy adaptive learns at its owners (design, section 5): what one
// had measured, its leaf set need not measure again. The candidates of an owner are in its leaf
// set, so nobody else has use for it. How far those candidates are from each other it learns by the
// messages themselves, and tells it as well: a peer is a site that nobody need probe. It is safe
// for concurrent use.
type sampleGossip struct {
	self        peer.ID
	where       func() netip.Addr // this peer's address among sites
	strategy    *adaptive.Strategy
	guard       sync.Locker // of strategy: the placer's
	log         *slog.Logger
	neighbours  func() []peer.ID
	net         rpc.Caller
	incarnation uint64

	mu        sync.Mutex // guards what follows; never held over the network
	first     int        // number of kept[0] among all samples so far
	kept      []adaptive.Sample
	listeners map[peer.ID]*listener     // neighbours, so bounded
	far       map[peer.ID]time.Duration // neighbours, as this peer told of itself last
}

// listener is a neighbour that is told samples.
type listener struct {
	told        int    // number of the next sample to tell it
	incarnation uint64 // of its process
	mute        time.Time
	minute      time.Time
	heard       int           // samples of its own in this minute
	greeted     int           // messages so far
	rtt         time.Duration // the least that a message took, 0 if none was answered
}

// samplesMethod tells a neighbour samples.
var samplesMethod = rpc.Method[*wire.Samples, *wire.SamplesReply]{Service: ServiceSamples}

// newSampleGossip returns the gossip of a peer for its strategy, which guard guards.
func newSampleGossip(s *adaptive.Strategy, guard sync.Locker, d *Deps) *sampleGossip {
	return &sampleGossip{
		self: d.Self, where: d.Where,
		strategy: s, guard: guard, log: d.Log, neighbours: func() []peer.ID { return leaves(d.Ring) }, net: d.Net, incarnation: d.Incarnation,
		listeners: make(map[peer.ID]*listener),
	}
}

// leaves is the leaf set.
func leaves(r Ring) []peer.ID {
	preds, succs := r.Leaves()
	return idsOf(succs, preds)
}

// idsOf are the names of peers, each once, in the order of the lists.
func idsOf(lists ...[]dht.Peer) (ids []peer.ID) {
	seen := make(map[peer.ID]bool)
	for _, p := range slices.Concat(lists...) {
		if !seen[p.ID] {
			seen[p.ID] = true
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// run tells samples until ctx ends.
func (c *sampleGossip) run(ctx context.Context) error {
	pause := greetEvery
	for {
		if err := loop.Sleep(ctx, pause); err != nil {
			return loop.UnlessCanceled(err)
		}
		c.teach(ctx)
		if pause = samplesEvery; c.locate() {
			pause = greetEvery
		}
	}
}

// locate has the neighbours learn how far they are from this peer, if that is news; it says whether
// some were not greeted often enough to know.
func (c *sampleGossip) locate() (more bool) {
	c.mu.Lock()
	far, news := make(map[peer.ID]time.Duration), false
	for id, p := range c.listeners {
		switch {
		case p.greeted < greetings:
			more = true
		case p.rtt > 0:
			far[id] = p.rtt
			before, known := c.far[id]
			news = news || !known || p.rtt < before-before/10
		}
	}
	if news = news && !more; news {
		c.far = far
	}
	c.mu.Unlock()
	if !news {
		return more
	}
	var rtts []adaptive.PeerRTT
	for id, rtt := range far {
		rtts = append(rtts, adaptive.PeerRTT{Peer: string(id), RTT: rtt})
	}
	own := adaptive.PeerSample(string(c.self), c.where(), rtts)
	c.guard.Lock()
	c.strategy.Learn(time.Now(), &own)
	c.guard.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, own)
	return more
}

// teach tells each neighbour what it does not know yet, all at the same time. What one does not
// take it is told the next time.
func (c *sampleGossip) teach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, samplesTimeout)
	defer cancel()
	var calls sync.WaitGroup
	for id, list := range c.due(time.Now()) {
		calls.Go(func() { c.tell(ctx, id, list) })
	}
	calls.Wait()
}

// due are the samples for each neighbour. One that is new is told all that are kept.
func (c *sampleGossip) due(now time.Time) map[peer.ID][]adaptive.Sample {
	c.guard.Lock()
	fresh := c.strategy.Samples()
	c.guard.Unlock()
	near := c.neighbours()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, fresh...)
	if over := len(c.kept) - samplesKept; over > 0 {
		c.kept = slices.Delete(c.kept, 0, over)
		c.first += over
	}
	for id := range c.listeners {
		if !slices.Contains(near, id) {
			delete(c.listeners, id)
		}
	}
	due := make(map[peer.ID][]adaptive.Sample)
	for _, id := range near {
		p := c.listener(id)
		p.told = max(p.told, c.first)
		if now.Before(p.mute) {
			continue
		}
		if list := c.kept[p.told-c.first:]; len(list) > 0 || p.greeted < greetings {
			due[id] = slices.Clone(list)
		}
	}
	return due
}

// listener is what is known of a neighbour. The caller holds mu.
func (c *sampleGossip) listener(id peer.ID) *listener {
	p := c.listeners[id]
	if p == nil {
		p = &listener{told: c.first}
		c.listeners[id] = p
	}
	return p
}

// tell tells one neighbour as many samples as fit into a message.
func (c *sampleGossip) tell(ctx context.Context, id peer.ID, list []adaptive.Sample) {
	m, n := wire.NewSamples(list)
	begun := time.Now()
	reply, err := samplesMethod.Call(ctx, c.net, id, m)
	took := time.Since(begun)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.listener(id)
	p.greeted++
	if (err == nil || calls.CodeOf(err) == calls.CodeRefused) && (p.rtt == 0 || took < p.rtt) {
		p.rtt = took
	}
	switch {
	case err != nil && calls.CodeOf(err) == calls.CodeRefused:
		p.mute, p.greeted = time.Now().Add(samplesMute), greetings
	case err == nil && p.incarnation != 0 && p.incarnation != reply.GetIncarnation():
		p.told = c.first // it has forgotten what it was told before
	case err == nil:
		p.told += n
	}
	if err == nil {
		p.incarnation = reply.GetIncarnation()
	} else {
		c.log.Debug("samples not told", "peer", id, "err", err)
	}
}

func (c *sampleGossip) handler() calls.Handler {
	if c == nil {
		return rpc.Refusing("this peer takes no samples: it places hosts otherwise")
	}
	return samplesMethod.Handle(c.learn)
}

// learn learns what a neighbour tells.
func (c *sampleGossip) learn(ctx context.Context, from peer.ID, m *wire.Samples) (*wire.SamplesReply, error) {
	if err := c.admit(from, len(m.GetHost()), time.Now()); err != nil {
		return nil, err
	}
	for _, l := range m.List() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.guard.Lock() // for each anew, as a placement may wait
		c.strategy.Learn(time.Now(), &l)
		c.guard.Unlock()
	}
	return &wire.SamplesReply{Incarnation: c.incarnation}, nil
}

// admit says whether samples of a peer are taken now: those of neighbours, so many a minute.
func (c *sampleGossip) admit(from peer.ID, n int, now time.Time) error {
	near := slices.Contains(c.neighbours(), from)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !near {
		return rpc.Busy("samples are taken of the leaf set")
	}
	p := c.listener(from)
	if now.Sub(p.minute) >= time.Minute {
		p.minute, p.heard = now, 0
	}
	if p.heard+n > samplesPerMinute {
		return rpc.Busy(fmt.Sprintf("at most %d samples a minute", samplesPerMinute))
	}
	p.heard += n
	return nil
}
