package dht

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/workers"
)

// maxCandidates bounds the introductions in progress: four leaf sets.
const maxCandidates = 64

// candidates are peers that would fit into the leaf set by hearsay, not yet introduced, in the
// order in which they came.
type candidates struct {
	list []*candidate
}

type candidate struct {
	peer     Peer
	failures int
	retry    time.Time // zero while a call is on its way
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

// introducer introduces this peer to candidates by a call of its own.
type introducer struct {
	*step
	hood       *hood
	serving    *serving
	exchange   *exchange
	candidates *candidates
	dead       tombstones
	attach     *workers.Attach
}

// consider introduces us to those of the peers that would stand in the leaf set if all of them
// lived.
func (i *introducer) consider(now time.Time, peers []Peer) {
	if i.serving.state == Worker {
		i.attach.Hear(peers...)
		return
	}
	var fresh []Peer
	for _, p := range peers {
		p = p.Placed()
		if p.ID != i.self.ID && p.ID != "" && p.Role == RoleMember && i.hood.leaves.Fits(p.Key()) && !i.dead.has(p) && i.candidates.find(p.Key()) == nil {
			fresh = appendPeer(fresh, p, 4*maxCandidates)
		}
	}
	if len(fresh) == 0 {
		if len(i.candidates.list) == 0 {
			i.hood.moveUp(now, peers)
		}
		return
	}
	then := i.hood.leaves.Clone()
	for _, c := range i.candidates.list {
		then.Insert(c.peer.Key())
	}
	for _, p := range fresh {
		then.Insert(p.Key())
	}
	for _, p := range fresh {
		if then.Contains(p.Key()) && len(i.candidates.list) < maxCandidates {
			i.candidates.list = append(i.candidates.list, &candidate{peer: p})
			i.call(p, stabilizeRequest(i.exchange.neighboursTo(now, p.Key())), inFlight{kind: callStabilize})
		}
	}
}

// failed takes a call to a candidate that brought no answer.
func (i *introducer) failed(now time.Time, to Peer) {
	c := i.candidates.find(to.Key())
	if c == nil {
		return
	}
	if c.failures++; c.failures < 2 {
		c.retry = now.Add(i.cfg.SuspectGap)
		return
	}
	i.candidates.drop(to.Key())
	rest := i.cfg.DeadFor
	if i.serving.state == Joining {
		rest = 4 * i.cfg.SuspectGap // it may be about to start, like us
	}
	i.dead.set(now, c.peer, rest)
}

// retry calls again whom it is time to call again.
func (i *introducer) retry(now time.Time) {
	for _, c := range slices.Clone(i.candidates.list) {
		switch {
		case !due(c.retry, now):
		case !i.hood.leaves.Fits(c.peer.Key()):
			i.candidates.drop(c.peer.Key())
		default:
			c.retry = time.Time{}
			i.call(c.peer, stabilizeRequest(i.exchange.neighbours(now)), inFlight{kind: callStabilize})
		}
	}
}
