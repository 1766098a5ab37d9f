package dht

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

const (
	// healEvery is the interval between searches for our own position through a random peer: they find
	// a ring that split from ours and is no longer in the routing table. Each costs about two calls.
	healEvery = 30 * time.Second
	// healSoon is that interval for healSoonFor after a leaf peer died: the cause may have been a
	// partition, and in a ring of two no other peer searches. The halves of a ring of 16 merge 9 s
	// after they can connect again.
	healSoon    = 5 * time.Second
	healSoonFor = 10 * time.Minute
)

// seeker searches the peer's own position in the ring.
type seeker struct {
	*step
	neighborhood *neighborhood
	serving      *serving
	introducer   *introducer
	attacher     *attacher
	contacts     *contacts
	table        Table
	routes       *routes

	search    *lookup.Search // nil if none is running
	located   bool
	nextHeal  time.Time
	lastDeath time.Time // of a leaf peer; zero before any
}

// heal searches our own position through a distant peer, so that separated rings merge again.
func (k *seeker) heal(now time.Time) {
	if now.Before(k.nextHeal) {
		return
	}
	k.nextHeal = now.Add(k.jitter(healEvery))
	if !k.lastDeath.IsZero() && now.Sub(k.lastDeath) < healSoonFor {
		k.nextHeal = now.Add(k.jitter(healSoon))
	}
	far := append(k.table.All(), k.contacts.list...)
	far = slices.DeleteFunc(far, func(p Peer) bool { return k.neighborhood.leaves.Contains(p.Key()) })
	if k.search == nil && len(far) > 0 {
		p := far[k.rnd.IntN(len(far))]
		k.search = lookup.New(k.self.ID, after(k.self.Key()), []Peer{p}, lookup.DefaultCalls).Believe().Admit(k.routes.Admits)
		k.pump(now)
	}
}

// start searches for our successor, the owner of the key after our position, unless a search is
// running.
func (k *seeker) start(now time.Time) {
	if k.search == nil {
		k.anew(now, k.contacts.list)
	}
}

// join adds peers to the search.
func (k *seeker) join(now time.Time, entries []Peer) {
	switch {
	case k.serving.state != Joining && k.serving.state != Worker:
		k.anew(now, entries)
	case k.search != nil:
		k.search.Add(entries...)
		k.pump(now)
	}
}

func (k *seeker) anew(now time.Time, seeds []Peer) {
	seeds = slices.Concat(seeds, k.table.Nearest(k.self.Key(), nearestAsked), k.neighborhood.members())
	k.search = lookup.New(k.self.ID, after(k.self.Key()), seeds, lookup.DefaultCalls).Believe().Admit(k.routes.Admits)
	k.pump(now)
}

// pump sends the calls of the search, and takes its result.
func (k *seeker) pump(now time.Time) {
	for k.search != nil {
		to, ok := k.search.Ask(now)
		if !ok {
			break
		}
		k.call(to, k.search.Request(), inFlight{kind: callSearch, search: k.search})
	}
	if k.search == nil || !k.search.Done() {
		return
	}
	found, err := k.search.Found()
	met := k.search.Met()
	k.search = nil
	if err == nil {
		k.located = true
		k.introducer.consider(now, "", append([]Peer{found.Owner}, met...))
	}
	if k.serving.state == Worker {
		k.attacher.attach.AddCandidates(met...)
		k.attacher.send(now)
	}
}

// answered takes the answer to a call of a search, which may be an older one.
func (k *seeker) answered(now time.Time, fl inFlight, answer *wire.Message, err error) {
	fl.search.Answer(now, fl.to, answer, err)
	if fl.search == k.search {
		k.pump(now)
	}
}

// neighborLost handles the death of a leaf peer.
func (k *seeker) neighborLost(now time.Time) {
	k.lastDeath, k.nextHeal = now, now.Add(k.jitter(healSoon))
}

// maxCandidates is the maximum number of introductions in progress: four leaf sets.
const maxCandidates = 64

// candidates are reported peers that would fit into the leaf set but are not confirmed yet, oldest
// first.
type candidates struct {
	list []*candidate
}

type candidate struct {
	peer     Peer
	by       peer.ID // the peer that named it; empty: our routing table, or entry peers
	failures int
	retry    time.Time // zero while a call is in flight
}

