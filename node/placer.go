package node

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// probeTries are made of a site by each candidate that is asked; the median counts.
	probeTries = 3
	// probeTimeout bounds the probes of one candidate; the owner gives a placement up a little later.
	probeTimeout = 1500 * time.Millisecond
	// probesMost bounds the probes that this peer makes for others at once.
	probesMost = 32
	// rangesKept and rangeAge bound what is remembered of address ranges.
	rangesKept = 4096
	rangeAge   = 10 * time.Minute
	// placementRounds bounds how often a strategy may ask for more measurements.
	placementRounds = 4
)

// choice is what came of looking for a worker.
type choice struct {
	worker   string
	measured []owner.Measurement
	why      string
}

// placer chooses workers for the hosts of this peer, and measures sites for the owners of others.
type placer struct {
	node     *Node
	strategy placement.Strategy
	probing  chan struct{}

	mu    sync.Mutex // guards cache and loads
	cache *placement.Cache
	loads map[string]*wire.ProbeReply // what candidates told of themselves last; of the leaf set, so bounded
}

func newPlacer(n *Node) (*placer, error) {
	s, err := placement.New(n.cfg.Placement)
	if err != nil {
		return nil, err
	}
	return &placer{
		node: n, strategy: s, probing: make(chan struct{}, probesMost), cache: placement.NewCache(rangesKept, rangeAge),
		loads: make(map[string]*wire.ProbeReply),
	}, nil
}

// place looks for the worker of a host among this peer and its leaf set.
func (c *crawlRoom) place(ctx context.Context, p owner.Place) choice { return c.placer.place(ctx, p) }

func (pl *placer) place(ctx context.Context, p owner.Place) choice {
	v := &placement.View{Host: p.Host, Candidates: pl.candidates(ring.HostKey(p.Host), p.Exclude), Tiny: p.Tiny, Known: p.Known, Measured: make(map[string]placement.Measurement)}
	var site netip.Addr
	if len(p.Addrs) > 0 {
		site, _ = netip.AddrFromSlice(p.Addrs[0])
	}
	pl.recall(site, v)
	for range placementRounds {
		c := pl.strategy.Next(v)
		if len(c.Probe) == 0 {
			pl.mu.Lock()
			if site.IsValid() {
				pl.cache.Placed(site, c.Worker)
			}
			pl.mu.Unlock()
			return choice{worker: c.Worker, measured: measurements(v), why: c.Why}
		}
		site = pl.probeAll(ctx, p, c.Probe, v, site)
	}
	return choice{measured: measurements(v), why: "the strategy found no end: the owner keeps the host"}
}

// recall fills in what is known of the site's range.
func (pl *placer) recall(site netip.Addr, v *placement.View) {
	if !site.IsValid() {
		return
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	maps.Copy(v.Measured, pl.cache.Measured(time.Now(), site))
	if v.Known == "" {
		v.Known = pl.cache.Worker(site)
	}
}

// candidates are this peer, its leaf set, nearest on the ring first, and some of the workers attached to it, without those that would not take the host.
func (pl *placer) candidates(key ring.Key, exclude []string) []placement.Candidate {
	n := pl.node
	self := string(n.room.net.Self())
	list := []placement.Candidate{{Peer: self, Self: true, Backlog: uint32(n.crawl.worker.Backlog()), Capacity: uint32(n.crawl.worker.Capacity())}} //nolint:gosec // small counts
	preds, succs := n.room.dht.Leaves()
	seen := map[string]bool{self: true}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for i := range max(len(preds), len(succs)) {
		for _, side := range []int{0, 1} {
			peers := succs
			if side == 1 {
				peers = preds
			}
			if i >= len(peers) || seen[string(peers[i].ID)] {
				continue
			}
			id := string(peers[i].ID)
			seen[id] = true
			c := placement.Candidate{Peer: id}
			if l := pl.loads[id]; l != nil {
				c.Backlog, c.Capacity = l.GetBacklog(), l.GetCapacity()
			}
			list = append(list, c)
		}
	}
	for _, p := range n.room.dht.Candidates(key) {
		if id := string(p.ID); !seen[id] {
			seen[id] = true
			c := placement.Candidate{Peer: id}
			if l := pl.loads[id]; l != nil {
				c.Backlog, c.Capacity = l.GetBacklog(), l.GetCapacity()
			}
			list = append(list, c)
		}
	}
	for id := range pl.loads {
		if !seen[id] {
			delete(pl.loads, id)
		}
	}
	return slices.DeleteFunc(list, func(c placement.Candidate) bool { return !c.Self && slices.Contains(exclude, c.Peer) })
}

// probeAll asks peers to measure a site, all at once, and returns its address as the first of them resolved it.
func (pl *placer) probeAll(ctx context.Context, p owner.Place, peers []string, v *placement.View, site netip.Addr) netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	scheme := "http"
	if p.Secure {
		scheme = "https"
	}
	replies := make([]*wire.ProbeReply, len(peers))
	var wg sync.WaitGroup
	for i, id := range peers {
		wg.Go(func() { replies[i] = pl.probe(ctx, peer.ID(id), p.Host, scheme) })
	}
	wg.Wait()
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for i, id := range peers {
		r := replies[i]
		m := placement.Measurement{RTT: time.Duration(r.GetRttUs()) * time.Microsecond, Err: r.GetError()}
		v.Measured[id] = m
		pl.loads[id] = r
		if addr, ok := netip.AddrFromSlice(r.GetAddr()); ok && m.Err == "" {
			if !site.IsValid() {
				site = addr
			}
			pl.cache.Note(time.Now(), addr, id, m)
		}
	}
	return site
}

