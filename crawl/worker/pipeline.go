package worker

import (
	"context"
	"sync"

	"github.com/apoidea/apoidea/crawl/extract"
)

// pipeline holds the pages between exchange and report: Apoidea's Processing-Jobs (section 3.2). Fetchers push, processors work in two steps with
// the claim in between; those that are answered go first, so that pages leave before others come.
type pipeline struct {
	w      *Worker
	claims *claims

	mu       sync.Mutex
	work     *sync.Cond // there is something for a processor
	room     *sync.Cond // memory became free
	fresh    fifo
	answered fifo
	bytes    int64 // of pages in memory
	pages    int   // in memory and on disk
	busy     int   // processors at the first step
	spilled  map[uint64]*page
	number   uint64
	closed   bool
	quiet    chan struct{} // the last page has left
}

func newPipeline(w *Worker) *pipeline {
	l := &pipeline{w: w, spilled: make(map[uint64]*page), quiet: make(chan struct{}, 1)}
	l.work, l.room = sync.NewCond(&l.mu), sync.NewCond(&l.mu)
	l.claims = newClaims(l)
	return l
}

// run starts the processors and who serves them; they end after close.
func (l *pipeline) run(ctx context.Context, group *sync.WaitGroup) {
	for range l.w.cfg.Processors {
		group.Go(l.process)
	}
	group.Go(func() { l.claims.run(ctx) })
	if l.w.deps.Spill != nil {
		group.Go(func() { l.unspill(ctx) })
	}
}

// close ends the processors. What is left is dropped: it was not reported.
func (l *pipeline) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.work.Broadcast()
	l.room.Broadcast()
}

// drain waits until no page is left.
func (l *pipeline) drain(ctx context.Context) {
	for {
		l.mu.Lock()
		n := l.pages
		l.mu.Unlock()
		if n == 0 {
			return
		}
		l.claims.hurry()
		select {
		case <-l.quiet:
		case <-ctx.Done():
			return
		}
	}
}

// push takes a page from a fetcher. When memory is full the page goes to disk, and when that is full as well the fetcher waits.
func (l *pipeline) push(p *page) {
	l.mu.Lock()
	l.pages++
	for l.crowded(p.size) && !l.closed {
		if l.w.deps.Spill == nil || !l.spill(p) {
			l.room.Wait()
			continue
		}
		l.mu.Unlock()
		return
	}
	l.admit(p)
	l.mu.Unlock()
}

// crowded says whether a page has to wait outside. While some wait on disk, newcomers have half of the memory, so that those get their turn.
func (l *pipeline) crowded(size int64) bool {
	bound := l.w.cfg.MaxMemory
	if len(l.spilled) > 0 {
		bound /= 2
	}
	return l.bytes > 0 && l.bytes+size > bound
}

// admit lets a page into memory.
func (l *pipeline) admit(p *page) {
	l.bytes += p.size
	l.fresh.push(p)
	l.work.Signal()
}

// spill writes a page to disk and reports whether that took it. Called, and returns, with the mutex held; it is free meanwhile.
func (l *pipeline) spill(p *page) bool {
	l.number++
	number := l.number
	l.mu.Unlock()
	raw := p.encode(number)
	l.mu.Lock()
	l.spilled[number] = p
	p.strip() // before it can come back
	l.mu.Unlock()
	err := l.w.deps.Spill.Push(raw)
	l.mu.Lock()
	if err != nil {
		delete(l.spilled, number)
		if _, parts, err := decodeSpilled(raw); err == nil {
			p.restore(parts)
		}
		return false
	}
	l.w.stats.spilled.Add(1)
	return true
}

// unspill brings pages back when memory is free again.
func (l *pipeline) unspill(ctx context.Context) {
	for {
		l.mu.Lock()
		for l.bytes > l.w.cfg.MaxMemory*3/4 && !l.closed {
			l.room.Wait()
		}
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return
		}
		raw, err := l.w.deps.Spill.Pop(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.w.broken("spill", err)
			return
		}
		number, parts, err := decodeSpilled(raw)
		l.mu.Lock()
		p := l.spilled[number]
		if err != nil || p == nil {
			l.mu.Unlock()
			continue // not ours
		}
		delete(l.spilled, number)
		p.restore(parts)
		l.admit(p)
		l.mu.Unlock()
	}
}

// process is one processor.
func (l *pipeline) process() {
	var x extract.Extractor
	f := follower{w: l.w}
	for {
		l.mu.Lock()
		for l.fresh.len() == 0 && l.answered.len() == 0 && !l.closed {
			l.work.Wait()
		}
		if l.closed {
			l.mu.Unlock()
			return
		}
		if p := l.answered.pop(); p != nil {
			l.mu.Unlock()
			l.w.finish(&f, p)
			continue
		}
		p := l.fresh.pop()
		l.busy++
		l.mu.Unlock()
		l.w.read(&x, p)
		l.mu.Lock()
		l.busy--
		last := l.busy == 0 && l.fresh.len() == 0
		l.mu.Unlock()
		if !p.asked {
			l.w.finish(&f, p)
			continue
		}
		// Where nothing follows there is nobody to wait for.
		l.claims.add(p, last && l.w.resting())
	}
}

// done lets a page go.
func (l *pipeline) done(p *page) {
	size := p.size
	p.recycle()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= size
	l.pages--
	l.room.Broadcast()
	if l.pages == 0 {
		poke(l.quiet)
	}
}

// answer hands pages on whose question is answered.
func (l *pipeline) answer(batch []*page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range batch {
		l.answered.push(p)
	}
	l.work.Broadcast()
}

// fifo is a queue that keeps its memory.
type fifo struct {
	items []*page
	head  int
}

func (q *fifo) len() int { return len(q.items) - q.head }

func (q *fifo) push(p *page) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, p)
}

func (q *fifo) pop() *page {
	if q.len() == 0 {
		return nil
	}
	p := q.items[q.head]
	q.items[q.head] = nil
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return p
}
