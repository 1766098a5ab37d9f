package dht

import (
	"bytes"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// listener processes the announcements of other peers and passes them to the other parts.
type listener struct {
	*step
	neighborhood *neighborhood
	serving      *serving
	exchange     *exchange
	introducer   *introducer
	candidates   *candidates
	suspicion    *suspicion
	dead         tombstones
	resting      resting
	detached     resting // workers refused until they may attach again
	attach       *workers.Attach
	guests       *workers.Guests
}

// stabilized processes the answer to an introduction or a stabilize round.
func (l *listener) stabilized(now time.Time, to Peer, said *wire.Neighbours, fresh bool, err error) {
	if n := l.neighborhood.peers[to.Key()]; n != nil {
		n.asking = false
	}
	if err != nil || said == nil || peer.ID(said.GetSelf().GetId()) != to.ID {
		l.suspicion.failed(now, to)
		return
	}
	l.receive(now, said, fresh)
	if n := l.neighborhood.peers[to.Key()]; n != nil && !n.proven {
		n.proven = true
		l.emit(LeavesChanged{})
	}
}

// called processes a sender's announcement in a request. A peer that enters the leaf set by it is
// called back. A joining peer ignores senders that have not answered a call of its own, except
// goodbyes: a neighbor can influence whether it may serve.
func (l *listener) called(now time.Time, said *wire.Neighbours, fresh bool) {
	p, state := member.Of(said.GetSelf()), said.GetState()
	goodbye := state == wire.State_STATE_LEAVING || state == wire.State_STATE_WORKER
	n := l.neighborhood.peers[p.Key()]
	switch {
	case l.serving.state != Joining || goodbye || n != nil && n.proven:
		l.receive(now, said, fresh)
		n = l.neighborhood.peers[p.Key()]
	case n == nil && !l.resting.rests(now, p.ID) && !l.introducer.silent.rests(now, p.ID):
		l.dead.drop(p)
		l.introducer.consider(now, p.ID, []Peer{p})
	}
	if n != nil && !n.proven && now.Sub(n.asked) >= l.cfg.SuspectGap {
		l.exchange.ask(now, n)
	}
}

// receive processes the announcement of a live peer, from a request or an answer. If not fresh, it
// may have waited while this peer was suspended: it then proves that the sender lives, but does not
// help a joining peer to start serving.
func (l *listener) receive(now time.Time, said *wire.Neighbours, fresh bool) {
	p := member.Of(said.GetSelf())
	if p.ID == l.self.ID {
		return
	}
	l.candidates.drop(p.Key())
	said, whole := l.neighborhood.completed(p.Key(), said)
	if l.serving.state == Worker { // the sender takes us for a ring peer
		l.attach.AddCandidates(append(listed(said), p)...)
		return
	}
	if said.GetState() == wire.State_STATE_WORKER {
		l.suspicion.left(now, p)
		l.dead.goodbye(now, p, l.cfg.DeadFor)
		return
	}
	if l.guests.Drop(p.ID) { // it is a ring peer now
		l.emit(AttachedChanged{})
	}
	if said.GetState() == wire.State_STATE_LEAVING {
		l.suspicion.left(now, p)
		l.introducer.named(now, p.ID, listed(said))
		return
	}
	if l.resting.rests(now, p.ID) {
		return // it announces itself again when that expires, if it is back
	}
	l.serving.met(now)
	l.dead.drop(p)
	delete(l.serving.fences, p.ID)
	l.neighborhood.insert(now, p)
	if n := l.neighborhood.peers[p.Key()]; n != nil {
		if n.peer.Incarnation != p.Incarnation || !slices.EqualFunc(n.peer.Addrs, p.Addrs, bytes.Equal) {
			l.neighborhood.encoded = nil
		}
		n.peer, n.lastHeard, n.failures, n.retry, n.thirds = p, now, 0, time.Time{}, nil
		n.holds = said.GetKnown()
		if !whole {
			return // it lives; it sends its lists when it learns that we lack them
		}
		if fresh || l.serving.state != Joining {
			n.last = wordOf(now, p, said)
		}
		quiet := n.weighed == l.neighborhood.version && sameLists(n.lists, said)
		n.lists, n.weighed = said, l.neighborhood.version
		if quiet {
			return // a quiet ring repeats the same announcement
		}
	}
	l.exchange.missing(now, p.Key(), said)
	l.introducer.named(now, p.ID, listed(said))
}

func listed(said *wire.Neighbours) []Peer {
	return member.List(slices.Concat(said.GetPredecessors(), said.GetSuccessors()))
}

func sameLists(a, b *wire.Neighbours) bool {
	same := func(p, q *wire.Peer) bool { return bytes.Equal(p.GetId(), q.GetId()) }
	return slices.EqualFunc(a.GetPredecessors(), b.GetPredecessors(), same) && slices.EqualFunc(a.GetSuccessors(), b.GetSuccessors(), same)
}

// attached answers a worker.
func (l *listener) attached(now time.Time, req *wire.AttachRequest) *wire.Message {
	p := member.Of(req.GetSender())
	p.Role = RoleWorker
	accepted, changed := false, false
	switch {
	case req.GetLeave():
		if changed = l.guests.Drop(p.ID); changed {
			l.detached.rest(now, p.ID, l.cfg.Interval)
		}
	case l.serving.state == Serving && !l.detached.rests(now, p.ID):
		if l.neighborhood.peers[p.Key()] != nil { // a ring peer until now; its goodbye was lost
			l.suspicion.left(now, p)
		}
		origin := ""
		if l.cfg.Origin != nil {
			origin = l.cfg.Origin(p.ID)
		}
		accepted, changed = l.guests.Take(now, p, origin)
	}
	if changed {
		l.emit(AttachedChanged{})
	}
	around := l.neighborhood.members()
	return attachResponse(accepted, around[:min(len(around), wire.MaxPeers)])
}
