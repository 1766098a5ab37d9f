package session

import (
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// stopShare of the TTL is how long a worker acts on a lease, from when it sent the request that
	// got or renewed it. The rest allows for clock differences, and for a request in transit to the
	// site.
	stopShareNum, stopShareDen = 3, 4
	// renewShare: leases are renewed at this part of the TTL, so that two heartbeats may be lost.
	renewShare = 4
	// renewalNum and renewalDen: when no answer has renewed leases for this part of the TTL, a
	// separate message is sent that only renews them.
	renewalNum, renewalDen = 3, 8
)

// Safe returns how long a lease of that duration may be used by its holder.
func Safe(lasts time.Duration) time.Duration { return lasts * stopShareNum / stopShareDen }

// Lease is the permission to send requests to one host, or the request for it until it is granted.
type Lease struct {
	Host string // its name, with a non-default port
	// Running reports whether an exchange is under way, Piped counts pages between the exchange and
	// the report. The driver maintains both, and calls Machine.Changed.
	Running bool
	Piped   int // pages between the exchange and the report

	owner string
	place int // in its session's list
	epoch *wire.Epoch
	// certificate admits outcomes that are reported late.
	certificate *wire.Certificate
	until       time.Duration // lease clock: no request is written from then on
	over        bool
	holds       atomic.Int64 // until, or 0 once the lease is over; for concurrent readers

	more     bool      // the owner has further URLs
	asked    bool      // a message that asks for URLs is under way
	askAgain time.Time // the owner has URLs but grants none at present: not-before time of the next request
	again    bool      // offered while held: the owner ended the lease and its answer is in transit
	giveBack bool      // to be released when its window is empty
	turns    int       // consecutive owners that redirected, or did not answer
	untold   int       // reports that the owner has not acknowledged
	dryAt    time.Time

	closing  bool // no further request; released when its pages are reported
	backoff  time.Duration
	reason   string
	returned []*wire.Unfetched
}

// Owner returns the peer that the lease belongs to: the one that granted it, or the presumed owner
// of the host since.
func (l *Lease) Owner() string { return l.owner }

// Granted reports whether there is a lease and not only the request for one. It may be over.
func (l *Lease) Granted() bool { return l.epoch != nil }

// Over reports whether the lease has ended: revoked, expired or given back.
func (l *Lease) Over() bool { return l.over }

// Closing reports whether the host is being given back: no further request is made.
func (l *Lease) Closing() bool { return l.closing }

// Holds reports whether a request may be written at a time of the lease clock. Unlike everything
// else, it is safe for concurrent use.
func (l *Lease) Holds(clock time.Duration) bool { return int64(clock) < l.holds.Load() }

// prolong extends the lease until then, unless it is valid for longer.
func (l *Lease) prolong(until time.Duration) {
	l.until = max(l.until, until)
	if !l.over {
		l.holds.Store(int64(l.until))
	}
}

// Until returns when the lease ends by the lease clock, if it is not renewed.
func (l *Lease) Until() time.Duration { return l.until }

// Return gives a URL back untried with the release of its host. The owner reclaims all granted URLs
// when the lease ends, so those beyond a bound are not reported.
func (l *Lease) Return(id job.ID, url string) {
	if len(l.returned) < wire.MaxFetched {
		l.returned = append(l.returned, &wire.Unfetched{Job: id[:], Hash: link.Hash(id, url)})
	}
}

// Returned is the number of URLs to be given back untried.
func (l *Lease) Returned() int { return len(l.returned) }

// busy reports whether work on the host is under way here.
func (l *Lease) busy() bool { return l.Running || l.Piped > 0 }
