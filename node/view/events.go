package view

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
)

// watchBuffer is how many events a slow watcher may lag behind before it misses some; it is told
// how many.
const watchBuffer = 256

// Watchers hands what happens on the ring to whoever watches. It is safe for concurrent use and
// never blocks the ring.
type Watchers struct {
	mu   sync.Mutex // guards subs
	subs map[*watcher]struct{}
}

type watcher struct {
	events chan control.RingEvent
	missed int // guarded by watchers.mu
}

// NewWatchers makes watchers without anybody who watches.
func NewWatchers() *Watchers { return &Watchers{subs: make(map[*watcher]struct{})} }

// Tell passes an event on to all watchers.
func (w *Watchers) Tell(e control.RingEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.subs {
		select {
		case s.events <- e:
		default:
			s.missed++
		}
	}
}

// watch calls fn for each event until ctx ends or fn fails.
func (w *Watchers) watch(ctx context.Context, fn func(control.RingEvent) error) error {
	s := &watcher{events: make(chan control.RingEvent, watchBuffer)}
	w.mu.Lock()
	w.subs[s] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.subs, s)
		w.mu.Unlock()
	}()
	for {
		select {
		case e := <-s.events:
			if err := fn(e); err != nil {
				return err
			}
			if n := w.missedBy(s); n > 0 {
				if err := fn(control.RingEvent{Time: time.Now(), Event: "missed", Text: fmt.Sprintf("%d events came too fast and are left out", n)}); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return s.rest(fn)
		}
	}
}

// rest passes on what was told before the end.
func (s *watcher) rest(fn func(control.RingEvent) error) error {
	for {
		select {
		case e := <-s.events:
			if err := fn(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (w *Watchers) missedBy(s *watcher) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := s.missed
	s.missed = 0
	return n
}

// Story turns an event of the ring into a line for people; ok is false for events that tell nothing
// by themselves.
func Story(e dht.Event, members int) (control.RingEvent, bool) {
	line := control.RingEvent{Time: time.Now()}
	about := func(event string, p dht.Peer, text string) {
		line.Event, line.Peer, line.Text = event, p.ID.String(), fmt.Sprintf(text, p2p.Short(p.ID))
	}
	switch e := e.(type) {
	case dht.PeerUp:
		about("join", e.Peer, "peer %s came into the leaf set")
	case dht.PeerSuspect:
		about("suspect", e.Peer, "peer %s does not answer; a second try and a third peer will tell")
	case dht.PeerDead:
		about("dead", e.Peer, "peer %s is dead")
	case dht.PeerLeft:
		about("leave", e.Peer, "peer %s left in good order")
	case dht.StateChanged:
		line.Event, line.Text = "state", fmt.Sprintf("this peer is %s (was %s)", e.New, e.Old)
	case dht.ArcChanged:
		line.Event, line.Text = "arc", arcStory(e)
	default:
		return line, false
	}
	if line.Event != "arc" && line.Event != "state" {
		line.Text += fmt.Sprintf("; %d members known", members)
	}
	return line, true
}

func arcStory(e dht.ArcChanged) string {
	switch {
	case !e.Has:
		return "this peer serves no arc any more"
	case !e.Had:
		return fmt.Sprintf("this peer now serves %s, %.1f %% of the ring", arcText(e.New), 100*e.New.Fraction())
	default:
		return fmt.Sprintf("this peer's arc changed from %s to %s, %.1f %% of the ring", arcText(e.Old), arcText(e.New), 100*e.New.Fraction())
	}
}

func arcText(a ring.Arc) string {
	return fmt.Sprintf("(%.8s, %.8s]", a.Start.Hex(), a.End.Hex())
}
