package hosts

// searchState is the state of the search for a host's worker.
type searchState uint8

const (
	// SearchIdle: no search.
	SearchIdle searchState = iota
	// SearchAsked: a worker is being chosen.
	SearchAsked
	// SearchOffered: a worker was chosen and sent an offer.
	SearchOffered
)

// String returns the name of a state.
func (s searchState) String() string { return [...]string{"idle", "asked", "offered"}[s] }

// search is the search for a host's worker, with constraints on the next one.
//
//	state            next      because
//	idle             asked     ask: a worker is to be chosen
//	asked            offered   offer: it was chosen, and is sent an offer
//	asked            idle      refused: it is full, or none was chosen in time
//	offered          idle      refused: it declined, or did not answer in time
//	asked, offered   idle      end: it took the host, or the host needs no worker any more
//
// A refusal excludes a worker from the next searches. After maxExcluded of them the host is
// assigned to this peer; if this peer refuses it too, or no worker is found, the search pauses.
type search struct {
	State   searchState
	Until   int64  // deadline
	Offered string // recipient
	last    string // last recipient: an acceptance may be late
	// Reserved is the not-before time of the host without the measuring requests of candidates; 0:
	// none are permitted.
	Reserved int64
	URLs     int     // limit of URLs of the next lease; 0: none
	Pace     float64 // factor of the next worker's request interval

	Exclude []string
	rest    int64  // time of the next search
	Replace bool   // the worker must return the host, which is placed again
	Anew    string // reason, for display
	// Grown is the number of unleased URLs at which a host that was placed with little data is placed
	// again; 0: never.
	Grown     int64
	Remeasure bool // measurements of the host are outdated
}

// Ask begins the search; others is false if only this peer remains to take the host.
func (s *search) Ask(until int64) (others bool) {
	s.State, s.Until = SearchAsked, until
	return len(s.Exclude) < maxExcluded
}

// Reserve reserves the time until then for measuring requests of candidates.
func (s *search) Reserve(polite, until int64) {
	s.Reserved, s.Until = max(polite, 1), until
}

// Unreserve ends that time, and returns the earlier not-before time and the end of the reservation;
// 0 if there was none.
func (s *search) Unreserve() (before, until int64) {
	if s.Reserved == 0 {
		return 0, 0
	}
	before, s.Reserved = s.Reserved, 0
	return before, s.Until
}

// Found stores the conditions of the next lease from a placement.
func (s *search) Found(p *Placement) {
	s.Remeasure, s.URLs, s.Pace = false, max(p.URLs, 0), p.Pace
	if !p.Unsure {
		s.Grown = 0
	}
}

// Offer records an offer of the host to a worker.
func (s *search) Offer(worker string, until int64) {
	s.State, s.Offered, s.last, s.Until = SearchOffered, worker, worker, until
}

// OfferedTo reports whether the host is offered to a worker.
func (s *search) OfferedTo(worker string) bool {
	return s.State == SearchOffered && s.Offered == worker
}

// Asked reports whether a worker may take the host: its offer is the current or the last one.
func (s *search) Asked(worker string) bool {
	return s.OfferedTo(worker) || s.State != SearchOffered && s.last == worker
}

// Refused records that a worker did not take the host; an empty name means that none was found. The
// caller ends the search.
func (s *search) Refused(worker, self string, now int64) {
	switch worker {
	case self:
		s.Exclude = nil
		s.Pause(now)
	case "":
		s.Pause(now)
	default:
		s.Exclude = append(s.Exclude, worker)
	}
}

// Pause delays the next search.
func (s *search) Pause(now int64) { s.rest = now + restAfter }

// End ends the search, and reports whether the host was offered.
func (s *search) End() (offered bool) {
	offered = s.State == SearchOffered
	s.State, s.Offered, s.URLs, s.Pace, s.Reserved = SearchIdle, "", 0, 0, 0
	return offered
}

// Taken clears the constraints of the search once a lease begins.
func (s *search) Taken() { s.Exclude, s.Replace, s.Anew = nil, false, "" }

// Again requests another placement of the host.
func (s *search) Again(why string) { s.Replace, s.Anew = true, why }

// Searches limits the concurrent searches.
type Searches struct {
	most    int // maximum, if every host finds a worker
	Under   int // in progress
	refused int // by how much the limit is reduced at present
	Queue   queue
}

// room reports whether another search may begin. While all workers are full, the limit follows the
// number of accepted hosts: a host that even this peer declines lowers it by one, an accepted one
// raises it by one. It starts low, so that the first hosts provide measurements for the others.
func (s *Searches) room() bool { return s.Under < s.most-s.refused }

// Declined records that a worker did not take a host.
func (s *Searches) Declined() { s.refused = min(s.refused+1, max(s.most-leastPlacing, 0)) }

// Taken records that a worker took a host.
func (s *Searches) Taken() { s.refused = max(s.refused-1, 0) }

// Waiting reports whether a queued host can be searched for.
func (s *Searches) Waiting() bool { return s.Queue.len() > 0 && s.room() }
