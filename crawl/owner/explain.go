package owner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/fresh"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// HostDetail is the complete state of a host.
type HostDetail struct {
	Host string   // name, with the port unless it is the default
	Key  ring.Key // ring position
	// Worker holds the lease; empty if there is none.
	Worker    string
	Epoch     ondisk.Epoch // of the last lease
	LeaseEnds time.Time    // unless renewed
	// NotBefore is the not-before time set by politeness or backoff, zero if there is none; Backoff is
	// its reason.
	NotBefore time.Time
	Backoff   string // reason, for display
	// Fails counts consecutive failures; FailOutcome is the last one.
	Fails       uint32
	FailOutcome link.Outcome // outcome of the last failure
	Mute        bool         // two connection failures in a row, and no URL of the host has an outcome
	Addrs       [][]byte     // 4 or 16 bytes each
	// Robots holds the robots.txt states of the host's origins.
	Robots map[string]robots.State
	// Placed is the worker chosen last, with the time, reason and measurements of the choice.
	Placed    string
	PlacedAt  time.Time            // time of the choice
	PlacedWhy string               // reason, for display
	Measured  []ondisk.Measurement // measurements of the candidates
	// OptedOut is the reason why nothing of the host is fetched, and OptedOutAt the time of its
	// opt-out record; both are zero if the host may be fetched.
	OptedOut   string
	OptedOutAt time.Time          // zero: no opt-out record
	Jobs       []hosts.HostCounts // jobs with URLs of the host
}

// Host returns the state of a host, and false for an unknown host. It may be called between the
// inputs of a step, or between steps.
func (bk *books) Host(name string) (HostDetail, bool) {
	bk.hosts.Flush()
	h := bk.hosts.Find(name)
	if h == nil {
		return HostDetail{}, false
	}
	d := HostDetail{
		Host: h.Rec.Name, Key: h.Key, Epoch: h.Rec.Epoch, Fails: h.Rec.Fails, FailOutcome: h.Rec.FailOutcome,
		Addrs: h.Rec.Addrs, Placed: h.Rec.Placed, PlacedWhy: h.Rec.PlacedWhy, Measured: append([]ondisk.Measurement(nil), h.Rec.Measured...),
		Robots: make(map[string]robots.State),
	}
	if d.OptedOut = bk.WhyOptedOut(h); h.Rec.OptOut.Out() {
		d.OptedOutAt = time.UnixMilli(h.Rec.OptOut.At)
	}
	if h.Rec.OptOut.Held() {
		d.OptedOut = "an opt-out in a record of another peer is being checked at the site"
	}
	if h.Rec.PlacedAt > 0 {
		d.PlacedAt = time.UnixMilli(h.Rec.PlacedAt)
	}
	if h.Lease != nil {
		d.Worker, d.LeaseEnds = h.Lease.Session.Peer, time.UnixMilli(h.Lease.Expires)
	}
	if until := max(bk.PoliteAt(h), h.Rec.BackoffUntil); until > bk.Now {
		d.NotBefore = time.UnixMilli(until)
	}
	if h.Rec.BackoffUntil > bk.Now {
		d.Backoff, d.Mute = h.Rec.BackoffReason, h.Mute()
	}
	prefix := ondisk.HostPrefix(h.Pos, ondisk.KindRobots)
	bk.Buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		if state, err := ondisk.DecodeRobots(value); err == nil {
			d.Robots[string(key[len(prefix):])] = state
		}
		return true
	})
	for _, hj := range h.Jobs {
		c := hj.Detail(bk.Now)
		for rule, l := range bk.traps.Of(h, hj).Left {
			if l.N > 0 {
				c.Left = append(c.Left, hosts.RuleLeft{Rule: rule, Text: hj.State.Rules().Text(trap.Rule(rule)), URLs: l.N, Example: l.URL}) //nolint:gosec // an index
			}
		}
		c.Trap, c.Spent = bk.traps.Text(h, hj), bk.SpentText(hj)
		d.Jobs = append(d.Jobs, c)
	}
	return d, true
}

// HostSummary is an entry in a list of hosts.
type HostSummary struct {
	Host   string   // name, with the port unless it is the default
	Key    ring.Key // ring position
	Worker string   // current lease holder; empty: none
	Placed string   // worker chosen last, also after its lease
	Addrs  [][]byte // 4 or 16 bytes each
	// WorkerRTTUs is the round trip in microseconds that the worker chosen last measured for that
	// choice, and LeastRTTUs the lowest measured; 0 if not measured.
	WorkerRTTUs, LeastRTTUs       int64
	Accepted, Pending, Leased, OK int64 // URLs of all jobs; OK: pages with new content
	Left                          int64 // URLs of all jobs skipped as traps or beyond a budget
}

