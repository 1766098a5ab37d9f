package dht

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Suspicion: one call without an answer makes a leaf peer suspect and is repeated after SuspectGap;
// after the second a third peer, a neighbour of the suspect, is asked whether it can reach it, and
// then another. If one of them can, the peer stays and is tried again; otherwise it is dead.

// thirdsAsked is how many thirds are asked before a suspect is given up. Among 32 peers that lose a
// twentieth of all messages, six living ones were given up in ten minutes on the word of one third,
// none or one on that of two.
const thirdsAsked = 2

// suspicion says who of the leaf set is suspect or dead.
type suspicion struct {
	*step
	hood       *hood
	serving    *serving
	exchange   *exchange
	introducer *introducer
	seeker     *seeker
	routes     *routes
	contacts   *contacts
	dead       tombstones
	resting    resting
}

// unreachable tells that a peer did not answer somebody outside of the ring's own calls.
func (u *suspicion) unreachable(now time.Time, id peer.ID) {
	if n := u.hood.byID(id); n != nil {
		u.exchange.ask(now, n)
	} else {
		u.dead.set(now, Peer{ID: id}, u.cfg.DeadFor)
	}
	u.routes.learnt.Forget(ring.PeerKey([]byte(id)))
}

// failed takes a stabilize call that brought no answer.
func (u *suspicion) failed(now time.Time, to Peer) {
	if n := u.hood.peers[to.Key()]; n != nil {
		n.failures++
		if n.failures == 1 {
			u.tell(PeerSuspect{n.peer})
		}
		if n.failures < 2 {
			n.retry = now.Add(u.cfg.SuspectGap)
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

// watchEvery is after how much silence the predecessor is asked, whose arc waits for us: with
// CallTimeout, SuspectGap and TakeOver an arc is served again 12.5 s after its owner fell silent. A
// quiet ring makes 0.9 calls a peer and second with it, 0.6 without.
const watchEvery = 2 * time.Second

// watch is when the predecessor is to be asked; false when there is none, or it is suspect already.
func (u *suspicion) watch() (time.Time, bool) {
	n := u.hood.peers[u.hood.leaves.Predecessor()]
	if n == nil || n.asking || n.failures > 0 || u.serving.state == Leaving {
		return time.Time{}, false
	}
	last := n.heard
	if n.asked.After(last) {
		last = n.asked
	}
	return last.Add(watchEvery), true
}

// retry calls again whom it is time to call again.
func (u *suspicion) retry(now time.Time) {
	if at, ok := u.watch(); ok && due(at, now) {
		u.exchange.ask(now, u.hood.peers[u.hood.leaves.Predecessor()])
	}
	for _, key := range u.hood.leaves.Members() {
		if n := u.hood.peers[key]; due(n.retry, now) {
			n.retry = time.Time{}
			u.exchange.ask(now, n)
		}
	}
	u.introducer.retry(now)
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// askThird asks the leaf peer nearest to the suspect that was not asked yet; without one the
// suspect is dead.
func (u *suspicion) askThird(now time.Time, suspect *neighbour) {
	var third *neighbour
	for _, key := range u.hood.leaves.Members() {
		n := u.hood.peers[key]
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

// vouched takes the word of a third.
func (u *suspicion) vouched(now time.Time, fl inFlight, answer *wire.Message, err error) {
	suspect := u.hood.peers[fl.target]
	switch {
	case suspect == nil || suspect.failures < 2: // it spoke meanwhile
	case err != nil || answer.GetPingResponse() == nil:
		if err != nil {
			u.exchange.ask(now, u.hood.peers[fl.to.Key()])
		}
		u.askThird(now, suspect)
	case answer.GetPingResponse().GetReachable():
		// It lives, we cannot reach it: ownership does not depend on our view, so it keeps its
		// place.
		suspect.failures, suspect.thirds = 1, nil
		suspect.retry = now.Add(u.jitter(2 * u.cfg.Interval))
	default:
		u.askThird(now, suspect)
	}
}

// died gives a leaf peer up. If it was our predecessor its arc is fenced: it may have served until
// the second question that it did not answer reached it.
func (u *suspicion) died(now time.Time, n *neighbour) {
	if u.hood.leaves.Predecessor() == n.peer.Key() {
		u.serving.fences[n.peer.ID] = n.unanswered.Add(u.cfg.TakeOver)
	}
	u.dead.set(now, n.peer, u.cfg.DeadFor)
	u.remove(now, n.peer)
	u.contacts.remember(n.peer)
	u.seeker.bereft(now)
	u.tell(PeerDead{n.peer, n.proven})
}

// left takes a peer out that said goodbye. It served nothing any more when it did, so there is
// nothing to wait for.
func (u *suspicion) left(now time.Time, p Peer) {
	if n := u.hood.peers[p.Key()]; n != nil {
		u.dead.goodbye(now, p, u.cfg.DeadFor)
		u.remove(now, p)
		u.resting.rest(now, p.ID, u.cfg.Interval)
		u.tell(PeerLeft{p, n.proven})
	}
	delete(u.serving.fences, p.ID)
}

// remove takes a peer out whose tombstone is set.
func (u *suspicion) remove(now time.Time, p Peer) {
	u.hood.leaves.Remove(p.Key())
	u.routes.learnt.Forget(p.Key())
	u.hood.changed(now)
	u.introducer.consider(now, "", u.routes.table.Nearest(u.self.Key(), nearestAsked))
}
