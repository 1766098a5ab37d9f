package pages

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

const (
	// maxConfirms bounds the queued confirmations, confirmBatch those in a message. Confirmations
	// beyond the bound are dropped.
	maxConfirms  = 8192
	confirmBatch = 256
	// confirmLinger is how long a confirmation waits for others. Each content owner costs a message,
	// and peers that wait for the body repeat their claim for longer than this. confirmLast bounds the
	// last round at the end.
	confirmLinger = 300 * time.Millisecond
	confirmLast   = time.Second
)

// confirmer confirms to content owners the bodies that are archived and on disk.
type confirmer struct {
	content Content
	log     *slog.Logger
	wake    chan struct{}

	mu      sync.Mutex
	waiting []reports.Confirmation
}

func newConfirmer(content Content, log *slog.Logger) *confirmer {
	return &confirmer{content: content, log: log, wake: make(chan struct{}, 1)}
}

// add queues the confirmations of reports, once each.
func (c *confirmer) add(told []*session.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.waiting)
	for _, one := range told {
		r := one.Note.(*reports.Report)
		if r.Archived != nil && len(c.waiting) < maxConfirms {
			c.waiting = append(c.waiting, *r.Archived)
		}
		r.Archived = nil
	}
	if len(c.waiting) >= confirmBatch || len(c.waiting) > 0 && before == 0 {
		poke(c.wake)
	}
}

// run sends confirmations until ctx ends, and then once more what is left: an unconfirmed body is
// archived twice.
func (c *confirmer) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-c.wake:
			if c.count() < confirmBatch { // the first of a batch: wait for others
				timer.Reset(confirmLinger)
				continue
			}
		case <-timer.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmLast)
			c.send(last)
			cancel()
			return
		}
		c.send(ctx)
	}
}

func (c *confirmer) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// send sends all queued confirmations.
func (c *confirmer) send(ctx context.Context) {
	for ctx.Err() == nil {
		c.mu.Lock()
		n := min(len(c.waiting), confirmBatch)
		batch := c.waiting[:n:n]
		c.waiting = c.waiting[n:]
		c.mu.Unlock()
		if n == 0 {
			return
		}
		if err := c.content.Confirm(ctx, batch); err != nil {
			c.log.Debug("confirmations of archived bodies not delivered", "bodies", n, "err", err)
		}
	}
}
