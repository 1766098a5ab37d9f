package placer

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

// ServiceSamples is the service by which owners with the strategy adaptive exchange RTT samples.
const ServiceSamples = "lessons"

const (
	// samplesEvery is the interval at which new samples are sent to the leaf set: a message costs as
	// much as a probe, and a crawl of small hosts may be over in a minute.
	samplesEvery = time.Second
	// samplesKept bounds the samples stored for later neighbors: the strategy trains on some hundred
	// sites.
	samplesKept = 512
	// samplesPerMinute bounds the samples accepted from one neighbor: each costs some tenths of a
	// millisecond.
	samplesPerMinute = 2048
	samplesTimeout   = 5 * time.Second
	// greetings is the number of messages, a greetEvery apart, after which the RTT of a new neighbor
	// is known, since other load only increases it.
	greetings  = 6
	greetEvery = 250 * time.Millisecond
	// farMost bounds the members beyond the leaf set whose RTT is measured, by farGreetings messages
	// to each, of which the shortest counts; two of them a second. With the leaf set they fit into a
	// sample.
	farMost      = wire.MaxSampleRTTs - 17
	farGreetings = 3
	// hopsMost bounds the hops of a sample: eight leaf sets on each side, 128 owners.
	hopsMost = 7
	// passers are the farthest neighbors of each side, which forward samples: one may have failed.
	passers = 2
	// samplesMet is the number of samples that are recognized as duplicates.
	samplesMet = 4096
	// samplesMute is the backoff for a neighbor that rejects samples, since it uses another strategy.
	samplesMute = 10 * time.Minute
)

// sampleGossip distributes the samples of the strategy adaptive among its owners (design, section
// 5), so that others need not measure again. It sends them to its leaf set, and the peers at its
// ends forward them away from the sender: each sample reaches an owner at most twice from each
// side. The messages themselves measure the RTT to neighbors and some other peers, which is
// distributed as well: a peer is a site that needs no probe. It is safe for concurrent use.
type sampleGossip struct {
	self        peer.ID
	where       func() netip.Addr // this peer's public address
	strategy    *adaptive.Strategy
	guard       sync.Locker // of strategy: the placer's
	log         *slog.Logger
	sides       func() (preds, succs []peer.ID) // the leaf set, nearest first
	members     func() []peer.ID                // of the ring
	net         rpc.Caller
	incarnation uint64

	received *loop.Paces // samples of neighbors

	mu        sync.Mutex // guards what follows; never held during network calls
	first     int        // number of kept[0] among all samples so far
	kept      []kept
	met       *simplelru.LRU[uint64, struct{}] // identities of known samples
	listeners map[peer.ID]*listener            // neighbors, so bounded
	beyond    map[peer.ID]time.Duration        // RTT of members that are not neighbors; 0: no reply
	announced map[peer.ID]time.Duration        // both, as last sent for this peer
}

// kept is a sample to be sent to neighbors.
type kept struct {
	adaptive.Sample
	to side
}

// side selects the neighbors that a sample is sent to.
type side int

const (
	everybody side = iota
	preds          // predecessors of this peer on the ring
	succs          // successors
	nobody
)

// listener is a neighbor that receives samples.
type listener struct {
	sent        int    // number of the next sample to send
	incarnation uint64 // of its process
	mute        time.Time
	exchanges   int           // messages so far
	rtt         time.Duration // least RTT of a message; 0: no reply yet
}

// samplesMethod sends samples to a neighbor.
var samplesMethod = rpc.Method[*wire.Samples, *wire.SamplesReply]{Service: ServiceSamples}

// newSampleGossip returns the gossip of a peer for its strategy, which guard guards.
func newSampleGossip(s *adaptive.Strategy, guard sync.Locker, d *Deps) *sampleGossip {
	met, _ := simplelru.NewLRU[uint64, struct{}](samplesMet, nil) // a positive size has no error
	return &sampleGossip{
		self: d.Self, where: d.Where, strategy: s, guard: guard, log: d.Log, net: d.Net, incarnation: d.Incarnation,
		sides: func() (before, behind []peer.ID) {
			preds, succs := d.Ring.Leaves()
			return member.IDs(preds), member.IDs(succs)
		},
		members: func() []peer.ID { return member.IDs(d.Ring.Members()) }, beyond: make(map[peer.ID]time.Duration),
		met: met, listeners: make(map[peer.ID]*listener), received: loop.NewPaces(samplesPerMinute/60.0, samplesPerMinute, loop.MaxPeers),
	}
}

