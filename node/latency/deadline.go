package latency

import (
	"sync"
	"time"
)

// deadline is a time that can be changed during a wait for it.
type deadline struct {
	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	expired chan struct{}
}

func newDeadline() *deadline { return &deadline{expired: make(chan struct{})} }

// set changes the deadline; the zero time removes it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.expired // the timer closes it
	}
	d.timer = nil
	over := false
	select {
	case <-d.expired:
		over = true
	default:
	}
	if t.IsZero() || time.Until(t) > 0 {
		if over {
			d.expired = make(chan struct{})
		}
		if !t.IsZero() {
			expired := d.expired
			d.timer = time.AfterFunc(time.Until(t), func() { close(expired) })
		}
		return
	}
	if !over {
		close(d.expired)
	}
}

// reached returns a channel that is closed at the deadline.
func (d *deadline) reached() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}
