package politeness

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
	"github.com/apoidea/apoidea/node/services/wire"
)

// TestPermits: the home of an address grants its requests, and another peer sends the asker there.
func TestPermits(t *testing.T) {
	var home *Permits
	a, b := pair(func() calls.Handler { return home.Service().Handle })
	home = NewPermits(10, time.Minute, 0, 0, a)
	asker := NewPermits(10, time.Minute, time.Minute, 1, b)
	prefix := permit.Key{Prefix: netip.MustParsePrefix("192.0.2.1/32")}
	left := 10
	for left > 0 {
		n, holds, err := asker.Ask(t.Context(), permit.Ask{Key: prefix, Want: 100})
		if err != nil || n != (left+1)/2 || holds <= 0 || holds > time.Minute {
			t.Fatalf("%d permits for %s of the %d left, %v", n, holds, left, err)
		}
		left -= n
	}
	if _, err := asker.grant(t.Context(), "a", &wire.Permits{Prefix: []byte{192, 0, 2, 1, 32}, Want: 1}); calls.CodeOf(err) != calls.CodeMoved {
		t.Errorf("another's address: %v", err)
	}
	if _, err := home.grant(t.Context(), "a", &wire.Permits{Prefix: []byte{192, 0, 2, 1, 200}, Want: 1}); !rpc.Refused(err) {
		t.Errorf("no prefix: %v", err)
	}
	again := NewPermits(10, time.Minute, time.Minute, 2, b) // when it was started anew
	for i, p := range []*Permits{asker, asker, again} {
		n, holds, err := p.Ask(t.Context(), permit.Ask{Key: permit.Key{Domain: "a.example"}, Want: 8})
		if err != nil || (n == 8) != (p == asker) || holds <= 0 {
			t.Errorf("question %d for a turn: %d for %v, %v", i, n, holds, err)
		}
	}
}

// TestPermitsOfStrangers: who works on no host has neither permits nor turns, and takes none of
// them; a worker has them for its host, member of the ring or not.
func TestPermitsOfStrangers(t *testing.T) {
	var home *Permits
	var gate rpc.Authorizer
	a, b := pair(func() calls.Handler { return home.Service().Behind(gate) })
	home = NewPermits(10, time.Minute, 0, 0, a)
	asker := NewPermits(10, time.Minute, time.Minute, 1, b)
	for _, row := range []struct {
		gate rpc.Authorizer
		want int
	}{{rpctest.Untrusted{}, 0}, {rpctest.Workers{Host: "b.example"}, 0}, {rpctest.Workers{Host: "a.example"}, 5}, {rpctest.Members{}, 3}} {
		gate = row.gate
		for _, k := range []permit.Key{{Prefix: netip.MustParsePrefix("192.0.2.1/32")}, {Domain: "example"}} {
			n, _, err := asker.Ask(t.Context(), permit.Ask{Key: k, Want: 5, Host: "a.example"})
			if want := row.want; row.want > 0 && err == nil && n != want && k.Domain == "" || row.want > 0 != (err == nil) || err != nil && calls.CodeOf(err) != calls.CodeBusy {
				t.Errorf("%+v, %v: %d, %v; want %d", row.gate, k, n, err, want)
			}
		}
	}
}

// TestWorkersLeaveSomeToMembers: one who works on a host, and is no member, takes neither all
// requests to an address nor, started anew or by another delay, the turns at a domain.
func TestWorkersLeaveSomeToMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var home *Permits
		a, b := pair(func() calls.Handler { return home.Service().Handle })
		home = NewPermits(240, time.Minute, 5*time.Second, 0, a)
		strange := func(incarnation uint64, delay time.Duration) *Permits {
			_, b := pair(func() calls.Handler {
				behind := home.Service().Behind(rpctest.Workers{Host: "a.example"})
				return func(ctx context.Context, _ peer.ID, req []byte) ([]byte, error) { return behind(ctx, "c", req) }
			})
			return NewPermits(240, time.Minute, delay, incarnation, b)
		}
		member := NewPermits(240, time.Minute, 5*time.Second, 1, b)
		var holds time.Duration
		ask := func(p *Permits, k permit.Key) (n int) {
			var err error
			n, holds, err = p.Ask(t.Context(), permit.Ask{Key: k, Want: permit.MaxWant, Host: "a.example"})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		prefix, taken := permit.Key{Prefix: netip.MustParsePrefix("192.0.2.1/32")}, 0
		for range 20 {
			taken += ask(strange(1, 0), prefix)
		}
		if n := ask(member, prefix); taken != 120 || n != 60 {
			t.Errorf("%d for who is no member, and then %d", taken, n)
		}
		turns, again := permit.Key{Domain: "a.example"}, uint64(0)
		for _, delay := range []time.Duration{permit.MaxDelay, 0} {
			again++
			if ask(strange(again, delay), turns) == 0 {
				t.Fatal("no turn although nobody wants one")
			}
			if ask(member, turns) > 0 {
				t.Error("two turns at once")
			}
			if holds > 15*time.Second {
				t.Errorf("it is to wait %v, and this ring's delay is 5s", holds)
			}
			time.Sleep(holds + time.Millisecond)
			again++
			if ask(strange(again, delay), turns) > 0 || ask(member, turns) == 0 {
				t.Error("it has another turn before the member has one")
			}
			time.Sleep(time.Hour)
		}
	})
}
