package subnets

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/storage/kv/kvtest"
)

// ringPeers are peers that keep records of subnets, and share the ring out among themselves.
type ringPeers struct {
	net   *rpctest.Net
	ids   []peer.ID
	rings map[peer.ID]*rpctest.Ring
	at    map[peer.ID]*Service
}

func newRingPeers(t *testing.T, ids ...peer.ID) *ringPeers {
	t.Helper()
	w := &ringPeers{net: rpctest.NewNet(), ids: ids, rings: make(map[peer.ID]*rpctest.Ring), at: make(map[peer.ID]*Service)}
	for _, id := range ids {
		w.rings[id] = &rpctest.Ring{Self: id, Believed: w.owner, Real: w.owner}
		s, err := NewService(kvtest.Map{}, &rpc.Router{Ring: w.rings[id], Net: w.net}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		w.at[id] = s
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx) })
		t.Cleanup(running.Wait)
		t.Cleanup(stop)
		w.net.At(id, func(ctx context.Context, _ string, req []byte) ([]byte, error) {
			return s.Service().Handle(ctx, "asker", req)
		})
	}
	return w
}

func (w *ringPeers) owner(key ring.Key) peer.ID { return w.ids[int(key[0])%len(w.ids)] }

// delegated are the changes of some delegations, of an empty tree.
func delegated(t *testing.T, n int) (c ipmicra.Changes, keys []ipmicra.Key) {
	t.Helper()
	tree, err := ipmicra.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	machine, memory := ipmicra.Machine{Tree: tree}, ipmicra.NewMemory()
	for i := range n {
		one, _ := machine.Seed("w", netip.AddrFrom4([4]byte{192, 0, byte(i), 1}), time.UnixMilli(1_700_000_000_000), memory) // few
		memory.Merge(one)
		c.Subnets, c.Indexes = append(c.Subnets, one.Subnets...), append(c.Indexes, one.Indexes...)
		for _, s := range one.Subnets {
			keys = append(keys, s.Key())
		}
	}
	return c, append(keys, ipmicra.Key{Kind: ipmicra.KindChildren}, ipmicra.Key{Kind: ipmicra.KindChildren, Prefix: netip.MustParsePrefix("0.0.0.0/0")})
}

func wantsOf(keys []ipmicra.Key) (wants []Want) {
	for _, k := range keys {
		wants = append(wants, Want{Key: k})
	}
	return wants
}

// TestService: records are kept by the peers that answer for them and found there by others,
// whatever these believed at first; those of a peer that cannot be reached are missing, and no
// others.
func TestService(t *testing.T) {
	for _, row := range []struct {
		name    string
		before  func(w *ringPeers)
		missing peer.ID
	}{
		{"all know who answers", func(*ringPeers) {}, ""},
		{"all believe in one", func(w *ringPeers) {
			for _, r := range w.rings {
				r.Believed = rpctest.OwnedBy("b")
			}
		}, ""},
		{"nobody believes anything", func(w *ringPeers) {
			for _, r := range w.rings {
				r.Believed = rpctest.OwnedBy("")
			}
		}, ""},
		{"one cannot be reached", func(w *ringPeers) { w.net.At("c", nil) }, "c"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newRingPeers(t, "a", "b", "c")
			row.before(w)
			c, keys := delegated(t, 20)
			err := w.at["a"].Store(t.Context(), c)
			if (err != nil) != (row.missing != "") {
				t.Errorf("told: %v", err)
			}
			found := w.at["b"].Ask(t.Context(), wantsOf(keys))
			for _, k := range keys {
				f, ok := found[k]
				if lost := w.owner(k.Ring()) == row.missing; lost == ok || ok && f.Raw == nil {
					t.Errorf("%v: found %v, %d bytes", k, ok, len(f.Raw))
				}
				if !ok {
					continue
				}
				again := w.at["a"].Ask(t.Context(), []Want{{k, Digest(f.Raw)}})
				if !again[k].Same {
					t.Errorf("%v: asked by one who has it: %+v", k, again[k])
				}
				for _, id := range w.ids {
					raw, err := w.at[id].state.Get(k)
					if err != nil || (raw != nil) != (id == w.owner(k.Ring())) {
						t.Errorf("%v: %d bytes at %s, %v", k, len(raw), id, err)
					}
				}
			}
			none := ipmicra.Key{Kind: ipmicra.KindOrganisation, Organisation: "nobody"}
			if f, ok := w.at["a"].Ask(t.Context(), wantsOf([]ipmicra.Key{none}))[none]; w.owner(none.Ring()) != row.missing && (!ok || f.Raw != nil || f.Same) {
				t.Errorf("no such record: %+v, %v", f, ok)
			}
		})
	}
}

