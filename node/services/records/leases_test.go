package records

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

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

// TestLeasesOfADeathNotSeen: records of a copy wait until the leases of its peer are over, which a
// newcomer knows from those that saw that peer die.
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
					w.peers[id].watch.Died("c", false)
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

// plant puts a host of one peer among the records of another, which has not walked over them since
// the ring changed.
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
