package pages

import (
	"context"
	"slices"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// memory is a semaphore of the bytes of bodies: of exchanges under way those beyond fetch.FreeBody,
// of pages all. Growing bodies get at most half of the bound, because a site decides how long they
// take; so complete pages always find memory to be processed, and their end frees it. The oldest
// body that waits may always go on, outside the bound, so nothing deadlocks. The caller holds the
// pipeline's mutex.
type memory struct {
	bound   int64
	growing int64
	kept    int64
	over    *share    // outside the bound; one at a time
	waiting []*waiter // in order of arrival
}

// share is the memory granted to one body.
type share struct {
	bytes int64
	kept  bool // as a page
}

// waiter is a body that waits for size bytes of memory.
type waiter struct {
	share *share
	size  int64
	ready chan struct{}
}

func (m *memory) used() int64 { return m.growing + m.kept }

// fits reports whether n more bytes are available.
func (m *memory) fits(n int64) bool {
	used := m.used()
	if m.over != nil {
		used -= m.over.bytes
	}
	return used+n <= m.bound
}

// mayGrow reports whether n more bytes are available for growing bodies.
func (m *memory) mayGrow(n int64) bool {
	growing := m.growing
	if m.over != nil && !m.over.kept {
		growing -= m.over.bytes
	}
	return growing+n <= m.bound/2 && m.fits(n)
}

// set changes the size of a share.
func (m *memory) set(s *share, size int64) {
	if s.kept {
		m.kept += size - s.bytes
	} else {
		m.growing += size - s.bytes
	}
	s.bytes = size
}

// grow sets the size of a body being received, if memory is available.
func (m *memory) grow(s *share, size int64) bool {
	more := size - s.bytes
	if more > 0 && m.over != s && !m.mayGrow(more) {
		return false
	}
	m.set(s, size)
	m.serve()
	return true
}

// keep counts a page of size bytes.
func (m *memory) keep(s *share, size int64) {
	if !s.kept {
		m.set(s, 0)
		s.kept = true
	}
	m.set(s, size)
	m.serve()
}

// release frees a share.
func (m *memory) release(s *share) {
	m.set(s, 0)
	if m.over == s {
		m.over = nil
	}
	m.serve()
}

// wait queues a body until memory is available.
func (m *memory) wait(s *share, size int64) *waiter {
	t := &waiter{share: s, size: size, ready: make(chan struct{})}
	m.waiting = append(m.waiting, t)
	m.serve()
	return t
}

// forget removes a body from the queue.
func (m *memory) forget(t *waiter) {
	if i := slices.Index(m.waiting, t); i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
	}
	m.serve()
}

// serve wakes waiters: the first ones while memory is available, and one of them even if none is.
func (m *memory) serve() {
	for len(m.waiting) > 0 {
		t := m.waiting[0]
		if !m.mayGrow(t.size - t.share.bytes) {
			if m.over != nil && m.over != t.share {
				return
			}
			m.over = t.share
		}
		m.set(t.share, t.size)
		m.waiting = slices.Delete(m.waiting, 0, 1)
		close(t.ready)
	}
}

// BodyMemory is the memory of one exchange's body, as requested by package fetch.
type BodyMemory struct {
	l     *Pipeline
	share share
}

var _ fetch.Memory = (*BodyMemory)(nil)

// BodyMemory returns an empty BodyMemory.
func (l *Pipeline) BodyMemory() *BodyMemory { return &BodyMemory{l: l} }

// Grow implements fetch.Room.
func (b *BodyMemory) Grow(size int64) bool {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	return b.l.memory.grow(&b.share, size)
}

// Wait implements fetch.Room.
func (b *BodyMemory) Wait(ctx context.Context, size int64) error {
	l := b.l
	l.mu.Lock()
	t := l.memory.wait(&b.share, size)
	l.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.memory.forget(t)
		return context.Cause(ctx)
	}
}

// Release frees the memory of an exchange that produced no page.
func (b *BodyMemory) Release() {
	l := b.l
	l.mu.Lock()
	l.memory.release(&b.share)
	refused := l.freed()
	l.mu.Unlock()
	l.begin(refused)
}

// SetMemory changes Config.MaxMemory.
func (l *Pipeline) SetMemory(bound int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.bound = bound
	l.memory.serve()
	l.work.Broadcast()
}

// Held returns the bytes of memory in use by bodies.
func (l *Pipeline) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory.used()
}

// Full reports whether no further exchange may begin, because no memory is available for its page.
// Worker.Begin is called when a page leaves afterwards.
func (l *Pipeline) Full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := !l.memory.fits(1)
	l.refused = l.refused || full
	return full
}

// freed wakes waiters after memory was freed; the result goes to begin, without the mutex.
func (l *Pipeline) freed() (refused bool) {
	l.work.Broadcast()
	refused, l.refused = l.refused, false
	return refused
}

// begin lets the worker begin exchanges that were refused memory.
func (l *Pipeline) begin(refused bool) {
	if refused {
		l.worker.Begin()
	}
}
