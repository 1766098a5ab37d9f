package hosts

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// running are owners that run, with what they asked for.
type running struct {
	*Owners
	spec *job.Spec
	net  *rpctest.Net

	mu       sync.Mutex
	workers  []string // whom the placements name, in turn
	excluded []string // workers that the last placement was not to name
	offered  []string // hosts that the own worker was offered
	declined []string // workers that took no offer, and why
}

// start runs the owners of everything, or of nothing if another owns that.
func start(t *testing.T, all peer.ID, workers ...string) *running {
	t.Helper()
	w := &running{spec: crawltest.Job(t, nil, "http://a.example/", "http://b.example/"), net: rpctest.NewNet(), workers: workers}
	var err error
	w.Owners, err = New(owner.DefaultConfig("self"), Deps{
		Self: "self", Store: newGatedStore(func() error { return nil }), Now: time.Now, Jobs: crawltest.OneJob{Spec: w.spec}, Log: quiet,
		Router:    &rpc.Router{Ring: &rpctest.Ring{Self: "self", Believed: rpctest.OwnedBy(all), Real: rpctest.OwnedBy(all)}, Net: w.net},
		Place:     w.place,
		OfferOwn:  func(hosts []string) []int { w.offered = append(w.offered, hosts...); return nil },
		ToWorker:  func(ctx context.Context, _ peer.ID) context.Context { return ctx },
		SetLoad:   func(string, uint32, uint32) {},
		Unasked:   func(peer.ID, int) {},
		Declined:  func(worker, why string) bool { w.declined = append(w.declined, worker, why); return true },
		LeasesEnd: func(peer.ID, time.Duration) time.Time { return time.Time{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *running) place(ctx context.Context, p owner.Place) owner.Placement {
	w.mu.Lock()
	if len(w.workers) == 0 {
		w.mu.Unlock()
		<-ctx.Done()
		return owner.Placement{}
	}
	defer w.mu.Unlock()
	worker := w.workers[0]
	w.workers, w.excluded = w.workers[1:], p.Exclude
	return owner.Placement{Worker: worker}
}

// TestOffers: a host with URLs is offered to the worker that was chosen; one that does not take it,
// or cannot be asked, is told of, and another is chosen.
func TestOffers(t *testing.T) {
	for name, row := range map[string]struct {
		worker   string
		serve    rpctest.Serve
		offered  []string
		excluded []string
		declined []string
	}{
		"this peer's own": {worker: "self", offered: []string{"a.example"}},
		"another takes it": {worker: "w", serve: func(_ context.Context, service string, req []byte) ([]byte, error) {
			m := new(wire.Offer)
			if err := proto.Unmarshal(req[1:], m); err != nil || service != rpc.ServiceWorker || !slices.Equal(m.GetHosts(), []string{"a.example"}) {
				return nil, rpc.Refuse("no offer")
			}
			return proto.Marshal(&wire.OfferReply{})
		}},
		"another declines": {worker: "w", serve: func(context.Context, string, []byte) ([]byte, error) {
			return proto.Marshal(&wire.OfferReply{Declined: []uint32{0}})
		}, offered: []string{"a.example"}, excluded: []string{"w"}},
		"another is paused": {worker: "w", serve: func(context.Context, string, []byte) ([]byte, error) {
			return nil, rpc.Busy(wire.PausedText)
		}, offered: []string{"a.example"}, excluded: []string{"w"}, declined: []string{"w", wire.PausedText}},
		"another cannot be reached": {worker: "w", offered: []string{"a.example"}, excluded: []string{"w"}},
		"it answers out of bounds": {worker: "w", serve: func(context.Context, string, []byte) ([]byte, error) {
			return proto.Marshal(&wire.OfferReply{Declined: []uint32{7}})
		}, offered: []string{"a.example"}, excluded: []string{"w"}},
	} {
		t.Run(name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				w := start(t, "self", row.worker, "self")
				w.net.At("w", row.serve)
				if err := w.Do(t.Context(), oneLink(w.spec, "a.example")); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !slices.Equal(w.offered, row.offered) || !slices.Equal(w.excluded, row.excluded) || !slices.Equal(w.declined, row.declined) {
					t.Errorf("own worker offered %q, excluded %q, declined %q", w.offered, w.excluded, w.declined)
				}
			})
		})
	}
}

// TestSendSeeds: seeds are counted as far as the owners of their hosts have taken them.
func TestSendSeeds(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w, taker := start(t, "other"), newLinkTaker()
		if sent, err := w.SendSeeds(t.Context(), w.spec, 0); err == nil || sent != 0 {
			t.Errorf("%d seeds are with a peer that cannot be reached", sent)
		}
		w.net.At("other", taker.serve)
		if sent, err := w.SendSeeds(t.Context(), w.spec, 1); err != nil || sent != 1 || taker.got["http://b.example/"] != 1 || len(taker.got) != 1 {
			t.Errorf("%d seeds, %v: %v", sent, err, taker.got)
		}
	})
}

