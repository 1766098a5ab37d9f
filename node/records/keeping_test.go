package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// TestRecordsMove (invariants 2 and 3): whatever comes and goes, each record is at the peer that serves it, once, and at its replicas.
func TestRecordsMove(t *testing.T) {
	for _, row := range []struct {
		name   string
		ids    []peer.ID
		change func(t *testing.T, w *keepers)
	}{
		{"nothing", []peer.ID{"a", "b", "c"}, func(*testing.T, *keepers) {}},
		{"a second peer joins", []peer.ID{"a"}, func(t *testing.T, w *keepers) {
			w.start(t, "b")
			w.set("a", "b")
		}},
		{"two join at once", []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
			w.start(t, "c")
			w.start(t, "d")
			w.set("a", "b", "c", "d")
		}},
		{"one dies", []peer.ID{"a", "b", "c", "d"}, func(_ *testing.T, w *keepers) {
			w.kill("b")
			w.set("a", "c", "d")
		}},
		{"two die at once", []peer.ID{"a", "b", "c", "d"}, func(_ *testing.T, w *keepers) {
			w.kill("b", "c")
			w.set("a", "d")
		}},
		{"one leaves", []peer.ID{"a", "b", "c"}, func(t *testing.T, w *keepers) {
			w.peers["a"].watch.Goodbye("b")
			w.peers["c"].watch.Goodbye("b")
			w.set("a", "c")
			if err := w.peers["b"].keeping.HandOver(t.Context()); err != nil {
				t.Error(err)
			}
			for _, space := range replicated {
				if left := w.peers["b"].positions(t, space.prefix); len(left) > 0 {
					t.Errorf("who left keeps %d positions", len(left))
				}
			}
			for _, id := range []peer.ID{"a", "c"} {
				if got := w.peers[id].copyOf(t, "b"); len(got) > 0 {
					t.Errorf("%s keeps %d records of who left", id, len(got))
				}
			}
			w.kill("b")
		}},
		{"one is thought dead for a while", []peer.ID{"a", "b", "c"}, func(_ *testing.T, w *keepers) {
			w.peers["a"].seat.believe("a", "c")
			w.peers["c"].seat.believe("a", "c")
			w.poke()
			w.rest()
			w.peers["a"].seat.believe()
			w.peers["c"].seat.believe()
			w.poke()
		}},
		{"the ring changes while records move", []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
			w.start(t, "c")
			for i := range 6 {
				w.set([][]peer.ID{{"a", "b", "c"}, {"a", "b"}, {"a", "c", "b"}}[i%3]...)
				time.Sleep(time.Duration(i) * 30 * time.Millisecond)
			}
			w.set("a", "b", "c")
		}},
		{"pushes break off", []peer.ID{"a"}, func(t *testing.T, w *keepers) {
			var n atomic.Int64
			w.net.set(func() {
				broken := func(_ context.Context, m crossing) error {
					if m.service == ServiceRecords && n.Add(1)%2 == 0 {
						return errors.New("broken off")
					}
					return nil
				}
				w.net.going, w.net.coming = broken, broken
			})
			w.start(t, "b")
			w.set("a", "b")
			time.Sleep(5 * time.Second)
			w.net.set(func() { w.net.going, w.net.coming = nil, nil })
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inKeepers(t, 20, row.ids, func(t *testing.T, w *keepers) {
				before := w.urls(t)
				row.change(t, w)
				w.poke()
				for range 4 { // what nobody tells of is found by the walk that comes now and then
					w.rest()
				}
				w.check(t)
				if after := w.urls(t); after != before || before != 60 {
					t.Errorf("%d URLs accepted, %d before", after, before)
				}
			})
		})
	}
}

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
	r := ranged{scan: w.peers[id].store.Keyspace(storage.KeyspaceHosts).Scan, head: headOf(storage.KeyspaceHosts)}
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

// TestRecordsRefused: a peer takes only what is of its own arc and says where the rest belongs; what makes no sense is refused.
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
			_, err := w.peers["a"].keeping.Handler()(t.Context(), "c", row.raw)
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

// TestRecordsOnTheWay: records that were merged when the arc was still here are found by the walk over what is not, and others are not taken any more.
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
			_, err := a.keeping.Handler()(context.Background(), "c", raw)
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
		w.rest()
		w.rest()
		w.rest()
		w.check(t)
	})
}

