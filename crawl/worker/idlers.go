package worker

import (
	"sync"
	"time"
)

// idlers are the idle fetchers, and the alarm that wakes one of them when the next host is due. Its
// methods are called with the worker's mutex held, which the alarm locks.
type idlers struct {
	mu    *sync.Mutex
	wakes []chan struct{}
	timer *time.Timer
	at    time.Time // when the alarm fires; zero: not set
}

// add registers a fetcher that waits until it is woken, or until due if that is set.
func (i *idlers) add(wake chan struct{}, now, due time.Time) {
	i.wakes = append(i.wakes, wake)
	i.alarm(now, due)
}

// none reports whether no fetcher is idle.
func (i *idlers) none() bool { return len(i.wakes) == 0 }

// wakeAt wakes a fetcher when a host is due, which may be now; zero: never.
func (i *idlers) wakeAt(now, due time.Time) {
	if !due.IsZero() && !due.After(now) {
		i.wakeOne()
		return
	}
	i.alarm(now, due)
}

// wakeOne wakes the fetcher that became idle last: its memory is warm.
func (i *idlers) wakeOne() {
	if n := len(i.wakes); n > 0 {
		poke(i.wakes[n-1])
		i.wakes = i.wakes[:n-1]
	}
}

func (i *idlers) wakeAll() {
	for len(i.wakes) > 0 {
		i.wakeOne()
	}
}

// alarm wakes a fetcher at that time, unless it is set to an earlier one.
func (i *idlers) alarm(now, due time.Time) {
	if due.IsZero() || !i.at.IsZero() && !due.Before(i.at) && i.at.After(now) {
		return
	}
	i.at = due
	if i.timer != nil {
		i.timer.Reset(due.Sub(now))
		return
	}
	i.timer = time.AfterFunc(due.Sub(now), func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.at = time.Time{}
		i.wakeOne()
	})
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
