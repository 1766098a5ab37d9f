package dht

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Suspicion: one call without an answer makes a leaf peer suspect and is repeated after SuspectGap; after the second a third
// peer, a neighbour of the suspect, is asked whether it can reach it, and then another. If one of them can, the peer stays and
// is tried again; otherwise it is dead.

// tombstone keeps what others say of a dead peer from being believed; its own word always is.
type tombstone struct {
	until       time.Time
	incarnation uint64
}

// thirdsAsked is how many thirds are asked before a suspect is given up. Among 32 peers that lose a twentieth of all messages, six
// living ones were given up in ten minutes on the word of one third, none or one on that of two.
const thirdsAsked = 2

// Disconnected tells that the connection to a peer dropped. A leaf peer is probed at once.
func (r *Ring) Disconnected(now time.Time, id peer.ID) {
	r.begin(now)
	r.ask(now, r.peers[ring.PeerKey([]byte(id))])
	r.attach.Renew(now, id)
	if r.guests.Drop(id) {
		r.tell(AttachedChanged{})
	}
	r.finish(now)
}

// Unreachable tells that a peer did not answer somebody outside of the ring's own calls: it is not guessed as an owner for a
// while, and probed when it is a leaf peer.
func (r *Ring) Unreachable(now time.Time, id peer.ID) {
	r.begin(now)
	key := ring.PeerKey([]byte(id))
	if n := r.peers[key]; n != nil {
		r.ask(now, n)
	} else {
		r.setTombstone(now, Peer{ID: id}, r.cfg.DeadFor)
	}
	r.learnt.Forget(key)
	r.finish(now)
}

// failed takes a stabilize call that brought no answer.
func (r *Ring) failed(now time.Time, to Peer) {
	if n := r.peers[to.key]; n != nil {
		n.failures++
		if n.failures == 1 {
			r.tell(PeerSuspect{n.peer})
		}
		if n.failures < 2 {
			n.retry = now.Add(r.cfg.SuspectGap)
			return
		}
		if n.failures == 2 {
			n.unanswered = n.asked
		}
		r.askThird(now, n)
		return
	}
	for _, c := range r.candidates {
		if c.peer.key != to.key {
			continue
		}
		if c.failures++; c.failures < 2 {
			c.retry = now.Add(r.cfg.SuspectGap)
			return
		}
		r.dropCandidate(to.key)
		rest := r.cfg.DeadFor
		if r.state == Joining {
			rest = 4 * r.cfg.SuspectGap // it may be about to start, like us
		}
		r.setTombstone(now, c.peer, rest)
		return
	}
}

// watchEvery is after how much silence the predecessor is asked, whose arc waits for us: with CallTimeout, SuspectGap and TakeOver
// an arc is served again 12.5 s after its owner fell silent. A quiet ring makes 0.9 calls a peer and second with it, 0.6 without.
const watchEvery = 2 * time.Second

// watch is when the predecessor is to be asked; false when there is none, or it is suspect already.
func (r *Ring) watch() (time.Time, bool) {
	n := r.peers[r.leaves.Predecessor()]
	if n == nil || n.asking || n.failures > 0 || r.state == Leaving {
		return time.Time{}, false
	}
	last := n.heard
	if n.asked.After(last) {
		last = n.asked
	}
	return last.Add(watchEvery), true
}

