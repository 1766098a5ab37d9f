package visits

import (
	"time"

	"github.com/apoidea/apoidea/crawl/worker/reports"
)

const (
	// headTimes the time of the slowest head of a host, and at least leastHead, is the timeout once a
	// request to it has hung: each hung request delays all others of the host, as it gets one request
	// at a time.
	headTimes = 10
	leastHead = 2 * time.Second
	// wholeWait: of consecutive hangs, every wholeWait-th request gets the full timeout, because a
	// host may have become slow.
	wholeWait = 6
	// fewHangs in a row may be due to their URLs alone, as where every other URL hangs. After more the
	// host may be overloaded, and gets the delay of a slow host.
	fewHangs = 2
)

// hangs are the unanswered requests to a host, and its slowest answer.
type hangs struct {
	slowest time.Duration // time of its slowest head; 0: no answer yet
	some    bool          // a request has hung
	row     int           // consecutive hangs
}

// answered records the time that the head of an answer took.
func (h *hangs) answered(head time.Duration) { h.slowest, h.row = max(h.slowest, head, 1), 0 }

// hung records a request that hung, and returns the duration from which the host's delay is
// computed.
func (h *hangs) hung(took time.Duration) time.Duration {
	h.some, h.row = true, h.row+1
	if h.slowest > 0 && h.row <= fewHangs {
		return min(h.slowest, took)
	}
	return took
}

// headWithin returns the timeout for the head of an answer; zero: the default. A retry gets the
// full timeout, unless the last request hung: it may be a slow page among fast ones.
func (h *hangs) headWithin(it *reports.Item) time.Duration {
	if !h.some || h.slowest == 0 || it.Tries > 0 && h.row == 0 || h.row%wholeWait == wholeWait-1 {
		return 0
	}
	return max(headTimes*h.slowest, leastHead)
}