// neighbors returns the leaf set with the side of each; everybody for a peer on both.
func (c *sampleGossip) neighbors() map[peer.ID]side {
	before, behind := c.sides()
	of := make(map[peer.ID]side)
	for _, id := range before {
		of[id] = preds
	}
	for _, id := range behind {
		if of[id] == preds {
			of[id] = everybody
		} else {
			of[id] = succs
		}
	}
	return of
}

// onward returns the side to which samples of a neighbor are forwarded: the other side, if it is at
// the end of its own. If a peer is on both sides, each source reaches all of the ring itself.
func (c *sampleGossip) onward(from peer.ID) side {
	before, behind := c.sides()
	for _, id := range before {
		if slices.Contains(behind, id) {
			return nobody
		}
	}
	switch {
	case slices.Contains(before[max(0, len(before)-passers):], from):
		return succs
	case slices.Contains(behind[max(0, len(behind)-passers):], from):
		return preds
	}
	return nobody
}

// idsOf returns the IDs of peers, each once, in the order of the lists.
// run sends samples until ctx ends.
func (c *sampleGossip) run(ctx context.Context) error {
	pause := greetEvery
	for {
		if err := loop.Sleep(ctx, pause); err != nil {
			return loop.UnlessCanceled(err)
		}
		c.teach(ctx)
		if pause = samplesEvery; c.locate(ctx) {
			pause = greetEvery
		}
	}
}

// locate adds the RTTs from this peer to others as a sample, if they have changed. It reports
// whether some neighbors need more messages.
func (c *sampleGossip) locate(ctx context.Context) (more bool) {
	all := c.greet(ctx)
	rtts, more := c.distances(all)
	if len(rtts) == 0 {
		return more
	}
	own := adaptive.PeerSample(string(c.self), c.where(), rtts)
	c.guard.Lock()
	c.strategy.Learn(time.Now(), &own)
	c.guard.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news(&own)
	c.keep(own, everybody)
	return false
}

// distances returns the RTTs to others if they must be announced: one is shorter by a tenth, or
// more are known: all, or twice as many as announced. It reports whether some neighbors need more
// messages first.
func (c *sampleGossip) distances(all bool) (rtts []adaptive.PeerRTT, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := maps.Clone(c.beyond)
	for id, p := range c.listeners {
		more = more || p.exchanges < greetings
		known[id] = p.rtt
	}
	maps.DeleteFunc(known, func(_ peer.ID, rtt time.Duration) bool { return rtt == 0 })
	enough, changed := all || len(known) >= 2*len(c.announced), false
	for id, rtt := range known {
		rtts = append(rtts, adaptive.PeerRTT{Peer: string(id), RTT: rtt})
		before, old := c.announced[id]
		changed = changed || !old && enough || old && rtt < before-before/10
	}
	if more || !changed {
		return nil, more
	}
	c.announced = known
	return rtts, false
}

// greet measures the RTT of two more members beyond the leaf set; it reports whether all are
// measured. They take no samples, but a rejection is a reply, too.
func (c *sampleGossip) greet(ctx context.Context) (all bool) {
	near, members := c.neighbors(), c.members()
	c.mu.Lock()
	maps.DeleteFunc(c.beyond, func(id peer.ID, _ time.Duration) bool { return !slices.Contains(members, id) })
	next := slices.DeleteFunc(members, func(id peer.ID) bool {
		_, leaf := near[id]
		_, met := c.beyond[id]
		return leaf || met || id == c.self
	})
	next = next[:min(len(next), 2, farMost-len(c.beyond))]
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, samplesTimeout)
	defer cancel()
	var calls sync.WaitGroup
	for _, id := range next {
		calls.Go(func() { c.greetOne(ctx, id) })
	}
	calls.Wait()
	return len(next) == 0
}

func (c *sampleGossip) greetOne(ctx context.Context, id peer.ID) {
	m, _ := wire.NewSamples(nil)
	least := time.Duration(0)
	for range farGreetings {
		begun := time.Now()
		_, err := samplesMethod.Call(ctx, c.net, id, m)
		if took := time.Since(begun); answered(err) && (least == 0 || took < least) {
			least = max(took, 1)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beyond[id] = least
}

// answered reports whether a call returned a reply of the peer, possibly an error.
func answered(err error) bool {
	code := calls.CodeOf(err)
	return err == nil || code == calls.CodeRefused || code == calls.CodeBusy
}

// teach sends each neighbor its missing samples, concurrently; a new one gets all that are stored.
// Samples that one did not accept are sent again.
func (c *sampleGossip) teach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, samplesTimeout)
	defer cancel()
	c.guard.Lock()
	fresh := c.strategy.Samples()
	c.guard.Unlock()
	near := c.neighbors()
	c.mu.Lock()
	for _, l := range fresh {
		c.news(&l)
		c.keep(l, everybody)
	}
	for id := range c.listeners {
		if _, ok := near[id]; !ok {
			delete(c.listeners, id)
		}
	}
	c.mu.Unlock()
	var calls sync.WaitGroup
	for id, at := range near {
		calls.Go(func() { c.send(ctx, id, at) })
	}
	calls.Wait()
}

