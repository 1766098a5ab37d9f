package rpc_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// TestRoute: how a request finds its owner, in virtual time.
func TestRoute(t *testing.T) {
	key := ring.HostKey("a.example")
	ids := rpctest.NewPeers(t, 3)
	a, b := ids[0], ids[1]
	for _, row := range []struct {
		name        string
		believed    peer.ID
		real        peer.ID
		serve       map[peer.ID]func(r *rpc.Router) error // nil error: answers
		code        calls.Code                            // of the error, 0 and ok for none
		fails       bool
		calls       []peer.ID
		unreachable int
		lookups     int
		pauses      int
	}{
		{name: "believed and right", believed: a, real: a, serve: map[peer.ID]func(*rpc.Router) error{a: nil}, calls: []peer.ID{a}},
		{name: "nobody believed", real: a, serve: map[peer.ID]func(*rpc.Router) error{a: nil}, calls: []peer.ID{a}, lookups: 1},
		{
			name: "moved with a hint, at once", believed: a, real: b, calls: []peer.ID{a, b},
			serve: map[peer.ID]func(*rpc.Router) error{a: func(r *rpc.Router) error { return r.Moved(key) }, b: nil},
		},
		{
			name: "moved without a hint", believed: a, real: b, calls: []peer.ID{a, b}, lookups: 1, pauses: 1,
			serve: map[peer.ID]func(*rpc.Router) error{a: func(*rpc.Router) error { return &calls.Error{Code: calls.CodeMoved} }, b: nil},
		},
		{
			name: "moved in a circle", believed: a, real: a, calls: slices.Repeat([]peer.ID{a}, rpc.MaxHops), lookups: rpc.MaxHops - 1, pauses: rpc.MaxHops,
			serve: map[peer.ID]func(*rpc.Router) error{a: func(r *rpc.Router) error { return r.Moved(key) }}, code: calls.CodeMoved, fails: true,
		},
		{
			name: "unreachable, then looked up", believed: a, real: b, calls: []peer.ID{a, b}, lookups: 1, pauses: 1, unreachable: 1,
			serve: map[peer.ID]func(*rpc.Router) error{b: nil},
		},
		{
			name: "unreachable for good", believed: a, real: a, calls: slices.Repeat([]peer.ID{a}, rpc.MaxHops), lookups: rpc.MaxHops - 1, pauses: rpc.MaxHops,
			unreachable: rpc.MaxHops, fails: true,
		},
		{
			name: "refused is final", believed: a, real: b, calls: []peer.ID{a}, code: calls.CodeRefused, fails: true,
			serve: map[peer.ID]func(*rpc.Router) error{a: func(*rpc.Router) error { return rpc.Refuse("no") }, b: nil},
		},
		{
			name: "another version is final", believed: a, real: b, calls: []peer.ID{a}, code: calls.CodeVersion, fails: true,
			serve: map[peer.ID]func(*rpc.Router) error{a: func(*rpc.Router) error { return &calls.Error{Code: calls.CodeVersion} }, b: nil},
		},
		{
			name: "busy is tried again", believed: a, real: a, calls: slices.Repeat([]peer.ID{a}, rpc.MaxHops), lookups: rpc.MaxHops - 1, pauses: rpc.MaxHops,
			serve: map[peer.ID]func(*rpc.Router) error{a: func(*rpc.Router) error { return rpc.Busy("later") }}, code: calls.CodeBusy, fails: true,
		},
		{name: "no owner at all", lookups: rpc.MaxHops, pauses: rpc.MaxHops, fails: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				view := &rpctest.Ring{Self: ids[2], Believed: rpctest.OwnedBy(row.believed), Real: rpctest.OwnedBy(row.real)}
				net := rpctest.NewNet()
				r := &rpc.Router{Ring: view, Net: net}
				for id, fail := range row.serve {
					var err error
					if fail != nil {
						err = fail(r)
					}
					net.At(id, rpctest.Answers("yes", err))
				}
				begin := time.Now()
				answer, err := r.CallOwner(t.Context(), key, "x", nil)
				if row.fails != (err != nil) || calls.CodeOf(err) != row.code || err == nil && string(answer) != "yes" {
					t.Errorf("answer %q, error %v", answer, err)
				}
				if got := net.Called(); !slices.Equal(got, row.calls) {
					t.Errorf("asked %v, want %v", got, row.calls)
				}
				if len(view.Gone) != row.unreachable || view.Lookups != row.lookups {
					t.Errorf("%d told unreachable, %d lookups; want %d and %d", len(view.Gone), view.Lookups, row.unreachable, row.lookups)
				}
				if got := time.Since(begin); got != time.Duration(row.pauses)*rpc.HopPause {
					t.Errorf("took %v, want %d pauses of %v", got, row.pauses, rpc.HopPause)
				}
			})
		})
	}
}

// TestRouteEndsWithItsContext: a peer that hangs holds a request no longer than its context lasts.
func TestRouteEndsWithItsContext(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		net := rpctest.NewNet()
		net.At("a", func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		view := &rpctest.Ring{Self: "me", Believed: rpctest.OwnedBy("a"), Real: rpctest.OwnedBy("a")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := (&rpc.Router{Ring: view, Net: net}).CallOwner(ctx, ring.Key{}, "x", nil)
		if !errors.Is(err, context.DeadlineExceeded) || len(net.Called()) != 1 || len(view.Gone) > 0 {
			t.Errorf("%v after %d calls, %v told unreachable", err, len(net.Called()), view.Gone)
		}
	})
}