// retry calls again whom it is time to call again.
func (r *Ring) retry(now time.Time) {
	if at, ok := r.watch(); ok && due(at, now) {
		r.ask(now, r.peers[r.leaves.Predecessor()])
	}
	for _, key := range r.leaves.Members() {
		if n := r.peers[key]; due(n.retry, now) {
			n.retry = time.Time{}
			r.ask(now, n)
		}
	}
	for _, c := range slices.Clone(r.candidates) {
		switch {
		case !due(c.retry, now):
		case !r.leaves.Fits(c.peer.key):
			r.dropCandidate(c.peer.key)
		default:
			c.retry = time.Time{}
			r.call(c.peer, stabilizeRequest(r.neighbours(now)), inFlight{kind: callStabilize})
		}
	}
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// askThird asks the leaf peer nearest to the suspect that was not asked yet; without one the suspect is dead.
func (r *Ring) askThird(now time.Time, suspect *neighbour) {
	var third *neighbour
	for _, key := range r.leaves.Members() {
		n := r.peers[key]
		if n == suspect || n.failures > 0 || slices.Contains(suspect.thirds, n.peer.ID) {
			continue
		}
		if third == nil || ring.Near(key, suspect.peer.key).Compare(ring.Near(third.peer.key, suspect.peer.key)) < 0 {
			third = n
		}
	}
	if third == nil || len(suspect.thirds) >= thirdsAsked {
		r.died(now, suspect)
		return
	}
	suspect.thirds = append(suspect.thirds, third.peer.ID)
	r.call(third.peer, pingRequest(suspect.peer.ID), inFlight{kind: callVouch, target: suspect.peer.key})
}

// vouched takes the word of a third.
func (r *Ring) vouched(now time.Time, fl inFlight, answer *wire.Message, err error) {
	suspect := r.peers[fl.target]
	switch {
	case suspect == nil || suspect.failures < 2: // it spoke meanwhile
	case err != nil || answer.GetPingResponse() == nil:
		if err != nil {
			r.ask(now, r.peers[fl.to.key])
		}
		r.askThird(now, suspect)
	case answer.GetPingResponse().GetReachable():
		// It lives, we cannot reach it: ownership does not depend on our view, so it keeps its place.
		suspect.failures, suspect.thirds = 1, nil
		suspect.retry = now.Add(r.jitter(2 * r.cfg.Interval))
	default:
		r.askThird(now, suspect)
	}
}

// died gives a leaf peer up. If it was our predecessor its arc is fenced: it may have served until the second question
// that it did not answer reached it.
func (r *Ring) died(now time.Time, n *neighbour) {
	if r.leaves.Predecessor() == n.peer.key {
		r.fences[n.peer.ID] = n.unanswered.Add(r.cfg.TakeOver)
	}
	r.remove(now, n.peer, r.cfg.DeadFor)
	r.remember(n.peer)
	r.lastDeath, r.nextHeal = now, now.Add(r.jitter(healSoon))
	r.tell(PeerDead{n.peer})
}

// left takes a peer out that said goodbye. It served nothing any more when it did, so there is nothing to wait for.
func (r *Ring) left(now time.Time, p Peer) {
	if r.peers[p.key] != nil {
		r.remove(now, p, r.cfg.DeadFor)
		r.tell(PeerLeft{p})
	}
	delete(r.fences, p.ID)
}

func (r *Ring) remove(now time.Time, p Peer, rest time.Duration) {
	r.leaves.Remove(p.key)
	r.learnt.Forget(p.key)
	r.setTombstone(now, p, rest)
	r.changed(now)
	r.consider(now, r.table.Nearest(r.self.key, nearestAsked))
}

// setTombstone notes that p is dead, for as long as rest; the oldest tombstones make room.
func (r *Ring) setTombstone(now time.Time, p Peer, rest time.Duration) {
	if len(r.tombstones) >= maxTombstones {
		for _, id := range r.sortedTombstones()[:maxTombstones/4] {
			delete(r.tombstones, id)
		}
	}
	r.tombstones[p.ID] = tombstone{until: now.Add(rest), incarnation: p.Incarnation}
}

// hasTombstone says whether hearsay of p is not to be believed. Expired tombstones are removed by expire.
func (r *Ring) hasTombstone(p Peer) bool {
	g, ok := r.tombstones[p.ID]
	return ok && p.Incarnation <= g.incarnation
}

// dropTombstone is for a peer that spoke. When it is the one that was taken for dead and not a later life of it, a line was cut and nobody
// died, so that the others may live too: what is said of them is worth a call again.
func (r *Ring) dropTombstone(p Peer) {
	g, ok := r.tombstones[p.ID]
	if ok && g.incarnation == p.Incarnation {
		clear(r.tombstones)
	}
	delete(r.tombstones, p.ID)
}

func (r *Ring) expire(now time.Time) {
	for id, g := range r.tombstones {
		if !now.Before(g.until) {
			delete(r.tombstones, id)
		}
	}
}
