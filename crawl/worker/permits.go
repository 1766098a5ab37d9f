package worker

import (
	"context"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/permit"
)

// permits is the worker's permit cache with the loop that refills it. Nil if there is no limit and
// no delay. Safe for concurrent use, as a permit is taken right before a request is written.
type permits struct {
	from Permits
	wake chan struct{}

	mu     sync.Mutex // guards wallet; locked after the worker's own
	wallet *permit.Wallet
}

func newPermits(cfg *Config, from Permits) *permits {
	delay := cfg.Politeness.GroupDelay
	if cfg.PermitLimit <= 0 && delay <= 0 || from == nil {
		return nil
	}
	return &permits{from: from, wake: make(chan struct{}, 1), wallet: permit.NewWallet(cfg.PermitLimit, cfg.PermitChunk, delay)}
}

// Take implements visits.Permits.
func (p *permits) Take(now time.Time, k permit.Key, host string) (ok bool, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok, at = p.wallet.Take(now, k, host); !ok {
		poke(p.wake) // to be examined again
	}
	p.urge()
	return ok, at
}

// GiveBack implements visits.Permits.
func (p *permits) GiveBack(now time.Time, k permit.Key, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wallet.GiveBack(now, k, until)
}

// Hold implements visits.Permits.
func (p *permits) Hold(now time.Time, k permit.Key) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.urge()
	return p.wallet.Hold(now, k)
}

// urge wakes the loop if permits must be requested. Called with the lock held.
func (p *permits) urge() {
	if p.wallet.Waiting() {
		poke(p.wake)
	}
}

func (p *permits) asks() []permit.Ask {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wallet.Asks(time.Now())
}

// ask sends one request for permits and stores the answer.
func (p *permits) ask(ctx context.Context, q permit.Ask) {
	n, holds, err := p.from.Ask(ctx, q)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.wallet.Failed(time.Now(), q.Key)
		return
	}
	p.wallet.Granted(time.Now(), q.Key, n, holds)
}

const (
	// permitTime is the timeout of a request for permits.
	permitTime = 4 * time.Second
	// permitAsks bounds the concurrent requests for permits.
	permitAsks = 32
)

// run requests permits until ctx ends. It calls look after changes; look returns when to call it
// again.
func (p *permits) run(ctx context.Context, look func() time.Duration) {
	slots := make(chan struct{}, permitAsks)
	var asks sync.WaitGroup
	defer asks.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for _, q := range p.asks() {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			asks.Go(func() {
				defer func() { <-slots }()
				ctx, cancel := context.WithTimeout(ctx, permitTime)
				defer cancel()
				p.ask(ctx, q)
				poke(p.wake)
			})
		}
		timer.Reset(look())
		select {
		case <-p.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// letGo lets the fetchers continue with hosts that waited for permits.
func (w *Worker) letGo() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	free, next := w.visits.LetGo(time.Now(), w.stopping)
	for range free {
		w.idle.wakeOne()
	}
	return next
}