func (c *candidates) find(key ring.Key) *candidate {
	if i := slices.IndexFunc(c.list, func(c *candidate) bool { return c.peer.Key() == key }); i >= 0 {
		return c.list[i]
	}
	return nil
}

func (c *candidates) drop(key ring.Key) {
	c.list = slices.DeleteFunc(c.list, func(c *candidate) bool { return c.peer.Key() == key })
}

// introducer confirms candidates by a call of its own.
type introducer struct {
	*step
	neighborhood *neighborhood
	serving      *serving
	exchange     *exchange
	candidates   *candidates
	dead         tombstones
	attach       *workers.Attach
	blamed       map[peer.ID]blame
	silent       resting // peers that announced themselves and did not answer
}

// blame counts the peers that one peer named recently and that did not answer.
type blame struct {
	silent int
	until  time.Time
}

// maxBlamed is the maximum number of such counters.
const maxBlamed = 256

// named considers peers that another peer named.
func (i *introducer) named(now time.Time, by peer.ID, peers []Peer) {
	// So many may be silent within deadFor: two leaf sets, all of which may have died.
	if b := i.blamed[by]; b.silent >= 4*i.cfg.R && now.Before(b.until) {
		peers = slices.DeleteFunc(peers, func(p Peer) bool { return !i.neighborhood.leaves.Contains(p.Key()) })
	}
	i.consider(now, by, peers)
}

// blame counts a peer that did not answer against the peer that named it.
func (i *introducer) blame(now time.Time, by peer.ID) {
	b := i.blamed[by]
	if !now.Before(b.until) {
		b = blame{until: now.Add(deadFor)}
	}
	if b.silent++; len(i.blamed) >= maxBlamed {
		clear(i.blamed)
	}
	i.blamed[by] = b
}

// consider calls those of the peers that would be in the leaf set if all were alive; by is the peer
// that named them, or empty.
func (i *introducer) consider(now time.Time, by peer.ID, peers []Peer) {
	if i.serving.state == Worker {
		i.attach.AddCandidates(peers...)
		return
	}
	var fresh []Peer
	for _, p := range peers {
		p = p.Placed()
		if p.ID != i.self.ID && p.ID != "" && p.Role == RoleMember && i.neighborhood.leaves.Fits(p.Key()) && !i.dead.has(p) && i.candidates.find(p.Key()) == nil {
			fresh = appendPeer(fresh, p, 4*maxCandidates)
		}
	}
	if len(fresh) == 0 {
		if len(i.candidates.list) == 0 {
			i.neighborhood.moveUp(now, peers)
		}
		return
	}
	then := i.neighborhood.leaves.Clone()
	for _, c := range i.candidates.list {
		then.Insert(c.peer.Key())
	}
	for _, p := range fresh {
		then.Insert(p.Key())
	}
	for _, p := range fresh {
		if then.Contains(p.Key()) && len(i.candidates.list) < maxCandidates {
			i.candidates.list = append(i.candidates.list, &candidate{peer: p, by: by})
			i.call(p, stabilizeRequest(i.exchange.neighboursTo(now, p.Key())), inFlight{kind: callStabilize})
		}
	}
}

// failed handles a failed call to a candidate.
func (i *introducer) failed(now time.Time, to Peer) {
	c := i.candidates.find(to.Key())
	if c == nil {
		return
	}
	if c.failures++; c.failures < 2 {
		c.retry = now.Add(suspectGap)
		return
	}
	i.candidates.drop(to.Key())
	switch c.by {
	case "":
	case c.peer.ID:
		i.silent.rest(now, c.peer.ID, 4*suspectGap)
	default:
		i.blame(now, c.by)
	}
	rest := deadFor
	if i.serving.state == Joining {
		rest = 4 * suspectGap // it may be about to start, like us
	}
	i.dead.set(now, c.peer, rest)
}

// retry repeats the calls that are due.
func (i *introducer) retry(now time.Time) {
	for _, c := range slices.Clone(i.candidates.list) {
		switch {
		case !due(c.retry, now):
		case !i.neighborhood.leaves.Fits(c.peer.Key()):
			i.candidates.drop(c.peer.Key())
		default:
			c.retry = time.Time{}
			i.call(c.peer, stabilizeRequest(i.exchange.neighbours(now)), inFlight{kind: callStabilize})
		}
	}
}