// TestRecordsAcknowledged (invariant 2): records are acknowledged to who hands them over when all replicas have them, also if an earlier try has written
// them already, and its answer found nobody.
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
					put += len(w.put[space.prefix])
					if left := a.positions(t, space.prefix); len(left) != len(w.put[space.prefix]) {
						t.Errorf("%d positions of %c are left, before anybody else keeps them safe", len(left), space.prefix)
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

// TestRecordsForgotten (invariant 2): who took a peer for dead has dropped its copy. The peer gets its records back, and they are acknowledged, when
// there are copies again.
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

// TestLeaseMoves: the lease of a host moves with it, and ends where it was.
func TestLeaseMoves(t *testing.T) {
	inKeepers(t, 0, []peer.ID{"a"}, func(t *testing.T, w *keepers) {
		w.start(t, "b")
		w.circle.set("a", "b")
		host := w.hostOf("b")
		w.circle.set("a")
		w.addHost(t, host, 3)
		pos := ring.PosOf(ring.HostKey(host))
		lease := func(id peer.ID) (note *crawlwire.LeaseNote) {
			if err := w.peers[id].owners.Look(t.Context(), func(o *owner.Owner) { note, _ = o.Lease(pos) }); err != nil {
				t.Fatal(err)
			}
			return note
		}
		if err := w.peers["a"].owners.Do(t.Context(), func(o *owner.Owner) {
			if err := o.Adopt(&crawlwire.LeaseNote{
				Host: host, Worker: []byte("worker"), Incarnation: 1, Epoch: &crawlwire.Epoch{Counter: 1, Peer: []byte("a")}, RemainingMs: 8000,
			}); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		before := lease("a")
		w.set("a", "b")
		time.Sleep(2 * time.Second)
		after := lease("b")
		if before == nil || after == nil || !proto.Equal(before.GetEpoch(), after.GetEpoch()) || after.GetRemainingMs() > before.GetRemainingMs() {
			t.Errorf("the lease was %v, and is %v", before, after)
		}
		if still := lease("a"); still != nil {
			t.Errorf("the lease is at its earlier owner as well: %v", still)
		}
	})
}

// TestLeasesOfADeathNotSeen: records of a copy wait until the leases of its peer are over, which a newcomer knows from those that saw that peer die.
func TestLeasesOfADeathNotSeen(t *testing.T) {
	const since = 3 * time.Second
	for _, row := range []struct {
		name string
		by   []peer.ID // who saw it
		left time.Duration
	}{
		{"it saw it itself", []peer.ID{"d"}, keeperTTL - since},
		{"the others saw it", []peer.ID{"a", "b"}, keeperTTL - since},
		{"nobody saw it", nil, -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			inKeepers(t, 20, []peer.ID{"a", "b", "c"}, func(t *testing.T, w *keepers) {
				d := w.start(t, "d")
				kept := 0
				d.leases = func(id peer.ID, end time.Time) {
					if id != "c" {
						return // of one whose arc became smaller
					}
					kept++
					if left := time.Until(end); end.IsZero() != (row.left < 0) || row.left > 0 && (left > row.left || left < row.left-time.Second) {
						t.Errorf("%v after it was given up, its leases end in %v (unknown: %t), want %v", since, left, end.IsZero(), row.left)
					}
				}
				w.kill("c") // d lies in its arc
				for _, id := range row.by {
					w.peers[id].watch.Died("c")
				}
				time.Sleep(since)
				w.set("a", "b", "d")
				w.rest()
				if kept == 0 {
					t.Fatal("nothing of who died came to the newcomer")
				}
			})
		})
	}
}

// plant puts a host of one peer among the records of another, which has not walked over them since the ring changed.
func (w *keepers) plant(t *testing.T, at, of peer.ID) {
	host := w.hostOf(of)
	w.addHost(t, host, 2)
	m := w.recordsOf(t, of, host)
	p := w.peers[at]
	if err := p.owners.Do(t.Context(), func(o *owner.Owner) {
		kvs := make([]kv.Record, len(m.GetKey()))
		for i := range kvs {
			kvs[i] = kv.Record{Key: m.GetKey()[i], Value: m.GetValue()[i]}
		}
		if err := o.Import(kvs); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Error(err)
	}
	p.watch.Goodbye("c")
}

// TestMovesWaitForNoCompany: who is not of the ring any more is rid of its hosts before the time has passed for which entries wait for others.
func TestMovesWaitForNoCompany(t *testing.T) {
	inKeepers(t, 0, []peer.ID{"a", "b", "c", "d"}, func(t *testing.T, w *keepers) {
		for id, p := range w.peers { // so that followers have just been sent something; and less than fills a message
			if _, err := p.owners.Links(t.Context(), w.links(fmt.Sprintf("http://%s/", w.hostOf(id)))); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		w.set("a", "b", "c")
		for len(w.peers["d"].positions(t, storage.KeyspaceHosts)) > 0 && time.Since(begin) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begin); took >= 100*time.Millisecond {
			t.Errorf("a host took %v", took)
		}
	})
}

// TestAsked: the answer to a neighbour whether anything of its arc is here.
func TestAsked(t *testing.T) {
	alone := ring.PeerKey([]byte("b")) // the asker's own position: the whole circle
	joins := func(_ *testing.T, w *keepers) { w.peers["a"].seat.set(func() { w.peers["a"].seat.joining = true }) }
	for _, row := range []struct {
		name   string
		change func(t *testing.T, w *keepers)
		start  *ring.Key // of the arc that is asked about, if not the asker's own
		code   calls.Code
	}{
		{"nothing of it is here", func(*testing.T, *keepers) {}, nil, 0},
		{"the asker is not the owner of its position here", func(_ *testing.T, w *keepers) { w.peers["a"].seat.believe("a", "c") }, nil, calls.CodeBusy},
		{"the asker believes that it is alone", func(*testing.T, *keepers) {}, &alone, calls.CodeBusy},
		{"what is here is a third peer's", func(t *testing.T, w *keepers) { w.plant(t, "a", "c") }, nil, 0},
		{"something of it is here", func(t *testing.T, w *keepers) { w.plant(t, "a", "b") }, nil, calls.CodeBusy},
		{"the ring has changed and nobody looked yet", func(_ *testing.T, w *keepers) { w.peers["a"].watch.Goodbye("c") }, nil, 0},
		{"joining", joins, nil, 0},
		{"joining, and something of it is here", joins, &alone, calls.CodeBusy},
	} {
		t.Run(row.name, func(t *testing.T) {
			inKeepers(t, 2, []peer.ID{"a", "b", "c"}, func(t *testing.T, w *keepers) {
				row.change(t, w)
				arc, _ := w.peers["b"].watch.Arc()
				if row.start != nil {
					arc.Start = *row.start
				}
				_, err := w.peers["a"].keeping.Handler()(t.Context(), "b", message(t, &wire.Records{Ask: arc.Start[:]}))
				if calls.CodeOf(err) != row.code || (err == nil) != (row.code == 0) {
					t.Errorf("answered %v", err)
				}
			})
		})
	}
}

// TestCopiesOfURLsThatMove: links and smaller depths come while followers are made level, so URLs that wait are met by the scan before, while and after they move.
func TestCopiesOfURLsThatMove(t *testing.T) {
	ids := []peer.ID{"2g", "2h", "2i"}
	inKeepers(t, 0, ids, func(t *testing.T, w *keepers) {
		host := w.hostOf("2g")
		w.addHost(t, host, 150)
		ctx, cancel := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				links := w.links()
				for i := range 10 {
					page := n*31 + i*7
					links.Url, links.Job = append(links.Url, fmt.Appendf(nil, "http://%s/q%d", host, page%300)), append(links.Job, 0)
					links.Depth = append(links.Depth, uint32(300-page%290))
				}
				if _, err := w.peers["2g"].owners.Links(ctx, links); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond)
			}
		})
		for range 10 {
			w.set("2g", "2h")
			time.Sleep(300 * time.Millisecond)
			w.set(ids...)
			time.Sleep(700 * time.Millisecond)
		}
		cancel()
		writer.Wait()
		w.rest()
		w.check(t)
		if n := w.urls(t); n < 450 {
			t.Errorf("%d URLs, want 450", n)
		}
	})
}