// HostsAfter returns up to limit hosts behind a position, in ring order; the zero position is
// before all hosts. It may be called between the inputs of a step, or between steps.
func (bk *books) HostsAfter(after ring.Pos, limit int) []HostSummary {
	bk.hosts.Flush()
	var list []HostSummary
	next := ondisk.HostKey(after)
	next = append(next, 0)
	for len(list) < limit {
		var pos ring.Pos
		found := false
		bk.Buf.Scan(next, []byte{ondisk.SpaceHost + 1}, func(key, value []byte) bool {
			if key[1+ring.PosSize] == ondisk.KindHost && len(key) == 1+ring.PosSize+1 {
				pos, found = ring.Pos(key[1:]), true
				if rec, err := ondisk.DecodeHost(value); err == nil {
					s := bk.summary(pos, rec.Name)
					s.placed(&rec)
					list = append(list, s)
				}
				return false
			}
			// The position is within the records of the previous host: skip them.
			pos = ring.Pos(key[1:])
			return false
		})
		if pos == (ring.Pos{}) {
			return list
		}
		if found {
			next = ondisk.HostPrefix(pos, ondisk.KindHost+1)
		} else {
			next = kv.PrefixEnd(ondisk.HostPrefix(pos))
		}
		if next == nil {
			return list
		}
	}
	return list
}

func (bk *books) summary(pos ring.Pos, name string) HostSummary {
	s := HostSummary{Host: name, Key: ring.HostKey(name)}
	if h := bk.hosts.ByPos[pos]; h != nil {
		if h.Lease != nil {
			s.Worker = h.Lease.Session.Peer
		}
		for _, hj := range h.Jobs {
			c := hj.Tally.Counters()
			s.add(&c, hj.Tally.Out())
		}
		return s
	}
	prefix := ondisk.HostPrefix(pos, ondisk.KindCounters)
	bk.Buf.Scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
		if c, err := ondisk.DecodeCounters(value); err == nil {
			s.add(&c, 0)
		}
		return true
	})
	return s
}

func (s *HostSummary) placed(rec *ondisk.Host) {
	s.Placed, s.Addrs = rec.Placed, rec.Addrs
	for _, m := range rec.Measured {
		if m.RTTUs > 0 && (s.LeastRTTUs == 0 || m.RTTUs < s.LeastRTTUs) {
			s.LeastRTTUs = m.RTTUs
		}
		if m.Peer == rec.Placed {
			s.WorkerRTTUs = m.RTTUs
		}
	}
}

func (s *HostSummary) add(c *ondisk.Counters, out int64) {
	s.Accepted += c.Accepted
	s.Pending += c.Open() - out
	s.Leased += out
	s.OK += c.Outcomes[link.OutcomeOK]
	s.Left += c.Outcomes[link.OutcomeTrap] + c.Outcomes[link.OutcomeOutOfBudget]
}

// Leases returns the limit leased hosts with the most pending URLs, and the total number of leased
// hosts. It may be called between the inputs of a step, or between steps.
func (bk *books) Leases(limit int) (list []HostSummary, total int) {
	for _, s := range bk.placer.Sessions {
		for h := range s.Leases {
			l := bk.summary(h.Pos, h.Rec.Name)
			l.placed(&h.Rec)
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b HostSummary) int {
		return cmp.Or(cmp.Compare(b.Pending, a.Pending), cmp.Compare(a.Host, b.Host))
	})
	return list[:min(limit, len(list))], len(list)
}

// Fate is the state of a URL in one job.
type Fate struct {
	Job job.ID // the job that was queried
	// State is unknown, pending, waiting, leased or done.
	State string
	// Final is complete once State is done; before, only URL, Depth, Hops, Kind and Tries are set.
	Final  ondisk.Final
	Due    time.Time // of a waiting URL
	Lapses int       // lapsed leases while the URL was out
	// HostUntil is the time before which nothing of the host is fetched, zero if there is none.
	// HostWhy is the reason, and HostFails the number of consecutive failures.
	HostUntil time.Time
	HostWhy   string // for display
	HostFails uint32 // consecutive
	HostMute  bool   // as in HostDetail
	// Refusal is the reason why the job rejects an unknown URL at depth 0, if it does; Trap is the URL
	// pattern of the host that was detected as a trap, if the URL matches it.
	Refusal, Trap string
	// Again is the schedule of a page that is fetched again; nil without one.
	Again *Again
}

// Again is the schedule of a page that is fetched again.
type Again struct {
	Visits, Changes uint32    // visits that checked for a change, and changes found
	Rate            float64   // expected changes a day
	Last            time.Time // of these visits, or of the fetch
	Next            time.Time // zero: the page is not fetched again
	Why             string    // reason of Next, for display
}

