package placer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	crawlwire "github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

// sampleGossips are peers that tell each other samples that speak without a network.
type sampleGossips struct {
	t     *testing.T
	peers map[peer.ID]*sampleGossip
	fail  map[peer.ID]error // of calls to it
	told  atomic.Int32      // messages
}

func newSampleGossips(t *testing.T, ids ...peer.ID) *sampleGossips {
	s := &sampleGossips{t: t, peers: make(map[peer.ID]*sampleGossip), fail: make(map[peer.ID]error)}
	for _, id := range ids {
		s.enter(id, 1, ids)
	}
	return s
}

// enter makes a peer, or makes it anew, as a process that begins.
func (s *sampleGossips) enter(id peer.ID, incarnation uint64, near []peer.ID) *sampleGossip {
	s.t.Helper()
	c := newSampleGossip(adaptive.New(0), new(sync.Mutex), &Deps{Self: id, Where: func() netip.Addr { return netip.Addr{} }, Log: quiet, Incarnation: incarnation})
	c.sides = func() (preds, succs []peer.ID) {
		others := slices.DeleteFunc(slices.Clone(near), func(p peer.ID) bool { return p == id })
		return others, others
	}
	c.members = func() []peer.ID { return slices.Clone(near) }
	c.net = rpc.CallerFunc(func(ctx context.Context, to peer.ID, _ string, raw []byte) ([]byte, error) {
		if err := s.fail[to]; err != nil {
			return nil, err
		}
		s.told.Add(1)
		return s.peers[to].service().Handle(ctx, id, raw)
	})
	s.peers[id] = c
	return c
}

// place has a peer place so many sites, which are as near as others of their range; it returns the
// probes.
func (s *sampleGossips) place(id peer.ID, from, n int) (probes int) {
	s.t.Helper()
	for i := from; i < from+n; i++ {
		v := &placement.View{Now: time.Now(), Host: fmt.Sprintf("h%d.example", i), Site: netip.AddrFrom4([4]byte{192, 0, byte(i % 3), byte(i)}), Measured: make(map[string]placement.Measurement)}
		for k := range 4 {
			v.Candidates = append(v.Candidates, placement.Candidate{Peer: fmt.Sprint("p", k), Self: k == 0})
		}
		for {
			c := s.peers[id].strategy.Next(v)
			if c.Worker != "" {
				break
			}
			for _, p := range c.Probe {
				probes++
				far := time.Duration(5+40*((int(p[1]-'0')+i%3)%4)) * time.Millisecond
				v.Measured[p] = placement.Measurement{RTT: far + time.Duration(i)*time.Microsecond}
			}
		}
	}
	return probes
}

// TestSamples: what one owner had measured its neighbours need not measure again; nothing is told
// twice, but to one that has forgotten or is new.
func TestSamples(t *testing.T) {
	unraced(t)
	crawltest.Bubble(t, func(t *testing.T) {
		s := newSampleGossips(t, "a", "b", "c")
		a, b := s.peers["a"], s.peers["b"]
		s.fail["c"] = errors.New("gone")
		const begin = 10
		alone := s.place("a", 0, begin)
		s.place("a", begin, 60-begin)
		a.teach(t.Context())
		if s.told.Load() != 1 || len(a.kept) < 20 || a.listeners["b"].sent != len(a.kept) || a.listeners["c"].sent != 0 {
			t.Errorf("%d messages, b was told %d samples and c %d", s.told.Load(), a.listeners["b"].sent, a.listeners["c"].sent)
		}
		if taught := s.place("b", 1000, begin); taught*3 > alone*2 {
			t.Errorf("b began with %d probes, a with %d before it", taught, alone)
		}
		s.fail["c"] = nil
		for range greetings + 1 {
			a.teach(t.Context())
		}
		if s.told.Load() != 2*greetings-1 || a.listeners["c"].sent != len(a.kept) {
			t.Errorf("%d messages, c was told %d samples; one failed, and %d of each are to greet", s.told.Load(), a.listeners["c"].sent, greetings)
		}
		s.enter("b", 2, []peer.ID{"a", "b", "c"})
		s.place("a", 60, 1)
		for range 3 {
			a.teach(t.Context())
		}
		if again := s.place("b", 2000, begin); again >= alone || a.listeners["b"].sent != len(a.kept) {
			t.Errorf("b, started again, made %d probes; it was told %d samples", again, a.listeners["b"].sent)
		}
		s.place("a", 100, 8*samplesKept)
		for range 4 {
			a.teach(t.Context())
		}
		if len(a.kept) > samplesKept || len(b.kept) > samplesKept {
			t.Errorf("%d samples are kept", len(a.kept))
		}
		a.sides = func() (preds, succs []peer.ID) { return nil, []peer.ID{"c"} }
		a.teach(t.Context())
		if len(a.listeners) != 1 {
			t.Errorf("%d neighbours are remembered, of one", len(a.listeners))
		}
	})
}