// TestOptOutOfHosts: who owns a host notes its wish.
func TestOptOutOfHosts(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := start(t, "self")
		for _, want := range []bool{true, false} {
			if changed, err := w.OptOut(t.Context(), "a.example", true, "host a.example"); err != nil || changed != want {
				t.Errorf("changed %t, %v", changed, err)
			}
		}
		if err := w.Serves("a.example"); err != nil {
			t.Error(err)
		}
		if err := start(t, "other").Serves("a.example"); calls.CodeOf(err) != calls.CodeMoved {
			t.Errorf("another's host: %v", err)
		}
	})
}

// TestHandlers: links and sessions come in as messages, and what was taken is counted.
func TestHandlers(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := start(t, "self")
		w.net.At("self", func(ctx context.Context, _ string, req []byte) ([]byte, error) {
			return w.Service().Handle(ctx, "x", req)
		})
		links := Message([]owner.OutLink{{Job: w.spec.ID, URL: "http://a.example/"}})
		if _, err := linksMethod.Call(t.Context(), w.net, "self", links); err != nil {
			t.Error(err)
		}
		if _, err := SessionMethod.Call(t.Context(), w.net, "self", &wire.Session{Incarnation: 1, Capacity: 1}); err != nil {
			t.Error(err)
		}
		w.RecordsCame()
		var taken map[string]uint64
		if err := w.Ask(t.Context(), func(*owner.Owner) { taken = w.Taken() }); err != nil || taken[w.spec.ID.String()] != 1 {
			t.Errorf("taken %v, %v", taken, err)
		}
	})
}

// TestLinksOfStrangers: who is no member brings seeds of its own jobs, and nothing else.
func TestLinksOfStrangers(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := start(t, "self")
		w.spec.Poster = []byte("x")
		for _, from := range []peer.ID{"x", "y"} {
			w.net.At("self", func(ctx context.Context, _ string, req []byte) ([]byte, error) {
				return w.Service().Behind(rpctest.Untrusted{})(ctx, from, req)
			})
			_, err := linksMethod.Call(t.Context(), w.net, "self", Message([]owner.OutLink{{Job: w.spec.ID, URL: "http://a.example/"}}))
			if mine := from == "x"; mine != (err == nil) || !mine && calls.CodeOf(err) != calls.CodeBusy {
				t.Errorf("links of %s: %v", from, err)
			}
		}
		w.spec.PostedAt = []byte("y")
		for from, mine := range map[peer.ID]bool{"x": false, "y": true} {
			if w.posted(from, Message([]owner.OutLink{{Job: w.spec.ID, URL: "http://a.example/"}})) != mine {
				t.Errorf("posted at y by the key x: %s", from)
			}
		}
		unknown := job.NewID()
		if w.posted("x", Message([]owner.OutLink{{Job: unknown, URL: "http://a.example/"}})) {
			t.Error("a stranger posted a job that nobody knows")
		}
	})
}

// TestLinksOfPosters: who posts a job and is no member brings so many links at once, and so many a
// second from then on; members have limits of their own.
func TestLinksOfPosters(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := start(t, "self")
		w.spec.Poster = []byte("x")
		batch := make([]owner.OutLink, 1000)
		for i := range batch {
			batch[i] = owner.OutLink{Job: w.spec.ID, URL: fmt.Sprintf("http://a.example/%d", i)}
		}
		bring := func(gate rpc.Authorizer, within time.Duration) (n int) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			for range 20 {
				w.net.At("self", func(ctx context.Context, _ string, req []byte) ([]byte, error) {
					return w.Service().Behind(gate)(ctx, "x", req)
				})
				if _, err := linksMethod.Call(ctx, w.net, "self", Message(batch)); err == nil {
					n++
				} else if calls.CodeOf(err) != calls.CodeBusy {
					t.Fatal(err)
				}
			}
			return n
		}
		if n := bring(rpctest.Untrusted{}, time.Millisecond); n != posterBurst/len(batch) {
			t.Errorf("%d batches were taken at once", n)
		}
		time.Sleep(2 * time.Second)
		if n := bring(rpctest.Untrusted{}, time.Millisecond); n != 2 {
			t.Errorf("%d batches were taken 2 s later", n)
		}
		if n := bring(rpctest.Untrusted{}, 5*time.Second); n < 4 || n > 5 {
			t.Errorf("%d batches were taken of one that waits for 5 s", n)
		}
		begun := time.Now()
		if n := bring(rpctest.Members{}, time.Hour); n != 20 || time.Since(begun) > 0 { // it posted the job, and need not wait
			t.Errorf("%d batches of a member were taken", n)
		}
	})
}

