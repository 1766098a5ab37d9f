package records

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
	"github.com/apoidea/apoidea/storage/storagetest"
)

// TestShippedWaits (invariant 2): a batch is acknowledged when every level replica has said that it
// has it, and not before.
func TestShippedWaits(t *testing.T) {
	for _, row := range []struct {
		name   string
		breaks func(net *wires)
	}{
		{"a replica is silent", func(net *wires) {
			net.going = func(ctx context.Context, m crossing) error {
				if m.to == "c" {
					return hold(ctx, m)
				}
				return nil
			}
		}},
		{"the answer is withheld", func(net *wires) {
			net.coming = func(ctx context.Context, m crossing) error {
				if m.to == "c" {
					return hold(ctx, m)
				}
				return nil
			}
		}},
		{"a replica cannot be reached", func(net *wires) { net.serve["c"] = nil }},
		{"a replica refuses", func(net *wires) {
			net.going = func(_ context.Context, m crossing) error {
				if m.to == "c" {
					return rpc.Refuse("no")
				}
				return nil
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, net *wires, _ *circle, peers []*copier) {
				a := peers[0]
				net.set(func() { row.breaks(net) })
				safe := a.set(t, storage.KeyspaceJobs, "k", "v")
				time.Sleep(time.Minute)
				if err, still := ended(safe); !still {
					t.Fatalf("acknowledged without a replica: %v", err)
				}
				if got := peers[1].copyOf(t, "a")["jk"]; got != "v" {
					t.Errorf("the other replica has %q", got)
				}
				net.set(func() { net.going, net.coming = nil, nil })
				peers[2].serve(net)
				time.Sleep(time.Minute)
				if err, still := ended(safe); still || err != nil {
					t.Errorf("not acknowledged: %v, %t", err, still)
				}
				if got := peers[2].copyOf(t, "a")["jk"]; got != "v" {
					t.Errorf("acknowledged, and the copy has %q", got)
				}
			})
		})
	}
}

// TestShippedReplaced: a replica that is gone is waited for until the ring has replaced it; its
// successor is brought level.
func TestShippedReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, net *wires, c *circle, peers []*copier) {
		a, b := peers[0], peers[1]
		net.at("c", nil)
		safe := a.set(t, storage.KeyspaceJobs, "k", "v")
		time.Sleep(time.Minute)
		if _, still := ended(safe); !still {
			t.Fatal("acknowledged without a replica")
		}
		d := newCopier(t, net, c, "d")
		c.set("a", "b", "d")
		a.ship.Nudge()
		if err, still := ended(safe); still || err != nil {
			t.Errorf("not acknowledged although the dead one was replaced: %v, %t", err, still)
		}
		a.level(t, 2)
		for _, p := range []*copier{b, d} {
			if got := p.copyOf(t, "a"); !maps.Equal(got, a.own(t)) {
				t.Errorf("%s has %v", p.id, got)
			}
		}
	})
}

// TestShippedStops: whoever waits when the peer stops hears that, as does everybody who waits
// later.
func TestShippedStops(t *testing.T) {
	inBubble(t, func(t *testing.T, net *wires, _ *circle, peers []*copier) {
		a := peers[0]
		net.set(func() { net.coming = hold })
		var waits []<-chan error
		for i := range 5 {
			waits = append(waits, a.set(t, storage.KeyspaceJobs, fmt.Sprint("k", i), "v"))
		}
		marked := make(chan error, 1)
		go func() { marked <- a.ship.await(context.Background(), a.ship.mark()) }()
		waits = append(waits, marked)
		time.Sleep(time.Second)
		a.stop()
		waits = append(waits, a.set(t, storage.KeyspaceJobs, "late", "v"))
		for i, safe := range waits {
			if err, still := ended(safe); still || !errors.Is(err, loop.ErrStopping) {
				t.Errorf("wait %d: %v, %t", i, err, still)
			}
		}
		if _, err := a.ship.Handle(t.Context(), "b", nil); !errors.Is(err, loop.ErrStopping) {
			t.Errorf("a message to a peer that has stopped: %v", err)
		}
	})
}

// TestShippedDisk: what the disk says of a failed write is known at once, whatever the replicas do.
func TestShippedDisk(t *testing.T) {
	inBubble(t, func(t *testing.T, net *wires, _ *circle, peers []*copier) {
		net.set(func() { net.coming = hold })
		broken := errors.New("broken disk")
		space := peers[0].space(storage.KeyspaceJobs)
		write := space.write
		space.write = func(fn func(kv.Batch)) (func() error, error) {
			_, err := write(fn)
			return func() error { return broken }, err
		}
		wait, err := space.Update(func(b kv.Batch) { b.Set([]byte("k"), []byte("v")) })
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() { failed <- wait() }()
		if err, still := ended(failed); still || !errors.Is(err, broken) {
			t.Errorf("%v, %t", err, still)
		}
	})
}

