package worker

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/permit"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// errNoPermit: the address has had its requests for now.
var errNoPermit = errors.New("no permit for another request to this address")

// permits is the worker's wallet with what asks for it. Nil where there is no limit.
type permits struct {
	from Permits
	wake chan struct{}

	mu     sync.Mutex // guards wallet; taken within the worker's own
	wallet *permit.Wallet
}

func newPermits(limit int, chunk time.Duration, from Permits) *permits {
	if limit <= 0 || from == nil {
		return nil
	}
	return &permits{from: from, wake: make(chan struct{}, 1), wallet: permit.NewWallet(limit, chunk)}
}

// pass is a permit taken for a visit, before it is known whether it comes to a request.
type pass struct {
	addr  netip.Addr
	until time.Time // it holds; zero: there is none
}

// use makes the request with the visit's pass, or with another permit if that is for another address or does not hold any more.
func (p *permits) use(have *pass, addr netip.Addr) error {
	if p == nil {
		return nil
	}
	now := time.Now()
	if had := *have; now.Before(had.until) {
		here, _ := permit.PrefixOf(addr)
		if of, ok := permit.PrefixOf(had.addr); ok && of == here {
			*have = pass{}
			return nil
		}
	}
	if _, ok, _ := p.take(now, addr); !ok {
		return errNoPermit
	}
	return nil
}

// take takes a permit; without one it says when to look again.
func (p *permits) take(now time.Time, addr netip.Addr) (got pass, ok bool, again time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.urge()
	ok, at := p.wallet.Take(now, addr)
	if !ok {
		return pass{}, false, at
	}
	return pass{addr, at}, true, time.Time{}
}

// giveBack returns a pass with which no request was made.
func (p *permits) giveBack(have *pass) {
	if p == nil || have.until.IsZero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wallet.GiveBack(time.Now(), have.addr, have.until)
	*have = pass{}
}

// hold is until when there is no permit for an address; zero if there is one.
func (p *permits) hold(now time.Time, addr netip.Addr) time.Time {
	if p == nil || !addr.IsValid() {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.urge()
	return p.wallet.Hold(now, addr)
}

// urge has questions asked if there are any. Called with the lock held.
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

// ask puts one question and takes its answer in.
func (p *permits) ask(ctx context.Context, q permit.Ask) {
	n, holds, err := p.from.Ask(ctx, q.Prefix, q.Want)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.wallet.Failed(time.Now(), q.Prefix)
		return
	}
	p.wallet.Granted(time.Now(), q.Prefix, n, holds)
}

const (
	// permitTime bounds a question for permits.
	permitTime = 4 * time.Second
	// permitAsks bounds the questions under way at once.
	permitAsks = 32
	// permitLook is how long a host is held at most before it is looked at again.
	permitLook = time.Second
)

// permitLoop asks for permits, and lets the hosts go on that waited for them.
func (w *Worker) permitLoop(ctx context.Context) {
	p := w.permits
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
		timer.Reset(w.letGo(time.Now()))
		select {
		case <-p.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// held keeps the visit of a host open, and so the host and its address from being visited, if there is no permit for it; else the visit has a pass. Under the
// worker's mutex.
func (w *Worker) held(now time.Time, name string) bool {
	h := w.hosts[name]
	if w.permits == nil || h == nil || len(h.addrs) == 0 {
		return false
	}
	got, ok, until := w.permits.take(now, h.addrs[0])
	if ok {
		h.pass = got
		return false
	}
	w.holding[name] = until
	poke(w.permits.wake) // which sets its timer
	return true
}

// letGo ends the visits of hosts for which there are permits again, and says when to look at the others.
func (w *Worker) letGo(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := time.Hour
	for name := range w.holding {
		var until time.Time
		if h := w.hosts[name]; h != nil && len(h.addrs) > 0 && !w.stopping {
			until = w.permits.hold(now, h.addrs[0])
		}
		if until.IsZero() {
			delete(w.holding, name)
			w.frontier.Free(name)
			w.wakeOne()
			continue
		}
		w.holding[name] = until
		next = min(next, max(until.Sub(now), 10*time.Millisecond), permitLook)
	}
	return next
}

// noPermit puts a URL back for whose request there was no permit, and holds the host. The address is known by now.
func (v *visitor) noPermit(h *host, it reports.Item, addr netip.Addr, now time.Time) {
	w := v.w
	w.mu.Lock()
	defer w.mu.Unlock()
	v.left(h)
	v.reached(h, addr)
	switch {
	case h.Closing():
		h.Return(it.Job.ID, it.URL)
		w.frontier.Free(h.Host)
	case h.Over():
		w.frontier.Free(h.Host)
	default:
		w.unpop(h, it)
		w.holding[h.Host] = now
		poke(w.permits.wake)
	}
	w.changed(h.Lease)
}
