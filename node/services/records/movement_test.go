package records

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage"
)

// told is a movement with the lines that it told.
func told() (m *movement, lines *[]control.RingEvent) {
	lines = new([]control.RingEvent)
	return &movement{tell: func(e control.RingEvent) { *lines = append(*lines, e) }}, lines
}

// TestMovementText: what moved, in words.
func TestMovementText(t *testing.T) {
	a, b := peer.ID("a"), peer.ID("b")
	for _, row := range []struct {
		l    moved
		peer peer.ID
		want string
	}{
		{moved{how: handedTo, prefix: storage.KeyspaceHosts, peer: a, places: 2, records: 7}, a, "2 hosts (7 records)"},
		{moved{how: handedTo, prefix: storage.KeyspaceHosts, peer: a, places: 1, records: 7}, a, "1 host (7 records)"},
		{moved{how: handedTo, prefix: storage.KeyspaceContent, peer: a, places: 1, records: 1}, a, "1 body (1 record)"},
		{moved{how: passedTo, prefix: storage.KeyspaceJobs, peer: a, of: b, places: 3, records: 9}, a, "3 jobs (9 records)"},
		{moved{how: takenOver, prefix: storage.KeyspaceContent, peer: b, of: b, places: 4, records: 4}, b, "4 bodies (4 records)"},
		{moved{how: cameFrom, prefix: storage.KeyspaceContent, peer: a, places: 4, records: 4}, a, "4 bodies (4 records)"},
		{moved{how: cameFrom, prefix: storage.KeyspaceContent, peer: a, of: a, places: 4, records: 4}, a, "4 bodies (4 records)"},
		{moved{how: cameFrom, prefix: storage.KeyspaceHosts, peer: a, of: b, places: 4, records: 5}, a, "4 hosts (5 records)"},
	} {
		m, lines := told()
		m.add(row.l)
		if rest := m.flush(time.Now().Add(movementRest)); rest != 0 {
			t.Errorf("%q: %s are left", row.want, rest)
		}
		if len(*lines) != 1 || !strings.Contains((*lines)[0].Text, row.want) || !strings.Contains((*lines)[0].Text, member.Short(row.peer)) || (*lines)[0].Event != "records" || (*lines)[0].Peer != row.peer.String() {
			t.Errorf("told %+v, want %q", *lines, row.want)
		}
	}
}

// TestMovementGathers: what goes the same way within a second is one line, and no line is told
// before it ends, or twice.
func TestMovementGathers(t *testing.T) {
	m, lines := told()
	if rest := m.flush(time.Now()); rest != 0 || len(*lines) > 0 {
		t.Errorf("nothing moved: %s, %v", rest, *lines)
	}
	way := moved{how: handedTo, prefix: storage.KeyspaceHosts, peer: "a", places: 1, records: 10}
	other := way
	other.peer = "b"
	for range 3 {
		m.add(way)
	}
	m.add(other)
	began := m.since
	if rest := m.flush(began); rest != movementRest || len(*lines) > 0 {
		t.Errorf("at once: %s, %v", rest, *lines)
	}
	if rest := m.flush(began.Add(movementRest - 1)); rest != 1 || len(*lines) > 0 {
		t.Errorf("just before the end: %s, %v", rest, *lines)
	}
	m.flush(began.Add(movementRest))
	m.flush(began.Add(2 * movementRest))
	want := []string{"3 hosts (30 records)", "1 host (10 records)"}
	if !slices.EqualFunc(*lines, want, func(l control.RingEvent, key string) bool { return strings.Contains(l.Text, key) }) {
		t.Errorf("reported %+v, want %q", *lines, want)
	}
}

// TestMovementBounded: a stranger who names ever other peers fills no memory with them.
func TestMovementBounded(t *testing.T) {
	m, lines := told()
	for i := range 10 * maxLines {
		m.add(moved{how: cameFrom, prefix: storage.KeyspaceHosts, peer: "a", of: peer.ID([]byte{byte(i), byte(i >> 8)}), places: 1, records: 2}) // small
	}
	if len(m.lines) > maxLines+1 {
		t.Errorf("%d lines", len(m.lines))
	}
	m.flush(time.Now().Add(movementRest))
	if want := "received 576 hosts (1152 records) from peer 2g"; (*lines)[len(*lines)-1].Text != want {
		t.Errorf("the last line is %q, want %q", (*lines)[len(*lines)-1].Text, want)
	}
}
