package inspect

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// counting is a peer that counts how often its owner of hosts is asked, who fails at once.
type counting struct {
	alone
	takes time.Duration // each time
	asked atomic.Int32
}

func (c *counting) Ask(context.Context, func(*owner.Owner)) error {
	c.asked.Add(1)
	time.Sleep(c.takes)
	return calls.ErrClosed
}

// TestReportsHaveAPace: a peer that asks for reports in a row makes this one work for two of them a
// second, and keeps nobody else out.
func TestReportsHaveAPace(t *testing.T) {
	t.Parallel()
	ids := rpctest.NewPeers(t, 1)
	synctest.Test(t, func(t *testing.T) {
		c := &counting{alone: alone{self: dht.Peer{ID: ids[0]}}}
		v := c.alone.view()
		v.deps.Hosts.Owners = c
		begin, busy := time.Now(), 0
		for time.Since(begin) < 10*time.Second {
			time.Sleep(time.Second)
			done := make(chan error)
			for range 64 {
				go func() {
					_, err := v.HandleStatus(t.Context(), "stranger", []byte(askReport))
					done <- err
				}()
			}
			for range 64 {
				if calls.CodeOf(<-done) == calls.CodeBusy {
					busy++
				}
			}
		}
		if most := reportsAtOnce + int((12*time.Second)/reportEvery); int(c.asked.Load()) > most || busy == 0 {
			t.Errorf("%d reports were made for one peer in 10 s, want up to %d; %d times busy", c.asked.Load(), most, busy)
		}
		c.asked.Store(0)
		begin = time.Now()
		for i := range 2 {
			_, _ = v.HandleStatus(t.Context(), peer.ID(fmt.Sprint("honest ", i)), []byte(askReport))
		}
		if c.asked.Load() != 2 || time.Since(begin) > 0 {
			t.Errorf("%d reports for others after %s", c.asked.Load(), time.Since(begin))
		}
	})
}

// TestReportsOfManyStrangers: however many strangers ask for reports, each at its pace, they keep
// this peer busy half of the time at most, and members do not wait.
func TestReportsOfManyStrangers(t *testing.T) {
	t.Parallel()
	ids := rpctest.NewPeers(t, 1)
	synctest.Test(t, func(t *testing.T) {
		const strangers, lasts, takes = 200, 10 * time.Second, 10 * time.Millisecond
		c := &counting{alone: alone{self: dht.Peer{ID: ids[0]}}, takes: takes}
		v := c.alone.view()
		v.deps.Hosts.Owners = c
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		var asking sync.WaitGroup
		for i := range strangers {
			serve := v.StatusService().Behind(rpctest.Untrusted{})
			asking.Go(func() {
				for ctx.Err() == nil {
					_, _ = serve(ctx, peer.ID(fmt.Sprint("stranger ", i)), []byte(askReport))
				}
			})
		}
		time.Sleep(lasts / 2)
		begin := time.Now()
		_, _ = v.StatusService().Behind(rpctest.Members{})(t.Context(), "member", []byte(askReport))
		if took := time.Since(begin); took > takes {
			t.Errorf("a member waited for %v", took)
		}
		asking.Wait()
		if busy := time.Duration(c.asked.Load()) * takes; busy > lasts*55/100 || busy < lasts/3 {
			t.Errorf("%d reports were made for strangers, which took %v of %v", c.asked.Load(), busy, lasts)
		}
	})
}
