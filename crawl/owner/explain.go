package owner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// HostDetail is all that is known of a host.
type HostDetail struct {
	Host string   // name, with the port if it is not the usual one
	Key  ring.Key // place on the ring
	// Worker and its lease; the worker is empty if there is none.
	Worker    string
	Epoch     Epoch     // of the last lease
	LeaseEnds time.Time // unless it is renewed
	// NotBefore is until when politeness or a back-off is owed, zero if nothing is; Backoff is its reason.
	NotBefore time.Time
	Backoff   string // why, in words
	// Fails counts the failures in a row, FailOutcome is what the last one was.
	Fails       uint32
	FailOutcome link.Outcome // what the last failure was
	Addrs       [][]byte     // 4 or 16 bytes each
	// Robots are the states of the host's origins, as the worker encoded them.
	Robots map[string][]byte
	// Placed is the worker chosen last, when and why, by what measurements.
	Placed    string
	PlacedAt  time.Time     // when that was
	PlacedWhy string        // in words
	Measured  []Measurement // what candidates measured then
	// OptedOut says why nothing of the host is fetched, OptedOutAt since when by its record; empty and zero if it may be.
	OptedOut   string
	OptedOutAt time.Time    // zero: not by a record
	Jobs       []HostCounts // those with URLs of it
}

// HostCounts are the books of a job on a host.
type HostCounts struct {
	Job job.ID // whose books they are
	Counts
	// Admission is what the owner of the registrable domain said.
	Admission domain.Verdict
	// Requests are those made to the host; LinksCut are links of its pages that were not taken, as they led to too many new hosts.
	Requests, LinksCut int64
	// Novelty is how far the host, or some part of it, has come on the way to a trap, 0 to 1; Trap says why the host is one, if it is; parts of it
	// that still bring something go on.
	Novelty float64
	Trap    string // why it is one, in words; empty: it is none
}

// Host returns what is known of a host; false if nothing is. Between the inputs of a step, or between steps.
func (bk *books) Host(name string) (HostDetail, bool) {
	bk.hosts.flush()
	h := bk.hosts.find(name)
	if h == nil {
		return HostDetail{}, false
	}
	d := HostDetail{
		Host: h.rec.name, Key: h.key, Epoch: h.rec.epoch, Fails: h.rec.fails, FailOutcome: h.rec.failOutcome,
		Addrs: h.rec.addrs, Placed: h.rec.placed, PlacedWhy: h.rec.placedWhy, Measured: append([]Measurement(nil), h.rec.measured...),
		Robots: make(map[string][]byte),
	}
	if d.OptedOut = bk.optedOut(h); h.rec.optOut.on {
		d.OptedOutAt = time.UnixMilli(h.rec.optOut.at)
	}
	if h.rec.placedAt > 0 {
		d.PlacedAt = time.UnixMilli(h.rec.placedAt)
	}
	if h.lease != nil {
		d.Worker, d.LeaseEnds = h.lease.session.peer, time.UnixMilli(h.lease.expires)
	}
	if until := max(bk.politeAt(h), h.rec.backoffUntil); until > bk.now {
		d.NotBefore = time.UnixMilli(until)
	}
	if h.rec.backoffUntil > bk.now {
		d.Backoff = h.rec.backoffReason
	}
	prefix := hostPrefix(h.pos, kindRobots)
	bk.buf.scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		if state, err := robotsState(value); err == nil {
			d.Robots[string(key[len(prefix):])] = append([]byte(nil), state...)
		}
		return true
	})
	for _, hj := range h.jobs {
		c := hj.detail()
		if bk.cfg.Novelty > 0 {
			c.Novelty = bk.traps.of(h, hj).Share(bk.cfg.Novelty)
		}
		c.Trap = bk.traps.text(h, hj)
		d.Jobs = append(d.Jobs, c)
	}
	return d, true
}

func (hj *hostJob) detail() HostCounts {
	c := HostCounts{Job: hj.state.id, Admission: hj.c.admission, Requests: hj.c.requests, LinksCut: hj.c.cut, Counts: Counts{
		Accepted: hj.c.accepted, Done: hj.c.done(), Waiting: hj.c.delayed, Leased: hj.c.out, Outcomes: hj.c.outcomes,
		Bytes: hj.c.bytes, Refetched: hj.c.refetched, LeftOut: hj.c.leftOut,
	}}
	c.Pending = c.Accepted - c.Done - c.Leased
	if hj.nextDue != never {
		c.NextDue = time.UnixMilli(hj.nextDue)
	}
	return c
}

