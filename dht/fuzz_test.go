package dht

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// FuzzHandle sends whatever passes Decode to a founder, as request and as answer: it must not fall,
// must answer within the protocol, and must go on serving an arc that begins at its predecessor.
func FuzzHandle(f *testing.F) {
	other := NewPeer("other", nil)
	said := &wire.Neighbours{Self: other.Wire(), State: wire.State_STATE_SERVING, Predecessors: member.Wire([]Peer{NewPeer("third", nil)})}
	key := ring.HostKey("a.example")
	for _, m := range []*wire.Message{
		stabilizeRequest(said), lookup.New("other", key, nil, 1).Request(), entryRequest(), pingRequest("third"), pingResponse(true),
		attachRequest(other, false), attachResponse(true, []Peer{other}, nil),
	} {
		data, err := wire.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, byte(3))
		f.Add(data, byte(3+8))
	}
	f.Fuzz(func(t *testing.T, data []byte, steps byte) {
		m, err := wire.Decode(data)
		if err != nil {
			return
		}
		now := time.Unix(1e9, 0)
		if steps&8 != 0 {
			fuzzWorker(t, now, m, steps)
			return
		}
		r := NewRing(Config{Found: true}, NewPeer("self", nil), noTable{})
		r.Tick(now)
		for range steps % 8 {
			if answer := r.Handle(now, other.ID, m); answer.Validate() != nil {
				t.Fatalf("answer %v: %v", answer, answer.Validate())
			}
			for _, call := range r.Ready().Calls {
				if err := call.Request.Validate(); err != nil {
					t.Fatalf("request: %v", err)
				}
				r.Result(now, call.ID, m, nil)
			}
			now = now.Add(time.Second)
			r.Tick(now)
		}
		arc, serves := r.Arc()
		if !serves || arc.Start != r.leaves.Predecessor() && r.fence(now).Before(now) {
			t.Fatalf("serves %v %s, predecessor %s", serves, arc, r.leaves.Predecessor())
		}
	})
}

// fuzzWorker does the same to a worker, which never serves and keeps to its bounds.
func fuzzWorker(t *testing.T, now time.Time, m *wire.Message, steps byte) {
	r := NewRing(Config{Role: RoleWorker}, NewPeer("self", nil), noTable{})
	r.Join(now, NewPeer("other", nil))
	for range steps % 8 {
		if answer := r.Handle(now, "other", m); answer.Validate() != nil {
			t.Fatalf("answer %v: %v", answer, answer.Validate())
		}
		for _, call := range r.Ready().Calls {
			if err := call.Request.Validate(); err != nil {
				t.Fatalf("request: %v", err)
			}
			r.Result(now, call.ID, m, nil)
		}
		now = now.Add(5 * time.Second)
		r.Tick(now)
	}
	known, held := r.attach.Size()
	if _, serves := r.Arc(); serves || r.State() != Worker || held > workers.AttachTo+1 || known > workers.MaxKnown {
		t.Fatalf("%s, held by %d, knows %d", r.State(), held, known)
	}
}

// FuzzParseMemory: what is read can be written and read again.
func FuzzParseMemory(f *testing.F) {
	m := &Memory{Incarnation: 4, Predecessor: ring.Key{1}, HasPredecessor: true, Peers: []Peer{NewPeer("a", [][]byte{{1}})}}
	data, err := m.Bytes()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMemory(data)
		if err != nil {
			return
		}
		again, err := m.Bytes()
		if err != nil {
			return // a longer form than the one read
		}
		if _, err := ParseMemory(again); err != nil {
			t.Fatal(err)
		}
	})
}

type noTable struct{}

func (noTable) Nearest(ring.Key, int) []Peer { return nil }
func (noTable) All() []Peer                  { return nil }

var _ Table = noTable{}