// probe asks one peer; what went wrong is in the reply.
func (pl *placer) probe(ctx context.Context, of peer.ID, host, scheme string) *wire.ProbeReply {
	if of == pl.node.room.net.Self() {
		return pl.probeHere(ctx, host, scheme)
	}
	raw, err := proto.MarshalOptions{}.MarshalAppend([]byte{tagProbe}, &wire.Probe{Host: host, Scheme: scheme, Method: "connect"})
	if err != nil {
		return &wire.ProbeReply{Error: err.Error()}
	}
	answer, err := pl.node.room.net.Call(pl.node.room.toWorker(ctx, of), of, serviceWorker, raw)
	if err != nil {
		return &wire.ProbeReply{Error: clip("no answer: "+err.Error(), 200)}
	}
	reply := new(wire.ProbeReply)
	if err := proto.Unmarshal(answer, reply); err != nil {
		return &wire.ProbeReply{Error: err.Error()}
	}
	if err := reply.Validate(); err != nil {
		return &wire.ProbeReply{Error: err.Error()}
	}
	return reply
}

func clip(s string, n int) string { return s[:min(len(s), n)] }

// probeHere measures a site from here: the median of a few TCP connects, which carry no request.
func (pl *placer) probeHere(ctx context.Context, host, scheme string) *wire.ProbeReply {
	w := pl.node.crawl.worker
	reply := &wire.ProbeReply{Backlog: uint32(w.Backlog()), Capacity: uint32(w.Capacity())} //nolint:gosec // small counts
	select {
	case pl.probing <- struct{}{}:
		defer func() { <-pl.probing }()
	case <-ctx.Done():
		reply.Error = "too many probes at once"
		return reply
	}
	var rtts []time.Duration
	for range probeTries {
		rtt, addr, err := pl.node.crawl.fetcher.Probe(ctx, host, scheme)
		if err != nil {
			if len(rtts) == 0 {
				reply.Error = clip(strings.ToValidUTF8(err.Error(), "?"), 200)
				return reply
			}
			break
		}
		rtts = append(rtts, rtt)
		reply.Addr = addr.AsSlice()
	}
	slices.Sort(rtts)
	reply.RttUs = max(rtts[len(rtts)/2].Microseconds(), 1)
	return reply
}

// measurements turns what a strategy saw into what the host's record keeps.
func measurements(v *placement.View) []owner.Measurement {
	out := make([]owner.Measurement, 0, len(v.Measured))
	for _, c := range v.Candidates {
		if m, ok := v.Measured[c.Peer]; ok {
			out = append(out, owner.Measurement{Peer: c.Peer, RTTUs: m.RTT.Microseconds(), Error: m.Err})
		}
	}
	return out
}