// TestShippedSwitch: a batch that began when nobody followed is in the records that the first
// replica is made level with.
func TestShippedSwitch(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		net, c := newWires(), &circle{}
		c.set("a")
		a, b := newCopier(t, net, c, "a"), newCopier(t, net, c, "b")
		begun, end := make(chan struct{}), make(chan struct{})
		written := make(chan error, 1)
		go func() {
			_, err := a.space(storage.KeyspaceJobs).Update(func(batch kv.Batch) {
				close(begun)
				<-end
				batch.Set([]byte("early"), []byte("v"))
			})
			written <- err
		}()
		<-begun
		c.set("a", "b")
		a.ship.Nudge()
		time.Sleep(time.Minute)
		if level, _ := a.ship.Level(); level != 0 {
			t.Error("level before a batch that is not noted was written")
		}
		late := a.set(t, storage.KeyspaceJobs, "late", "v")
		close(end)
		if err := errors.Join(<-written, <-late); err != nil {
			t.Fatal(err)
		}
		a.level(t, 1)
		if got := b.copyOf(t, "a"); len(got) != 2 || !maps.Equal(got, a.own(t)) {
			t.Errorf("the copy has %v", got)
		}
		a.stop()
		b.stop()
	})
}

// TestShippedOrder: what replicas come to is what the writers came to, however their batches
// overtake each other's disks; what has no replicas stays.
func TestShippedOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *wires, _ *circle, peers []*copier) {
		a := peers[0]
		var writers sync.WaitGroup
		for n, space := range replicated {
			writers.Go(func() {
				key := func(i int) []byte { return append(slices.Clone(space.Head), byte('a'+i%11)) }
				for i := range 298 {
					if _, err := a.space(space.Prefix).Update(func(b kv.Batch) {
						b.Set([]byte("!"), []byte("this peer's own affair, in the space of hosts"))
						b.Set(key(i), fmt.Append(nil, n, i))
						switch i % 7 {
						case 3:
							b.Delete(key(i + 4))
						case 5:
							b.DeleteRange(key(0), key(3))
						case 6:
							b.DeleteRange(key(1), key(1)) // of nothing
						}
					}); err != nil {
						t.Error(err)
					}
					if i%50 == 0 {
						time.Sleep(150 * time.Millisecond) // let some of them go
					}
				}
			})
		}
		writers.Wait()
		time.Sleep(time.Minute)
		own := a.own(t)
		if _, ok := own["h!"]; ok || len(own) < 6 {
			t.Fatalf("records that are to have replicas: %v", own)
		}
		for _, p := range peers[1:] {
			if got := p.copyOf(t, "a"); !maps.Equal(got, own) {
				t.Errorf("%s has %v, want %v", p.id, got, own)
			}
		}
		a.level(t, 2)
	})
}

// TestDeposed: a peer whose arc another one serves acknowledges nothing until they agree.
func TestDeposed(t *testing.T) {
	for _, row := range []struct {
		name string
		late bool
	}{{"by a replica that was level", false}, {"by one that follows from now on", true}} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *wires, _ *circle, peers []*copier) {
				a, b := peers[0], peers[1]
				if row.late {
					a.seat.believe("a", "c")
					a.ship.Nudge()
					a.level(t, 1)
				}
				b.seat.believe("b") // all others are dead to it
				a.seat.believe("a", "b", "c")
				a.ship.Nudge()
				time.Sleep(time.Second)
				safe := a.set(t, storage.KeyspaceJobs, "k", "v")
				time.Sleep(time.Minute)
				if _, still := ended(safe); !still {
					t.Fatal("a deposed peer acknowledged a batch")
				}
				if got := b.copyOf(t, "a"); len(got) > 0 {
					t.Errorf("who deposed took %v", got)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := a.ship.await(ctx, a.ship.mark()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("waiting with a context ended with %v", err)
				}
				b.seat.believe("a", "b", "c")
				time.Sleep(time.Second)
				if err, still := ended(safe); still || err != nil {
					t.Errorf("they agree again, and it is not acknowledged: %v, %t", err, still)
				}
			})
		})
	}
}

