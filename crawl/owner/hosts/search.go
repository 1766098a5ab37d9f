package hosts

// searchState is where the search for a host's worker stands.
type searchState uint8

const (
	// SearchIdle: no worker is looked for.
	SearchIdle searchState = iota
	// SearchAsked: one is to be chosen.
	SearchAsked
	// SearchOffered: one was chosen, and was told of the host.
	SearchOffered
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
	State   searchState
	Until   int64  // when it is given up
	Offered string // to whom
	last    string // to whom the host was offered last: a yes may come late
	// Reserved is until when politeness would be owed if candidates might not send requests to
	// measure; 0: they may not.
	Reserved int64
	URLs     int     // how many URLs the next lease is for; 0: any number
	Pace     float64 // by how much the next worker is to ask the host less often than usual

	Exclude []string
	rest    int64  // no worker is looked for before
	Replace bool   // the worker is to give the host back, so that it is placed anew
	Anew    string // why, for people
	// Grown is from how many URLs that nobody has on the host is placed anew, since it was placed
	// by little; 0: it is not.
	Grown     int64
	Remeasure bool // what was measured of the host does not hold any more
}

// Ask begins the search, and says whether another peer may be found: else this peer takes the host.
func (s *search) Ask(until int64) (others bool) {
	s.State, s.Until = SearchAsked, until
	return len(s.Exclude) < maxExcluded
}

// Reserve gives candidates time to send requests to a host to which politeness is owed until then.
func (s *search) Reserve(polite, until int64) {
	s.Reserved, s.Until = max(polite, 1), until
}

// Unreserve ends that time, and says what was owed before it, and until when it was; 0 if there was
// none.
func (s *search) Unreserve() (before, until int64) {
	if s.Reserved == 0 {
		return 0, 0
	}
	before, s.Reserved = s.Reserved, 0
	return before, s.Until
}

// Found takes what a placement says of the lease to come.
func (s *search) Found(p *Placement) {
	s.Remeasure, s.URLs, s.Pace = false, max(p.URLs, 0), p.Pace
	if !p.Unsure {
		s.Grown = 0
	}
}

// Offer has a worker hear of the host.
func (s *search) Offer(worker string, until int64) {
	s.State, s.Offered, s.last, s.Until = SearchOffered, worker, worker, until
}

// OfferedTo says whether the host is on offer to a worker.
func (s *search) OfferedTo(worker string) bool {
	return s.State == SearchOffered && s.Offered == worker
}

// Asked says whether a worker may take the host: it is on offer to it, or was so last.
func (s *search) Asked(worker string) bool {
	return s.OfferedTo(worker) || s.State != SearchOffered && s.last == worker
}

// Refused notes that a worker does not take the host; an empty name says that none was found. It is
// for the caller to end the search.
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

// Pause lets the host rest for a while.
func (s *search) Pause(now int64) { s.rest = now + restAfter }

// End ends the search, and says whether the host was on offer.
func (s *search) End() (offered bool) {
	offered = s.State == SearchOffered
	s.State, s.Offered, s.URLs, s.Pace, s.Reserved = SearchIdle, "", 0, 0, 0
	return offered
}

// Taken forgets what the search before a lease was to heed.
func (s *search) Taken() { s.Exclude, s.Replace, s.Anew = nil, false, "" }

// Again has the host placed anew.
func (s *search) Again(why string) { s.Replace, s.Anew = true, why }

// Searches bounds the searches that are under way.
type Searches struct {
	most    int // that may be, if every host finds a worker
	Under   int // that are
	refused int // for how many there is no room at present
	Queue   queue
}

// room says whether another search may begin. While there are many hosts and all workers are full,
// as many are searched for as are found: every host that even this peer declines makes room for one
// search less, every one that is taken for one more. It begins with few, so that the first hosts
// teach where the others are near.
func (s *Searches) room() bool { return s.Under < s.most-s.refused }

// Declined notes that a worker did not take a host.
func (s *Searches) Declined() { s.refused = min(s.refused+1, max(s.most-leastPlacing, 0)) }

// Taken notes that one did.
func (s *Searches) Taken() { s.refused = max(s.refused-1, 0) }

// Waiting says whether a host stands in the queue for which there is room.
func (s *Searches) Waiting() bool { return s.Queue.len() > 0 && s.room() }
