package visits

import (
	"time"

	"github.com/apoidea/apoidea/crawl/worker/reports"
)

const (
	// headTimes the slowest head of a host, and leastHead at least, are waited for once a request
	// to it has hung: each one that hangs keeps all others of the host waiting, as it is asked for
	// one thing at a time.
	headTimes = 10
	leastHead = 2 * time.Second
	// wholeWait is the place in a row of hangs of a request that is waited for as long as any: a
	// host may have become slow.
	wholeWait = 6
	// fewHangs in a row may be of their URLs alone: where every other URL hangs they are not rare.
	// After more the host may have too much to do, and gets the rest of one that is slow.
	fewHangs = 2
	// maxHung bounds the hosts of which it is remembered after their leases.
	maxHung = 1024
)

// hangs are the requests to a host of which nothing came, beside those that it answered.
type hangs struct {
	slowest time.Duration // of its answers, until the head was here; 0: there was none
	some    bool          // a request has hung
	row     int           // those in a row, without an answer
}

// answered notes the time that the head of an answer took.
func (h *hangs) answered(head time.Duration) { h.slowest, h.row = max(h.slowest, head, 1), 0 }

// hung notes a request of which nothing came, and says as for which time the host is owed for it.
func (h *hangs) hung(took time.Duration) time.Duration {
	h.some, h.row = true, h.row+1
	if h.slowest > 0 && h.row <= fewHangs {
		return min(h.slowest, took)
	}
	return took
}

// headWithin is how long the head of an answer is waited for; zero: as long as that of any host.
// What is tried once more has all the time, unless the last request hung: it may be a slow page
// among quick ones.
func (h *hangs) headWithin(it *reports.Item) time.Duration {
	if !h.some || h.slowest == 0 || it.Tries > 0 && h.row == 0 || h.row%wholeWait == wholeWait-1 {
		return 0
	}
	return max(headTimes*h.slowest, leastHead)
}

// hung are hosts without a lease of which a request has hung.
type hung map[string]hangs

// leave keeps what is known of a host whose lease is over.
func (m hung) leave(name string, h hangs) {
	if !h.some {
		return
	}
	if len(m) >= maxHung {
		clear(m)
	}
	m[name] = h
}

// back returns it for the next lease.
func (m hung) back(name string) hangs {
	h := m[name]
	delete(m, name)
	return h
}
