package loop

import (
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// maxPaces bounds the callers of which it is remembered how much they had; who has not asked for
// longest is forgotten.
const maxPaces = 4096

// Paces give each of many callers a rate of its own. Safe for concurrent use.
type Paces struct {
	rate  rate.Limit
	burst int
	of    *lru.Cache[string, *rate.Limiter]
}

// NewPaces returns paces of so much a second, and so much at once.
func NewPaces(r rate.Limit, burst int) *Paces {
	of, err := lru.New[string, *rate.Limiter](maxPaces)
	if err != nil {
		panic(err) // the size is one
	}
	return &Paces{rate: r, burst: burst, of: of}
}

// Of is the pace of a caller.
func (p *Paces) Of(caller string) *rate.Limiter {
	fresh := rate.NewLimiter(p.rate, p.burst)
	if own, known, _ := p.of.PeekOrAdd(caller, fresh); known {
		p.of.Get(caller) // it was asked about last
		return own
	}
	return fresh
}
