package politeness

import (
	"context"
	"sync"
)

// Limits of admission requests: those in flight, and those queued. A page may link to a hundred
// thousand domains; dropped requests are repeated by the hosts' owner.
const (
	admissionAsks    = 16
	admissionWaiting = 4096
)

// inquiries is the queue of admission requests.
type inquiries struct {
	// spawn runs fn asynchronously.
	spawn func(fn func(ctx context.Context))

	mu      sync.Mutex // guards what follows
	waiting []func(ctx context.Context)
	asking  int
}

// put queues a request, which returns when it has a reply, and reports whether there was space. It
// does not block.
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

// run sends requests until the queue is empty.
func (q *inquiries) run(ctx context.Context) {
	for {
		ask := q.next(ctx)
		if ask == nil {
			return
		}
		ask(ctx)
	}
}

// next removes the oldest request from the queue; with nil the calling goroutine ends.
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
