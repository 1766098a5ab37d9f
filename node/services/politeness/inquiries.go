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

// inquiries is the queue of admission requests. Each returns when it has a reply.
type inquiries chan func(ctx context.Context)

// put queues a request, and reports whether there was space. It does not block.
func (q inquiries) put(ask func(ctx context.Context)) bool {
	select {
	case q <- ask:
		return true
	default:
		return false
	}
}

// run sends requests until ctx ends.
func (q inquiries) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range admissionAsks {
		workers.Go(func() {
			for {
				select {
				case ask := <-q:
					ask(ctx)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	workers.Wait()
}