// TestAnswerInParts: more than fits into an answer comes with the next.
func TestAnswerInParts(t *testing.T) {
	w := newRingPeers(t, "a")
	w.at["a"].full = 15_000
	var c ipmicra.Changes
	var keys []ipmicra.Key
	for i := range 5 {
		x := &ipmicra.Index{Key: ipmicra.Key{Kind: ipmicra.KindOrganisation, Organisation: fmt.Sprint("org", i)}}
		for j := range 40 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(j >> 8), byte(j), 0}), 24) // small
			e := ipmicra.Entry{Prefix: p, Worker: strings.Repeat("w", ipmicra.MaxPeer), Epoch: ipmicra.Epoch{Peer: strings.Repeat("p", ipmicra.MaxPeer)}}
			x.Entries = append(x.Entries, e)
		}
		c.Indexes, keys = append(c.Indexes, x), append(keys, x.Key)
	}
	if err := w.at["a"].Store(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	told := len(w.net.Called())
	found := w.at["a"].Ask(t.Context(), wantsOf(keys))
	for _, k := range keys {
		if len(found[k].Raw) < 40*ipmicra.MaxPeer {
			t.Errorf("%v: %d bytes", k, len(found[k].Raw))
		}
	}
	if asked := len(w.net.Called()) - told; told != 3 || asked != 2 {
		t.Errorf("told in %d messages, asked in %d; want three, and two", told, asked)
	}
}

// TestRefusals: what a stranger sends that is none of the service's words.
func TestRefusals(t *testing.T) {
	w := newRingPeers(t, "a")
	c, _ := delegated(t, 1)
	record, err := c.Subnets[0].AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		m    *wire.Subnets
		want string // empty: taken
	}{
		{"is a peer there", &wire.Subnets{}, ""},
		{"a record", &wire.Subnets{Record: [][]byte{record}}, ""},
		{"a kind that is none", &wire.Subnets{Kind: []byte{9}, Name: [][]byte{{}}, Held: []uint64{0}}, "kind 9"},
		{"a range that is none", &wire.Subnets{Kind: []byte{1}, Name: [][]byte{{10, 0, 0, 1, 8}}, Held: []uint64{0}}, "kind 1"},
		{"a record cut short", &wire.Subnets{Record: [][]byte{record, record[:len(record)-1]}}, "record 1"},
		{"a record of nothing", &wire.Subnets{Record: [][]byte{{0}}}, "record 0"},
		{"columns of different lengths", &wire.Subnets{Kind: []byte{1}}, "lengths"},
	} {
		raw, err := proto.Marshal(row.m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.at["a"].Service().Handle(t.Context(), "stranger", raw)
		if refused := calls.CodeOf(err) == calls.CodeRefused; refused != (row.want != "") || refused && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

// TestGone: a peer is gone when the ring has another in its place and it does not answer.
func TestGone(t *testing.T) {
	w := newRingPeers(t, "a", "b")
	for _, row := range []struct {
		name         string
		lookupFinds  peer.ID
		answers      bool
		wantGone     bool
		wantQuestion bool
	}{
		{name: "on the ring", lookupFinds: "x"},
		{name: "not on the ring, but there", lookupFinds: "b", answers: true, wantQuestion: true},
		{name: "neither", lookupFinds: "b", wantGone: true, wantQuestion: true},
		{name: "nobody knows"},
	} {
		for _, r := range w.rings {
			r.Set(func() { r.Real = rpctest.OwnedBy(row.lookupFinds) })
		}
		w.net.At("x", nil)
		if row.answers {
			w.net.At("x", func(context.Context, string, []byte) ([]byte, error) { return nil, rpc.Busy("it is joining") })
		}
		before := len(w.net.Called())
		if gone := w.at["a"].Gone(t.Context(), "x"); gone != row.wantGone {
			t.Errorf("%s: gone %v", row.name, gone)
		}
		if asked := slices.Contains(w.net.Called()[before:], "x"); asked != row.wantQuestion {
			t.Errorf("%s: asked %v", row.name, asked)
		}
	}
}
