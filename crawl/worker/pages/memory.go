package pages

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
)

// memory counts what bodies take: of exchanges under way what is beyond fetch.FreeBody, of pages
// all of it. Half of the bound is at most for bodies that grow, as a site decides how long that
// takes; so pages that are here whole always find memory to be worked on, and their end frees it.
// It is plain state under the pipeline's mutex.
type memory struct {
	bound   int64
	growing int64
	kept    int64
	over    *share    // may exceed the bound; one at a time, so that somebody always comes to an end
	waiting []*waiter // bodies that have no place on disk either, in their order
}

// share is what one body was given.
type share struct {
	bytes int64
	kept  bool // as a page
}

// waiter is a body that waits until it may have size bytes.
type waiter struct {
	share *share
	size  int64
	ready chan struct{}
}

func (m *memory) used() int64 { return m.growing + m.kept }

// fits says whether there is room for n bytes more.
func (m *memory) fits(n int64) bool { return m.used()+n <= m.bound }

// set changes what a share has.
func (m *memory) set(s *share, size int64) {
	if s.kept {
		m.kept += size - s.bytes
	} else {
		m.growing += size - s.bytes
	}
	s.bytes = size
}

// grow gives a body that is under way size bytes in all, if there is room.
func (m *memory) grow(s *share, size int64) bool {
	more := size - s.bytes
	if more > 0 && m.over != s && (m.growing+more > m.bound/2 || !m.fits(more)) {
		return false
	}
	m.set(s, size)
	m.serve()
	return true
}

// keep counts a page, which takes size bytes by now.
func (m *memory) keep(s *share, size int64) {
	if !s.kept {
		m.set(s, 0)
		s.kept = true
	}
	m.set(s, size)
	m.serve()
}

// release takes back all that a share has.
func (m *memory) release(s *share) {
	m.set(s, 0)
	if m.over == s {
		m.over = nil
	}
	m.serve()
}

// wait queues a body until there is room.
func (m *memory) wait(s *share, size int64) *waiter {
	t := &waiter{share: s, size: size, ready: make(chan struct{})}
	m.waiting = append(m.waiting, t)
	m.serve()
	return t
}

// forget takes a body out of the queue.
func (m *memory) forget(t *waiter) {
	if i := slices.Index(m.waiting, t); i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
	}
	m.serve()
}

// serve lets those go on that wait: the first while there is room, and one of them even if there is
// none.
func (m *memory) serve() {
	for len(m.waiting) > 0 {
		t := m.waiting[0]
		more := t.size - t.share.bytes
		if m.growing+more > m.bound/2 || !m.fits(more) {
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

// errNoSpill says that there is no disk for pages.
var errNoSpill = errors.New("no disk for pages")

// Room is the room that the body of one exchange has, as fetch asks for it.
type Room struct {
	l     *Pipeline
	share share
}

var _ fetch.Room = (*Room)(nil)

// Room has nothing yet.
func (l *Pipeline) Room() *Room { return &Room{l: l} }

// Grow implements fetch.Room.
func (b *Room) Grow(size int64) bool {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	return b.l.memory.grow(&b.share, size)
}

// Spill implements fetch.Room.
func (b *Room) Spill() (fetch.Spilled, error) { return b.l.disk() }

// Wait implements fetch.Room.
func (b *Room) Wait(ctx context.Context, size int64) error {
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

// Release takes back what the body of an exchange was given that brought no page.
func (b *Room) Release() {
	l := b.l
	l.mu.Lock()
	l.memory.release(&b.share)
	refused := l.freed()
	l.mu.Unlock()
	l.begin(refused)
}

// SetMemory changes what Config.MaxMemory bounds, from now on.
func (l *Pipeline) SetMemory(bound int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.bound = bound
	l.memory.serve()
	l.room.Broadcast()
	l.work.Broadcast()
}

// Held is what bodies take now, in bytes.
func (l *Pipeline) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory.used()
}

// Full says that no further exchange is to begin: there is no room for what it may bring, neither
// in memory nor on disk. Worker.Begin is called when a page leaves after that.
func (l *Pipeline) Full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.onDisk >= l.cfg.MaxSpilled
	if l.deps.Spill == nil || l.trouble.lasts(time.Now()) {
		full = full || len(l.memory.waiting) > 0 || !l.memory.fits(1)
	}
	l.refused = l.refused || full
	return full
}

// freed tells those who wait that memory became free; the answer goes to begin, without the mutex.
func (l *Pipeline) freed() (refused bool) {
	l.room.Broadcast()
	l.work.Broadcast()
	refused, l.refused = l.refused, false
	return refused
}

// begin tells who fetches that there may be room again.
func (l *Pipeline) begin(refused bool) {
	if refused {
		l.worker.Begin()
	}
}