// TestSettled: an arc is settled when all neighbours have said that they hold nothing of it, or when no lease from before can be alive.
func TestSettled(t *testing.T) {
	for _, row := range []struct {
		name  string
		going func(ctx context.Context, m crossing) error
		least time.Duration
	}{
		{"all answer", nil, 0},
		{"a neighbour is silent", hold, keeperTTL},
		{"a neighbour is busy", func(context.Context, crossing) error { return rpc.Busy("wait") }, keeperTTL},
	} {
		t.Run(row.name, func(t *testing.T) {
			inKeepers(t, 5, []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
				w.start(t, "c")
				w.net.set(func() {
					w.net.going = func(ctx context.Context, m crossing) error {
						if m.from == "c" && m.service == ServiceRecords && row.going != nil {
							return row.going(ctx, m)
						}
						return nil
					}
				})
				key := ring.PeerKey([]byte("c"))
				w.set("a", "b", "c")
				if w.peers["c"].keeping.Settled(key) {
					t.Error("settled at once")
				}
				time.Sleep(row.least - 50*time.Millisecond)
				if row.least > 0 && w.peers["c"].keeping.Settled(key) {
					t.Error("settled before its time")
				}
				time.Sleep(3 * time.Second)
				if told := w.peers["c"].settled.Load(); !w.peers["c"].keeping.Settled(key) || told == 0 {
					t.Errorf("not settled; told %d times", told)
				}
				if w.peers["c"].keeping.Settled(ring.PeerKey([]byte("a"))) {
					t.Error("another's position is settled")
				}
			})
		})
	}
}

