package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage"
)

// message is a request of service records.
func message(t *testing.T, m *wire.Records) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// hostOf names a host that a peer of the ring owns.
func (w *keepers) hostOf(id peer.ID) string {
	for i := 0; ; i++ {
		if host := fmt.Sprintf("of%d.example", i); w.peers[id].seat.Serves(ring.HostKey(host)) {
			return host
		}
	}
}

// recordsOf are the records of a host, as its owner keeps them.
func (w *keepers) recordsOf(t *testing.T, id peer.ID, host string) *wire.Records {
	t.Helper()
	m := &wire.Records{Space: uint32(storage.KeyspaceHosts)}
	r := handoff.Ranged{Scan: w.peers[id].store.Keyspace(storage.KeyspaceHosts).Scan, Head: headOf(storage.KeyspaceHosts)}
	if err := r.Export(ring.PosOf(ring.HostKey(host)), nil, func(key, value []byte) bool {
		m.Key, m.Value = append(m.Key, slices.Clone(key)), append(m.Value, slices.Clone(value))
		return true
	}); err != nil || len(m.Key) == 0 {
		t.Fatalf("records of %s: %v", host, err)
	}
	return m
}

func noteOf(t *testing.T, host string) []byte {
	t.Helper()
	id := job.NewID()
	raw, err := proto.Marshal(&crawlwire.LeaseNote{
		Host: host, Worker: []byte("worker"), Incarnation: 1, Epoch: &crawlwire.Epoch{Counter: 1, Peer: []byte("a")}, RemainingMs: 1000,
		JobIds: [][]byte{id[:]}, Job: []uint32{0}, Hash: []uint64{7},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestRecordsRefused: a peer takes only what is of its own arc and says where the rest belongs;
// what makes no sense is refused.
func TestRecordsRefused(t *testing.T) {
	inKeepers(t, 5, []peer.ID{"a", "b", "c"}, func(t *testing.T, w *keepers) {
		mine, other := w.hostOf("a"), w.hostOf("b")
		w.addHost(t, mine, 1)
		w.addHost(t, other, 1)
		pos := func(host string) []byte {
			p := ring.PosOf(ring.HostKey(host))
			return p[:]
		}
		good := func(change func(m *wire.Records)) []byte {
			m := w.recordsOf(t, "a", mine)
			change(m)
			return message(t, m)
		}
		before := w.urls(t)
		for _, row := range []struct {
			name string
			raw  []byte
			code calls.Code
		}{
			{"its own host", good(func(*wire.Records) {}), 0},
			{"with a lease", good(func(m *wire.Records) { m.NotePos, m.Note = [][]byte{pos(mine)}, [][]byte{noteOf(t, mine)} }), 0},
			{"another's host", message(t, w.recordsOf(t, "b", other)), calls.CodeMoved},
			{"another's behind its own", good(func(m *wire.Records) {
				foreign := w.recordsOf(t, "b", other)
				m.Key, m.Value = append(m.Key, foreign.Key...), append(m.Value, foreign.Value...)
			}), calls.CodeMoved},
			{"the lease of another's host", good(func(m *wire.Records) { m.NotePos, m.Note = [][]byte{pos(other)}, [][]byte{noteOf(t, other)} }), calls.CodeMoved},
			{"a lease at another host's position", good(func(m *wire.Records) { m.NotePos, m.Note = [][]byte{pos(mine)}, [][]byte{noteOf(t, other)} }), calls.CodeRefused},
			{"a lease that is none", good(func(m *wire.Records) { m.NotePos, m.Note = [][]byte{pos(mine)}, [][]byte{{0xff}} }), calls.CodeRefused},
			{"a lease of a host that is unknown", message(t, &wire.Records{
				Space: 'c', Key: [][]byte{make([]byte, 32)}, Value: [][]byte{{1}}, NotePos: [][]byte{pos(mine)}, Note: [][]byte{noteOf(t, mine)},
			}), calls.CodeMoved},
			{"a key of this peer's own affairs", good(func(m *wire.Records) { m.Key[0][0] = 't' }), calls.CodeRefused},
			{"a key too short", good(func(m *wire.Records) { m.Key[0] = m.Key[0][:ring.PosSize] }), calls.CodeRefused},
			{"records without their host", good(func(m *wire.Records) {
				free := append([]byte{'h'}, pos(w.hostOf("a"))...)
				free[len(free)-1]++
				m.Key, m.Value = [][]byte{append(free, 'r', 'x')}, [][]byte{{1}}
			}), calls.CodeRefused},
			{"values that are none", good(func(m *wire.Records) { m.Value[0] = []byte{0xff} }), calls.CodeRefused},
			{"an unknown space", good(func(m *wire.Records) { m.Space = 'x' }), calls.CodeRefused},
			{"a space without replicas", good(func(m *wire.Records) { m.Space = uint32(storage.KeyspaceMeta) }), calls.CodeRefused},
			{"nothing", message(t, &wire.Records{}), calls.CodeRefused},
			{"no message", []byte{0xff}, calls.CodeRefused},
		} {
			_, err := w.peers["a"].keeping.Service().Handle(t.Context(), "c", row.raw)
			if calls.CodeOf(err) != row.code || (err == nil) != (row.code == 0) {
				t.Errorf("%s: %v", row.name, err)
			}
			if e, ok := errors.AsType[*calls.Error](err); row.code == calls.CodeMoved && (!ok || len(e.Detail) == 0) {
				t.Errorf("%s: no hint", row.name)
			}
		}
		w.rest()
		w.check(t)
		if after := w.urls(t); after != before {
			t.Errorf("%d URLs, %d before", after, before)
		}
	})
}

// TestRecordsOnTheWay: records that were merged when the arc was still here are found by the walk
// over what is not, and others are not taken any more.
func TestRecordsOnTheWay(t *testing.T) {
	inKeepers(t, 0, []peer.ID{"a", "b", "c"}, func(t *testing.T, w *keepers) {
		host := w.hostOf("a")
		w.addHost(t, host, 1)
		raw := message(t, w.recordsOf(t, "a", host))
		a := w.peers["a"]
		// The loop is busy while the request comes in and the arc goes.
		busy, went := make(chan struct{}), make(chan error, 1)
		go func() { _ = a.owners.OnLoop(context.Background(), func() bool { <-busy; return true }) }()
		synctest.Wait()
		go func() {
			_, err := a.keeping.Service().Handle(context.Background(), "c", raw)
			went <- err
		}()
		synctest.Wait()
		for _, id := range []peer.ID{"b", "c"} {
			w.peers[id].watch.Goodbye("a")
		}
		w.set("b", "c")
		close(busy)
		if err := <-went; calls.CodeOf(err) != calls.CodeMoved {
			t.Errorf("records of an arc that is gone: %v", err)
		}
		w.rest()
		if left := a.positions(t, storage.KeyspaceHosts); len(left) > 0 || !a.keeping.Clean() {
			t.Errorf("%d positions are left", len(left))
		}
		w.set("a", "b", "c")
		for range 4 { // what is kept goes with the walk that comes now and then
			w.rest()
		}
		w.check(t)
	})
}

// TestRecordsAcknowledged (invariant 2): records are acknowledged to who hands them over when all
// replicas have them, also if an earlier try has written them already, and its answer found nobody.
func TestRecordsAcknowledged(t *testing.T) {
	for _, row := range []struct {
		name string
		add  func(t *testing.T, w *keepers)
	}{
		{"hosts", func(t *testing.T, w *keepers) { w.addHost(t, w.hostOf("a"), 3) }},
		{"jobs", func(t *testing.T, w *keepers) { w.addJob(t) }},
		{"bodies", func(t *testing.T, w *keepers) { w.addBody(t, 1) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			inKeepers(t, 0, []peer.ID{"a"}, func(t *testing.T, w *keepers) {
				row.add(t, w)
				b, c := w.start(t, "b"), w.start(t, "c")
				b.seat.believe("b", "c")
				c.seat.believe("b", "c")
				w.poke()
				w.rest()
				w.net.set(func() {
					w.net.going = func(ctx context.Context, m crossing) error {
						if m.service == ServiceReplica && m.from != "a" {
							return hold(ctx, m)
						}
						return nil
					}
				})
				b.seat.believe("b", "c")
				c.seat.believe("b", "c")
				w.peers["a"].seat.believe("b", "c")
				w.poke()
				for range 12 { // some tries, each of which gives up
					w.rest()
				}
				a, put := w.peers["a"], 0
				for _, space := range replicated {
					put += len(w.put[space.Prefix])
					if left := a.positions(t, space.Prefix); len(left) != len(w.put[space.Prefix]) {
						t.Errorf("%d positions of %c are left, before anybody else keeps them safe", len(left), space.Prefix)
					}
				}
				if w.net.calls(ServiceRecords) < 2 || put == 0 {
					t.Errorf("%d calls", w.net.calls(ServiceRecords))
				}
				w.net.set(func() { w.net.going = nil })
				for range 6 {
					w.rest()
				}
				if left := a.own(t); len(left) > 0 {
					t.Errorf("%d records are left", len(left))
				}
			})
		})
	}
}

// TestRecordsForgotten (invariant 2): who took a peer for dead has dropped its copy. The peer gets
// its records back, and they are acknowledged, when there are copies again.
func TestRecordsForgotten(t *testing.T) {
	inKeepers(t, 10, []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
		a := w.peers["a"]
		a.seat.believe("a")
		w.poke()
		w.rest()
		if got := a.copyOf(t, "b"); len(got) > 0 {
			t.Fatalf("%d records were not taken over", len(got))
		}
		w.net.set(func() {
			w.net.going = func(ctx context.Context, m crossing) error {
				if m.from == "b" && m.service == ServiceReplica {
					return hold(ctx, m)
				}
				return nil
			}
		})
		a.seat.believe()
		w.poke()
		w.rest()
		if held := a.positions(t, storage.KeyspaceJobs); len(held) != 10 {
			t.Errorf("%d of 10 jobs are where there is more than one copy", len(held))
		}
		w.net.set(func() { w.net.going = nil })
		for range 4 {
			w.rest()
		}
		w.check(t)
	})
}

// FuzzRecordsHandle: nothing that a stranger sends makes a peer panic, and it takes nothing that it
// does not serve.
func FuzzRecordsHandle(f *testing.F) {
	pos := ring.PosOf(ring.HostKey("a.example"))
	host := append(append([]byte{'h'}, pos[:]...), 'h')
	for _, m := range []*wire.Records{
		{Ask: make([]byte, wire.KeySize)},
		{Space: 'h', Key: [][]byte{host}, Value: [][]byte{{1, 2, 3}}, NotePos: [][]byte{pos[:]}, Note: [][]byte{{1}}},
		{Space: 'j', Key: [][]byte{make([]byte, 33)}, Value: [][]byte{{1}}, From: []byte("b")},
		{Space: 'c', Key: [][]byte{make([]byte, 32)}, Value: [][]byte{{1}}},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := &keepers{net: newWires(), circle: &circle{}, spec: crawltest.Job(t, nil, "http://a.example/"), peers: make(map[peer.ID]*keeper)}
		w.circle.set("a", "b")
		p := w.start(t, "a")
		defer p.stop()
		_, err := p.keeping.Service().Handle(t.Context(), "stranger", raw)
		if code := calls.CodeOf(err); err != nil && code != calls.CodeRefused && code != calls.CodeMoved && code != calls.CodeBusy {
			t.Errorf("answered %v", err)
		}
		for _, space := range replicated {
			for _, pos := range p.positions(t, space.Prefix) {
				if !p.watch.Serves(pos) {
					t.Errorf("%c: took position %x", space.Prefix, pos)
				}
			}
		}
	})
}
