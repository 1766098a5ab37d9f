package worker

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/frontier"
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

// heldPermit is a permit taken for a visit, before it is known whether it comes to a request.
type heldPermit struct {
	addr  netip.Addr
	until time.Time // it holds; zero: there is none
}

// use makes the request with the visit's pass, or with another permit if that is for another
// address or does not hold any more.
func (p *permits) use(have *heldPermit, addr netip.Addr) error {
	if p == nil {
		return nil
	}
	now := time.Now()
	if had := *have; now.Before(had.until) {
		here, _ := permit.PrefixOf(addr)
		if of, ok := permit.PrefixOf(had.addr); ok && of == here {
			*have = heldPermit{}
			return nil
		}
	}
	if _, ok, _ := p.take(now, addr); !ok {
		return errNoPermit
	}
	return nil
}

// take takes a permit; without one it says when to look again.
func (p *permits) take(now time.Time, addr netip.Addr) (got heldPermit, ok bool, again time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.urge()
	ok, at := p.wallet.Take(now, addr)
	if !ok {
		return heldPermit{}, false, at
	}
	return heldPermit{addr, at}, true, time.Time{}
}

// giveBack returns a pass with which no request was made.
func (p *permits) giveBack(have *heldPermit) {
	if p == nil || have.until.IsZero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wallet.GiveBack(time.Now(), have.addr, have.until)
	*have = heldPermit{}
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

// run asks for permits until ctx ends; look is called whenever there may be news, and says when to
// look again.
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

// holds keeps the visits of hosts open, and so the hosts and their addresses from being visited,
// while there is no permit for them. Its methods are called under the worker's mutex.
type holds struct {
	permits  *permits // nil where there is no limit
	frontier *frontier.Frontier[reports.Item]
	hosts    map[string]*host     // the worker's
	until    map[string]time.Time // of the hosts that are held
}

// hold holds a host whose visit is open if there is no permit for it; else the visit has a pass.
func (hs *holds) hold(now time.Time, name string, h *host) bool {
	if hs.permits == nil || h == nil || len(h.addrs) == 0 {
		return false
	}
	got, ok, until := hs.permits.take(now, h.addrs[0])
	if ok {
		h.held = got
		return false
	}
	hs.add(name, until)
	return true
}

// add holds a host until then, and has it looked at.
func (hs *holds) add(name string, until time.Time) {
	hs.until[name] = until
	poke(hs.permits.wake)
}

// letGo ends the visits of hosts for which there are permits again, or of all, and says how many,
// and when to look at the others.
func (hs *holds) letGo(now time.Time, all bool) (free int, next time.Duration) {
	next = time.Hour
	for name := range hs.until {
		var until time.Time
		if h := hs.hosts[name]; h != nil && len(h.addrs) > 0 && !all {
			until = hs.permits.hold(now, h.addrs[0])
		}
		if until.IsZero() {
			delete(hs.until, name)
			hs.frontier.Free(name)
			free++
			continue
		}
		hs.until[name] = until
		next = min(next, max(until.Sub(now), 10*time.Millisecond), permitLook)
	}
	return free, next
}

// letGo has the fetchers go on with hosts that waited for permits.
func (w *Worker) letGo() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	free, next := w.holds.letGo(time.Now(), w.stopping)
	for range free {
		w.idle.wakeOne()
	}
	return next
}

// noPermit puts a URL back for whose request there was no permit, and holds the host. The address
// is known by now.
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
		w.windows.unpop(h, &it)
		w.holds.add(h.Host, now)
	}
	w.changed(h.Lease)
}
