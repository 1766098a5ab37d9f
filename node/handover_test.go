package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/wire"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/storagetest"
)

// startOwners runs the owner of a peer over a store in memory.
func startOwners(t *testing.T, self peer.ID, view *fakeRing, net *fakeNet, spec *job.Spec) *owners {
	t.Helper()
	store := storagetest.New(t)
	w := &owners{self: self, router: &router{ring: view, net: net}, serves: view.Serves, log: quietLog, taken: make(taken)}
	w.handover = handover{wake: make(chan struct{}, 1), space: store.Keyspace(storage.KeyspaceHosts)}
	o := newOwner(t, self, keyspace[owner.Batch]{w.handover.space}, spec, view.Serves, func() int64 { return time.Now().UnixMilli() })
	w.loop = newOwnerLoop(o, time.Now, func(owner.Ready) {}, quietLog)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = w.loop.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-w.loop.done
		if err := o.Check(); err != nil {
			t.Errorf("books of %s: %v", self, err)
		}
	})
	net.at(self, func(ctx context.Context, service string, req []byte) ([]byte, error) {
		if service != serviceHandover {
			return nil, refuse("another service")
		}
		return w.handleRecords(ctx, "x", req)
	})
	return w
}

func (w *owners) accepted(t *testing.T, spec *job.Spec) (n int64) {
	t.Helper()
	if err := w.loop.look(t.Context(), func(o *owner.Owner) { n = o.Counts(spec.ID).Accepted }); err != nil {
		t.Fatal(err)
	}
	return n
}

// handoverWorld is two peers; everything belongs to the first until owns is changed.
type handoverWorld struct {
	net      *fakeNet
	spec     *job.Spec
	from, to *owners
	views    [2]*fakeRing
	urls     int64
	parts    int
}

func (w *handoverWorld) owns(id peer.ID) {
	for _, v := range w.views {
		v.set(func() { v.believed, v.real = ownedBy(id), ownedBy(id) })
	}
}

// newHandoverWorld fills the first peer with hosts, the last of them large enough for some parts.
func newHandoverWorld(t *testing.T, hosts, large int) *handoverWorld {
	t.Helper()
	w := &handoverWorld{net: newFakeNet(), spec: newSpec(t, nil, "http://a.example/")}
	for i, id := range []peer.ID{"from", "to"} {
		w.views[i] = &fakeRing{self: id, believed: ownedBy("from"), real: ownedBy("from")}
	}
	w.from = startOwners(t, "from", w.views[0], w.net, w.spec)
	w.to = startOwners(t, "to", w.views[1], w.net, w.spec)
	for h := range hosts {
		pages := 3
		if h == hosts-1 {
			pages = large
		}
		var links []outLink
		for p := range pages {
			pad := ""
			if pages > 3 {
				pad = fmt.Sprintf("%0600d", p)
			}
			links = append(links, outLink{job: w.spec.ID, url: fmt.Sprintf("http://h%d.example/p%d%s", h, p, pad)})
		}
		w.urls += int64(len(links))
		for len(links) > 0 {
			n := min(len(links), maxBatch)
			reply, err := w.from.links(t.Context(), batchOf(links[:n]))
			if err != nil || len(reply.GetBusy())+len(reply.GetMoved()) > 0 {
				t.Fatalf("links: %v, %v", reply, err)
			}
			links = links[n:]
		}
	}
	return w
}