// TestSamplesGoRound: in a ring that no leaf set sees whole each sample comes to everybody within
// its hops, no more than twice from each side, and stops.
func TestSamplesGoRound(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const n, r = 60, 8
		ids := make([]peer.ID, n)
		for i := range ids {
			ids[i] = peer.ID(fmt.Sprintf("r%02d", i))
		}
		s := newSampleGossips(t, ids...)
		for i, id := range ids {
			s.peers[id].sides = func() (preds, succs []peer.ID) {
				for k := 1; k <= r; k++ {
					preds, succs = append(preds, ids[(i+n-k)%n]), append(succs, ids[(i+k)%n])
				}
				return preds, succs
			}
			for range greetings {
				s.peers[id].teach(t.Context())
			}
		}
		s.told.Store(0)
		s.place(ids[7], 0, 1)
		s.peers[ids[7]].teach(t.Context())
		s.fail[ids[15]] = errors.New("gone") // at the end of its leaf set
		for range hopsMost + 1 {
			for _, id := range ids {
				s.peers[id].teach(t.Context())
			}
		}
		for i, id := range ids {
			if got := s.peers[id].met.Len(); got != 1 && i != 15 {
				t.Errorf("%s knows %d samples", id, got)
			}
		}
		if got := s.told.Load(); got > 4*n {
			t.Errorf("%d messages for %d peers", got, n)
		}
		s.told.Store(0)
		for _, id := range ids {
			s.peers[id].teach(t.Context())
		}
		if got := s.told.Load(); got > 0 {
			t.Errorf("%d messages go on", got)
		}
	})
}

// TestPeersAreSites: how far neighbours are is learnt by talking with them, told once, and enough
// for a peer to know who is nearest to a site beside another.
func TestPeersAreSites(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		ids := []peer.ID{"p0", "p1", "p2", "p3"}
		s := newSampleGossips(t, ids...)
		way := func(a, b peer.ID) time.Duration {
			return time.Duration(1+30*max(a[1]-b[1], b[1]-a[1])) * time.Millisecond
		}
		for id, g := range s.peers {
			direct := g.net
			g.self, g.where = id, func() netip.Addr { return netip.AddrFrom4([4]byte{198, 51, id[1], 1}) }
			g.net = rpc.CallerFunc(func(ctx context.Context, to peer.ID, service string, raw []byte) ([]byte, error) {
				time.Sleep(way(id, to))
				return direct.Call(ctx, to, service, raw)
			})
		}
		for round := range greetings + 2 {
			for _, id := range ids {
				g := s.peers[id]
				g.teach(t.Context())
				if more := g.locate(t.Context()); more != (round < greetings-1) {
					t.Errorf("round %d: %s greets on: %v", round, id, more)
				}
			}
		}
		if got := s.told.Load(); got != int32(len(ids)*(len(ids)-1)*(greetings+1)) {
			t.Errorf("%d messages, want %d to greet and one with each peer's place", got, greetings)
		}
		v := &placement.View{Now: time.Now(), Host: "beside.p2.example", Site: netip.AddrFrom4([4]byte{198, 51, '2', 9}), URLs: 1, Measured: make(map[string]placement.Measurement)}
		for _, id := range ids {
			v.Candidates = append(v.Candidates, placement.Candidate{Peer: string(id), Self: id == "p0"})
		}
		if c := s.peers["p0"].strategy.Next(v); c.Worker != "p2" {
			t.Errorf("a site beside p2 went to %q: %s", c.Worker, c.Why)
		}
	})
}

