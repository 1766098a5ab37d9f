// Package apoidea repeats the experiments of Apoidea (papers 1.5): the effect of threads, distance
// and other peers on the throughput of a peer with a simulated machine.
package apoidea

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/dht/dhtsim/clock"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// apoideaSetup is a crawl by peers on one LAN.
type apoideaSetup struct {
	hardware *hardware
	// load is the share of the CPU that the crawler gets.
	load    float64
	peers   int
	threads int
	// sites are the round trips to the crawled hosts.
	sites []time.Duration
	// server is the median server time of a page; 0 selects that of internet.Transfer.
	server time.Duration
	// kinds of messages of a page.
	kinds []messageKind
	// length is the measured virtual time, after a tenth of it to settle.
	length time.Duration
}

// apoideaResult is the result of all peers together.
type apoideaResult struct {
	pages    int
	seconds  float64
	cpu      time.Duration
	messages int
	peers    int
}

// perPeer returns the pages per second and peer.
func (r *apoideaResult) perPeer() float64 { return float64(r.pages) / r.seconds / float64(r.peers) }

// cpuShare returns the CPU usage of the crawler in percent.
func (r *apoideaResult) cpuShare() float64 {
	return 100 * r.cpu.Seconds() / r.seconds / float64(r.peers)
}

// perPage returns the messages per page.
func (r *apoideaResult) perPage() float64 { return float64(r.messages) / float64(r.pages) }

// messageKind is a kind of message that a page causes, batched by destination.
type messageKind struct {
	linger time.Duration // of the first of a batch
	most   int           // of a batch
	copies bool          // of records: each costs replica, instead of call for a batch
	// awaited lets the thread of a page wait until another peer has answered.
	awaited bool
	// to selects the receiving peers by number.
	to func(c *apoideaCrawl, rnd *rand.Rand, from int) []int
}

const (
	// lanRTT is a round trip on a LAN.
	lanRTT = 200 * time.Microsecond
	// lingering and batches are those of the node: outbox (node/services/hosts), claims and
	// confirmations (crawl/worker), the log of replicas.
	batchLinger   = 100 * time.Millisecond
	confirmLinger = 300 * time.Millisecond
	batchLinks    = 256
	batchDigests  = 64
	// cacheHits is the share of links that a cache of sent links filters out (Mercator's figure,
	// quoted in Apoidea).
	cacheHits = 0.75
)

// apoideaMessages returns the paper's messages: links to the owners of their hosts, and queries for
// a body to the owner of its digest (3.2). With wait the thread that fetched the page waits for the
// answer.
func apoideaMessages(wait bool) []messageKind {
	d := webgen.DefaultConfig()
	foreign := float64(d.Links) * d.CrossHostShare * (1 - cacheHits)
	return []messageKind{
		{linger: batchLinger, most: batchLinks, to: func(c *apoideaCrawl, rnd *rand.Rand, _ int) []int {
			to := make([]int, int(foreign+rnd.Float64()))
			for i := range to {
				to[i] = c.owner[rnd.IntN(len(c.owner))]
			}
			return to
		}},
		{linger: batchLinger, most: batchDigests, awaited: wait, to: ofDigest},
	}
}

// todaysMessages adds our messages: confirmations of archived bodies, and the records of each page
// to the peers that hold replicas.
func todaysMessages() []messageKind {
	return append(apoideaMessages(false),
		messageKind{linger: confirmLinger, most: batchLinks, to: ofDigest},
		messageKind{linger: batchLinger, most: 1 << 30, copies: true, to: func(c *apoideaCrawl, _ *rand.Rand, from int) []int {
			var to []int
			for i := 1; i < min(3, len(c.peers)); i++ {
				to = append(to, (from+i)%len(c.peers))
			}
			return to
		}},
	)
}

// apoideaCrawl is a running crawl.
type apoideaCrawl struct {
	setup apoideaSetup
	rnd   *rand.Rand
	clock clock.Clock
	peers []*apoideaPeer
	keys  []ring.Key // of the peers, ascending
	owner []int      // of each host, by number

	pages, messages int
}

// apoideaPeer is a peer: its machine and its owned hosts. On a LAN all leaf peers are equally near
// to a site, so the owner crawls its hosts itself.
type apoideaPeer struct {
	*machine
	c      *apoideaCrawl
	number int
	hosts  []time.Duration // those without a thread, as round trips, in order
	idle   int             // threads without a host
	out    [][]batch       // what waits, by kind and destination
}

// batch is the queue for one destination.
type batch struct {
	items   int
	sent    int      // batches before this one: a timer is void once its own has left
	waiting []func() // called when the answer arrives
}

