package placing

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
	// farMost bounds the members beyond the leaf set whose distance is learnt, by so many messages to
	// each, of which the shortest counts; two of them a second. With the leaf set they fit into a
	// sample.
	farMost      = wire.MaxSampleRTTs - 17
	farGreetings = 3
	// hopsMost bounds how far a sample goes: eight leaf sets on each side, 128 owners.
	hopsMost = 7
	// passers are the farthest neighbours of each side that pass on what was told: one could be gone.
	passers = 2
	// samplesMet is how many samples, and up to as many again, are known when they come again.
	samplesMet = 2048
	// samplesMute is how long a neighbour that takes no samples, since it places hosts otherwise,
	// is left alone.
	samplesMute = 10 * time.Minute
)

// sampleGossip shares what the strategy adaptive learns at its owners (design, section 5): what one
// had measured, others need not measure again. It tells its leaf set, and those at the ends of it
// pass it on, away from whom they have it: each sample comes to an owner twice at most from each
// side.
// How far neighbours, and some others, are from this peer it learns by the messages themselves, and
// tells it as well: a peer is a site that nobody need probe. It is safe for concurrent use.
type sampleGossip struct {
	self        peer.ID
	where       func() netip.Addr // this peer's address among sites
	strategy    *adaptive.Strategy
	guard       sync.Locker // of strategy: the placer's
	log         *slog.Logger
	sides       func() (preds, succs []peer.ID) // the leaf set, nearest first
	members     func() []peer.ID                // of the ring
	net         rpc.Caller
	incarnation uint64

	mu        sync.Mutex // guards what follows; never held over the network
	first     int        // number of kept[0] among all samples so far
	kept      []kept
	met, long map[uint64]bool           // identities of samples that are known; of late, and before that
	listeners map[peer.ID]*listener     // neighbours, so bounded
	beyond    map[peer.ID]time.Duration // members that are no neighbours; 0 of one that did not answer
	far       map[peer.ID]time.Duration // both, as this peer told of itself last
}

// kept is a sample that neighbours are told.
type kept struct {
	adaptive.Sample
	to side
}

// side says which neighbours are told a sample.
type side int

const (
	everybody side = iota
	preds          // those before this peer on the ring
	succs          // those behind it
	nobody
)

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
		strategy: s, guard: guard, log: d.Log, net: d.Net, incarnation: d.Incarnation,
		sides: func() (before, behind []peer.ID) {
			preds, succs := d.Ring.Leaves()
			return idsOf(preds), idsOf(succs)
		},
		members: func() []peer.ID { return idsOf(d.Ring.Members()) }, beyond: make(map[peer.ID]time.Duration),
		met: make(map[uint64]bool), listeners: make(map[peer.ID]*listener),
	}
}

// neighbours are the leaf set with the side of each: everybody for one who is on both.
func (c *sampleGossip) neighbours() map[peer.ID]side {
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

// onward is who is told what a neighbour told: those on the other side, if it is at the end of its
// own. Where somebody is on both sides all of the ring hear it from whoever learnt it.
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
		if pause = samplesEvery; c.locate(ctx) {
			pause = greetEvery
		}
	}
}

// locate has the neighbours learn how far they and others are from this peer, if that is news; it
// says whether some neighbours were not greeted often enough to know. It is news where a way is
// shorter by a tenth, and where more ways are known: all, or twice as many as were told.
func (c *sampleGossip) locate(ctx context.Context) (more bool) {
	all := c.greet(ctx)
	c.mu.Lock()
	far, news := make(map[peer.ID]time.Duration), false
	for id, p := range c.listeners {
		more = more || p.greeted < greetings
		if p.rtt > 0 {
			far[id] = p.rtt
		}
	}
	for id, rtt := range c.beyond {
		if rtt > 0 && c.listeners[id] == nil && len(far) < wire.MaxSampleRTTs-1 {
			far[id] = rtt
		}
	}
	grown := len(far) >= 2*len(c.far)
	for id, rtt := range far {
		before, known := c.far[id]
		news = news || !known && (all || grown) || known && rtt < before-before/10
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
	c.news(&own)
	c.keep(own, everybody)
	return more
}

// greet learns how far two more members beyond the leaf set are; it says whether that of all is
// known of whom it is to be. They take no samples, but whoever refuses answers too.
func (c *sampleGossip) greet(ctx context.Context) (all bool) {
	near, members := c.neighbours(), c.members()
	c.mu.Lock()
	maps.DeleteFunc(c.beyond, func(id peer.ID, _ time.Duration) bool { return !slices.Contains(members, id) })
	var next []peer.ID
	for _, id := range members {
		_, met := c.beyond[id]
		if _, leaf := near[id]; !leaf && !met && id != c.self && len(next) < 2 && len(c.beyond)+len(next) < farMost {
			next = append(next, id)
		}
	}
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

// answered says whether an error, or none, is the answer of the peer that was called.
func answered(err error) bool {
	code := calls.CodeOf(err)
	return err == nil || code == calls.CodeRefused || code == calls.CodeBusy
}

// teach tells each neighbour what it does not know yet, all at the same time. What one does not
// take it is told the next time.
func (c *sampleGossip) teach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, samplesTimeout)
	defer cancel()
	var calls sync.WaitGroup
	for id, l := range c.due(time.Now()) {
		calls.Go(func() { c.tell(ctx, id, &l) })
	}
	calls.Wait()
}