// TestKeepingStops: it ends whatever is under way, and nothing of it is left.
func TestKeepingStops(t *testing.T) {
	inKeepers(t, 10, []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
		w.net.set(func() { w.net.going = hold })
		w.start(t, "c")
		w.set("a", "b", "c")
		time.Sleep(time.Second)
		for _, p := range w.peers { // pushes, questions and messages to replicas are all held back
			p.stop()
		}
		if w.net.calls(ServiceRecords) == 0 || w.net.calls(ServiceReplica) == 0 {
			t.Error("nothing was under way")
		}
	})
}

// TestHandOverInTime: a peer that leaves says so when it could not hand everything over, and keeps it.
func TestHandOverInTime(t *testing.T) {
	inKeepers(t, 10, []peer.ID{"a", "b"}, func(t *testing.T, w *keepers) {
		a := w.peers["a"]
		before := len(a.own(t))
		w.net.at("b", nil)
		w.peers["b"].watch.Goodbye("a")
		w.set("b")
		ctx, cancel := context.WithTimeout(t.Context(), DepartTime/3)
		defer cancel()
		if err := a.keeping.HandOver(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("handed over to nobody: %v", err)
		}
		if after := len(a.own(t)); after != before || before == 0 {
			t.Errorf("%d of %d records are kept", after, before)
		}
		w.peers["b"].serve(w.net)
		ctx, cancel = context.WithTimeout(t.Context(), DepartTime/3)
		defer cancel()
		if err := a.keeping.HandOver(ctx); err != nil {
			t.Error(err)
		}
		if after := len(a.own(t)); after > 0 {
			t.Errorf("%d records are left", after)
		}
	})
}

// TestMovesTold: who watches reads what moved.
func TestMovesTold(t *testing.T) {
	inKeepers(t, 10, []peer.ID{"a"}, func(t *testing.T, w *keepers) {
		b := w.start(t, "b")
		fromA, fromB := w.peers["a"].texts, b.texts
		w.set("a", "b")
		w.rest()
		jobs := len(b.positions(t, storage.KeyspaceJobs))
		line := moved{how: handedTo, prefix: storage.KeyspaceJobs, peer: "b", places: jobs, records: 2 * jobs}
		out := line.text()
		line.how, line.peer = cameFrom, "a"
		in := line.text()
		if !slices.Contains(fromA.all(), out) || !slices.Contains(fromB.all(), in) || jobs == 0 {
			t.Errorf("a told %q, b told %q", fromA.all(), fromB.all())
		}
		w.kill("a")
		w.set("b")
		w.rest()
		line = moved{how: takenOver, prefix: storage.KeyspaceJobs, peer: "a", of: "a", places: 10 - jobs, records: 2 * (10 - jobs)}
		if over := line.text(); !slices.Contains(fromB.all(), over) {
			t.Errorf("b told %q, want %q", fromB.all(), over)
		}
	})
}

// FuzzRecordsHandle: nothing that a stranger sends makes a peer panic, and it takes nothing that it does not serve.
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
		_, err := p.keeping.Handler()(t.Context(), "stranger", raw)
		if code := calls.CodeOf(err); err != nil && code != calls.CodeRefused && code != calls.CodeMoved && code != calls.CodeBusy {
			t.Errorf("answered %v", err)
		}
		for _, space := range replicated {
			for _, pos := range p.positions(t, space.prefix) {
				if !p.watch.Serves(pos) {
					t.Errorf("%c: took position %x", space.prefix, pos)
				}
			}
		}
	})
}
