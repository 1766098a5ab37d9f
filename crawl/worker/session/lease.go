package session

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// stopShare of the TTL is how long a worker acts on a lease, from when it sent the request that
	// got or renewed it. The rest is for clocks that differ, and for a request that is on its way
	// to the site.
	stopShareNum, stopShareDen = 3, 4
	// renewShare: leases are renewed at this part of the TTL, so that two heartbeats may be lost.
	renewShare = 4
	// renewalNum and renewalDen: when no answer has renewed leases for this part of the TTL, a
	// message goes out beside the one under way that does nothing else.
	renewalNum, renewalDen = 3, 8
)

// Safe is how long to act on a leave that lasts so long for those who gave it.
func Safe(lasts time.Duration) time.Duration { return lasts * stopShareNum / stopShareDen }

// Lease is the leave to ask one host, or the wish for it until it is granted.
type Lease struct {
	Host string // its name, with the port if it is not the usual one
	// Running says that an exchange is under way, Piped counts pages between the exchange and the
	// report. The driver keeps both, and calls Machine.Changed.
	Running bool
	Piped   int // pages between the exchange and the report

	owner string
	place int // in its session's list
	epoch *wire.Epoch
	until time.Duration // lease clock: no request is written from then on
	over  bool
	holds atomic.Int64 // until; nothing is before it once the lease is over: for those who ask from elsewhere

	more     bool      // the owner has further URLs
	asked    bool      // a message that asks for URLs is under way
	askAgain time.Time // the owner has further URLs and grants none at present: not asked for before
	again    bool      // it was offered while held: the owner knows of an end that we have yet to hear of
	giveBack bool      // to be released when its window is done
	turns    int       // owners in a row that sent us on, or did not answer
	untold   int       // reports that the owner has not acknowledged
	dryAt    time.Time

	closing  bool // no further request; released when its pages are reported
	backoff  time.Duration
	reason   string
	returned []*wire.Unfetched
}

// Owner is the peer that the lease is a matter with: who granted it, or who is believed to own the
// host since.
func (l *Lease) Owner() string { return l.owner }

// Granted says that there is a lease and not only the wish for one. It may be over.
func (l *Lease) Granted() bool { return l.epoch != nil }

// Over says that the lease is gone: revoked, lapsed or given back.
func (l *Lease) Over() bool { return l.over }

// Closing says that the host is being given back: no further request is made.
func (l *Lease) Closing() bool { return l.closing }

// Holds says whether a request may be written at a time of the lease clock. It may be asked at any
// time by any goroutine, unlike everything else.
func (l *Lease) Holds(clock time.Duration) bool { return int64(clock) < l.holds.Load() }

// prolong has the lease hold until then, if it did not hold for longer.
func (l *Lease) prolong(until time.Duration) {
	l.until = max(l.until, until)
	if !l.over {
		l.holds.Store(int64(l.until))
	}
}

// end ends it.
func (l *Lease) end() {
	l.over = true
	l.holds.Store(math.MinInt64)
}

// Until is when the lease ends by the lease clock, if it is not renewed.
func (l *Lease) Until() time.Duration { return l.until }

// Return gives a URL back untried with the release of its host. The owner takes back what is out
// when the lease ends, so those beyond a bound are not told.
func (l *Lease) Return(id job.ID, url string) {
	if len(l.returned) < wire.MaxFetched {
		l.returned = append(l.returned, &wire.Unfetched{Job: id[:], Hash: link.Hash(id, url)})
	}
}

// Returned is the number of URLs that are to be given back untried.
func (l *Lease) Returned() int { return len(l.returned) }

// busy says that something of the host is worked on here.
func (l *Lease) busy() bool { return l.Running || l.Piped > 0 }
