package placer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

// plane are round trips between points, in ms, with a last mile of a millisecond at each.
type plane [][2]float64

func (p plane) Size() int { return len(p) }

func (p plane) RTT(i, j int) time.Duration {
	if i == j {
		return 0
	}
	return time.Duration((math.Hypot(p[i][0]-p[j][0], p[i][1]-p[j][1]) + 2) * float64(time.Millisecond))
}

// gossips are peers of one ring that speak without a network; what is said takes the time of the
// plane. asked counts questions by who was asked.
type gossips struct {
	list  []*gossip
	asked map[peer.ID]int
	fail  map[peer.ID]error
	reply []byte // instead of the real one
}

func newGossips(t *testing.T, at plane) *gossips {
	t.Helper()
	all := &gossips{asked: make(map[peer.ID]int), fail: make(map[peer.ID]error)}
	for i := range at {
		g := newLocated(&Deps{Self: peer.ID(fmt.Sprint("peer", i)), Log: quiet}).gossip
		g.state = coordinates.NewGossip(gossipConfig(), uint64(i)) // not negative
		g.backlog = func() int { return 10 * i }
		g.neighbours = func() (ids []peer.ID) {
			for j := range at {
				if j != i {
					ids = append(ids, all.list[j].self)
				}
			}
			return ids
		}
		g.net = rpc.CallerFunc(func(ctx context.Context, to peer.ID, _ string, raw []byte) ([]byte, error) {
			all.asked[to]++
			var j int
			if _, err := fmt.Sscanf(string(to), "peer%d", &j); err != nil {
				return nil, err
			}
			if err := all.fail[to]; err != nil {
				return nil, err
			}
			time.Sleep(at.RTT(i, j))
			if all.reply != nil {
				return all.reply, nil
			}
			return all.list[j].service().Handle(ctx, g.self, raw)
		})
		all.list = append(all.list, g)
	}
	return all
}

// TestGossip: peers that ask each other find how far they are, the new ones sooner, and the backlog
// of each shows as its queue.
func TestGossip(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		at := plane{{0, 0}, {80, 0}, {0, 60}, {70, 90}, {-40, 30}}
		all := newGossips(t, at)
		if ms, _ := all.list[0].distance(all.list[1].self); ms != nil {
			t.Errorf("before anything was said %.1f ms", *ms)
		}
		for range 500 { // in turn, as the fakes share what they count
			for _, g := range all.list {
				g.ask(t.Context())
				time.Sleep(gossipEvery / 5)
			}
		}
		for i, g := range all.list {
			for j, other := range all.list {
				if i == j {
					continue
				}
				ms, relative := g.distance(other.self)
				if ms == nil || relative == nil {
					t.Fatalf("%d to %d: nothing is known", i, j)
				}
				if want := float64(at.RTT(i, j)) / 1e6; math.Abs(*ms-want) > 0.25*want || *relative > 0.25 {
					t.Errorf("%d to %d: %.1f ms, error %.2f, want about %.1f", i, j, *ms, *relative, want)
				}
				if c, _ := g.Of(string(other.self)); math.Abs(c.Queue-float64(10*j)*coordinates.DefaultConfig().PerURL) > 1e-6 {
					t.Errorf("the queue of %d is told as %.2f ms", j, c.Queue)
				}
			}
		}
	})
}

// TestGossipIgnoresInvalidPeers: a neighbor without a valid answer has no coordinate.
func TestGossipIgnoresInvalidPeers(t *testing.T) {
	lie := wire.NewCoordinate(&coordinates.Coordinate{Height: 1, Error: 1})
	binary.BigEndian.PutUint32(lie.At[2:], math.Float32bits(float32(math.NaN())))
	liar, err := proto.Marshal(lie)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		setup func(*gossips)
		known bool
	}{
		{"it answers", func(*gossips) {}, true},
		{"it does not answer", func(g *gossips) { g.fail["peer1"] = errors.New("not reached") }, false},
		{"it tells rubbish", func(g *gossips) { g.reply = []byte{0xff} }, false},
		{"it tells what is no number", func(g *gossips) { g.reply = liar }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				all := newGossips(t, plane{{0, 0}, {30, 0}})
				tt.setup(all)
				for range 20 {
					all.list[1].ask(t.Context()) // that it leaves the origin
					all.list[0].ask(t.Context())
					time.Sleep(gossipEvery)
				}
				if _, ok := all.list[0].Of("peer1"); ok != tt.known || all.asked["peer1"] != 20 {
					t.Errorf("known %v after %d questions, want %v after 20", ok, all.asked["peer1"], tt.known)
				}
			})
		})
	}
	var none *gossip
	if _, err := none.service().Handle(t.Context(), "p", nil); err == nil || !strings.Contains(err.Error(), "no coordinate") {
		t.Errorf("a peer that keeps none: %v", err)
	}
}

// TestGossipEnds: it runs until it is told to end.
func TestGossipEnds(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		all := newGossips(t, plane{{0, 0}, {30, 0}})
		ended := make(chan error, 1)
		go func() { ended <- all.list[0].run(ctx) }()
		time.Sleep(65 * time.Second)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := all.asked["peer1"]; n < 55 || n > 66 {
			t.Errorf("%d questions in a minute", n)
		}
	})
}

// TestWithin: a worker's time is believed as far as it can be true.
func TestWithin(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, tt := range map[string]struct{ at, want time.Duration }{
		"a moment ago":  {-time.Second, -time.Second},
		"minutes ago":   {-9 * time.Minute, -9 * time.Minute},
		"yesterday":     {-24 * time.Hour, 0},
		"in the future": {time.Second, 0},
	} {
		if got := within(now.Add(tt.at), now); !got.Equal(now.Add(tt.want)) {
			t.Errorf("%s: %v", name, got.Sub(now))
		}
	}
}