// hand goes through the hosts of the first peer once; each part passes meanwhile.
func (w *handoverWorld) hand(t *testing.T, meanwhile func(part int) error) (left int) {
	t.Helper()
	serve := w.net.serve["to"]
	defer w.net.at("to", serve)
	w.net.at("to", func(ctx context.Context, service string, req []byte) ([]byte, error) {
		w.parts++
		if meanwhile != nil {
			if err := meanwhile(w.parts); err != nil {
				return nil, err
			}
		}
		return serve(ctx, service, req)
	})
	left, err := w.from.handOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func (w *handoverWorld) check(t *testing.T, from, to int64) {
	t.Helper()
	if a, b := w.from.accepted(t, w.spec), w.to.accepted(t, w.spec); a != from || b != to {
		t.Errorf("%d URLs at the old owner and %d at the new one, want %d and %d", a, b, from, to)
	}
}

// TestHandover: hosts whose arc went to another peer move there, large ones in parts, and are counted at one of the two at any moment.
func TestHandover(t *testing.T) {
	const large = 4000
	w := newHandoverWorld(t, 5, large)
	if left := w.hand(t, nil); left != 0 || w.parts != 0 {
		t.Errorf("%d left, %d parts sent while nothing had to move", left, w.parts)
	}
	w.owns("to")
	left := w.hand(t, func(int) error {
		if a, b := w.from.accepted(t, w.spec), w.to.accepted(t, w.spec); a+b < w.urls {
			t.Errorf("%d and %d URLs in the middle of it, together at least %d", a, b, w.urls)
		}
		return nil
	})
	if left != 0 || w.parts < 5+2 {
		t.Errorf("%d hosts left after %d parts", left, w.parts)
	}
	w.check(t, 0, w.urls)
	if w.from.taken[job.ID{}] != 5 || w.to.taken[job.ID{}] != uint64(w.parts) { //nolint:gosec // small
		t.Errorf("told %d and %d moves", w.from.taken[job.ID{}], w.to.taken[job.ID{}])
	}
}

// TestHandoverInterrupted: whatever breaks off the handover, nothing is removed that the other side does not have, and a second run completes it.
func TestHandoverInterrupted(t *testing.T) {
	for _, row := range []struct {
		name      string
		meanwhile func(w *handoverWorld, t *testing.T) func(part int) error
	}{
		{"before the first part", func(*handoverWorld, *testing.T) func(int) error {
			return func(int) error { return fmt.Errorf("call: %w", p2p.ErrUnreachable) }
		}},
		{"between two parts", func(*handoverWorld, *testing.T) func(int) error {
			return func(part int) error {
				if part == 2 {
					return errors.New("broken off")
				}
				return nil
			}
		}},
		{"the arc comes back", func(w *handoverWorld, _ *testing.T) func(int) error {
			return func(part int) error {
				if part == 2 {
					w.owns("from")
				}
				return nil
			}
		}},
		{"the arc comes back, takes a link, and goes", func(w *handoverWorld, t *testing.T) func(int) error {
			return func(part int) error {
				if part != 2 {
					return nil
				}
				w.owns("from")
				if _, err := w.from.links(t.Context(), batchOf([]outLink{{job: w.spec.ID, url: "http://h0.example/new"}})); err != nil {
					t.Error(err)
				}
				w.urls++
				w.owns("to")
				return nil
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newHandoverWorld(t, 1, 4000)
			w.owns("to")
			left := w.hand(t, row.meanwhile(w, t))
			if kept := w.from.accepted(t, w.spec); kept != w.urls && (left > 0 || w.to.accepted(t, w.spec) != w.urls) {
				t.Errorf("%d of %d URLs kept, %d hosts left", kept, w.urls, left)
			}
			w.owns("to")
			if left := w.hand(t, nil); left != 0 {
				t.Errorf("%d hosts left in the second run", left)
			}
			w.check(t, 0, w.urls)
		})
	}
}

// TestHandoverTo: a peer takes only what is a host of its own arc, and says where the rest belongs.
func TestHandoverTo(t *testing.T) {
	w := newHandoverWorld(t, 1, 3)
	own := func(host string) []byte {
		pos := owner.PosOf(ring.HostKey(host))
		return append(append([]byte{hostRecords}, pos[:]...), 'r', 'x')
	}
	for _, row := range []struct {
		name string
		to   peer.ID
		m    *wire.HostRecords
		code p2p.Code
	}{
		{"another's host", "from", &wire.HostRecords{Host: "b.example"}, p2p.CodeMoved},
		{"a key of another host", "to", &wire.HostRecords{Host: "b.example", Key: [][]byte{own("c.example")}, Value: [][]byte{{1}}}, p2p.CodeRefused},
		{"a key too short", "to", &wire.HostRecords{Host: "b.example", Key: [][]byte{{hostRecords}}, Value: [][]byte{{1}}}, p2p.CodeRefused},
		{"records without their host", "to", &wire.HostRecords{Host: "b.example", Key: [][]byte{own("b.example")}, Value: [][]byte{{1}}}, p2p.CodeRefused},
		{"nothing", "to", &wire.HostRecords{Host: "b.example"}, 0},
	} {
		w.owns(row.to)
		raw, err := proto.Marshal(row.m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.to.handleRecords(t.Context(), "x", raw); p2p.CodeOf(err) != row.code || (err == nil) != (row.code == 0) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

func TestNextPos(t *testing.T) {
	var last owner.Pos
	for i := range last {
		last[i] = 0xff
	}
	if got := nextPos(last); got != (owner.Pos{}) {
		t.Errorf("behind the last position: %x", got)
	}
	if got := nextPos(owner.Pos{15: 0xff}); got != (owner.Pos{14: 1}) {
		t.Errorf("a carry: %x", got)
	}
}
