package inspect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/volunteer"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// alone is all that a view reads of a peer that is alone in its ring, and whose owner of hosts
// never answers.
type alone struct {
	self dht.Peer
}

func (a *alone) Self() dht.Peer                    { return a.self }
func (a *alone) State() dht.State                  { return dht.Serving }
func (a *alone) Size() int                         { return 1 }
func (a *alone) Stable() bool                      { return true }
func (a *alone) Arc() (ring.Arc, bool)             { return ring.Arc{}, false }
func (a *alone) Leaves() (preds, succs []dht.Peer) { return nil, nil }
func (a *alone) Attached() []dht.Peer              { return nil }
func (a *alone) Attachments() []dht.Peer           { return nil }
func (a *alone) Serves(ring.Key) bool              { return true }

func (a *alone) Lookup(context.Context, ring.Key) (dht.Lookup, error) {
	return dht.Lookup{Owner: a.self}, nil
}

func (a *alone) Call(context.Context, peer.ID, string, []byte) ([]byte, error) {
	return nil, calls.ErrUnreachable
}
func (a *alone) Addrs() []string                 { return nil }
func (a *alone) AddrsOf(peer.ID) []string        { return nil }
func (a *alone) RelayedAddrsOf(peer.ID) []string { return nil }
func (a *alone) Reached() p2p.Reached            { return "" }
func (a *alone) RoundTrip(peer.ID) time.Duration { return 0 }
func (a *alone) Met(peer.ID, [][]byte)           {}

func (a *alone) Stats() worker.Stats { return worker.Stats{} }
func (a *alone) Backlog() int        { return 0 }

func (a *alone) Holding() (volunteer.Hold, bool) { return volunteer.Hold{}, false }
func (a *alone) Paused() bool                    { return false }

func (a *alone) Look(ctx context.Context, _ func(*owner.Owner)) error {
	<-ctx.Done()
	return ctx.Err()
}
func (a *alone) Ask(ctx context.Context, fn func(*owner.Owner)) error { return a.Look(ctx, fn) }
func (a *alone) Taken() map[string]uint64                             { return nil }
func (a *alone) LongestStep() time.Duration                           { return 0 }

func (a *alone) Ready(context.Context) error { return nil }
func (a *alone) Leaving() bool               { return false }

// view of the peer.
func (a *alone) view() *View {
	return New(Deps{
		Self: a.self.ID, About: About{Started: time.Now(), Patience: time.Minute}, Life: a, Watchers: NewWatchers(),
		Ring:  RingDeps{DHT: a, Net: a, WalkFrom: func() peer.ID { return a.self.ID }},
		Hosts: HostDeps{Owners: a, Unsent: func(context.Context) (map[job.ID]int64, error) { return nil, nil }, Now: time.Now},
		Crawl: CrawlDeps{Worker: a, Limits: a},
	})
}

// TestStatusEndsWithItsContext: a status waits for the owner's loop, which may be slow, until the
// context of its caller ends.
func TestStatusEndsWithItsContext(t *testing.T) {
	t.Parallel()
	self := dht.Peer{ID: rpctest.NewPeers(t, 1)[0]}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if s, err := (&alone{self: self}).view().Status(ctx, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("status %+v, error %v", s, err)
		}
	})
}

// TestLookupOfWhatPeopleWrite: a host is looked up however it is written, and what names none is an
// error of usage.
func TestLookupOfWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	a := &alone{self: dht.Peer{ID: rpctest.NewPeers(t, 1)[0]}}
	for _, written := range []string{"Example.org", " http://example.org/page?x", "example.org:80/"} {
		l, err := a.view().Lookup(t.Context(), written)
		if err != nil || l.Host != "example.org" || l.Key != ring.HostKey("example.org").Hex() || l.Owner != a.self.ID.String() {
			t.Errorf("%q: %+v, %v", written, l, err)
		}
	}
	if _, err := a.view().Lookup(t.Context(), "ftp://example.org"); control.KindOf(err) != control.KindUsage {
		t.Errorf("not a host of the web: %v", err)
	}
}