// TestSilentReplica: the ring hears of a replica that does not answer in time, and not of each try
// at one that cannot be reached.
func TestSilentReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, net *wires, c *circle, peers []*copier) {
		a := peers[0]
		var mu sync.Mutex
		suspects := make(map[peer.ID]int)
		a.ship.suspect = func(id peer.ID) {
			mu.Lock()
			defer mu.Unlock()
			suspects[id]++
		}
		net.set(func() {
			net.going = func(ctx context.Context, m crossing) error {
				switch m.to {
				case "b":
					return hold(ctx, m)
				case "c":
					return calls.ErrUnreachable
				}
				return nil
			}
		})
		a.set(t, storage.KeyspaceJobs, "k", "v")
		time.Sleep(replicaTimeout + time.Second)
		c.set("a") // so that the test can end
		a.ship.Nudge()
		mu.Lock()
		defer mu.Unlock()
		if suspects["b"] != 1 || suspects["c"] != 0 {
			t.Errorf("told of %v", suspects)
		}
	})
}

// TestDeposedByNobody: a replica that deposes and is replaced holds nothing up, not even when its
// last word comes late.
func TestDeposedByNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, net *wires, c *circle, peers []*copier) {
		a := peers[0]
		word := make(chan struct{})
		net.set(func() {
			net.going = func(_ context.Context, m crossing) error {
				if m.to == "c" {
					<-word
					return errDeposed
				}
				return nil
			}
		})
		safe := a.set(t, storage.KeyspaceJobs, "k", "v")
		time.Sleep(time.Second)
		c.set("a", "b")
		a.ship.Nudge()
		time.Sleep(time.Second)
		close(word)
		time.Sleep(time.Minute)
		if err, still := ended(safe); still || err != nil {
			t.Errorf("not acknowledged: %v, %t", err, still)
		}
		later := a.set(t, storage.KeyspaceJobs, "k2", "v")
		time.Sleep(time.Second)
		if err, still := ended(later); still || err != nil {
			t.Errorf("a later batch is not acknowledged: %v, %t", err, still)
		}
	})
}

// TestDeposesMeanwhile: a message that came before the arc changed and was written after is not
// acknowledged.
func TestDeposesMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *wires, _ *circle, peers []*copier) {
		a, b := peers[0], peers[1]
		var asked atomic.Int64
		b.ship.deposes = func(peer.ID) bool { return asked.Add(1) > 1 }
		safe := a.set(t, storage.KeyspaceJobs, "k", "v")
		time.Sleep(time.Second)
		if _, still := ended(safe); !still {
			t.Errorf("acknowledged by a peer that took the arc over meanwhile")
		}
	})
}

// TestDismiss: who leaves for good has its copies forgotten, also where one of those who are to
// forget dies instead.
func TestDismiss(t *testing.T) {
	for _, row := range []struct {
		name string
		dies bool
	}{{"all forget", false}, {"one dies", true}} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, net *wires, c *circle, peers []*copier) {
				a := peers[0]
				if err := <-a.set(t, storage.KeyspaceJobs, "k", "v"); err != nil {
					t.Fatal(err)
				}
				if row.dies {
					net.at("c", nil)
				}
				c.set("b", "c")
				for _, p := range peers[1:] {
					p.watch.Goodbye("a")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := a.ship.dismiss(ctx)
				if (err != nil) != row.dies {
					t.Errorf("after a second: %v", err)
				}
				if row.dies {
					c.set("b")
					if err := a.ship.dismiss(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if got := peers[1].copyOf(t, "a"); len(got) > 0 {
					t.Errorf("a copy is kept: %v", got)
				}
			})
		})
	}
}

// told counts the followers, and those that are still to be told to forget.
func (r *Replication) told() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Followers()
}

// TestForgottenDead: a former replica that dies before it was told to forget is not called for
// ever, and does not keep a leaving peer.
func TestForgottenDead(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		net, c := newWires(), &circle{}
		c.set("a", "b", "c", "d")
		a := newCopier(t, net, c, "a")
		_, succs := a.seat.Leaves()
		first, second, third := succs[0].ID, succs[1].ID, succs[2].ID
		c.set("a", first, third)
		for _, id := range []peer.ID{first, second, third} {
			newCopier(t, net, c, id)
		}
		a.ship.Nudge()
		a.level(t, 2)
		net.at(third, nil)
		c.set("a", first, second, third)
		a.ship.Nudge()
		a.level(t, 2)
		if n := a.ship.told(); n != 3 {
			t.Fatalf("%d followers, the last of them to be told to forget", n)
		}
		c.set("a", first, second)
		time.Sleep(time.Second)
		if n := a.ship.told(); n != 2 {
			t.Errorf("%d followers after one died", n)
		}
	})
}

