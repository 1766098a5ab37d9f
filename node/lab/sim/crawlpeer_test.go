package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/worker/session"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// stepGap is how long a peer collects input for one step of its owner: one fsync for all.
	stepGap = time.Millisecond
	// diskTime is the duration of an fsync.
	diskTime = 3 * time.Millisecond
	// leaseTTL is the design's.
	leaseTTL = 8 * time.Second
	// seenMemory is the memory limit of a peer's filters.
	seenMemory = 1 << 20
)

// crawlPeer is a peer with the logic of the node: ring, owner of hosts, replication, handoff,
// outbox and worker.
type crawlPeer struct {
	*dhtsim.Node
	world *crawl
	disk  *disk
	owner *owner.Owner
	view  *view

	inputs  []func(*owner.Owner)
	ends    []func()
	planned bool
	next    alarm
	waiting []step

	bodies *bodies
	ship   *shipping
	moving *moving
	mail   *outbox
	worker *worker
}

// disk is the state that survives a peer's process.
type disk struct {
	hosts, bodies, copies store
	starts                uint64
}

// step is the result of a Commit, while it is written to the disks.
type step struct {
	ready  owner.Ready
	ends   []func()
	seq    uint64 // of the last entry for the replicas
	onDisk time.Duration
}

// newCrawlPeer creates the crawler of a starting peer of the ring.
func newCrawlPeer(w *crawl, p *dhtsim.Node, d *disk) *crawlPeer {
	c := &crawlPeer{Node: p, world: w, disk: d}
	d.starts++
	c.next = alarm{c: c, do: func() { c.do(nil, nil) }}
	c.view = newView(c)
	c.ship = newShipping(c)
	c.bodies = newBodies(c)
	c.moving = newMoving(c)
	c.mail = newOutbox(c)
	c.worker = newWorker(c)
	cfg := owner.DefaultConfig(string(p.Peer.ID))
	cfg.TTL, cfg.Delay = leaseTTL, w.cfg.Delay
	cfg.Settled = func(key ring.Key) bool { return c.moving.settled(key) }
	sets := dedup.NewSets(dedup.Exact, func(set owner.SetID, yield func(uint64) bool) error { return c.owner.Hashes(set, yield) }, seenMemory)
	o, err := owner.New(cfg, shipped{&c.disk.hosts, &hostSpace, c.ship.append}, sets, w, mine{c}, w.Now())
	if err != nil {
		w.fail(err)
	}
	c.owner = o
	return c
}

// mine reports to the owner which hosts are this peer's.
type mine struct{ c *crawlPeer }

// Mine implements owner.Ring.
func (m mine) Mine(key ring.Key) bool { return m.c.Serves(key) }

// do runs apply in the next step of the owner, and ended once that is on all required disks. Either
// may be nil.
func (c *crawlPeer) do(apply func(*owner.Owner), ended func()) {
	if apply != nil {
		c.inputs = append(c.inputs, apply)
	}
	if ended != nil {
		c.ends = append(c.ends, ended)
	}
	if !c.planned {
		c.planned = true
		c.Host.After(stepGap, c.step)
	}
}

// step makes one step of the owner.
func (c *crawlPeer) step() {
	w := c.world
	c.planned = false
	inputs, ends := c.inputs, c.ends
	c.inputs, c.ends = nil, nil
	c.owner.Begin(w.Now())
	for _, apply := range inputs {
		apply(c.owner)
	}
	ready, err := c.owner.Commit()
	if err != nil {
		w.fail(fmt.Errorf("owner of peer %d: %w", c.Index, err))
		return
	}
	c.waiting = append(c.waiting, step{ready: ready, ends: ends, seq: c.ship.source.Seq(), onDisk: w.Elapsed() + diskTime})
	c.Host.After(diskTime, c.release)
	c.ship.pump()
	c.next.set(ready.Next)
}

// durable runs done once all earlier writes are on all required disks.
func (c *crawlPeer) durable(done func()) {
	c.waiting = append(c.waiting, step{ends: []func(){done}, seq: c.ship.source.Seq(), onDisk: c.world.Elapsed() + diskTime})
	c.Host.After(diskTime, c.release)
	c.ship.pump()
}

// atOwner makes the owner at a peer answer once its changes are on all required disks.
func atOwner[M proto.Message](c *crawlPeer, to peer.ID, purpose Purpose, size int, timeout time.Duration, ask func(*owner.Owner) M, done func(M, error)) {
	var reply M
	apply := func(o *owner.Owner) { reply = ask(o) }
	if to == c.Peer.ID {
		c.do(apply, func() { done(reply, nil) })
		return
	}
	c.world.request(c, to, &request{
		Purpose: purpose, Size: size, Timeout: timeout,
		Handle: func(target *crawlPeer, answer func(int, any)) {
			target.do(apply, func() { answer(proto.Size(reply), reply) })
		},
		Done: func(answer any, err error) {
			m, _ := answer.(M)
			done(m, err)
		},
	})
}