// TestMembersAreGreeted: how far members beyond the leaf set are is learnt and told as well, of
// those that answer; no more are asked than fit into a sample, and each once.
func TestMembersAreGreeted(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		s := newSampleGossips(t, "a", "b", "mute")
		var members []peer.ID
		for i := range 2 * farMost {
			id := peer.ID(fmt.Sprintf("far%02d", i))
			s.enter(id, 1, nil)
			members = append(members, id)
		}
		a := s.peers["a"]
		a.sides = func() (preds, succs []peer.ID) { return nil, []peer.ID{"b"} }
		a.members = func() []peer.ID { return append([]peer.ID{"a", "b", "mute"}, members...) }
		s.fail["mute"] = errors.New("no route")
		direct := a.net
		a.net = rpc.CallerFunc(func(ctx context.Context, to peer.ID, service string, raw []byte) ([]byte, error) {
			time.Sleep(20 * time.Millisecond)
			return direct.Call(ctx, to, service, raw)
		})
		for range greetings + farMost {
			a.teach(t.Context())
			a.locate(t.Context())
		}
		told := s.told.Load()
		if len(a.announced) != farMost || a.announced["far00"] != 20*time.Millisecond || told > greetings+farGreetings*farMost+10 {
			t.Errorf("%d members are known, far00 is %v away; %d messages", len(a.announced), a.announced["far00"], told)
		}
		last := a.kept[len(a.kept)-1]
		if len(last.RTTs) != farMost+1 || len(a.kept) > 8 {
			t.Errorf("told %d round trips, in %d samples", len(last.RTTs), len(a.kept))
		}
		members = members[:3]
		a.locate(t.Context())
		if len(a.beyond) != 4 {
			t.Errorf("%d are remembered of 4 members", len(a.beyond))
		}
	})
}

// TestConnectionsAreSamples: what a worker says of its connection counts as a probe of it.
func TestConnectionsAreSamples(t *testing.T) {
	s := newSampleGossips(t, "a")
	g := s.peers["a"]
	pl := &Placer{strategy: g.strategy, samples: g}
	at := adaptive.PeerSample("w", netip.Addr{}, []adaptive.PeerRTT{{Peer: "a", RTT: 20 * time.Millisecond}})
	g.strategy.Learn(time.Now(), &at)
	pl.Observe("h.example", [][]byte{siteAddr.AsSlice()}, "w", &crawlwire.HostWork{ConnectUs: 7000})
	v := &placement.View{
		Now: time.Now(), Host: "h.example", Site: siteAddr, URLs: 1, Measured: make(map[string]placement.Measurement),
		Candidates: []placement.Candidate{{Peer: "a", Self: true}, {Peer: "w"}},
	}
	if c := g.strategy.Next(v); v.Measured["w"].RTT.Round(time.Millisecond) != 7*time.Millisecond {
		t.Errorf("measured %v, chosen %+v", v.Measured, c)
	}
	if told := g.strategy.Samples(); len(told) != 1 || told[0].RTTs[0].Peer != "w" {
		t.Errorf("samples %+v", told)
	}
}

// TestSamplesAreRefused: by peers that place otherwise, who are left alone then, of strangers, of
// nonsense, and too many.
func TestSamplesAreRefused(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		s := newSampleGossips(t, "a", "b")
		s.peers["b"] = nil
		s.place("a", 0, 3)
		for range 3 {
			s.peers["a"].teach(t.Context())
		}
		if s.told.Load() != 1 || s.peers["a"].locate(t.Context()) {
			t.Errorf("b was told %d times, though it takes no samples, or is greeted for ever", s.told.Load())
		}
		b := s.enter("b", 1, []peer.ID{"a", "b"})
		raw := func(change func(*wire.Samples)) []byte {
			list := make([]adaptive.Sample, wire.MaxSamples)
			for i := range list {
				list[i].Host = fmt.Sprintf("h%d.example", i)
			}
			m, _ := wire.NewSamples(list)
			if change != nil {
				change(m)
			}
			out, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		for name, tt := range map[string]struct {
			from peer.ID
			raw  []byte
			code calls.Code
		}{
			"a stranger":      {"x", raw(nil), calls.CodeBusy},
			"nonsense":        {"a", []byte{0xff}, calls.CodeRefused},
			"another version": {"a", raw(func(m *wire.Samples) { m.Version++ }), calls.CodeRefused},
			"nobody measured": {"a", raw(func(m *wire.Samples) { m.By = []uint32{0} }), calls.CodeRefused},
		} {
			if _, err := b.service().Handle(t.Context(), tt.from, tt.raw); calls.CodeOf(err) != tt.code {
				t.Errorf("%s: %v", name, err)
			}
		}
		for i := range samplesPerMinute/wire.MaxSamples + 1 {
			if _, err := b.service().Handle(t.Context(), "a", raw(nil)); (err == nil) != (i < samplesPerMinute/wire.MaxSamples) {
				t.Errorf("message %d of this minute: %v", i, err)
			}
		}
		time.Sleep(time.Minute)
		if _, err := b.service().Handle(t.Context(), "a", raw(nil)); err != nil {
			t.Errorf("a minute later: %v", err)
		}
	})
}

// unraced skips a test that the race detector makes too slow; it has smaller siblings.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow with the race detector: not with -short")
	}
}