// TestRangeSync: a replica that comes back is made level with what the source has by now, piece by
// piece through all keyspaces.
func TestRangeSync(t *testing.T) {
	inBubble(t, func(t *testing.T, net *wires, c *circle, peers []*copier) {
		a, b := peers[0], peers[1]
		rnd := rand.New(rand.NewPCG(1, 2))
		change := func() {
			for range 300 {
				space := replicated[rnd.IntN(len(replicated))]
				key := fmt.Appendf(slices.Clone(space.Head), "%03d", rnd.IntN(200))
				if _, err := a.space(space.Prefix).Update(func(b kv.Batch) {
					b.Set([]byte("!"), []byte("this peer's own affair, in the space of hosts"))
					if rnd.IntN(3) == 0 {
						b.Delete(key)
					} else {
						b.Set(key, fmt.Append(nil, rnd.Int()))
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		change()
		a.level(t, 2)
		net.at("b", nil)
		c.set("a", "c")
		a.ship.Nudge()
		change()
		a.level(t, 1)
		b.serve(net)
		c.set("a", "b", "c")
		a.ship.Nudge()
		change() // meanwhile
		time.Sleep(time.Minute)
		a.level(t, 2)
		if got, own := b.copyOf(t, "a"), a.own(t); !maps.Equal(got, own) || len(own) < 100 {
			t.Errorf("the copy has %d records, the source %d", len(got), len(own))
		}
	})
}

// TestReplicaRefuses: what makes no sense is refused, and the copies stay as they are.
func TestReplicaRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *wires, _ *circle, peers []*copier) {
		if err := <-peers[0].set(t, storage.KeyspaceJobs, "k", "v"); err != nil {
			t.Fatal(err)
		}
		before := peers[1].copyOf(t, "a")
		for _, raw := range [][]byte{nil, {0}, {1}, {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{7}, 100)} {
			if _, err := peers[1].ship.Handle(t.Context(), "a", raw); calls.CodeOf(err) != calls.CodeRefused {
				t.Errorf("%x: %v", raw, err)
			}
		}
		if after := peers[1].copyOf(t, "a"); !maps.Equal(before, after) || len(after) == 0 {
			t.Errorf("the copy is now %v", after)
		}
	})
}

// TestCopiesBeginNearby: who is not seen near begins no copy, and may come again; a copy that has
// begun goes on wherever its source is by now.
func TestCopiesBeginNearby(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *wires, _ *circle, peers []*copier) {
		near := false
		peers[1].ship.near = func(peer.ID) bool { return near }
		message := func(incarnation uint64) []byte {
			source := replica.NewSource(replica.Config{Incarnation: incarnation})
			source.Follow([]string{"f"}, func(string) bool { return false })
			_, scans, _ := source.Next(time.Now())
			into := source.Collect(scans[0])
			into.Add([]byte("jk"), []byte("v"))
			into.End()
			call, _ := source.Scanned(time.Now(), into, nil)
			return call.Message
		}
		if _, err := peers[1].ship.Handle(t.Context(), "far", message(1)); calls.CodeOf(err) != calls.CodeBusy || peers[1].ship.copies.Holds("far") {
			t.Errorf("one that is far: %v", err)
		}
		near = true
		if _, err := peers[1].ship.Handle(t.Context(), "far", message(2)); err != nil {
			t.Errorf("one that is near: %v", err)
		}
		near = false
		if _, err := peers[1].ship.Handle(t.Context(), "far", message(3)); err != nil || !peers[1].ship.copies.Holds("far") {
			t.Errorf("one that was near: %v", err)
		}
	})
}

// FuzzReplicaHandle: nothing that a stranger sends as the message of a source makes the copies
// panic, and nothing goes into another's copy.
func FuzzReplicaHandle(f *testing.F) {
	source := replica.NewSource(replica.Config{})
	source.Follow([]string{"f"}, func(string) bool { return false })
	_, scans, _ := source.Next(time.Unix(0, 0))
	into := source.Collect(scans[0])
	into.Add([]byte("jk"), []byte("v"))
	into.End()
	call, _ := source.Scanned(time.Unix(0, 0), into, nil)
	f.Add(call.Message)
	f.Add([]byte{1, 3, 8, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := replicationOf("a", nil, storagetest.New(t), replica.Config{}, quietLog)
		r.deposes = func(peer.ID) bool { return false }
		stop := background(t, r.loop.Run)
		defer stop()
		for range 2 { // as of an answer that went lost
			if _, err := r.Handle(t.Context(), "stranger", raw); err != nil && calls.CodeOf(err) != calls.CodeRefused {
				t.Errorf("answered %v", err)
			}
		}
		names, err := r.copies.Sources()
		if err != nil || len(names) > 1 || len(names) == 1 && names[0] != "stranger" {
			t.Errorf("copies of %q: %v", names, err)
		}
	})
}
