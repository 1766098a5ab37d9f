package node

import (
	"context"
	"sync"

	"github.com/apoidea/apoidea/crawl/owner"
)

// Bounds on questions for admissions: those under way at once, and those that wait for their turn. A page may name a hundred thousand domains; what finds no
// place is asked again by the hosts' owner.
const (
	admissionAsks    = 16
	admissionWaiting = 4096
)

// inquiries are questions for admissions that wait for their turn.
type inquiries struct {
	// ask puts one question and waits for the answer; spawn runs a function beside.
	ask   func(ctx context.Context, list []owner.Admission)
	spawn func(fn func(ctx context.Context))

	mu      sync.Mutex // guards what follows
	waiting [][]owner.Admission
	asking  int
}

// put adds a question, and reports whether there was room for it. It does not block.
func (q *inquiries) put(list []owner.Admission) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= admissionWaiting {
		return false
	}
	q.waiting = append(q.waiting, list)
	if q.asking < admissionAsks {
		q.asking++
		q.spawn(q.run)
	}
	return true
}

// run puts questions until none waits.
func (q *inquiries) run(ctx context.Context) {
	for {
		list := q.next(ctx)
		if list == nil {
			return
		}
		q.ask(ctx, list)
	}
}

// next takes the question that waits longest; nil ends one that asks.
func (q *inquiries) next(ctx context.Context) []owner.Admission {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || ctx.Err() != nil {
		q.asking--
		return nil
	}
	list := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return list
}