// Why returns the state of a canonical URL in each job known here. It may be called between the
// inputs of a step, or between steps.
func (bk *books) Why(url string) []Fate {
	h := bk.hosts.Find(link.Host(url))
	var list []Fate
	for _, js := range bk.jobs.Order {
		f := Fate{Job: js.ID, State: "unknown"}
		if h == nil || !bk.explain(h, js, url, &f) {
			if bk.jobs.Knows(js) {
				f.Refusal = cmp.Or(bk.intake.TurnsAway(js, url), links.Refusal(js.Spec, url, 0, link.KindPage, bk.intake.Entered(js, link.Host(url))), js.Spec.Filtered(url, 1, link.KindPage))
				f.Trap = bk.leftAs(h, js, url)
			}
		}
		list = append(list, f)
	}
	return list
}

// leftAs returns the reason why an unknown URL would be skipped as a trap, empty if it would not.
func (bk *books) leftAs(h *hosts.Host, js *hosts.JobState, url string) string {
	if h == nil || !js.Rules().On() {
		return ""
	}
	hj := h.Job(js)
	switch {
	case hj == nil:
		return ""
	case hj.Tally.Counters().Trap:
		return bk.traps.Text(h, hj)
	}
	rule, _ := bk.traps.Of(h, hj).Verdict(url, 0) // its depth is not known
	return js.Rules().Text(rule)
}

func (bk *books) explain(h *hosts.Host, js *hosts.JobState, url string, f *Fate) bool {
	hash := link.Hash(js.ID, url)
	hj := h.Job(js)
	if hj == nil {
		return false
	}
	n, ok, err := hj.Peek(hash)
	if !ok || err != nil {
		return false
	}
	if n.Done {
		f.State, f.Final = "done", n.Final
		f.Again = bk.again(h, hj, &n.Final)
		return true
	}
	p, ok := hj.Pending(n.At)
	if !ok {
		return false
	}
	f.State, f.Lapses = "pending", int(p.Lapses)
	f.Final = ondisk.Final{URL: p.URL, Depth: p.Depth, Hops: p.Hops, Kind: p.Kind, Tries: p.Tries}
	if until := bk.RestsUntil(h); h.Rec.BackoffUntil > bk.Now {
		f.HostUntil, f.HostWhy, f.HostFails = time.UnixMilli(until), h.Rec.BackoffReason, h.Rec.Fails
		f.HostMute = h.Mute()
	}
	switch {
	case h.Lease.Item(hash) != nil:
		f.State = "leased"
	case p.Due > 0:
		f.State, f.Due = "waiting", time.UnixMilli(p.Due)
	}
	return true
}

// again returns the schedule of a page, nil if it has none.
func (bk *books) again(h *hosts.Host, hj *hosts.Job, f *ondisk.Final) *Again {
	r, js := &f.Revisit, hj.State
	if r.Due == 0 && r.Visits == 0 {
		return nil
	}
	a := &Again{Visits: r.Visits, Changes: r.Changes, Last: time.Unix(int64(f.LastVisit()), 0)}
	a.Rate = bk.RateOf(hj, f).Mean()
	switch due := time.Unix(int64(r.Due), 0); {
	case r.Due == ondisk.DueAsked:
		a.Next, a.Why = time.UnixMilli(bk.Now), "asked for by refresh --now"
	case js.Refresh == 0:
		a.Why = "the job has no refresh"
	case r.Signal != 0:
		a.Next, a.Why = due, [...]string{"the sitemap", "a feed", "IndexNow"}[r.Signal-1]+" of the site states a change"
	case r.Misses > 0:
		a.Next, a.Why = due, fmt.Sprintf("the page was gone at the last %d visits", r.Misses)
	case js.Refresh.PerDay() == 0:
		a.Next, a.Why = due, "each page is visited within "+js.Refresh.String()
	case r.Visits == 0:
		a.Next, a.Why = due, "first visit after the fetch, by the mean rate of the host"
	default:
		a.Next, a.Why = due, fmt.Sprintf("when the value of a visit reaches the threshold of the budget (%s); at the latest after %d times the mean interval", js.Refresh, fresh.Floor)
	}
	if at := bk.agenda.VisitsAt(h, hj); at == hosts.Never && !a.Next.IsZero() {
		a.Why += "; not at present: the page is leased, the job is paused, or the site has opted out"
	}
	return a
}

// URLs calls fn for up to limit done URLs behind a cursor, in key order, and returns the next
// cursor; nil at the end. Fewer than limit URLs do not mean the end. It may be called between the
// inputs of a step, or between steps.
func (bk *books) URLs(after ondisk.Cursor, limit int, fn func(id job.ID, f *ondisk.Final)) (ondisk.Cursor, error) {
	bk.hosts.Flush()
	if bk.Buf.Err() != nil {
		return nil, bk.Buf.Err()
	}
	next, err := ondisk.URLsIn(bk.Buf.Store(), after, limit, fn)
	if err != nil {
		bk.Buf.Fail(fmt.Errorf("owner: %w", err))
	}
	return next, err
}

// Horizon returns the latest next try of a host that a command with the given horizon waits for.
func Horizon(mute bool, now, horizon time.Time) time.Time {
	return time.UnixMilli(hosts.HorizonOf(mute, now.UnixMilli(), horizon.UnixMilli()))
}
