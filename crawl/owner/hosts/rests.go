package hosts

import (
	"time"

	"github.com/apoidea/apoidea/crawl/job"
)

// Rests determines which URLs wait: of hosts in memory on request, and of evicted ones by sums.
type Rests struct {
	*Step
	Away Away
}

// mutePatience is the time that an ending crawl waits for a mute host, which may not exist. Its
// URLs stay pending. A patience of muteBelow or more applies to such hosts as well.
const (
	mutePatience = 15 * time.Second
	muteBelow    = 24 * time.Hour
)

// HorizonOf returns the time in ms until which a next try of a host is waited for, given the
// horizon of a patience.
func HorizonOf(mute bool, now, horizon int64) int64 {
	if mute && horizon < now+muteBelow.Milliseconds() {
		return min(horizon, now+mutePatience.Milliseconds())
	}
	return horizon
}

// Rest returns the wait of a host in memory, and counts the deferred URLs of its jobs.
func (r *Rests) Rest(h *Host, horizon int64, jobs map[job.ID]PutOff) Rest {
	rest := Rest{until: Never}
	whole := r.RestsUntil(h)
	horizon = HorizonOf(h.Mute(), r.Now, horizon)
	for _, hj := range h.Jobs {
		urls, at := hj.waits(whole, h.Rec.BackoffUntil > r.Now || whole > horizon)
		rest.add(hj.State, urls, at, r.Now, horizon, jobs)
	}
	return rest
}