// keep stores a sample for neighbors. The caller holds mu.
func (c *sampleGossip) keep(l adaptive.Sample, to side) {
	c.kept = append(c.kept, kept{l, to})
	if over := len(c.kept) - samplesKept; over > 0 {
		c.kept = slices.Delete(c.kept, 0, over)
		c.first += over
	}
}

// news reports whether a sample is not a duplicate. The caller holds mu.
func (c *sampleGossip) news(l *adaptive.Sample) bool {
	h := fnv.New64a()
	fmt.Fprintln(h, l.Host, l.Site, l.RTTs)
	if c.met.Contains(h.Sum64()) {
		return false
	}
	c.met.Add(h.Sum64(), struct{}{})
	return true
}

// listener returns the state of a neighbor. The caller holds mu.
func (c *sampleGossip) listener(id peer.ID) *listener {
	p := c.listeners[id]
	if p == nil {
		p = &listener{sent: c.first}
		c.listeners[id] = p
	}
	return p
}

// next returns the message with as many of the missing samples of a neighbor at a side as fit, and
// the number of the sample after these; nil if it needs no message.
func (c *sampleGossip) next(id peer.ID, at side) (m *wire.Samples, end int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.listener(id)
	p.sent = max(p.sent, c.first)
	var missing []adaptive.Sample
	var numbers []int
	for i, k := range c.kept[p.sent-c.first:] {
		if k.to == everybody || k.to == at {
			missing, numbers = append(missing, k.Sample), append(numbers, p.sent+i)
		}
	}
	m, n := wire.NewSamples(missing)
	if time.Now().Before(p.mute) || n == 0 && p.exchanges >= greetings {
		return nil, 0
	}
	if n < len(missing) {
		return m, numbers[n]
	}
	return m, c.first + len(c.kept)
}

// send sends one neighbor, at a side of this peer, its missing samples.
func (c *sampleGossip) send(ctx context.Context, id peer.ID, at side) {
	m, end := c.next(id, at)
	if m == nil {
		return
	}
	begun := time.Now()
	reply, err := samplesMethod.Call(ctx, c.net, id, m)
	took := time.Since(begun)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.listener(id)
	p.exchanges++
	if answered(err) && (p.rtt == 0 || took < p.rtt) {
		p.rtt = took
	}
	if err != nil {
		if calls.CodeOf(err) == calls.CodeRefused {
			p.mute, p.exchanges = time.Now().Add(samplesMute), greetings
		}
		c.log.Debug("sending samples failed", "peer", id, "err", err)
		return
	}
	if p.incarnation != 0 && p.incarnation != reply.GetIncarnation() {
		end = c.first // it restarted and has lost its samples
	}
	p.sent, p.incarnation = end, reply.GetIncarnation()
}

func (c *sampleGossip) service() rpc.Service {
	if c == nil {
		return rpc.Refusing("Samples", sampleCallers, "no samples: this peer uses another placement strategy")
	}
	return samplesMethod.Handle(sampleCallers, c.learn)
}

var sampleCallers = rpc.Anyone("caller is a neighbor; rate limit")

// learn processes samples from a neighbor.
func (c *sampleGossip) learn(ctx context.Context, from peer.ID, m *wire.Samples) (*wire.SamplesReply, error) {
	if err := c.admit(from, len(m.GetHost()), time.Now()); err != nil {
		return nil, err
	}
	onward := c.onward(from)
	for _, l := range m.List() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		news := c.news(&l)
		c.mu.Unlock()
		if !news {
			continue
		}
		c.guard.Lock() // locked for each, as a placement may wait
		c.strategy.Learn(time.Now(), &l)
		c.guard.Unlock()
		if onward != nobody && l.Hops < hopsMost {
			l.Hops++
			c.mu.Lock()
			c.keep(l, onward)
			c.mu.Unlock()
		}
	}
	return &wire.SamplesReply{Incarnation: c.incarnation}, nil
}

// admit returns an error unless the samples are of a neighbor and within the rate limit.
func (c *sampleGossip) admit(from peer.ID, n int, now time.Time) error {
	if _, near := c.neighbors()[from]; !near {
		return rpc.Busy("samples: the caller is not in the leaf set")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.received.Allow(now, string(from), n) {
		return rpc.Busy(fmt.Sprintf("samples: at most %d a minute", samplesPerMinute))
	}
	return nil
}
