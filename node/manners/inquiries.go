package manners

import (
	"context"
	"sync"
)

// Bounds on questions for admissions: those under way at once, and those that wait for their turn.
// A page may name a hundred thousand domains; what finds no place is asked again by the hosts'
// owner.
const (
	admissionAsks    = 16
	admissionWaiting = 4096
)

// inquiries are questions for admissions that wait for their turn.
type inquiries struct {
	// spawn runs a function beside what calls it.
	spawn func(fn func(ctx context.Context))

	mu      sync.Mutex // guards what follows
	waiting []func(ctx context.Context)
	asking  int
}

// put adds a question, which returns when it is answered, and reports whether there was room for
// it. It does not block.
func (q *inquiries) put(ask func(ctx context.Context)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= admissionWaiting {
		return false
	}
	q.waiting = append(q.waiting, ask)
	if q.asking < admissionAsks {
		q.asking++
		q.spawn(q.run)
	}
	return true
}

// run puts questions until none waits.
func (q *inquiries) run(ctx context.Context) {
	for {
		ask := q.next(ctx)
		if ask == nil {
			return
		}
		ask(ctx)
	}
}

// next takes the question that waits longest; nil ends one that asks.
func (q *inquiries) next(ctx context.Context) func(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || ctx.Err() != nil {
		q.asking--
		return nil
	}
	ask := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return ask
}