// rejections is a gate of members that counts rejected requests.
type rejections struct {
	rpctest.Members
	n *int
}

func (r rejections) Rejected(_ peer.ID, request string, why error) {
	if request == "Links" && calls.CodeOf(why) == calls.CodeBusy {
		*r.n++
	}
}

// TestLinksOfMembers: a member that sends links at a high rate, to one host or to made-up ones,
// gets busy for those above its limits; they are counted, and accepted later. Others are not
// affected.
func TestLinksOfMembers(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := start(t, "self")
		if w.ofMember.Of("x").Burst() != memberBurst || w.ofHost.Of("x").Burst() != hostBurst {
			t.Error("other bursts")
		}
		const all, ofHost = memberBurst / 8, hostBurst / 8
		w.ofMember, w.ofHost = loop.NewPaces(memberLinks, all, loop.MaxPeers), loop.NewPaces(hostLinks, ofHost, loop.MaxPeers)
		counted := 0
		send := func(from peer.ID, n int, host func(i int) string) (accepted int) {
			w.net.At("self", func(ctx context.Context, _ string, req []byte) ([]byte, error) {
				return w.Service().Behind(rejections{n: &counted})(ctx, from, req)
			})
			for begin := 0; begin < n; begin += wire.MaxLinks {
				batch := make([]owner.OutLink, min(wire.MaxLinks, n-begin))
				for i := range batch {
					batch[i] = owner.OutLink{Job: w.spec.ID, URL: fmt.Sprintf("http://%s/%d", host(begin+i), begin+i), ID: uint64(i)}
				}
				reply, err := linksMethod.Call(t.Context(), w.net, "self", Message(batch))
				if err != nil {
					t.Fatal(err)
				}
				taken, left, _ := Split(batch, reply)
				if accepted += len(taken); len(left) > 0 && len(taken) > 0 && left[0].ID != uint64(len(taken)) {
					t.Errorf("%d links of a message are taken, and %d is the first that is not", len(taken), left[0].ID)
				}
			}
			return accepted
		}
		one := func(int) string { return "a.example" }
		if n := send("x", ofHost+1000, one); n != ofHost || counted == 0 {
			t.Errorf("%d links to a host were accepted at once, %d rejections counted", n, counted)
		}
		if n := send("x", 100, func(int) string { return "b.example" }); n != 100 {
			t.Errorf("%d links to another host were accepted", n)
		}
		time.Sleep(2 * time.Second)
		if n := send("x", 5000, one); n != 2*hostLinks {
			t.Errorf("%d links were accepted 2 s later", n)
		}
		if n := send("y", all+1000, func(i int) string { return fmt.Sprintf("h%d.example", i%900) }); n != all {
			t.Errorf("%d links to many hosts were accepted at once", n)
		}
		if n := send("z", 100, one); n != 100 {
			t.Errorf("%d links of another member were accepted", n)
		}
	})
}

// TestLinksGivenUp: links whose sender no longer waits for the answer are not taken in, since it
// sends them again.
func TestLinksGivenUp(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := start(t, "self")
		busy := make(chan struct{})
		go func() { _ = w.Do(t.Context(), func(*owner.Owner) { <-busy }) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = w.Links(ctx, Message([]owner.OutLink{{Job: w.spec.ID, URL: "http://a.example/"}}))
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(busy)
		var accepted int64
		if err := w.Do(t.Context(), func(o *owner.Owner) { accepted = o.Counts(w.spec.ID).Accepted }); err != nil || accepted != 0 {
			t.Errorf("%d URLs taken in, %v; want none", accepted, err)
		}
		if _, err := w.Links(t.Context(), Message([]owner.OutLink{{Job: w.spec.ID, URL: "http://a.example/"}})); err != nil {
			t.Error(err)
		}
	})
}
