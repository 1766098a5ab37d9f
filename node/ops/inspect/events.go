package inspect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// watchBuffer is the number of events that a slow watcher may lag behind before events are dropped.
const watchBuffer = 256

// Watchers distributes ring events to subscribers. It is safe for concurrent use and never blocks
// the ring.
type Watchers struct {
	mu   sync.Mutex // guards subs
	subs map[*watcher]struct{}
}

type watcher struct {
	events chan control.RingEvent
	missed int // guarded by watchers.mu
}

// NewWatchers returns an empty set of watchers.
func NewWatchers() *Watchers { return &Watchers{subs: make(map[*watcher]struct{})} }

// Tell sends an event to all watchers.
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
				if err := fn(control.RingEvent{Time: time.Now(), Event: "missed", Text: fmt.Sprintf("%d events dropped, received too fast", n)}); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return s.rest(fn)
		}
	}
}

// rest delivers the buffered events before the end.
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

// Story converts a ring event to a line for people; ok is false for events without one.
func Story(e dht.Event, members int) (control.RingEvent, bool) {
	line := control.RingEvent{Time: time.Now()}
	about := func(event string, p dht.Peer, text string) {
		line.Event, line.Peer, line.Text = event, p.ID.String(), fmt.Sprintf(text, member.Short(p.ID))
	}
	switch e := e.(type) {
	case dht.PeerUp:
		about("join", e.Peer, "peer %s joined the leaf set")
	case dht.PeerSuspect:
		about("suspect", e.Peer, "peer %s does not respond; a second try and a third peer will verify")
	case dht.PeerDead:
		about("dead", e.Peer, "peer %s failed")
	case dht.PeerLeft:
		about("leave", e.Peer, "peer %s left the ring")
	case dht.StateChanged:
		line.Event, line.Text = "state", fmt.Sprintf("this peer is %s (was %s)", e.New, e.Old)
	case dht.ArcChanged:
		line.Event, line.Text = "arc", arcStory(e)
	default:
		return line, false
	}
	if line.Event != "arc" && line.Event != "state" {
		line.Text += fmt.Sprintf("; ring of about %d", members)
	}
	return line, true
}

func arcStory(e dht.ArcChanged) string {
	switch {
	case !e.Has:
		return "this peer has no arc"
	case !e.Had:
		return fmt.Sprintf("this peer's arc is %s, %.1f %% of the ring", arcText(e.New), 100*e.New.Fraction())
	default:
		return fmt.Sprintf("this peer's arc changed from %s to %s, %.1f %% of the ring", arcText(e.Old), arcText(e.New), 100*e.New.Fraction())
	}
}

func arcText(a ring.Arc) string {
	return fmt.Sprintf("(%.8s, %.8s]", a.Start.Hex(), a.End.Hex())
}

// AskClock returns the lead of a peer's clock from its report; nil if it provides none.
func AskClock(ctx context.Context, net *p2p.Net, id peer.ID) *time.Duration {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	begin := time.Now()
	raw, err := net.Call(ctx, id, ServiceStatus, []byte(askReport))
	if err != nil {
		return nil
	}
	m, err := decodeReport(raw, id)
	if err != nil {
		return nil
	}
	if ahead, ok := clockAhead(m, begin, time.Now()); ok {
		return &ahead
	}
	return nil
}

// clockAhead returns the lead of the clock of a peer that reported between begin and end; false if
// the report has no time.
func clockAhead(m *report, begin, end time.Time) (time.Duration, bool) {
	if m.Time.IsZero() {
		return 0, false
	}
	return m.Time.Sub(begin.Add(end.Sub(begin) / 2).Round(0)), true
}

// A report takes some milliseconds of processor time in the owner's loop.
const (
	// reportEvery is the time between two reports to one peer.
	reportEvery = 500 * time.Millisecond
	// reportsAtOnce is the burst of reports without that interval: a wait for the end of a crawl
	// begins with quick walks.
	reportsAtOnce = 4
	// reportWait is the maximum wait of a request for its turn; then it is rejected as busy.
	reportWait = 2 * time.Second
)

// waitForReport returns at a peer's turn, or with an error if too many requests are waiting.
// Reports are delayed and never cached, because two equal walks end a crawl.
func (v *View) waitForReport(ctx context.Context, from peer.ID) error {
	r := v.reports.Of(string(from)).Reserve()
	if r.Delay() > reportWait {
		r.Cancel()
		return rpc.Busy("too many report requests")
	}
	return loop.Sleep(ctx, r.Delay())
}
