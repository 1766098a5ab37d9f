package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
)

func answers(text string, err error) func(context.Context, string, []byte) ([]byte, error) {
	return func(context.Context, string, []byte) ([]byte, error) { return []byte(text), err }
}

// TestRoute: how a request finds its owner, in virtual time.
func TestRoute(t *testing.T) {
	key := ring.HostKey("a.example")
	ids := newPeers(t, 3)
	a, b := ids[0], ids[1]
	for _, row := range []struct {
		name        string
		believed    peer.ID
		real        peer.ID
		serve       map[peer.ID]func(r *router) error // nil error: answers
		code        p2p.Code                          // of the error, 0 and ok for none
		fails       bool
		calls       []peer.ID
		unreachable int
		lookups     int
		pauses      int
	}{
		{name: "believed and right", believed: a, real: a, serve: map[peer.ID]func(*router) error{a: nil}, calls: []peer.ID{a}},
		{name: "nobody believed", real: a, serve: map[peer.ID]func(*router) error{a: nil}, calls: []peer.ID{a}, lookups: 1},
		{
			name: "moved with a hint, at once", believed: a, real: b, calls: []peer.ID{a, b},
			serve: map[peer.ID]func(*router) error{a: func(r *router) error { return r.moved(key) }, b: nil},
		},
		{
			name: "moved without a hint", believed: a, real: b, calls: []peer.ID{a, b}, lookups: 1, pauses: 1,
			serve: map[peer.ID]func(*router) error{a: func(*router) error { return &p2p.Error{Code: p2p.CodeMoved} }, b: nil},
		},
		{
			name: "moved in a circle", believed: a, real: a, calls: slices.Repeat([]peer.ID{a}, maxHops), lookups: maxHops - 1, pauses: maxHops,
			serve: map[peer.ID]func(*router) error{a: func(r *router) error { return r.moved(key) }}, code: p2p.CodeMoved, fails: true,
		},
		{
			name: "unreachable, then looked up", believed: a, real: b, calls: []peer.ID{a, b}, lookups: 1, pauses: 1, unreachable: 1,
			serve: map[peer.ID]func(*router) error{b: nil},
		},
		{
			name: "unreachable for good", believed: a, real: a, calls: slices.Repeat([]peer.ID{a}, maxHops), lookups: maxHops - 1, pauses: maxHops,
			unreachable: maxHops, fails: true,
		},
		{
			name: "refused is final", believed: a, real: b, calls: []peer.ID{a}, code: p2p.CodeRefused, fails: true,
			serve: map[peer.ID]func(*router) error{a: func(*router) error { return refuse("no") }, b: nil},
		},
		{
			name: "another version is final", believed: a, real: b, calls: []peer.ID{a}, code: p2p.CodeVersion, fails: true,
			serve: map[peer.ID]func(*router) error{a: func(*router) error { return &p2p.Error{Code: p2p.CodeVersion} }, b: nil},
		},
		{
			name: "busy is tried again", believed: a, real: a, calls: slices.Repeat([]peer.ID{a}, maxHops), lookups: maxHops - 1, pauses: maxHops,
			serve: map[peer.ID]func(*router) error{a: func(*router) error { return busy("later") }}, code: p2p.CodeBusy, fails: true,
		},
		{name: "no owner at all", lookups: maxHops, pauses: maxHops, fails: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				view := &fakeRing{self: ids[2], believed: ownedBy(row.believed), real: ownedBy(row.real)}
				net := newFakeNet()
				r := &router{ring: view, net: net}
				for id, fail := range row.serve {
					var err error
					if fail != nil {
						err = fail(r)
					}
					net.at(id, answers("yes", err))
				}
				begin := time.Now()
				answer, err := r.call(t.Context(), key, "x", nil)
				if row.fails != (err != nil) || p2p.CodeOf(err) != row.code || err == nil && string(answer) != "yes" {
					t.Errorf("answer %q, error %v", answer, err)
				}
				if got := net.called(); !slices.Equal(got, row.calls) {
					t.Errorf("asked %v, want %v", got, row.calls)
				}
				if len(view.unreachable) != row.unreachable || view.lookups != row.lookups {
					t.Errorf("%d told unreachable, %d lookups; want %d and %d", len(view.unreachable), view.lookups, row.unreachable, row.lookups)
				}
				if got := time.Since(begin); got != time.Duration(row.pauses)*hopPause {
					t.Errorf("took %v, want %d pauses of %v", got, row.pauses, hopPause)
				}
			})
		})
	}
}

// TestRouteEndsWithItsContext: a peer that hangs holds a request no longer than its context lasts.
func TestRouteEndsWithItsContext(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		net := newFakeNet()
		net.at("a", func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		view := &fakeRing{self: "me", believed: ownedBy("a"), real: ownedBy("a")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := (&router{ring: view, net: net}).call(ctx, ring.Key{}, "x", nil)
		if !errors.Is(err, context.DeadlineExceeded) || len(net.called()) != 1 || len(view.unreachable) > 0 {
			t.Errorf("%v after %d calls, %v told unreachable", err, len(net.called()), view.unreachable)
		}
	})
}
