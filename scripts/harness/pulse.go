package harness

import (
	"context"
	"sync/atomic"
	"time"
)

// pulseEvery is the time between two beats of a Pulse.
const pulseEvery = 10 * time.Millisecond

// Pulse notes for how long the machine kept this process from running, as it may have kept the
// others of a trial.
type Pulse struct{ most atomic.Int64 }

// Run beats until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
	for begun := time.Now(); Sleep(ctx, pulseEvery) == nil; begun = time.Now() {
		p.most.Store(max(p.most.Load(), int64(time.Since(begun)-pulseEvery)))
	}
}

// Most is the longest that the process stood.
func (p *Pulse) Most() time.Duration { return time.Duration(p.most.Load()) }
