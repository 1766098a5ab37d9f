package owner

const (
	// loanTime in ms is how long a host is lent at most, as long as an exchange takes at most. Who has it stops earlier, as with a lease.
	loanTime = 60_000
	// restShare times as long as somebody had a host on loan, it is not lent to the same one again: nobody keeps a host from being crawled by borrowing it.
	restShare = 3
	// keptFor in ms a host is kept for who is to ask again, after that time.
	keptFor = 2000
	// lookFirst and lookMost in ms bound when to ask again for a host that somebody has, who may be done with it any time.
	lookFirst, lookMost = 250, 1000
	// longestTurn in ms: a host that is left alone for longer is kept for nobody.
	longestTurn = 600_000
	// maxLoans and maxLoansEach bound what is known of those who ask, of each one for each host, in all and of one.
	maxLoans     = 4096
	maxLoansEach = 256
	// sweepLoansEvery in ms what is over is forgotten.
	sweepLoansEvery = 1000
)

// loans says which hosts are lent for one request, as the robots.txt of another host leads there, and who has a turn. It knows nothing else of a host, which
// need not have a record.
//
//	state   next    because
//	free    lent    ask: nobody has the host, and no politeness is owed
//	free    kept    ask: somebody has it, or politeness is owed
//	kept    lent    ask: by who has a turn, once nobody has the host and nothing is owed
//	kept    free    who has the turn did not ask again in time
//	lent    rests   back: the request is over; or the time is, and nobody said so
//	rests   free    the delay after the request is over
//
// Turns of one host stand beside each other: who asks first has it next. Those that were noted while the host was leased come before the next lease, so that one
// lease and those who waited for its end alternate.
type loans struct {
	delay   int64 // owed after a request, in ms
	hosts   map[string]*loan
	each    map[string]int // turns of each peer
	n       int            // turns of all
	number  uint64         // of the last loan
	sweepAt int64
}

// loan is what is known of a host that was asked for.
type loan struct {
	to           string // who has it; empty: nobody
	number       uint64
	begun, until int64
	rests        int64 // nobody has it before
	turns        map[string]*turn
}

// turn is that of one peer at a host.
type turn struct {
	since int64 // it has waited
	until int64 // the host is kept for it; 0: it is not waiting
	first bool  // it comes before the next lease
	again int64 // nothing is lent to it before
}

func newLoans(delay int64) *loans {
	return &loans{delay: delay, hosts: make(map[string]*loan), each: make(map[string]int)}
}

// asked is the answer to who asks for a host: the number of its loan and until when that lasts, or 0 and for how long to wait; fresh says that the loan begins.
type asked struct {
	number      uint64
	until, wait int64
	waited      int64 // since it asked first
	fresh       bool
}

// ask lends a host to a peer, or says when to ask again. Leased says that somebody has it, owed until when it is to be left alone.
func (l *loans) ask(now int64, host, peer string, leased bool, owed int64) asked {
	l.sweep(now)
	e := l.hosts[host]
	if e == nil {
		e = &loan{turns: make(map[string]*turn)}
	}
	l.expire(now, e)
	if e.to == peer {
		return asked{number: e.number, until: e.until} // the answer went lost
	}
	t := e.turns[peer]
	if t != nil && t.again > now {
		return asked{wait: t.again - now}
	}
	if t == nil {
		if l.n >= maxLoans || l.each[peer] >= maxLoansEach {
			return asked{wait: lookMost}
		}
		t = &turn{}
	}
	if t.until == 0 {
		t.since = now
	}
	a := asked{waited: now - t.since}
	switch owed = max(owed, e.rests); {
	case leased || e.to != "":
		a.wait = min(max(a.waited/4, lookFirst), lookMost)
		t.first = t.first || leased
	case owed > now:
		a.wait = owed - now
	default:
		l.number = max(l.number+1, uint64(now)) //nolint:gosec // a time; so a number is never that of an earlier process
		e.to, e.number, e.begun, e.until = peer, l.number, now, now+loanTime
		t.since, t.until, t.first = 0, 0, false
		a.number, a.until, a.fresh = e.number, e.until, true
	}
	switch {
	case a.wait > longestTurn && e.turns[peer] == nil:
		return a
	case a.wait > 0:
		t.until = now + min(a.wait, longestTurn) + keptFor
	}
	l.add(host, e, peer, t)
	return a
}

// add has a turn be known.
func (l *loans) add(host string, e *loan, peer string, t *turn) {
	if e.turns[peer] == nil {
		e.turns[peer] = t
		l.each[peer]++
		l.n++
	}
	l.hosts[host] = e
}

// back ends a loan, and says until when it would have lasted; false if it is over, or there was none.
func (l *loans) back(now int64, host, peer string, number uint64) (until int64, ok bool) {
	e := l.hosts[host]
	if e == nil || e.to != peer || e.number != number || l.expire(now, e) {
		return 0, false
	}
	l.end(e, now)
	return e.until, true
}

// end ends a loan at a time.
func (l *loans) end(e *loan, at int64) {
	e.turns[e.to].again = at + restShare*(at-e.begun)
	e.to, e.rests = "", at+l.delay
}

// expire ends what is over by time, and says whether that is so of the loan.
func (l *loans) expire(now int64, e *loan) (over bool) {
	if over = e.to != "" && e.until <= now; over {
		l.end(e, e.until)
	}
	for _, t := range e.turns {
		if t.until == 0 || t.until > now {
			continue
		}
		if t.first { // the host may have been kept for it in vain
			t.again = t.until + restShare*keptFor
		}
		t.since, t.until, t.first = 0, 0, false
	}
	return over
}

// free is when a host may be leased, as far as loans go; 0 if now.
func (l *loans) free(now int64, host string) int64 {
	e := l.hosts[host]
	if e == nil {
		return 0
	}
	at := e.rests
	if e.to != "" {
		at = e.until + l.delay
	}
	for _, t := range e.turns {
		if t.first {
			at = max(at, t.until)
		}
	}
	if at <= now {
		return 0
	}
	return at
}

// sweep forgets what says nothing any more.
func (l *loans) sweep(now int64) {
	if now < l.sweepAt {
		return
	}
	l.sweepAt = now + sweepLoansEvery
	for host, e := range l.hosts {
		l.expire(now, e)
		for peer, t := range e.turns {
			if t.until > 0 || t.again > now || e.to == peer {
				continue
			}
			delete(e.turns, peer)
			l.n--
			if l.each[peer]--; l.each[peer] == 0 {
				delete(l.each, peer)
			}
		}
		if len(e.turns) == 0 && e.rests <= now {
			delete(l.hosts, host)
		}
	}
}
