package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage"
)

// answer answers a neighbor that nothing of its arc is here, or that it must retry. A joining peer
// answers for what it holds already, so that it delays no neighbor.
func (k *Keeping) answer(ctx context.Context, from peer.ID, arc ring.Arc) error {
	free, err := k.isFree(ctx, arc)
	switch {
	case err != nil:
		return err
	case free && k.ring.dht.State() == dht.Joining, handoff.Answers(from, arc, k.ring, free) == handoff.Nothing:
		return nil
	default:
		return errOnTheWay
	}
}

// isFree reports whether nothing is here that must be moved into an arc.
func (k *Keeping) isFree(ctx context.Context, arc ring.Arc) (bool, error) {
	if k.Clean() {
		return true, nil
	}
	for _, r := range k.kinds {
		var free bool
		var err error
		if lerr := r.whole(ctx, func() { free, err = r.keeper.Free(arc) }); lerr != nil {
			return false, lerr
		}
		if !free || err != nil {
			return false, err
		}
	}
	return true, nil
}

var errOnTheWay = rpc.Busy("records are still in transit")

// look checks for the settler whether any copies here belong to this peer's arc.
func (k *Keeping) look(ctx context.Context) error {
	arc, serves := k.ring.Arc()
	k.mu.Lock()
	known := !serves || k.settler.All()
	k.mu.Unlock()
	if known {
		return nil
	}
	free, err := k.isFree(ctx, arc)
	if err != nil {
		return loop.UnlessStopping(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.free = (ring.Arc{}); free {
		k.free = arc
	}
	return nil
}

// settle queries the neighbors, after each change of the arc, whether they hold anything of it,
// until ctx ends.
func (k *Keeping) settle(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := k.look(ctx); err != nil {
			return err
		}
		var asks []handoff.Ask
		var changed bool
		var next time.Time
		if !k.ship.recovering.Load() { // nothing of its arc is granted before
			k.mu.Lock()
			asks, changed, next = k.settler.Tick(time.Now())
			k.mu.Unlock()
		}
		if changed {
			k.settled()
		}
		for _, ask := range asks {
			asking.Go(func() { k.ask(ctx, ask) })
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(time.Millisecond, time.Until(next))
		}
		if rest := k.movement.flush(time.Now()); rest > 0 {
			wait = min(wait, rest)
		}
		timer.Reset(wait)
		select {
		case <-k.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (k *Keeping) ask(ctx context.Context, ask handoff.Ask) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := recordsMethod.Call(ctx, k.router.Net, ask.To, &wire.Records{Ask: ask.Arc.Start[:]})
	answer := handoff.Nothing
	if err != nil {
		answer = handoff.NotYet
		if errors.Is(err, calls.ErrUnreachable) && k.ring.gone(ask.To) {
			k.Poke()
		}
	}
	k.mu.Lock()
	k.settler.Result(time.Now(), ask.ID, answer)
	k.mu.Unlock()
	loop.Wake(k.wake)
}

// movement aggregates record movements into messages: one for each direction and kind, not one for
// each push. Safe for concurrent use.
type movement struct {
	tell func(control.RingEvent)

	mu    sync.Mutex // guards what follows
	lines []*moved
	since time.Time // start of the first of lines
}

// moved counts records that moved in one direction.
type moved struct {
	how      direction
	prefix   byte
	peer, of peer.ID
	places   int
	records  int
}

// direction is the direction of a movement.
type direction uint8

const (
	handedTo  direction = iota // own records, to their new owner
	passedTo                   // records of a copy, to their new owner
	takenOver                  // records of a copy, into this peer's own
	cameFrom                   // from another peer
)

// movementRest is the aggregation interval.
const movementRest = time.Second

// maxLines bounds the messages, as untrusted peers name other peers: movements beyond it are
// counted together.
const maxLines = 64

// add adds records to a message.
func (m *movement) add(l moved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lines) == 0 {
		m.since = time.Now()
	}
	i := m.line(&l)
	if i < 0 && len(m.lines) >= maxLines && l.how == cameFrom {
		l.of = ""
		i = m.line(&l)
	}
	if i < 0 {
		m.lines = append(m.lines, &l)
		return
	}
	m.lines[i].places += l.places
	m.lines[i].records += l.records
}

// line returns the index of the message with the same direction and kind.
func (m *movement) line(l *moved) int {
	return slices.IndexFunc(m.lines, func(k *moved) bool {
		return k.how == l.how && k.prefix == l.prefix && k.peer == l.peer && k.of == l.of
	})
}

// end sends all pending messages at once.
func (m *movement) end() {
	m.mu.Lock()
	m.since = time.Time{}
	m.mu.Unlock()
	m.flush(time.Now())
}

// flush sends the messages that are due, and returns when the rest is due; zero if there is none.
func (m *movement) flush(now time.Time) time.Duration {
	m.mu.Lock()
	lines := m.lines
	if wait := m.since.Add(movementRest).Sub(now); len(lines) > 0 && wait > 0 {
		m.mu.Unlock()
		return wait
	}
	m.lines = nil
	m.mu.Unlock()
	for _, l := range lines {
		m.tell(control.RingEvent{Time: now, Event: "records", Peer: l.peer.String(), Text: l.text()})
	}
	return 0
}

func (l *moved) text() string {
	what := map[byte][2]string{
		storage.KeyspaceDomains: {"domain", "domains"}, storage.KeyspaceHosts: {"host", "hosts"}, storage.KeyspaceJobs: {"job", "jobs"},
		storage.KeyspaceContent: {"body", "bodies"}, storage.KeyspaceSubnets: {"subnet", "subnets"},
	}[l.prefix]
	count := fmt.Sprintf("%s (%s)", counted(l.places, what), counted(l.records, [2]string{"record", "records"}))
	switch l.how {
	case handedTo:
		return fmt.Sprintf("handed off %s to peer %s", count, member.Short(l.peer))
	case passedTo:
		return fmt.Sprintf("handed off %s from peer %s to peer %s", count, member.Short(l.of), member.Short(l.peer))
	case takenOver:
		return fmt.Sprintf("took over %s of peer %s", count, member.Short(l.of))
	default:
		if l.of != "" && l.of != l.peer {
			return fmt.Sprintf("received %s of peer %s from peer %s", count, member.Short(l.of), member.Short(l.peer))
		}
		return fmt.Sprintf("received %s from peer %s", count, member.Short(l.peer))
	}
}

// counted formats a number with the singular or plural of a noun.
func counted(n int, of [2]string) string {
	if n == 1 {
		return "1 " + of[0]
	}
	return fmt.Sprintf("%d %s", n, of[1])
}
