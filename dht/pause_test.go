package dht_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/dhttest"
)

// jumpy is a clock that can be set forward, as the clock of a machine that slept is against its
// timers.
type jumpy struct{ ahead atomic.Int64 }

func (c *jumpy) Now() time.Time       { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *jumpy) jump(d time.Duration) { c.ahead.Add(int64(d)) }

// TestSleeperDoesNotAnswerFromBefore: the clock of a peer of a quiet ring jumps, and not one of its
// timers has fired, when it is asked.
func TestSleeperDoesNotAnswerFromBefore(t *testing.T) {
	cfg := dht.DefaultConfig()
	for _, row := range []struct {
		name   string
		jump   time.Duration
		serves bool
	}{
		{"a moment", time.Second, true},
		{"as long as a tick may be late", cfg.TakeOver/2 - 500*time.Millisecond, true},
		{"the time after which another takes over", cfg.TakeOver, false},
		{"a night", 8 * time.Hour, false},
	} {
		for asked, ask := range map[string]func(d *dht.DHT) bool{
			"Serves": func(d *dht.DHT) bool { return d.Serves(d.Self().Key()) },
			"Arc":    func(d *dht.DHT) bool { _, has := d.Arc(); return has },
			"State":  func(d *dht.DHT) bool { return d.State() == dht.Serving },
		} {
			t.Run(row.name+"/"+asked, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					clock := &jumpy{}
					network := dhttest.NewMesh(11, 15*time.Millisecond)
					peers := startRing(t, network, 4)
					defer func() {
						for _, r := range peers {
							r.stop()
						}
					}()
					sleeper := start(t, network, 4, dht.Config{Now: clock.Now})
					if err := sleeper.Join(t.Context(), []dht.Peer{peers[0].Self()}); err != nil {
						t.Fatal(err)
					}
					peers = append(peers, sleeper)
					time.Sleep(10 * time.Second)
					synctest.Wait()
					if !ask(sleeper.DHT) {
						t.Fatal("does not serve before it sleeps")
					}
					clock.jump(row.jump)
					if got := ask(sleeper.DHT); got != row.serves {
						t.Fatalf("serves = %v after a jump of %v", got, row.jump)
					}
					time.Sleep(10 * time.Second)
					if !ask(sleeper.DHT) {
						t.Errorf("does not serve again, though nobody took its arc: %s", sleeper.State())
					}
				})
			})
		}
	}
}

// TestSleepingJoinerBeginsAgain: the words that a joining peer heard before it slept must not let
// it serve.
func TestSleepingJoinerBeginsAgain(t *testing.T) {
	for gap := 100 * time.Millisecond; gap < 3*time.Second; gap += 100 * time.Millisecond {
		s := grow(t, dhtsim.World{Seed: 21}, 8, 300*time.Millisecond)
		w := watchOverlaps(s)
		n := s.Add(s.Nodes[2])
		s.Run(gap)
		n.Pause(30 * time.Second)
		s.Run(31 * time.Second)
		settle(t, s, 30*time.Second)
		w.none(t)
	}
}

// TestFounderThatSleptIsNoFounder: a founder that lost the others while it slept finds what they
// sent it before, and nobody who answers. It must not serve on these old words, nor as the founder
// of a ring of its own, before RejoinGrace.
func TestFounderThatSleptIsNoFounder(t *testing.T) {
	s := grow(t, dhtsim.World{Seed: 22}, 4, 300*time.Millisecond)
	founder := s.Nodes[0]
	founder.Pause(30 * time.Second)
	s.Run(25 * time.Second)
	s.Partition(func(i, j int) bool { return i == 0 || j == 0 })
	grace := dht.DefaultConfig().RejoinGrace
	s.Run(5*time.Second + grace - time.Second)
	if arc, serves := founder.Arc(); serves {
		t.Errorf("serves %s of a ring that it cannot see", arc)
	}
	s.Partition(nil)
	settle(t, s, time.Minute)
}
