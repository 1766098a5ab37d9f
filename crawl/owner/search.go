package owner

import "time"

// searchState is where the search for a host's worker stands.
type searchState uint8

const (
	// searchIdle: no worker is looked for.
	searchIdle searchState = iota
	// searchAsked: one is to be chosen.
	searchAsked
	// searchOffered: one was chosen, and was told of the host.
	searchOffered
)

// String names a state.
func (s searchState) String() string { return [...]string{"idle", "asked", "offered"}[s] }

// search is the search for a host's worker, and what the next one is to heed.
//
//	state            next      because
//	idle             asked     ask: a worker is to be chosen
//	asked            offered   offer: it was chosen, and hears of the host
//	asked            idle      refused: it has no room, or nobody was chosen in time
//	offered          idle      refused: it declined, or did not answer in time
//	asked, offered   idle      end: it took the host, or the host needs no worker any more
//
// A refusal excludes a worker from the next searches. After maxExcluded of them the host is this
// peer's own; if that refuses it as well, or nobody was found, the host rests.
type search struct {
	state   searchState
	until   int64  // when it is given up
	offered string // to whom
	// reserved is until when politeness would be owed if candidates might not send requests to
	// measure; 0: they may not.
	reserved int64
	urls     int     // how many URLs the next lease is for; 0: any number
	pace     float64 // by how much the next worker is to ask the host less often than usual

	exclude   []string
	rest      int64  // no worker is looked for before
	replace   bool   // the worker is to give the host back, so that it is placed anew
	anew      string // why, for people
	tiny      bool   // the last placement was without measuring
	remeasure bool   // what was measured of the host does not hold any more
}

// ask begins the search, and says whether another peer may be found: else this peer takes the host.
func (s *search) ask(until int64) (others bool) {
	s.state, s.until = searchAsked, until
	return len(s.exclude) < maxExcluded
}

// reserve gives candidates time to send requests to a host to which politeness is owed until then.
func (s *search) reserve(polite, until int64) {
	s.reserved, s.until = max(polite, 1), until
}

// unreserve ends that time, and says what was owed before it, and until when it was; 0 if there was
// none.
func (s *search) unreserve() (before, until int64) {
	if s.reserved == 0 {
		return 0, 0
	}
	before, s.reserved = s.reserved, 0
	return before, s.until
}

// found takes what a placement says of the lease to come.
func (s *search) found(p *Placement) {
	s.remeasure, s.urls, s.pace = false, max(p.URLs, 0), p.Pace
}

// offer has a worker hear of the host.
func (s *search) offer(worker string, until int64) {
	s.state, s.offered, s.until = searchOffered, worker, until
}

// offeredTo says whether the host is on offer to a worker.
func (s *search) offeredTo(worker string) bool {
	return s.state == searchOffered && s.offered == worker
}

// refused notes that a worker does not take the host; an empty name says that none was found. It is
// for the caller to end the search.
func (s *search) refused(worker, self string, now int64) {
	switch worker {
	case self:
		s.exclude = nil
		s.pause(now)
	case "":
		s.pause(now)
	default:
		s.exclude = append(s.exclude, worker)
	}
}

// pause lets the host rest for a while.
func (s *search) pause(now int64) { s.rest = now + restAfter }

// end ends the search, and says whether the host was on offer.
func (s *search) end() (offered bool) {
	offered = s.state == searchOffered
	s.state, s.offered, s.urls, s.pace, s.reserved = searchIdle, "", 0, 0, 0
	return offered
}

// taken forgets what the search before a lease was to heed.
func (s *search) taken() { s.exclude, s.replace, s.anew = nil, false, "" }

// again has the host placed anew.
func (s *search) again(why string) { s.replace, s.anew = true, why }

// searches bounds the searches that are under way.
type searches struct {
	most    int // that may be, if every host finds a worker
	under   int // that are
	refused int // for how many there is no room at present
	queue   queue
}

// room says whether another search may begin. While there are many hosts and all workers are full,
// as many are searched for as are found: every host that even this peer declines makes room for one
// search less, every one that is taken for one more.
func (s *searches) room() bool { return s.under < s.most-s.refused }

func (s *searches) declined() { s.refused = min(s.refused+1, max(s.most-leastPlacing, 0)) }

func (s *searches) taken() { s.refused = max(s.refused-1, 0) }

// waiting says whether a host stands in the queue for which there is room.
func (s *searches) waiting() bool { return s.queue.len() > 0 && s.room() }

// owedFor is until when politeness is owed, in the time of the records, rounded up.
func owedFor(at time.Time) int64 { return at.Add(time.Millisecond - 1).UnixMilli() }
