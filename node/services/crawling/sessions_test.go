package crawling

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// newSessions returns sessions with owners that are asked through a router.
func newSessions(r *rpc.Router) sessions {
	says := rpc.Method[*wire.Session, *wire.SessionReply]{Service: rpc.ServiceOwner}
	return sessions{router: r, log: quietLog, say: func(ctx context.Context, to peer.ID, m *wire.Session) (*wire.SessionReply, error) {
		return says.Call(ctx, r, to, m)
	}}
}

// TestSessionFindsTheNextOwner: a worker that is no neighbour of the owner hears of its successor,
// or of one that joined beside it, in no other way.
func TestSessionFindsTheNextOwner(t *testing.T) {
	const host = "a.example"
	ids := rpctest.NewPeers(t, 3)
	self, old, next := ids[0], ids[1], ids[2]
	message := &wire.Session{Held: []*wire.HostLease{{Host: host, Epoch: &wire.Epoch{Counter: 1, Peer: []byte(old)}}}}
	for _, row := range []struct {
		name     string
		believed peer.ID
		reply    *wire.SessionReply // nil: the owner cannot be reached
		want     peer.ID
		lookups  int
	}{
		{name: "it serves the host", believed: old, reply: &wire.SessionReply{}, want: old},
		{name: "the host has moved", believed: old, reply: &wire.SessionReply{Moved: []string{host}}, want: next, lookups: 1},
		{name: "the host has moved, and it is known where to", believed: next, reply: &wire.SessionReply{Moved: []string{host}}, want: next},
		{name: "the owner is gone", believed: old, want: next, lookups: 1},
		{name: "the owner is gone, and nobody else known", want: next, lookups: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			view := &rpctest.Ring{Self: self, Believed: rpctest.OwnedBy(row.believed), Real: rpctest.OwnedBy(next)}
			net := rpctest.NewNet()
			if row.reply != nil {
				raw, err := proto.Marshal(row.reply)
				if err != nil {
					t.Fatal(err)
				}
				net.At(old, rpctest.Answers(string(raw), nil))
			}
			s := newSessions(&rpc.Router{Ring: view, Net: net})
			reply, err := s.Session(t.Context(), string(old), message)
			if (err == nil) != (row.reply != nil) || err == nil && !proto.Equal(reply, row.reply) {
				t.Errorf("answer %v, %v", reply, err)
			}
			if got := s.OwnerOf(host); got != string(row.want) || view.Lookups != row.lookups {
				t.Errorf("the owner is %q after %d lookups, want %q after %d", got, view.Lookups, row.want, row.lookups)
			}
		})
	}
}

// lazyRing takes its time for each lookup, and never learns.
type lazyRing struct {
	*rpctest.Ring
	takes time.Duration
}

func (r lazyRing) Lookup(ctx context.Context, _ ring.Key) (dht.Lookup, error) {
	r.Set(func() { r.Lookups++ })
	if err := loop.Sleep(ctx, r.takes); err != nil {
		return dht.Lookup{}, err
	}
	return dht.Lookup{Owner: dht.Peer{ID: r.Believed(ring.Key{})}}, nil
}

// TestSessionSeeksWithinBounds: an answer that names many hosts, or a ring that does not answer,
// holds up what the worker says next for a bounded time.
func TestSessionSeeksWithinBounds(t *testing.T) {
	ids := rpctest.NewPeers(t, 2)
	self, old := ids[0], ids[1]
	moved := &wire.SessionReply{}
	for i := range 100 {
		moved.Moved = append(moved.Moved, fmt.Sprintf("h%d.example", i))
	}
	raw, err := proto.Marshal(moved)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name    string
		takes   time.Duration
		lookups int
		want    time.Duration
	}{
		{"many hosts", time.Millisecond, maxSeeks, maxSeeks * time.Millisecond},
		{"lookups that do not end", time.Hour, 1, seekTime},
	} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				view := lazyRing{&rpctest.Ring{Self: self, Believed: rpctest.OwnedBy(old), Real: rpctest.OwnedBy(old)}, row.takes}
				net := rpctest.NewNet()
				net.At(old, rpctest.Answers(string(raw), nil))
				s := newSessions(&rpc.Router{Ring: view, Net: net})
				begun := time.Now()
				reply, err := s.Session(t.Context(), string(old), &wire.Session{})
				if err != nil || len(reply.GetMoved()) != len(moved.GetMoved()) {
					t.Errorf("answer %v, %v", reply, err)
				}
				if took := time.Since(begun); took != row.want || view.Lookups != row.lookups {
					t.Errorf("%d lookups in %s, want %d in %s", view.Lookups, took, row.lookups, row.want)
				}
			})
		})
	}
}
