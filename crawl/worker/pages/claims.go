package pages

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// maxAsking bounds the concurrent batches of claims.
	maxAsking = 4
	// askAgainFirst and askAgainMost bound the delay before a claim answered with Wait is repeated; it
	// doubles in between.
	askAgainFirst = 40 * time.Millisecond
	askAgainMost  = 400 * time.Millisecond
)

// claims batches the claims of bodies.
type claims struct {
	pipe *Pipeline
	wake chan struct{}
	slot chan struct{} // one for each batch under way

	mu          sync.Mutex
	batch       []*Page
	since       time.Time // when the first of them arrived
	urgent      bool
	parked      []*Page // pages whose bodies another peer is archiving
	parkedBytes int64
	final       bool // the worker stops: no waiting
}

func newClaims(l *Pipeline) *claims {
	return &claims{pipe: l, wake: make(chan struct{}, 1), slot: make(chan struct{}, maxAsking)}
}

// add queues the claim of a page.
func (c *claims) add(p *Page, urgent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.batch) == 0 {
		c.since = time.Now()
	}
	c.batch = append(c.batch, p)
	c.urgent = c.urgent || urgent
	if len(c.batch) == 1 || urgent || len(c.batch) == claimBatch {
		poke(c.wake)
	}
}

// urge flushes the current batch.
func (c *claims) urge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.batch) > 0 && !c.urgent {
		c.urgent = true
		poke(c.wake)
	}
}

// hurry flushes everything and ends all waiting.
func (c *claims) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.final = true
	poke(c.wake)
}

// run sends batches until ctx ends.
func (c *claims) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batch, due := c.take(time.Now())
		if len(batch) > 0 {
			select {
			case c.slot <- struct{}{}:
			case <-ctx.Done():
				return
			}
			group.Go(func() {
				defer func() { <-c.slot }()
				c.ask(ctx, batch)
			})
			continue
		}
		timer.Reset(due)
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// take returns the claims to be sent now, or how long they may wait.
func (c *claims) take(now time.Time) (batch []*Page, due time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := &c.pipe.cfg
	due = time.Hour
	for i := 0; i < len(c.parked); {
		p := c.parked[i]
		wait := p.askAt.Sub(now)
		if wait > 0 && !c.final {
			due = min(due, wait)
			i++
			continue
		}
		c.parked = slices.Delete(c.parked, i, i+1)
		c.parkedBytes -= p.size
		batch = append(batch, p)
	}
	if len(c.batch) > 0 {
		wait := c.since.Add(cfg.ClaimLinger).Sub(now)
		if len(batch) > 0 || c.urgent || c.final || wait <= 0 || len(c.batch) >= claimBatch {
			n := min(len(c.batch), max(claimBatch-len(batch), 1))
			batch = append(batch, c.batch[:n]...)
			c.batch = append(c.batch[:0:0], c.batch[n:]...)
			c.since = now
			c.urgent = c.urgent && len(c.batch) > 0
		} else {
			due = min(due, wait)
		}
	}
	return batch, due
}

// ask sends a batch of claims. Without an answer every body counts as new: a duplicate costs
// little, a lost body is not acceptable.
func (c *claims) ask(ctx context.Context, batch []*Page) {
	questions := make([]Question, len(batch))
	for i, p := range batch {
		questions[i] = Question{Digest: p.digest, URL: p.item.URL, Body: p.resp.Body}
	}
	answers, err := c.pipe.deps.Content.Claim(ctx, questions)
	if err != nil || len(answers) != len(batch) {
		c.pipe.deps.Log.Debug("no answer from content owners; bodies count as new", "bodies", len(batch), "err", err)
		answers = slices.Repeat([]Answer{{Assumed: true}}, len(batch))
	}
	now := time.Now()
	ready := batch[:0]
	for i, p := range batch {
		p.answer = answers[i]
		if p.answer.Verdict != Wait || !c.park(p, now) {
			if p.answer.Assumed || p.answer.Verdict == Wait {
				c.pipe.assumed.Add(1)
			}
			ready = append(ready, p)
		}
	}
	if len(ready) > 0 {
		c.pipe.answer(ready)
	}
}

// park retains a page until its claim is repeated. It returns false if the page has waited long
// enough or too many wait: then its body counts as new.
func (c *claims) park(p *Page, now time.Time) bool {
	cfg := &c.pipe.cfg
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.waitUntil.IsZero() {
		p.waitUntil, p.askStep = now.Add(waitFor), askAgainFirst
	}
	if c.final || !now.Before(p.waitUntil) || c.parkedBytes+p.size > cfg.MaxParked {
		return false
	}
	p.askAt = now.Add(p.askStep)
	p.askStep = min(2*p.askStep, askAgainMost)
	c.parked = append(c.parked, p)
	c.parkedBytes += p.size
	poke(c.wake)
	return true
}
