package inspect

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// slow is a peer with a neighbour, whose owner of hosts takes a while for each look.
type slow struct {
	alone
	next         dht.Peer
	busy         atomic.Int64 // with looks of strangers
	running, max atomic.Int32
}

const lookTakes = 10 * time.Millisecond

func (s *slow) Leaves() (preds, succs []dht.Peer) { return nil, []dht.Peer{s.next} }

func (s *slow) Look(context.Context, func(*owner.Owner)) error {
	s.max.Store(max(s.max.Load(), s.running.Add(1)))
	time.Sleep(lookTakes)
	s.running.Add(-1)
	s.busy.Add(int64(lookTakes))
	return nil
}

// TestStrangersHaveHalfAProcessor: however many strangers ask for lists without a pause, they are
// answered one after another, and this peer works for them half of the time at most; each of them
// is answered, and a neighbour at once.
func TestStrangersHaveHalfAProcessor(t *testing.T) {
	t.Parallel()
	ids := rpctest.NewPeers(t, 2)
	synctest.Test(t, func(t *testing.T) {
		s := &slow{alone: alone{self: dht.Peer{ID: ids[0]}}, next: dht.Peer{ID: ids[1]}}
		v := s.alone.view()
		v.deps.Hosts.Owners, v.deps.Ring.DHT = s, s
		const strangers, lasts = 40, 10 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		answered := make(chan int, strangers)
		for i := range strangers {
			go func() {
				n := 0
				for {
					if _, err := v.HandleStatus(ctx, peer.ID(rune('a'+i)), []byte(askHosts)); err != nil {
						answered <- n
						return
					}
					n++
				}
			}()
		}
		time.Sleep(lasts / 2)
		begin := time.Now()
		if _, err := v.HandleStatus(t.Context(), ids[1], []byte(askHosts)); err != nil || time.Since(begin) > lookTakes {
			t.Errorf("a neighbour waited for %v: %v", time.Since(begin), err)
		}
		for range strangers {
			if n := <-answered; n < 5 {
				t.Errorf("a stranger had %d answers in %v", n, lasts)
			}
		}
		if share := float64(s.busy.Load()) / float64(lasts); share > 0.55 || s.max.Load() > 2 {
			t.Errorf("worked for strangers %.2f of the time, %d questions at once", share, s.max.Load())
		}
		synctest.Wait()
	})
}
