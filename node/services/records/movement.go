package records

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage"
)

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
		return fmt.Sprintf("handed off %s to peer %s", count, p2p.Short(l.peer))
	case passedTo:
		return fmt.Sprintf("handed off %s from peer %s to peer %s", count, p2p.Short(l.of), p2p.Short(l.peer))
	case takenOver:
		return fmt.Sprintf("took over %s of peer %s", count, p2p.Short(l.of))
	default:
		if l.of != "" && l.of != l.peer {
			return fmt.Sprintf("received %s of peer %s from peer %s", count, p2p.Short(l.of), p2p.Short(l.peer))
		}
		return fmt.Sprintf("received %s from peer %s", count, p2p.Short(l.peer))
	}
}

// counted formats a number with the singular or plural of a noun.
func counted(n int, of [2]string) string {
	if n == 1 {
		return "1 " + of[0]
	}
	return fmt.Sprintf("%d %s", n, of[1])
}