// HostSummary is a host in a list.
type HostSummary struct {
	Host                          string   // name, with the port if it is not the usual one
	Key                           ring.Key // place on the ring
	Worker                        string   // with a lease at present; empty: none
	Placed                        string   // worker chosen last, also when its lease is over
	Accepted, Pending, Leased, OK int64    // URLs of all jobs; OK: pages with new content
}

// HostsAfter returns up to limit hosts in ring order, those behind a position; the zero position is before all. Between
// the inputs of a step, or between steps.
func (bk *books) HostsAfter(after ring.Pos, limit int) []HostSummary {
	bk.hosts.flush()
	var list []HostSummary
	next := hostKey(after)
	next = append(next, 0)
	for len(list) < limit {
		var pos ring.Pos
		found := false
		bk.buf.scan(next, []byte{spaceHost + 1}, func(key, value []byte) bool {
			if key[1+ring.PosSize] == kindHost && len(key) == 1+ring.PosSize+1 {
				pos, found = ring.Pos(key[1:]), true
				if rec, err := decodeHost(value); err == nil {
					s := bk.summary(pos, rec.name)
					s.Placed = rec.placed
					list = append(list, s)
				}
				return false
			}
			// Somewhere in the records of the host before: jump behind them.
			pos = ring.Pos(key[1:])
			return false
		})
		if pos == (ring.Pos{}) {
			return list
		}
		if found {
			next = hostPrefix(pos, kindHost+1)
		} else {
			next = kv.PrefixEnd(hostPrefix(pos))
		}
		if next == nil {
			return list
		}
	}
	return list
}

func (bk *books) summary(pos ring.Pos, name string) HostSummary {
	s := HostSummary{Host: name, Key: ring.HostKey(name)}
	if h := bk.hosts.byPos[pos]; h != nil {
		if h.lease != nil {
			s.Worker = h.lease.session.peer
		}
		for _, hj := range h.jobs {
			s.add(&hj.c.counters, hj.c.out)
		}
		return s
	}
	prefix := hostPrefix(pos, kindCounters)
	bk.buf.scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
		if c, err := decodeCounters(value); err == nil {
			s.add(&c, 0)
		}
		return true
	})
	return s
}

func (s *HostSummary) add(c *counters, out int64) {
	s.Accepted += c.accepted
	s.Pending += c.open() - out
	s.Leased += out
	s.OK += c.outcomes[link.OutcomeOK]
}

// Leased is a host that a worker has a lease on.
type Leased struct {
	HostSummary
	// RTTUs is the round trip that this worker measured when the host was placed, in microseconds, 0 if it did not.
	RTTUs int64
}

// Leases lists hosts under a lease, the limit of them with the most URLs pending, and says how many there are. Between the inputs of a step, or
// between steps.
func (bk *books) Leases(limit int) (list []Leased, total int) {
	for _, s := range bk.placer.sessions {
		for h := range s.leases {
			l := Leased{HostSummary: bk.summary(h.pos, h.rec.name)}
			for _, m := range h.rec.measured {
				if m.Peer == l.Worker {
					l.RTTUs = m.RTTUs
				}
			}
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b Leased) int { return cmp.Or(cmp.Compare(b.Pending, a.Pending), cmp.Compare(a.Host, b.Host)) })
	return list[:min(limit, len(list))], len(list)
}

// Fate is what became of a URL in one job.
type Fate struct {
	Job job.ID // that was asked about
	// State is unknown, pending, waiting, leased or done.
	State string
	// Final is set once done; before, its URL, Depth, Hops, Kind and Tries are.
	Final  Final
	Due    time.Time // of a waiting URL
	Lapses int       // leases that lapsed while it was out
	// HostUntil is until when nothing of the host is fetched, zero if that is not so; HostWhy says why, HostFails how often in a row it failed.
	HostUntil time.Time
	HostWhy   string // in words
	HostFails uint32 // in a row
	// Refusal says why the job does not admit the URL at depth 0, if it does not and the URL is unknown.
	Refusal string
}

// Why returns what became of a canonical URL in each job known here. Between the inputs of a step, or between steps.
func (bk *books) Why(url string) []Fate {
	h := bk.hosts.find(link.Host(url))
	var list []Fate
	for _, js := range bk.jobs.order {
		f := Fate{Job: js.id, State: "unknown"}
		if h == nil || !bk.explain(h, js, url, &f) {
			if bk.jobs.knows(js) {
				f.Refusal = cmp.Or(bk.intake.turnsAway(js, url), Refusal(js.spec, url, 0, link.KindPage))
			}
		}
		list = append(list, f)
	}
	return list
}

