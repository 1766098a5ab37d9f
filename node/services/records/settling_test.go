package records

import (
	"context"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

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
				_, err := w.peers["a"].keeping.Service().Handle(t.Context(), "b", message(t, &wire.Records{Ask: arc.Start[:]}))
				if calls.CodeOf(err) != row.code || (err == nil) != (row.code == 0) {
					t.Errorf("answered %v", err)
				}
			})
		})
	}
}

// TestSettled: an arc is settled when all neighbours have said that they hold nothing of it, or
// when no lease from before can be alive.
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