// due are the samples for each neighbour. One that is new is told all that are kept.
func (c *sampleGossip) due(now time.Time) map[peer.ID]lesson {
	c.guard.Lock()
	fresh := c.strategy.Samples()
	c.guard.Unlock()
	near := c.neighbours()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range fresh {
		c.news(&l)
		c.keep(l, everybody)
	}
	for id := range c.listeners {
		if _, ok := near[id]; !ok {
			delete(c.listeners, id)
		}
	}
	due := make(map[peer.ID]lesson)
	for id, at := range near {
		p := c.listener(id)
		p.told = max(p.told, c.first)
		if now.Before(p.mute) {
			continue
		}
		l := lesson{end: p.told}
		for _, k := range c.kept[p.told-c.first:] {
			if l.end++; k.to == everybody || k.to == at {
				l.samples, l.ends = append(l.samples, k.Sample), append(l.ends, l.end)
			}
		}
		if len(l.samples) == 0 {
			p.told = l.end
		}
		if len(l.samples) > 0 || p.greeted < greetings {
			due[id] = l
		}
	}
	return due
}

// lesson is what a neighbour is to be told: with each sample the number of the one behind it among
// all that are kept, and that of the one behind all.
type lesson struct {
	samples []adaptive.Sample
	ends    []int
	end     int
}

// told is the number of the next sample when so many of these were told.
func (l *lesson) told(n int) int {
	if n < len(l.samples) {
		return l.ends[n] - 1
	}
	return l.end
}

// keep keeps a sample for neighbours. The caller holds mu.
func (c *sampleGossip) keep(l adaptive.Sample, to side) {
	c.kept = append(c.kept, kept{l, to})
	if over := len(c.kept) - samplesKept; over > 0 {
		c.kept = slices.Delete(c.kept, 0, over)
		c.first += over
	}
}

// news says whether a sample was not met before, whoever told it. The caller holds mu.
func (c *sampleGossip) news(l *adaptive.Sample) bool {
	h := fnv.New64a()
	fmt.Fprintln(h, l.Host, l.Site, l.RTTs)
	id := h.Sum64()
	if c.met[id] || c.long[id] {
		return false
	}
	if len(c.met) >= samplesMet {
		c.long, c.met = c.met, make(map[uint64]bool)
	}
	c.met[id] = true
	return true
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
func (c *sampleGossip) tell(ctx context.Context, id peer.ID, l *lesson) {
	m, n := wire.NewSamples(l.samples)
	begun := time.Now()
	reply, err := samplesMethod.Call(ctx, c.net, id, m)
	took := time.Since(begun)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.listener(id)
	p.greeted++
	if answered(err) && (p.rtt == 0 || took < p.rtt) {
		p.rtt = took
	}
	switch {
	case err != nil && calls.CodeOf(err) == calls.CodeRefused:
		p.mute, p.greeted = time.Now().Add(samplesMute), greetings
	case err == nil && p.incarnation != 0 && p.incarnation != reply.GetIncarnation():
		p.told = c.first // it has forgotten what it was told before
	case err == nil:
		p.told = max(p.told, l.told(n))
	}
	if err == nil {
		p.incarnation = reply.GetIncarnation()
	} else {
		c.log.Debug("samples not told", "peer", id, "err", err)
	}
}

func (c *sampleGossip) service() rpc.Service {
	if c == nil {
		return rpc.Refusing("Samples", sampleCallers, "this peer takes no samples: it places hosts otherwise")
	}
	return samplesMethod.Handle(sampleCallers, c.learn)
}

var sampleCallers = rpc.Anyone("that the caller is a neighbour; so many a minute")

// learn learns what a neighbour tells.
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
		c.guard.Lock() // for each anew, as a placement may wait
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

// admit says whether samples of a peer are taken now: those of neighbours, so many a minute.
func (c *sampleGossip) admit(from peer.ID, n int, now time.Time) error {
	_, near := c.neighbours()[from]
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
