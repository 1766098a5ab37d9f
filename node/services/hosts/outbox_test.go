package hosts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// linkTaker is the owner of hosts at a peer, as a sender of links sees it.
type linkTaker struct {
	mu      sync.Mutex
	got     map[string]int // how often each URL was taken
	batches []int
	at      []time.Time
	// refuse lists, for each batch, the indexes that are busy and moved.
	refuse func(n int, m *wire.Links) (busy, moved []uint32)
	busy   int // requests under way
	most   int
	slow   time.Duration
}

func newLinkTaker() *linkTaker { return &linkTaker{got: make(map[string]int)} }

func (l *linkTaker) serve(_ context.Context, _ string, req []byte) ([]byte, error) {
	m := new(wire.Links)
	if err := proto.Unmarshal(req[1:], m); err != nil || m.Validate() != nil || req[0] != tagLinks {
		return nil, rpc.Refuse("not links")
	}
	l.mu.Lock()
	l.busy++
	l.most = max(l.most, l.busy)
	n := len(l.batches)
	l.batches = append(l.batches, len(m.GetUrl()))
	l.at = append(l.at, time.Now())
	reply := &wire.LinksReply{}
	if l.refuse != nil {
		reply.Busy, reply.Moved = l.refuse(n, m)
	}
	l.mu.Unlock()
	time.Sleep(l.slow)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	for i, u := range m.GetUrl() {
		if !slices.Contains(reply.GetBusy(), uint32(i)) && !slices.Contains(reply.GetMoved(), uint32(i)) {
			l.got[string(u)]++
		}
	}
	return proto.Marshal(reply)
}

// outboxWorld is an outbox over an outbox that a test fills.
type outboxWorld struct {
	box  *outbox
	ring *rpctest.Ring
	net  *rpctest.Net

	mu    sync.Mutex
	queue []owner.OutLink
	sent  map[uint64]int
	urls  []string
	stop  func() // ends the mailbox and waits for it
}

func newOutboxWorld(t *testing.T, believed func(ring.Key) peer.ID) *outboxWorld {
	t.Helper()
	w := &outboxWorld{ring: &rpctest.Ring{Self: "me", Believed: believed, Real: believed}, net: rpctest.NewNet(), sent: make(map[uint64]int)}
	c := &sender{router: &rpc.Router{Ring: w.ring, Net: w.net}, self: "me", log: quiet}
	w.box = newOutbox(c, w.take, w.noteSent)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- w.box.run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("outbox: %v", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *outboxWorld) take(_ context.Context, n int) ([]owner.OutLink, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, len(w.queue))
	out := w.queue[:n]
	w.queue = w.queue[n:]
	return out, nil
}

func (w *outboxWorld) noteSent(ids []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.sent[id]++
	}
}

var testJob = job.NewID()

// put adds n links, each to a host of its own.
func (w *outboxWorld) put(n int) {
	w.mu.Lock()
	for range n {
		i := len(w.urls)
		host := fmt.Sprintf("h%d.example", i)
		w.urls = append(w.urls, "http://"+host+"/")
		w.queue = append(w.queue, owner.OutLink{ID: uint64(i), Job: testJob, URL: w.urls[i], Host: host, Key: ring.HostKey(host), Kind: link.KindPage})
	}
	w.mu.Unlock()
	loop.Wake(w.box.wake)
}

// check says that each link was taken once, by one of the takers, and acknowledged once.
func (w *outboxWorld) check(t *testing.T, takers ...*linkTaker) {
	t.Helper()
	synctest.Wait()
	got := make(map[string]int)
	for _, l := range takers {
		for u, n := range l.got {
			got[u] += n
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, u := range w.urls {
		if got[u] != 1 || w.sent[uint64(i)] != 1 {
			t.Errorf("%s was taken %d times and acknowledged %d times", u, got[u], w.sent[uint64(i)])
		}
	}
	if len(w.sent) != len(w.urls) {
		t.Errorf("%d acknowledged, want %d", len(w.sent), len(w.urls))
	}
}

// TestOutboxBatches: a few links linger, many leave at once, never more in a message than
// Most.
func TestOutboxBatches(t *testing.T) {
	for _, row := range []struct {
		name  string
		links int
		want  []int // sizes, sorted
		first time.Duration
	}{
		{"one lingers", 1, []int{1}, 100 * time.Millisecond},
		{"a full batch leaves at once", MaxBatchLinks, []int{MaxBatchLinks}, 0},
		{"the rest of a full batch lingers", MaxBatchLinks + 7, []int{7, MaxBatchLinks}, 0},
		{"ten batches", 10 * MaxBatchLinks, slices.Repeat([]int{MaxBatchLinks}, 10), 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				w, l := newOutboxWorld(t, rpctest.OwnedBy("a")), newLinkTaker()
				w.net.At("a", l.serve)
				begin := time.Now()
				w.put(row.links)
				time.Sleep(time.Second)
				w.check(t, l)
				slices.Sort(l.batches)
				if !slices.Equal(l.batches, row.want) {
					t.Errorf("batches of %v, want %v", l.batches, row.want)
				}
				if got := l.at[0].Sub(begin); got < row.first || got > row.first+time.Millisecond {
					t.Errorf("the first left after %v, want %v", got, row.first)
				}
			})
		})
	}
}

