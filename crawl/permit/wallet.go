package permit

import (
	"slices"
	"time"
)

const (
	// askAhead is the share of the last grant below which more permits are requested.
	askAhead = 4
	// askAgain is the least time between two requests for a prefix that were granted nothing or not
	// answered.
	askAgain = 2 * time.Second
	// answerTime is the timeout of a request.
	answerTime = 5 * time.Second
)

// Ask is a request to the granter of a key; its reply goes to [Wallet.Granted] or [Wallet.Failed].
type Ask struct {
	Key  Key    // unit of the limit
	Want int    // permits requested, 1 to MaxWant
	Host string // last host that needed one
}

// Wallet caches the permits of one worker.
type Wallet struct {
	limit  int
	delay  time.Duration // of a domain
	chunk  time.Duration
	shares map[Key]*share
	order  []Key // keys with a request to be sent
	most   int
}

// share is the worker's state for one key.
type share struct {
	left, last int       // permits, and the size of the last grant
	until      time.Time // their end
	ahead      time.Time // of a time slice: when the next one may be requested
	spent      int       // since the last request, or since the time slice began: size of the next request
	wanted     int       // failed tries since then
	asked      time.Time // time of the pending request; zero if none
	next       time.Time // earliest next request
	queued     bool
	// fallback is set if the granter does not answer; the next request to a host is possible at at.
	fallback bool
	then     time.Time
	used     time.Time
	host     string // last host that took one, or tried to
}

// NewWallet returns an empty wallet. Limit and chunk are those of the granters, and delay is that
// of a domain; the fallback is a share of them. With a limit of zero addresses need no permits.
func NewWallet(limit int, chunk, delay time.Duration) *Wallet {
	return &Wallet{chunk: lengthOf(chunk), limit: min(max(limit, 0), MaxLimit), delay: delay, shares: make(map[Key]*share), most: maxPrefixes}
}

// Hold returns, without taking one, the time until which there is no permit for a key; the zero
// time if there is one.
func (w *Wallet) Hold(now time.Time, k Key) time.Time {
	ok, at := w.look(now, k, "", false)
	if ok {
		return time.Time{}
	}
	return at
}

// Take takes a permit for one request to a host. It returns the end of the permit, or with false
// the time to retry. The zero Key needs no permit and always succeeds.
func (w *Wallet) Take(now time.Time, k Key, host string) (ok bool, at time.Time) {
	return w.look(now, k, host, true)
}

// GiveBack returns an unused permit with its end. A permit of an earlier chunk is ignored.
func (w *Wallet) GiveBack(now time.Time, k Key, until time.Time) {
	if s := w.shares[k]; s != nil && !s.fallback && s.left < MaxWant && now.Before(until) && w.sameChunk(until, s.until) {
		s.left++
		s.spent = max(s.spent-1, 0)
	}
}

// sameChunk reports whether two permits are of one chunk: their ends, as computed here, differ by
// the latency of the replies.
func (w *Wallet) sameChunk(a, b time.Time) bool { return a.Sub(b).Abs() <= w.chunk/4 }

func (w *Wallet) look(now time.Time, k Key, host string, take bool) (ok bool, at time.Time) {
	if k == (Key{}) || k.Domain == "" && w.limit == 0 {
		return true, now.Add(w.chunk)
	}
	s := w.share(now, k)
	if s == nil {
		return false, now.Add(askAgain)
	}
	s.used = now
	if take {
		s.host = host
	}
	if !s.asked.IsZero() && now.Sub(s.asked) >= answerTime {
		w.Failed(now, k)
	}
	if s.left > 0 && now.Before(s.until) {
		if take {
			s.left--
			s.spent++
			if s.left <= s.last/askAhead || k.Domain != "" && now.After(s.ahead) {
				w.want(now, k, s)
			}
		}
		return true, s.until
	}
	s.left = 0
	if take {
		s.wanted++
	}
	w.want(now, k, s)
	switch {
	case s.fallback && !now.Before(s.then):
		if take {
			s.then = now.Add(FallbackShare * w.pace(k))
		}
		return true, now.Add(answerTime)
	case s.fallback:
		return false, s.then
	case s.queued || !s.asked.IsZero():
		return false, now.Add(answerTime) // or when the reply arrives
	default:
		return false, s.next
	}
}

// pace returns the time between two requests within the limit of a key.
func (w *Wallet) pace(k Key) time.Duration {
	if k.Domain != "" {
		return w.delay
	}
	return w.chunk / time.Duration(w.limit)
}

// share returns the state of a key, created if missing; nil if the wallet is full.
func (w *Wallet) share(now time.Time, k Key) *share {
	s := w.shares[k]
	if s != nil {
		return s
	}
	if len(w.shares) >= w.most {
		for old, s := range w.shares {
			if now.Sub(s.used) > Chunk && s.asked.IsZero() && !s.queued {
				delete(w.shares, old)
			}
		}
		if len(w.shares) >= w.most {
			return nil
		}
	}
	s = &share{}
	w.shares[k] = s
	return s
}

// want queues a request, unless one is queued or pending, or it is too early.
func (w *Wallet) want(now time.Time, k Key, s *share) {
	if s.queued || !s.asked.IsZero() || now.Before(s.next) {
		return
	}
	s.queued = true
	w.order = append(w.order, k)
}

// Waiting reports whether there are requests to be sent.
func (w *Wallet) Waiting() bool { return len(w.order) > 0 }

// Asks returns the requests to be sent now, each once.
func (w *Wallet) Asks(now time.Time) []Ask {
	list := make([]Ask, 0, len(w.order))
	for _, k := range w.order {
		s := w.shares[k]
		s.queued, s.asked = false, now
		// The first request of a key is small: later ones follow its consumption.
		const first = 8
		want := max(2*s.spent+s.wanted, first)
		if k.Domain == "" {
			s.spent = 0
		} else {
			want = 2*s.spent + 1
		}
		list = append(list, Ask{k, min(want, MaxWant), s.host})
		s.wanted = 0
	}
	w.order = w.order[:0]
	return list
}

// Granted applies the reply to a request: n permits, or a time slice, valid from the time of the
// request; with none, the next request may follow then.
func (w *Wallet) Granted(now time.Time, k Key, n int, holds time.Duration) {
	s := w.shares[k]
	if s == nil || s.asked.IsZero() {
		return // timed out
	}
	end := s.asked.Add(min(max(holds, 0), w.chunk))
	s.asked, s.fallback, s.next = time.Time{}, false, time.Time{}
	n = min(max(n, 0), MaxWant)
	if n == 0 {
		s.next = slices.MaxFunc([]time.Time{end, now.Add(askAgain / 2)}, time.Time.Compare)
		return
	}
	if k.Domain != "" { // a time slice, limited by the delay instead
		s.left, s.spent, s.ahead, n = 0, 0, end.Add(now.Sub(end)/askAhead), MaxWant
	} else if !w.sameChunk(end, s.until) {
		s.left = 0 // permits of another chunk have expired
	}
	s.left, s.last, s.until = s.left+n, n, end
}

// Failed records that a request was not answered.
func (w *Wallet) Failed(now time.Time, k Key) {
	s := w.shares[k]
	if s == nil || s.asked.IsZero() {
		return
	}
	s.asked, s.next = time.Time{}, now.Add(askAgain)
	if !s.fallback {
		s.fallback, s.then = true, now
	}
}
