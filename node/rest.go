package node

import (
	"context"
	"runtime/debug"
	"time"
)

// Go collects the heap of a process that allocates nothing every two minutes, and gives its pages back later still. A peer of a volunteer that has nothing to
// fetch any more gives them back at once.
const (
	// restAfter is how long nothing was requested before a peer counts as at rest. Collecting costs some ten milliseconds, so it is done once in each rest.
	restAfter = 15 * time.Second
	// restEvery is how often it is looked at.
	restEvery = 5 * time.Second
)

// rest tells when a peer has come to rest, once each time. The zero value has seen nothing.
type rest struct {
	requests int64
	since    time.Time
	told     bool
}

// begins is told the number of requests so far.
func (r *rest) begins(now time.Time, requests int64) bool {
	switch {
	case r.since.IsZero() || requests != r.requests:
		*r = rest{requests: requests, since: now}
	case !r.told && now.Sub(r.since) >= restAfter:
		r.told = true
		return true
	}
	return false
}

// giveBack returns the memory of a crawl to the system whenever the peer comes to rest, until ctx ends.
func (n *Node) giveBack(ctx context.Context) error {
	if !n.cfg.OwnProcess {
		return nil
	}
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	var r rest
	for {
		if r.begins(time.Now(), n.crawl.worker.Stats().Requests) {
			debug.FreeOSMemory()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