// TestOutboxKeepsWhatIsNotTaken: what is busy, has moved, or cannot be delivered is kept and sent
// again, not at once; the rest is acknowledged.
func TestOutboxKeepsWhatIsNotTaken(t *testing.T) {
	odd := func(m *wire.Links) (list []uint32) {
		for i := 1; i < len(m.GetUrl()); i += 2 {
			list = append(list, uint32(i))
		}
		return list
	}
	for _, row := range []struct {
		name  string
		setup func(w *outboxWorld, a, b *linkTaker)
		most  int // calls at a
	}{
		{"busy for a while", func(_ *outboxWorld, a, _ *linkTaker) {
			a.refuse = func(n int, m *wire.Links) (busy, moved []uint32) {
				if n < 6 {
					return odd(m), nil
				}
				return nil, nil
			}
		}, 16},
		{"wholly busy for a while", func(w *outboxWorld, a, _ *linkTaker) {
			begin := time.Now()
			w.net.At("a", func(ctx context.Context, s string, req []byte) ([]byte, error) {
				if time.Since(begin) < 10*time.Second {
					a.mu.Lock()
					a.batches = append(a.batches, 0)
					a.mu.Unlock()
					return nil, rpc.Busy("joining")
				}
				return a.serve(ctx, s, req)
			})
		}, 3 * 30},
		{"moved to another", func(w *outboxWorld, a, _ *linkTaker) {
			w.ring.Real = rpctest.OwnedBy("b")
			a.refuse = func(_ int, m *wire.Links) (busy, moved []uint32) { return nil, odd(m) }
		}, 3},
		{"unreachable, then another's", func(w *outboxWorld, _, _ *linkTaker) {
			w.net.At("a", nil)
			time.AfterFunc(5*time.Second, func() { w.ring.Set(func() { w.ring.Believed = rpctest.OwnedBy("b") }) })
		}, 0},
		{"nobody's for a while", func(w *outboxWorld, _, _ *linkTaker) {
			w.ring.Believed, w.ring.Real = rpctest.OwnedBy(""), rpctest.OwnedBy("")
			time.AfterFunc(5*time.Second, func() { w.ring.Set(func() { w.ring.Real = rpctest.OwnedBy("b") }) })
		}, 0},
		{"an answer out of bounds", func(w *outboxWorld, _, _ *linkTaker) {
			w.net.At("a", func(context.Context, string, []byte) ([]byte, error) {
				return proto.Marshal(&wire.LinksReply{Busy: []uint32{1 << 20}})
			})
			time.AfterFunc(5*time.Second, func() { w.ring.Set(func() { w.ring.Believed = rpctest.OwnedBy("b") }) })
		}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				w, a, b := newOutboxWorld(t, rpctest.OwnedBy("a")), newLinkTaker(), newLinkTaker()
				w.net.At("a", a.serve)
				w.net.At("b", b.serve)
				row.setup(w, a, b)
				w.put(3 * MaxBatchLinks)
				time.Sleep(time.Minute)
				w.check(t, a, b)
				if row.most > 0 && len(a.batches) > row.most {
					t.Errorf("%d calls, want at most %d", len(a.batches), row.most)
				}
				if gone := len(w.ring.Gone) > 0; gone != (row.name == "unreachable, then another's") {
					t.Errorf("told unreachable: %v", w.ring.Gone)
				}
			})
		})
	}
}

// TestOutboxIsBounded: however much waits and however slow the others are, only so much is taken
// out and so many batches are under way; a peer that never answers holds up nobody else for long.
func TestOutboxIsBounded(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w, l := newOutboxWorld(t, rpctest.OwnedBy("a")), newLinkTaker()
		l.slow = time.Second
		w.net.At("a", l.serve)
		const links = 4 * MaxHeldLinks
		w.put(links)
		time.Sleep(500 * time.Millisecond)
		w.mu.Lock()
		out := links - len(w.queue)
		w.mu.Unlock()
		l.mu.Lock()
		most := l.most
		l.mu.Unlock()
		if out > MaxHeldLinks+TakeLinks || most != sendersMost {
			t.Errorf("%d links and %d batches under way", out, most)
		}
		time.Sleep(time.Minute)
		w.check(t, l)
		if l.most > sendersMost {
			t.Errorf("%d batches under way at once", l.most)
		}
	})
}

// TestOutboxStops: when the mailbox ends while a batch is under way, only what was acknowledged is
// noted, and nothing is left running.
func TestOutboxStops(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := newOutboxWorld(t, rpctest.OwnedBy("a"))
		w.net.At("a", func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		w.put(10)
		time.Sleep(time.Second)
		w.stop()
		if len(w.sent) > 0 {
			t.Errorf("noted as sent: %v", slices.Collect(maps.Keys(w.sent)))
		}
	})
}

// TestDeliverBoundsTheSearch: a batch whose owners nobody finds does not search for each of them in
// turn.
func TestDeliverBoundsTheSearch(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		view := &rpctest.Ring{Self: "me", Believed: rpctest.OwnedBy(""), Real: rpctest.OwnedBy("")}
		c := &sender{router: &rpc.Router{Ring: rpctest.SlowRing{Ring: view}, Net: rpctest.NewNet()}, self: "me", log: quiet}
		links := make([]owner.OutLink, MaxBatchLinks)
		for i := range links {
			host := fmt.Sprintf("h%d.example", i)
			links[i] = owner.OutLink{ID: uint64(i), Job: testJob, URL: "http://" + host + "/", Host: host, Key: ring.HostKey(host)}
		}
		begin := time.Now()
		if left := c.deliver(t.Context(), links); len(left) != MaxBatchLinks || time.Since(begin) > linksTimeout {
			t.Errorf("%d left after %v", len(left), time.Since(begin))
		}
	})
}

func TestBatchFitsIntoAMessage(t *testing.T) {
	if calls.MaxPayload < MaxBatchLinks*(link.MaxURL+64)+wire.MaxSourceBytes {
		t.Error("a batch of the longest URLs does not fit into a message")
	}
}
