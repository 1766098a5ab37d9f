package dht

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Failure detection: one unanswered call makes a leaf peer suspect and is repeated after
// suspectGap; after the second a third peer, a neighbor of the suspect, is asked to ping it, and
// then another. If one of them succeeds, the peer stays and is retried; otherwise it is dead.

// thirdsAsked is the number of third peers asked before a suspect is removed. Among 32 peers with
// 5% message loss, six live ones were removed in ten minutes with one third, none or one with two.
const thirdsAsked = 2

// suspicion tracks suspect and dead leaf peers.
type suspicion struct {
	*step
	neighborhood *neighborhood
	serving      *serving
	exchange     *exchange
	introducer   *introducer
	seeker       *seeker
	routes       *routes
	contacts     *contacts
	dead         tombstones
	resting      resting
}

// unreachable handles a peer that did not answer another protocol.
func (u *suspicion) unreachable(now time.Time, id peer.ID) {
	if n := u.neighborhood.byID(id); n != nil {
		u.exchange.ask(now, n)
	} else {
		u.dead.set(now, Peer{ID: id}, deadFor)
	}
	u.routes.learnt.Forget(ring.PeerKey([]byte(id)))
}

// failed handles an unanswered stabilize call.
func (u *suspicion) failed(now time.Time, to Peer) {
	if n := u.neighborhood.peers[to.Key()]; n != nil {
		n.failures++
		if n.failures == 1 {
			u.emit(PeerSuspect{n.peer})
		}
		if n.failures < 2 {
			n.retry = now.Add(suspectGap)
			return
		}
		if n.failures == 2 {
			n.unanswered = n.asked
		}
		u.askThird(now, n)
		return
	}
	u.introducer.failed(now, to)
}

// watchEvery is the silence after which the predecessor is probed, because we take over its arc:
// with callTimeout, suspectGap and TakeOver an arc is served again 12.5 s after its owner failed. A
// quiet ring makes 0.9 calls per peer and second with it, 0.6 without.
const watchEvery = 2 * time.Second

// watch returns when the predecessor must be probed; false if there is none, or it is already
// suspect.
func (u *suspicion) watch() (time.Time, bool) {
	n := u.neighborhood.peers[u.neighborhood.leaves.Predecessor()]
	if n == nil || n.asking || n.failures > 0 || u.serving.state == Leaving {
		return time.Time{}, false
	}
	last := n.lastHeard
	if n.asked.After(last) {
		last = n.asked
	}
	return last.Add(watchEvery), true
}

// retry repeats the calls that are due.
func (u *suspicion) retry(now time.Time) {
	if at, ok := u.watch(); ok && due(at, now) {
		u.exchange.ask(now, u.neighborhood.peers[u.neighborhood.leaves.Predecessor()])
	}
	for _, key := range u.neighborhood.leaves.Members() {
		if n := u.neighborhood.peers[key]; due(n.retry, now) {
			n.retry = time.Time{}
			u.exchange.ask(now, n)
		}
	}
	u.introducer.retry(now)
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// askThird asks the untried leaf peer nearest to the suspect; without one the suspect is dead.
func (u *suspicion) askThird(now time.Time, suspect *neighbor) {
	var third *neighbor
	for _, key := range u.neighborhood.leaves.Members() {
		n := u.neighborhood.peers[key]
		if n == suspect || n.failures > 0 || slices.Contains(suspect.thirds, n.peer.ID) {
			continue
		}
		if third == nil || ring.Near(key, suspect.peer.Key()).Compare(ring.Near(third.peer.Key(), suspect.peer.Key())) < 0 {
			third = n
		}
	}
	if third == nil || len(suspect.thirds) >= thirdsAsked {
		u.died(now, suspect)
		return
	}
	suspect.thirds = append(suspect.thirds, third.peer.ID)
	u.call(third.peer, pingRequest(suspect.peer.ID), inFlight{kind: callVouch, target: suspect.peer.Key()})
}

// vouched takes the answer of a third peer.
func (u *suspicion) vouched(now time.Time, fl inFlight, answer *wire.Message, err error) {
	suspect := u.neighborhood.peers[fl.target]
	switch {
	case suspect == nil || suspect.failures < 2: // it sent a message meanwhile
	case err != nil || answer.GetPingResponse() == nil:
		if err != nil {
			u.exchange.ask(now, u.neighborhood.peers[fl.to.Key()])
		}
		u.askThird(now, suspect)
	case answer.GetPingResponse().GetReachable():
		// It lives but we cannot reach it: ownership does not depend on our connectivity, so it keeps its
		// place.
		suspect.failures, suspect.thirds = 1, nil
		suspect.retry = now.Add(u.jitter(2 * u.cfg.Interval))
	default:
		u.askThird(now, suspect)
	}
}

// died removes a dead leaf peer. If it was our predecessor its arc is fenced: it may have served
// until the second unanswered call reached it.
func (u *suspicion) died(now time.Time, n *neighbor) {
	if u.neighborhood.leaves.Predecessor() == n.peer.Key() {
		u.serving.fences[n.peer.ID] = n.unanswered.Add(u.cfg.TakeOver)
	}
	u.dead.set(now, n.peer, deadFor)
	u.remove(now, n.peer)
	u.contacts.remember(n.peer)
	u.seeker.neighborLost(now)
	valid := u.book.Valid(now, n.peer.ID)
	u.emit(PeerDead{n.peer, n.proven && valid, n.proven && !valid})
}

// expel removes the leaf peers whose certificates have ended, as if they died now: they may serve
// until they learn of it.
func (u *suspicion) expel(now time.Time) {
	for _, key := range u.neighborhood.leaves.Members() {
		if n := u.neighborhood.peers[key]; !u.book.Valid(now, n.peer.ID) {
			n.unanswered = now
			u.died(now, n)
		}
	}
}

// left removes a peer that sent a goodbye. It had stopped serving by then, so there is nothing to
// wait for.
func (u *suspicion) left(now time.Time, p Peer) {
	if n := u.neighborhood.peers[p.Key()]; n != nil {
		u.dead.goodbye(now, p, deadFor)
		u.remove(now, p)
		u.resting.rest(now, p.ID, u.cfg.Interval)
		u.emit(PeerLeft{p, n.proven})
	}
	delete(u.serving.fences, p.ID)
}

// remove removes a peer whose tombstone is set.
func (u *suspicion) remove(now time.Time, p Peer) {
	u.neighborhood.leaves.Remove(p.Key())
	u.routes.learnt.Forget(p.Key())
	u.neighborhood.changed(now)
	u.introducer.consider(now, "", u.routes.table.Nearest(u.self.Key(), nearestAsked))
}
