package placer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
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
	// samplesMute is the backoff for a neighbor that rejects samples, since it uses another strategy.
	samplesMute = 10 * time.Minute
)

// sampleGossip sends the samples of the strategy adaptive to the leaf set (design, section 5), so
// that neighbors need not measure again. The messages themselves measure the RTT to neighbors,
// which is sent as well: a peer is a site that needs no probe. It is safe for concurrent use.
type sampleGossip struct {
	self        peer.ID
	where       func() netip.Addr // this peer's public address
	strategy    *adaptive.Strategy
	guard       sync.Locker // of strategy: the placer's
	log         *slog.Logger
	neighbors   func() []peer.ID // the leaf set
	net         rpc.Caller
	incarnation uint64

	mu        sync.Mutex // guards what follows; never held during network calls
	first     int        // number of kept[0] among all samples so far
	kept      []adaptive.Sample
	listeners map[peer.ID]*listener // neighbors, so bounded
}

// listener is a neighbor that receives samples.
type listener struct {
	sent        int    // number of the next sample to send
	incarnation uint64 // of its process
	mute        time.Time
	received    *rate.Limiter // of its samples
	exchanges   int           // messages so far
	rtt         time.Duration // least RTT of a message; 0: no reply yet
	announced   time.Duration // rtt as last sent for this peer
}

// samplesMethod sends samples to a neighbor.
var samplesMethod = rpc.Method[*wire.Samples, *wire.SamplesReply]{Service: ServiceSamples}

// newSampleGossip returns the gossip of a peer for its strategy, which guard guards.
func newSampleGossip(s *adaptive.Strategy, guard sync.Locker, d *Deps) *sampleGossip {
	return &sampleGossip{
		self: d.Self, where: d.Where, strategy: s, guard: guard, log: d.Log, net: d.Net, incarnation: d.Incarnation,
		neighbors: func() []peer.ID {
			preds, succs := d.Ring.Leaves()
			return idsOf(preds, succs)
		},
		listeners: make(map[peer.ID]*listener),
	}
}

// idsOf returns the IDs of peers, each once, in the order of the lists.
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

// run sends samples until ctx ends.
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

// locate adds the RTTs from this peer to its neighbors as a sample, if they have changed: a
// neighbor is new, or its RTT is shorter by a tenth. It reports whether some neighbors need more
// messages.
func (c *sampleGossip) locate() (more bool) {
	rtts, more := c.distances()
	if len(rtts) == 0 || more {
		return more
	}
	own := adaptive.PeerSample(string(c.self), c.where(), rtts)
	c.guard.Lock()
	c.strategy.Learn(time.Now(), &own)
	c.guard.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(own)
	return false
}

// distances returns the RTTs to the neighbors if they must be announced, and whether some neighbors
// need more messages first.
func (c *sampleGossip) distances() (rtts []adaptive.PeerRTT, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := false
	for id, p := range c.listeners {
		more = more || p.exchanges < greetings
		if p.rtt > 0 {
			rtts = append(rtts, adaptive.PeerRTT{Peer: string(id), RTT: p.rtt})
			changed = changed || p.announced == 0 || p.rtt < p.announced-p.announced/10
		}
	}
	if more || !changed {
		return nil, more
	}
	for _, p := range c.listeners {
		p.announced = p.rtt
	}
	return rtts, false
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
	c.keep(fresh...)
	for id := range c.listeners {
		if !slices.Contains(near, id) {
			delete(c.listeners, id)
		}
	}
	c.mu.Unlock()
	var calls sync.WaitGroup
	for _, id := range near {
		calls.Go(func() { c.send(ctx, id) })
	}
	calls.Wait()
}

// keep stores samples for neighbors. The caller holds mu.
func (c *sampleGossip) keep(list ...adaptive.Sample) {
	c.kept = append(c.kept, list...)
	if over := len(c.kept) - samplesKept; over > 0 {
		c.kept = slices.Delete(c.kept, 0, over)
		c.first += over
	}
}

// listener returns the state of a neighbor. The caller holds mu.
func (c *sampleGossip) listener(id peer.ID) *listener {
	p := c.listeners[id]
	if p == nil {
		p = &listener{sent: c.first, received: rate.NewLimiter(samplesPerMinute/60.0, samplesPerMinute)}
		c.listeners[id] = p
	}
	return p
}

// next returns the message with as many of a neighbor's missing samples as fit, and the number of
// the sample after these; nil if it needs no message.
func (c *sampleGossip) next(id peer.ID) (m *wire.Samples, end int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.listener(id)
	p.sent = max(p.sent, c.first)
	m, n := wire.NewSamples(c.kept[p.sent-c.first:])
	if time.Now().Before(p.mute) || n == 0 && p.exchanges >= greetings {
		return nil, 0
	}
	return m, p.sent + n
}

// send sends one neighbor its missing samples.
func (c *sampleGossip) send(ctx context.Context, id peer.ID) {
	m, end := c.next(id)
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
	for _, l := range m.List() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.guard.Lock() // locked for each, as a placement may wait
		c.strategy.Learn(time.Now(), &l)
		c.guard.Unlock()
	}
	return &wire.SamplesReply{Incarnation: c.incarnation}, nil
}

// admit returns an error unless the samples are of a neighbor and within the rate limit.
func (c *sampleGossip) admit(from peer.ID, n int, now time.Time) error {
	if !slices.Contains(c.neighbors(), from) {
		return rpc.Busy("samples: the caller is not in the leaf set")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.listener(from).received.AllowN(now, n) {
		return rpc.Busy(fmt.Sprintf("samples: at most %d a minute", samplesPerMinute))
	}
	return nil
}