// runApoidea runs the crawl. Each thread of a peer takes the next host, fetches a page over an open
// connection, stores and processes it, and takes the next. Messages are sent meanwhile.
func runApoidea(ctx context.Context, rnd *rand.Rand, setup apoideaSetup) (*apoideaResult, error) {
	c := &apoideaCrawl{setup: setup, rnd: rnd}
	c.join()
	for h, rtt := range setup.sites {
		number := c.at(ring.HostKey(fmt.Sprintf("host-%d.example", h)))
		c.owner = append(c.owner, number)
		c.peers[number].hosts = append(c.peers[number].hosts, rtt)
	}
	for _, p := range c.peers {
		rnd.Shuffle(len(p.hosts), func(i, j int) { p.hosts[i], p.hosts[j] = p.hosts[j], p.hosts[i] })
		for range setup.threads {
			p.fetch()
		}
	}
	if err := c.let(ctx, setup.length/10); err != nil {
		return nil, err
	}
	pages, messages, cpu := c.pages, c.messages, c.cpu()
	if err := c.let(ctx, setup.length); err != nil {
		return nil, err
	}
	return &apoideaResult{
		pages: c.pages - pages, messages: c.messages - messages, cpu: c.cpu() - cpu, seconds: setup.length.Seconds(), peers: setup.peers,
	}, nil
}

// let advances virtual time and regularly checks for cancellation.
func (c *apoideaCrawl) let(ctx context.Context, d time.Duration) error {
	const steps = 50
	for range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.clock.Run(d / steps)
	}
	return nil
}

// join builds the ring: each peer draws eight keys and takes the one that splits the longest arc,
// as live peers do. Peers are numbered around the ring.
func (c *apoideaCrawl) join() {
	for range c.setup.peers {
		_, c.keys = worlds.Join(c.keys, func(int) ring.Key { return drawKey(c.rnd) })
	}
	for i := range c.keys {
		p := &apoideaPeer{machine: newMachine(&c.clock, c.setup.hardware, c.setup.load), c: c, number: i}
		for range c.setup.kinds {
			p.out = append(p.out, make([]batch, len(c.keys)))
		}
		c.peers = append(c.peers, p)
	}
}

// at returns the number of a key's owner.
func (c *apoideaCrawl) at(k ring.Key) int { return worlds.Successor(c.keys, k) }

func (c *apoideaCrawl) cpu() time.Duration {
	sum := time.Duration(0)
	for _, p := range c.peers {
		sum += p.machine.cpu.done()
	}
	return sum
}

// drawKey draws a point of the circle.
func drawKey(rnd *rand.Rand) ring.Key {
	return ring.KeyOf(binary.BigEndian.AppendUint64(nil, rnd.Uint64()))
}

// ofDigest returns the owner of the digest of a page.
func ofDigest(c *apoideaCrawl, rnd *rand.Rand, _ int) []int { return []int{c.at(drawKey(rnd))} }

// fetch gives a thread the next host, or lets it wait for one.
func (p *apoideaPeer) fetch() {
	if len(p.hosts) == 0 {
		p.idle++
		return
	}
	rtt := p.hosts[0]
	p.hosts = p.hosts[1:]
	// The connection is open already: it does not cost the round trip that a transfer begins with.
	t := internet.Transfer{RTT: rtt, Bytes: p.pageSize(p.c.rnd), Server: p.c.setup.server}
	took := t.Time(p.c.rnd) - rtt
	p.clock.After(took, func() {
		p.hosts = append(p.hosts, rtt)
		if p.idle > 0 {
			p.idle--
			p.fetch()
		}
		p.store(func() {
			p.machine.cpu.run(p.page, func() {
				p.c.pages++
				p.send(p.fetch)
			})
		})
	})
}

// send batches the messages of a page, and calls back when its thread need not wait for an answer.
func (p *apoideaPeer) send(then func()) {
	for i := range p.c.setup.kinds {
		kind := &p.c.setup.kinds[i]
		for _, to := range kind.to(p.c, p.c.rnd, p.number) {
			if to == p.number {
				continue // no message: part of what a page costs a lone peer
			}
			b := &p.out[i][to]
			b.items++
			if kind.awaited {
				b.waiting, then = append(b.waiting, then), func() {}
			}
			switch b.items {
			case kind.most:
				p.flush(i, to)
			case 1:
				sent := b.sent
				p.clock.After(kind.linger, func() {
					if b.sent == sent {
						p.flush(i, to)
					}
				})
			}
		}
	}
	then()
}

// flush sends a batch; both sides spend CPU time, half a round trip apart.
func (p *apoideaPeer) flush(kind, to int) {
	b := &p.out[kind][to]
	work := p.call
	if p.c.setup.kinds[kind].copies {
		work = p.replica * time.Duration(b.items)
	}
	waiting := b.waiting
	b.items, b.waiting = 0, nil
	b.sent++
	p.c.messages++
	p.machine.cpu.run(work, func() {
		p.clock.After(lanRTT/2, func() {
			p.c.peers[to].machine.cpu.run(work, func() {
				p.clock.After(lanRTT/2, func() {
					for _, then := range waiting {
						then()
					}
				})
			})
		})
	})
}
