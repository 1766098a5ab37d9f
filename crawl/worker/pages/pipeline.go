package pages

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Pipeline holds the pages between exchange and report: Apoidea's Processing-Jobs (section 3.2).
// Fetchers push pages, and processors work in two steps with the claim in between. Pages with
// answered claims go first, so that pages leave before others enter. Safe for concurrent use.
type Pipeline struct {
	cfg      Config
	deps     Deps
	worker   Worker
	claims   *claims
	confirms *confirmer
	assumed  atomic.Int64 // bodies treated as new without an answer
	// incomplete is the number of answers whose body was truncated, or could not be decoded
	// completely.
	incomplete atomic.Int64

	mu       sync.Mutex
	work     *sync.Cond // work for a processor is available
	memory   memory
	fresh    []*Page // before their first step
	answered []*Page // whose claim is answered
	pages    int     // in the pipeline
	busy     int     // processors at the first step
	working  int     // pages from their first step on
	large    int     // of these, large ones that a processor has in hand
	refused  bool    // a fetcher was refused memory
	closed   bool
	quiet    chan struct{} // closed when the last page has left
}

// NewPipeline returns an empty pipeline.
func NewPipeline(cfg Config, deps Deps, w Worker) *Pipeline {
	l := &Pipeline{cfg: cfg, deps: deps, worker: w, quiet: make(chan struct{}, 1), memory: memory{bound: cfg.MaxMemory}}
	l.work = sync.NewCond(&l.mu)
	l.claims, l.confirms = newClaims(l), newConfirmer(deps.Content, deps.Log)
	return l
}

// Run starts the processors, claims and confirmations. Processors end after Close, the others with
// ctx.
func (l *Pipeline) Run(ctx context.Context, group *sync.WaitGroup) {
	for range l.cfg.Processors {
		group.Go(l.process)
	}
	group.Go(func() { l.claims.run(ctx) })
	group.Go(func() { l.confirms.run(ctx) })
}

// Confirm queues the confirmations of reports whose pages are synced.
func (l *Pipeline) Confirm(told []*session.Report) { l.confirms.add(told) }

// Urge flushes the current batch of claims.
func (l *Pipeline) Urge() { l.claims.urge() }

// Assumed is the number of bodies treated as new because no answer arrived in time. Each may be
// archived elsewhere as well.
func (l *Pipeline) Assumed() int64 { return l.assumed.Load() }

// Incomplete is the number of answers whose body was truncated, or could not be decoded completely.
func (l *Pipeline) Incomplete() int64 { return l.incomplete.Load() }

// Close ends the processors. Remaining pages are dropped; they were not reported.
func (l *Pipeline) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.work.Broadcast()
}

// Drain waits until no page is left.
func (l *Pipeline) Drain(ctx context.Context) {
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

// Push adds a page. It never waits: a page has the memory granted to its body, or is at most
// fetch.FreeBody long; no exchange begins while Full.
func (l *Pipeline) Push(p *Page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages++
	l.memory.keep(p.held, p.size)
	l.fresh = append(l.fresh, p)
	l.work.Signal()
}

// process is one processor.
func (l *Pipeline) process() {
	var x extract.Extractor
	f := reports.NewFollower(l.deps.Known)
	for {
		p, answered, ok := l.next()
		if !ok {
			return
		}
		large := p.large() // its bytes are gone at the end
		if answered || l.first(&x, p) {
			l.finish(f, p)
		}
		if large {
			l.mu.Lock()
			l.large--
			l.work.Broadcast()
			l.mu.Unlock()
		}
	}
}

// GoOn wakes the processors to check for work.
func (l *Pipeline) GoOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work.Broadcast()
}

// next waits for a page that may be processed, and reports whether it is at the second step; ok is
// false at the end.
func (l *Pipeline) next() (p *Page, answered, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed {
		if i := slices.IndexFunc(l.answered, l.mayBegin); i >= 0 {
			p, answered = l.answered[i], true
			l.answered = slices.Delete(l.answered, i, i+1)
		} else {
			p = l.oldest()
		}
		if p != nil {
			if p.large() {
				l.large++
			}
			return p, answered, true
		}
		l.work.Wait()
	}
	return nil, false, false
}

// largePage is the size from which a page is large: its links and archive records take as much
// memory again, so only one is processed at a time.
const largePage = 1 << 20

func (l *Pipeline) mayBegin(p *Page) bool { return !p.large() || l.large == 0 }

// oldest takes the page for the first step that has waited longest; nil if there is none, or no
// memory for its links yet.
func (l *Pipeline) oldest() *Page {
	if l.worker.Laden() {
		return nil
	}
	i := slices.IndexFunc(l.fresh, l.mayBegin)
	if i < 0 {
		return nil
	}
	if !l.memory.fits(0) && l.working > 0 {
		l.claims.urge() // the pages being processed free memory
		return nil
	}
	p := l.fresh[i]
	l.fresh = slices.Delete(l.fresh, i, i+1)
	l.busy++
	l.working++
	return p
}

// first runs the first step, and reports whether the second one follows at once.
func (l *Pipeline) first(x *extract.Extractor, p *Page) bool {
	l.read(x, p)
	l.mu.Lock()
	l.busy--
	p.size += p.linkBytes()
	l.memory.keep(p.held, p.size)
	last, scarce := l.busy == 0 && len(l.fresh) == 0, len(l.memory.waiting) > 0
	l.mu.Unlock()
	if !p.asked {
		return true
	}
	// At the end of all work there is no batch to wait for, and bodies may wait for the page's memory.
	l.claims.add(p, scarce || last && l.worker.Resting())
	return false
}

// done removes a page.
func (l *Pipeline) done(p *Page) {
	held := p.held
	p.recycle()
	l.mu.Lock()
	l.memory.release(held)
	l.pages--
	l.working--
	if l.pages == 0 {
		poke(l.quiet)
	}
	refused := l.freed()
	l.mu.Unlock()
	l.begin(refused)
}

// answer queues pages whose claim is answered.
func (l *Pipeline) answer(batch []*Page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = append(l.answered, batch...)
	l.work.Broadcast()
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