// release releases the answers and effects of steps that are on disk here and at all level
// followers, in order.
func (c *crawlPeer) release() {
	for len(c.waiting) > 0 {
		s := c.waiting[0]
		if s.onDisk > c.world.Elapsed() || s.seq > c.ship.durable() {
			return
		}
		c.waiting = c.waiting[1:]
		for _, ended := range s.ends {
			ended()
		}
		c.effects(&s.ready)
	}
	c.waiting = nil
}

// effects performs the effects of a step.
func (c *crawlPeer) effects(r *owner.Ready) {
	for i := range r.Places {
		c.place(&r.Places[i])
	}
	for _, offer := range r.Offers {
		c.offer(offer)
	}
	if r.Outbox {
		c.mail.collect()
	}
}

// place selects a worker among this peer and its leaf set, by the strategy of the paper: its
// candidates measure the site.
func (c *crawlPeer) place(p *owner.Place) {
	w := c.world
	self := string(c.Peer.ID)
	v := &placement.View{Host: p.Host, Tiny: p.Tiny, Known: p.Known, Measured: make(map[string]placement.Measurement)}
	v.Candidates = []placement.Candidate{{Peer: self, Self: true, Backlog: uint32(c.worker.visits.Backlog()), Capacity: uint32(session.DefaultConfig().Capacity)}}
	for _, id := range c.view.leaves {
		if !slices.Contains(p.Exclude, string(id)) {
			v.Candidates = append(v.Candidates, placement.Candidate{Peer: string(id)})
		}
	}
	site := w.sites.host(p.Host).index
	var next func()
	next = func() {
		choice := placement.RTT{}.Next(v)
		left := len(choice.Probe)
		if left == 0 {
			c.do(func(o *owner.Owner) {
				o.Placed(p.Host, owner.Placement{Worker: choice.Worker, URLs: choice.URLs, Measured: measurements(v), Why: choice.Why})
			}, nil)
			return
		}
		for _, name := range choice.Probe {
			came := func(rtt time.Duration, err error) {
				m := placement.Measurement{RTT: rtt}
				if err != nil {
					m.Err = err.Error()
				}
				v.Measured[name] = m
				if left--; left == 0 {
					next()
				}
			}
			if name == self {
				rtt := w.Internet.RTT(c.Index, site)
				c.Host.After(probes*rtt, func() { came(rtt, nil) })
				continue
			}
			c.probe(peer.ID(name), p.Host, site, came)
		}
	}
	next()
}

const (
	// probes is the number of RTT probes of a site per candidate; probeTimeout is their timeout,
	// probeSize the approximate size of the request without the host name.
	probes       = 3
	probeTimeout = 1500 * time.Millisecond
	probeSize    = 24
)

// probe asks another peer for its RTT to a site.
func (c *crawlPeer) probe(of peer.ID, host string, site int, done func(time.Duration, error)) {
	w := c.world
	w.request(c, of, &request{
		Purpose: Probes, Size: probeSize + len(host), Timeout: probeTimeout,
		Handle: func(target *crawlPeer, reply func(int, any)) {
			rtt := w.Internet.RTT(target.Index, site)
			target.Host.After(probes*rtt, func() { reply(probeSize, rtt) })
		},
		Done: func(answer any, err error) {
			rtt, _ := answer.(time.Duration)
			done(rtt, err)
		},
	})
}

func measurements(v *placement.View) []owner.Measurement {
	var out []owner.Measurement
	for _, candidate := range v.Candidates {
		if m, ok := v.Measured[candidate.Peer]; ok {
			out = append(out, owner.Measurement{Peer: candidate.Peer, RTTUs: m.RTT.Microseconds(), Error: m.Err})
		}
	}
	return out
}

// offerTimeout is the timeout of an offer, about that of the owner.
const offerTimeout = 2 * time.Second

// offer offers hosts to a worker.
func (c *crawlPeer) offer(offer owner.Offer) {
	w := c.world
	decline := func(hosts []string) {
		if len(hosts) > 0 {
			c.do(func(o *owner.Owner) { o.Declined(offer.Worker, hosts) }, nil)
		}
	}
	if offer.Worker == string(c.Peer.ID) {
		decline(c.worker.offered(c.Peer.ID, offer.Hosts))
		return
	}
	size := 2
	for _, host := range offer.Hosts {
		size += len(host) + 2
	}
	w.request(c, peer.ID(offer.Worker), &request{
		Purpose: Sessions, Size: size, Timeout: offerTimeout,
		Handle: func(target *crawlPeer, reply func(int, any)) { reply(2, target.worker.offered(c.Peer.ID, offer.Hosts)) },
		Done: func(answer any, err error) {
			hosts, _ := answer.([]string)
			if err != nil {
				hosts = offer.Hosts
			}
			decline(hosts)
		},
	})
}

// happened handles events of the peer's ring.
func (c *crawlPeer) happened(e dht.Event) {
	switch e := e.(type) {
	case dht.PeerDead:
		c.do(func(o *owner.Owner) { o.PeerDead(string(e.Peer.ID)) }, nil)
	case dht.StateChanged, dht.LeavesChanged:
		c.view.changed()
	case dht.ArcChanged:
		c.view.changed()
		c.do(func(o *owner.Owner) { o.SettledChanged() }, nil)
	}
}