func (bk *books) explain(h *host, js *jobState, url string, f *Fate) bool {
	hash := link.Hash(js.id, url)
	raw, ok := bk.buf.get(entryKey(h.pos, js.id, hash))
	if !ok {
		return false
	}
	n, err := decodeEntry(raw)
	if err != nil {
		return false
	}
	if n.done {
		f.State, f.Final = "done", n.final
		return true
	}
	p, ok := bk.urls.pending(h, js, n.at)
	if !ok {
		return false
	}
	f.State, f.Lapses = "pending", int(p.lapses)
	f.Final = Final{URL: p.url, Depth: p.depth, Hops: p.hops, Kind: p.kind, Tries: p.tries}
	if until := bk.restsUntil(h); h.rec.backoffUntil > bk.now {
		f.HostUntil, f.HostWhy, f.HostFails = time.UnixMilli(until), h.rec.backoffReason, h.rec.fails
	}
	switch {
	case h.lease.item(hash) != nil:
		f.State = "leased"
	case p.due > 0:
		f.State, f.Due = "waiting", time.UnixMilli(p.due)
	}
	return true
}

// Cursor is a place in the walk over all URLs; nil before the first.
type Cursor []byte

// URLs calls fn for up to limit URLs that are done, in key order behind a cursor, and returns the cursor to go on with; nil at the end. There may be fewer than
// limit, and others behind the cursor all the same. Between the inputs of a step, or between steps.
func (bk *books) URLs(after Cursor, limit int, fn func(id job.ID, f *Final)) (Cursor, error) {
	bk.hosts.flush()
	if bk.buf.err != nil {
		return nil, bk.buf.err
	}
	next, err := URLsIn(bk.buf.store, after, limit, fn)
	if err != nil {
		bk.buf.fail(fmt.Errorf("owner: %w", err))
	}
	return next, err
}

// Scanner is the part of a Store that a listing needs.
type Scanner interface {
	// Scan calls fn in the order of keys, lo to hi without hi, until it returns false.
	Scan(lo, hi []byte, fn func(key, value []byte) bool) error
}

const (
	// passedAtOnce bounds the records that one call of URLsIn passes over, a search for the next one counting as searchPasses: most URLs may not be done.
	passedAtOnce = 1 << 14
	searchPasses = 16
)

// entriesBehind is where the next entries lie behind a record of another kind: behind the host's other records, or those of the next host.
func entriesBehind(key []byte) []byte {
	if key[1+ring.PosSize] > kindEntry {
		return kv.PrefixEnd(key[:1+ring.PosSize])
	}
	return append(append([]byte(nil), key[:1+ring.PosSize]...), kindEntry)
}

// URLsIn is what URLs does, of a store that is read beside its owner, or of a peer which does not run.
func URLsIn(store Scanner, after Cursor, limit int, fn func(id job.ID, f *Final)) (Cursor, error) {
	next := []byte{spaceHost}
	if after != nil {
		next = append(slices.Clone(after), 0)
	}
	last := slices.Clone(after)
	for n, passed := 0, 0; n < limit && next != nil; {
		var jump []byte
		end := true
		if passed += searchPasses; passed > passedAtOnce {
			return last, nil
		}
		if err := store.Scan(slices.Clone(next), []byte{spaceHost + 1}, func(key, value []byte) bool {
			end = false
			last = append(last[:0], key...)
			passed++
			if key[1+ring.PosSize] != kindEntry {
				jump = entriesBehind(key)
				return false
			}
			next = append(append(next[:0], key...), 0)
			if e, err := decodeEntry(value); err == nil && e.done && len(key) >= jobPrefixLen {
				fn(job.ID(key[1+ring.PosSize+1:jobPrefixLen]), &e.final)
				n++
			}
			return n < limit && passed < passedAtOnce
		}); err != nil {
			return nil, fmt.Errorf("list URLs: %w", err)
		}
		switch {
		case jump != nil:
			next = jump
		case passed >= passedAtOnce:
			return last, nil
		case end || n < limit:
			return nil, nil
		}
	}
	if next == nil {
		return nil, nil
	}
	return next[:len(next)-1], nil
}
