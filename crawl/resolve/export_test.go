package resolve

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Limits for tests.
const (
	AddressTTL = addressTTL
	AbsenceTTL = absenceTTL
	FailureTTL = failureTTL
)

// Adjust replaces what no Config can: nil and zero leave a value as it is.
func (r *Resolver) Adjust(now func() time.Time, timeout time.Duration, entries int, search ...string) {
	if now != nil {
		r.now = now
	}
	if timeout > 0 {
		r.timeout = timeout
	}
	if entries > 0 {
		r.cache, _ = lru.New[string, *answer](entries)
	}
	r.search = search
}

// Len returns the number of names in the cache.
func (r *Resolver) Len() int { return r.cache.Len() }
