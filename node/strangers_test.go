package node

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/politeness"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

// TestStrangersMessagesTakeLittle: somebody sends a peer many messages at once that are full of
// empty parts. They are refused and take little, and what others ask meanwhile is answered.
func TestStrangersMessagesTakeLittle(t *testing.T) {
	const messages, mostHeap, slowest = 12, 400 << 20, 10 * time.Second
	peers := startRing(t, 3)
	target, stranger, other := peers[0].ring.net.Self(), peers[1].ring.net, peers[2].ring.net
	part := []byte{2<<3 | 2, 0} // an empty Session.hosts
	raw := append([]byte{hosts.SessionMethod.Tag}, bytes.Repeat(part, (calls.MaxPayload-1)/len(part))...)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := func() time.Duration {
		t.Helper()
		begin := time.Now()
		if _, err := questions.Call(ctx, other, target, &wire.Permits{Prefix: []byte{192, 0, 2, 1, 32}}); err != nil && !answered(err) {
			t.Errorf("a call of another peer: %v", err)
		}
		return time.Since(begin)
	}
	ask() // opens the stream

	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var senders sync.WaitGroup
	var left atomic.Int32
	left.Store(messages)
	for range messages {
		senders.Go(func() {
			defer left.Add(-1)
			for {
				_, err := stranger.Call(ctx, target, rpc.ServiceOwner, raw)
				if calls.CodeOf(err) == calls.CodeBusy && ctx.Err() == nil { // more than a peer may send at once
					time.Sleep(time.Millisecond)
					continue
				}
				if !rpc.Refused(err) {
					t.Errorf("a message full of empty parts: %v", err)
				}
				return
			}
		})
	}
	var peak uint64
	var asked int
	var longest time.Duration
	for left.Load() > 0 {
		longest = max(longest, ask())
		asked++
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc)
	}
	senders.Wait()
	runtime.ReadMemStats(&now)
	grown := int64(peak) - int64(before.HeapAlloc) // of this machine's memory
	t.Logf("%d calls of another meanwhile, the longest of %v; the heap grew by %d MiB, %d MiB were taken", asked, longest, grown>>20, (now.TotalAlloc-before.TotalAlloc)>>20)
	if grown > mostHeap || longest > slowest {
		t.Errorf("the heap grew by %d bytes, at most %d; a call took %v, at most %v", grown, int64(mostHeap), longest, slowest)
	}
}

// questions is what others ask a peer meanwhile.
var questions = rpc.Method[*wire.Permits, *wire.PermitsReply]{Service: politeness.ServicePermits}

// answered says whether a peer answered, be it that another serves what was asked.
func answered(err error) bool { return calls.CodeOf(err) == calls.CodeMoved }
