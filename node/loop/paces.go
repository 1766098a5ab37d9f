package loop

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// MaxPeers is the usual number of callers with a limiter, if they are peers.
const MaxPeers = 4096

// Paces is a rate limiter per caller. It is safe for concurrent use.
type Paces struct {
	rate  rate.Limit
	burst int
	of    *lru.Cache[string, *rate.Limiter]
}

// NewPaces returns rate limiters of r per second with a burst, for up to most callers; the least
// recently used is dropped.
func NewPaces(r rate.Limit, burst, most int) *Paces {
	of, err := lru.New[string, *rate.Limiter](most)
	if err != nil {
		panic(err) // the size is not positive
	}
	return &Paces{rate: r, burst: burst, of: of}
}

// Of returns the limiter of a caller.
func (p *Paces) Of(caller string) *rate.Limiter {
	if own, known := p.of.Get(caller); known {
		return own
	}
	fresh := rate.NewLimiter(p.rate, p.burst)
	if own, known, _ := p.of.PeekOrAdd(caller, fresh); known {
		return own
	}
	return fresh
}

// Allow reports whether n more events of a caller are within its rate, and counts them if so.
func (p *Paces) Allow(now time.Time, caller string, n int) bool { return p.Of(caller).AllowN(now, n) }
