package permit

import "time"

const (
	// askAhead: more is asked for when less than this share of the last grant is left.
	askAhead = 4
	// askAgain is the least time between two questions for a prefix that brought nothing, or no
	// answer.
	askAgain = 2 * time.Second
	// answerTime is after how long a question that was not answered is taken for failed.
	answerTime = 5 * time.Second
)

// Ask is a question to the granter of a key; its answer is [Wallet.Granted] or [Wallet.Failed].
type Ask struct {
	Key  Key    // what shares a limit
	Want int    // permits asked for, 1 to MaxWant
	Host string // the last host that needed one
}

// Wallet keeps the permits of one worker.
type Wallet struct {
	limit  int
	delay  time.Duration // of a domain
	chunk  time.Duration
	shares map[Key]*share
	order  []Key // those with a question to be asked
	most   int
}

// share is what the worker has of one key.
type share struct {
	left, last int       // permits, and how many the last grant brought
	until      time.Time // they hold
	ahead      time.Time // of a turn: the next one is asked for from then on
	spent      int       // since the last question, or since the turn began: what is asked for next
	wanted     int       // tries that found nothing since then
	asked      time.Time // when a question that is under way was asked; zero if none is
	next       time.Time // none is asked before
	queued     bool
	// fallback: the granter does not answer, and the next request may be made at then.
	fallback bool
	then     time.Time
	used     time.Time
	host     string // that took one last, or tried to
}

// NewWallet returns an empty wallet. Limit and chunk are those of the granters, and delay is that
// of a domain; of what they allow the fallback is a share. With a limit of zero addresses need no
// permits.
func NewWallet(limit int, chunk, delay time.Duration) *Wallet {
	return &Wallet{chunk: lengthOf(chunk), limit: min(max(limit, 0), MaxLimit), delay: delay, shares: make(map[Key]*share), most: maxPrefixes}
}

// Hold says, without taking one, until when there is no permit for a key; the zero time if there is
// one.
func (w *Wallet) Hold(now time.Time, k Key) time.Time {
	ok, at := w.look(now, k, "", false)
	if ok {
		return time.Time{}
	}
	return at
}

// Take takes a permit for one request to a host. It says until when the permit holds, or with false
// when to try again. The zero Key needs none, and gets one.
func (w *Wallet) Take(now time.Time, k Key, host string) (ok bool, at time.Time) {
	return w.look(now, k, host, true)
}

// GiveBack returns a permit, which held until then, and with which no request was made. One of a
// chunk that is over counts for nothing.
func (w *Wallet) GiveBack(now time.Time, k Key, until time.Time) {
	if s := w.shares[k]; s != nil && !s.fallback && s.left < MaxWant && now.Before(until) && w.sameChunk(until, s.until) {
		s.left++
		s.spent = max(s.spent-1, 0)
	}
}

// sameChunk says whether two permits are of one chunk: their ends, as this side counts them, differ
// by what the answers took to come.
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
		return false, now.Add(answerTime) // or when the answer is here
	default:
		return false, s.next
	}
}

// pace is the time from one request to the next that the limit of a key comes to.
func (w *Wallet) pace(k Key) time.Duration {
	if k.Domain != "" {
		return w.delay
	}
	return w.chunk / time.Duration(w.limit)
}

// share returns what there is of a key, made if need be; nil if there is no room.
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

// want queues a question, unless one is queued or under way, or it is too early.
func (w *Wallet) want(now time.Time, k Key, s *share) {
	if s.queued || !s.asked.IsZero() || now.Before(s.next) {
		return
	}
	s.queued = true
	w.order = append(w.order, k)
}

// Waiting says whether there are questions to be asked.
func (w *Wallet) Waiting() bool { return len(w.order) > 0 }

// Asks returns the questions to be asked now, each once.
func (w *Wallet) Asks(now time.Time) []Ask {
	list := make([]Ask, 0, len(w.order))
	for _, k := range w.order {
		s := w.shares[k]
		s.queued, s.asked = false, now
		// A key at first has a few: what was spent since tells how many it takes.
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

// Granted brings the answer to a question: so many permits, or a turn, which hold for so long from
// when it was asked; with none, it is worth asking again then.
func (w *Wallet) Granted(now time.Time, k Key, n int, holds time.Duration) {
	s := w.shares[k]
	if s == nil || s.asked.IsZero() {
		return // given up
	}
	end := s.asked.Add(min(max(holds, 0), w.chunk))
	s.asked, s.fallback, s.next = time.Time{}, false, time.Time{}
	n = min(max(n, 0), MaxWant)
	if n == 0 {
		s.next = later(end, now.Add(askAgain/2))
		return
	}
	if k.Domain != "" { // a turn, in which the delay says how many
		s.left, s.spent, s.ahead, n = 0, 0, end.Add(now.Sub(end)/askAhead), MaxWant
	} else if !w.sameChunk(end, s.until) {
		s.left = 0 // those of another chunk are over
	}
	s.left, s.last, s.until = s.left+n, n, end
}

// Failed says that a question had no answer.
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

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
