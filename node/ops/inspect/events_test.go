package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/node/control"
)

// TestSlowWatcher: who watches too slowly is told how many events are left out, and holds up
// neither the ring nor another watcher.
func TestSlowWatcher(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := NewWatchers()
		ctx, cancel := context.WithCancel(t.Context())
		gate := make(chan struct{})
		var slow, quick []control.RingEvent
		ended := make(chan error, 2)
		go func() {
			ended <- w.watch(ctx, func(e control.RingEvent) error {
				<-gate
				slow = append(slow, e)
				return nil
			})
		}()
		go func() {
			ended <- w.watch(ctx, func(e control.RingEvent) error {
				quick = append(quick, e)
				return nil
			})
		}()
		synctest.Wait()
		const events = 2*watchBuffer + 9
		for i := range events {
			w.Tell(control.RingEvent{Event: "arc", Text: fmt.Sprint(i)})
			synctest.Wait()
		}
		if len(quick) != events {
			t.Errorf("the quick watcher heard %d of %d events", len(quick), events)
		}
		close(gate)
		synctest.Wait()
		w.Tell(control.RingEvent{Event: "arc", Text: "last"})
		synctest.Wait()
		missed := 0
		for _, e := range slow {
			if e.Event == "missed" {
				var n int
				if _, err := fmt.Sscan(e.Text, &n); err != nil {
					t.Fatal(err)
				}
				missed += n
			}
		}
		if missed == 0 || missed+len(slow)-1 != events+1 || slow[len(slow)-1].Text != "last" {
			t.Errorf("heard %d and missed %d of %d; the last is %+v", len(slow)-1, missed, events+1, slow[len(slow)-1])
		}
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if len(w.subs) > 0 {
			t.Errorf("%d watchers are left", len(w.subs))
		}
	})
}

// TestWatcherGone: a watcher that fails ends, and nothing is kept for it.
func TestWatcherGone(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := NewWatchers()
		gone := errors.New("gone")
		ended := make(chan error, 1)
		go func() { ended <- w.watch(t.Context(), func(control.RingEvent) error { return gone }) }()
		synctest.Wait()
		w.Tell(control.RingEvent{})
		if err := <-ended; !errors.Is(err, gone) || len(w.subs) > 0 {
			t.Errorf("%v, %d watchers left", err, len(w.subs))
		}
	})
}

func TestStory(t *testing.T) {
	p := dht.NewPeer("peer", nil)
	for _, row := range []struct {
		event dht.Event
		want  string
		text  string
	}{
		{dht.PeerUp{Peer: p}, "join", "joined"},
		{dht.PeerSuspect{Peer: p}, "suspect", "not respond"},
		{dht.PeerDead{Peer: p}, "dead", ""},
		{dht.PeerLeft{Peer: p}, "leave", "left"},
		{dht.ArcChanged{Has: true}, "arc", "arc is"},
		{dht.ArcChanged{Had: true}, "arc", "no arc"},
		{dht.ArcChanged{Had: true, Has: true}, "arc", "changed from"},
		{dht.LeavesChanged{}, "", ""},
	} {
		line, ok := Story(row.event, 3)
		if ok != (row.want != "") || line.Event != row.want || !strings.Contains(line.Text, row.text) {
			t.Errorf("%T: %+v, %v", row.event, line, ok)
		}
	}
}
