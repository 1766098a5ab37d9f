package hosts

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/fresh"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Visits again: a URL with an outcome has the time of its next visit in its entry. A record of the
// due queue refers to it. The URL stays done: a visit under a lease is an item that ends without a
// trace if it is not reported, and is granted again.

// refreshing is the state of a job's visits on this peer, in memory. The threshold is also stored
// with the counters of the job.
type refreshing struct {
	control fresh.Control
	hourEnd int64   // Unix ms; 0: no visit is scheduled yet
	rescan  bool    // its entries are to be scanned: whether it makes visits has changed
	share   float64 // of the ring's URLs of the job that this peer schedules; 0: unknown
}

const (
	// firstWeight is the weight of URLs that match --first; others have 1.
	firstWeight = 4
	// sitemapWeight is that of sitemaps and feeds, which name other URLs; sitemapPart is the part
	// of the interval of others after which they are visited.
	sitemapWeight = 16
	sitemapPart   = 0.25
	// withinPart of the interval of --refresh is waited, so that the visit is made within it.
	withinPart = 0.95
)

// Days converts Unix ms to days; the length of a day is shorter in a laboratory.
func (s *Step) Days(ms int64) float64 { return float64(ms) / float64(s.Cfg.Day.Milliseconds()) }

// PerDay returns this peer's share of a job's visits a day; 0 if the job has no such budget.
func (js *JobState) PerDay() float64 {
	share := js.visits.share
	if share == 0 {
		share = 1
	}
	return js.Refresh.PerDay() * share
}

// Control returns the control of a job's visits by their number a day.
func (js *JobState) Control() *fresh.Control {
	c, sums := &js.visits.control, js.Sums()
	budget, pages := max(js.PerDay(), math.SmallestNonzeroFloat32), int(sums.Scheduled)
	switch {
	case c.Budget == 0 && sums.Threshold == 0:
		*c = fresh.NewControl(budget, pages)
	case c.Budget == 0:
		c.Log = sums.Threshold // for the share before a restart, which is not known yet
	}
	if c.Budget = cmp.Or(c.Budget, budget); c.Pages > 0 || js.visits.share > 0 {
		c.Resize(budget, pages)
	}
	return c
}

// Share sets the share of the ring's URLs of the job that this peer schedules, and moves the
// threshold to those of the neighbors, given as logarithms.
func (t *JobTable) Share(js *JobState, share float64, neighbors []float64) {
	js.visits.share = min(max(share, 0), 1)
	if js.PerDay() > 0 {
		js.Control().Follow(neighbors)
		t.threshold(js)
	}
}

func (t *JobTable) threshold(js *JobState) {
	js.SetThreshold(js.visits.control.Log)
	t.Changed(js)
}

// Hours ends the hours of the jobs with a budget of visits, by which their thresholds move.
func (t *JobTable) Hours() {
	for _, js := range t.Order {
		if t.hourEnd(js) > t.Now {
			continue
		}
		js.Control().Tick()
		js.visits.hourEnd = max(js.visits.hourEnd, t.Now-t.hour()) + t.hour()
		t.threshold(js)
	}
}

func (s *Step) hour() int64 { return s.Cfg.Day.Milliseconds() / 24 }

// hourEnd returns the end of the job's hour; Never if its visits have no budget, or if there are
// none.
func (t *JobTable) hourEnd(js *JobState) int64 {
	if js.Refresh.PerDay() == 0 || !js.State.Grants() {
		return Never
	}
	if sums := js.Sums(); sums.Scheduled == 0 {
		return Never
	}
	if js.visits.hourEnd == 0 {
		js.visits.hourEnd = t.Now + t.hour()
	}
	return js.visits.hourEnd
}

// NextHour returns the next end of an hour of any job.
func (t *JobTable) NextHour() int64 {
	at := Never
	for _, js := range t.Order {
		at = min(at, t.hourEnd(js))
	}
	return at
}

// Page returns the schedule of a URL with an outcome, for package fresh.
func (s *Step) Page(hj *Job, f *ondisk.Final) fresh.Page {
	r := &f.Revisit
	p := fresh.Page{Rate: r.Rate, Last: s.Days(int64(f.LastVisit()) * 1000), Visits: r.Visits, Misses: r.Misses, Weight: 1}
	if f.Kind == link.KindSitemap {
		p.Weight = sitemapWeight
	} else if spec := hj.State.Spec; spec != nil && spec.Ordered() && spec.Rank(f.URL, f.Depth) == f.Depth {
		p.Weight = firstWeight
	}
	return p
}

// RateOf returns the change rate of a page; before its first visit, that of its host.
func (s *Step) RateOf(hj *Job, f *ondisk.Final) fresh.Rate {
	if f.Revisit.Visits > 0 {
		return f.Revisit.Rate
	}
	host, job := hj.Tally.Counters(), hj.State.Sums()
	ofHost, ofJob := host.Means(), job.Means()
	return ofHost.Prior(&ofJob)
}

// Due returns the Unix seconds of the next visit of a URL after one with an outcome; 0: none. The
// first visits are spread over the time by the hash of the URL.
func (t *JobTable) Due(hj *Job, hash uint64, f *ondisk.Final, last fresh.Outcome) uint32 {
	js, now := hj.State, t.Days(t.Now)
	if !js.Known || js.Refresh == 0 || ondisk.Knows(f.Outcome) < pageKnown {
		return 0
	}
	p, at := t.Page(hj, f), 0.0
	within := js.Refresh.Within() * withinPart
	if f.Kind == link.KindSitemap {
		within *= sitemapPart
	}
	spread := 1 - float64(hash>>11)/(1<<53) // above 0, at most 1
	switch {
	case last == fresh.Gone || last == fresh.Failed && math.IsInf(within, 1):
		at = p.Due(now, last, 0)
	case last == fresh.Failed:
		at = now + min(within, p.Due(now, last, 0)-now)
	case p.Visits == 0 && !math.IsInf(within, 1):
		at = p.Last + within*(1-spread/8)
	case !math.IsInf(within, 1):
		at = p.Last + within
	default:
		sums := js.Sums()
		p.Rate = t.RateOf(hj, f)
		at = js.Control().Due(p, now, last, int(sums.Scheduled))
		if p.Visits == 0 {
			at = p.Last + (at-p.Last)*spread
		}
	}
	seconds := at * t.Cfg.Day.Seconds()
	return uint32(min(max(seconds, ondisk.DueAsked+1), math.MaxUint32))
}

// pageKnown is what [ondisk.Knows] returns for pages and redirects, which are fetched again.
const pageKnown = 3

// VisitsAt returns the earliest time at which a visit of a job may be granted; Never if only
// another event can change that.
func (a *Agenda) VisitsAt(h *Host, hj *Job) int64 {
	at, js := hj.NextVisit(), hj.State
	if at == Never || !a.jobs.Knows(js) || !js.State.Grants() || !a.domains.admitted(h, hj) || a.WhyOptedOut(h) != "" || h.Rec.OptOut.Held() {
		return Never
	}
	if c := hj.Tally.Counters(); c.Down != link.OutcomeNone {
		at = max(at, c.DownUntil)
	}
	switch {
	case hj.NextVisit() <= ondisk.DueAsked*1000:
	case js.Refresh == 0:
		return Never
	case !js.MayVisit():
		at = max(at, a.jobs.hourEnd(js))
	}
	return at
}

// MayVisit reports whether the job's refresh admits a visit that is due.
func (js *JobState) MayVisit() bool {
	return js.Refresh != 0 && (js.PerDay() == 0 || !js.Control().Spent())
}

// firstVisit returns when the first visit of a host that is not out is due, in Unix seconds; 0:
// none. A job that makes no visits now does not count: once that changes, its entries are scanned.
func (h *Host) firstVisit() uint32 {
	at := Never
	for _, hj := range h.Jobs {
		if js := hj.State; !js.Known || js.State.Grants() && (js.Refresh != 0 || hj.NextVisit() <= ondisk.DueAsked*1000) {
			at = min(at, hj.NextVisit())
		}
	}
	if at == Never {
		return 0
	}
	return max(ondisk.Seconds(at), 1)
}

// indexVisits writes the host's first visit to the index. While visits may be out, it is not moved
// later: after a crash they are due again.
func (t *Table) indexVisits(h *Host) {
	at := h.firstVisit()
	if t.WhyOptedOut(h) != "" {
		at = 0 // its entries are scanned once that ends
	}
	if at == h.visitAt && (h.indexed || at == 0) || h.Lease != nil && h.visitAt > 0 && (at == 0 || at > h.visitAt) {
		return
	}
	if h.visitAt > 0 {
		t.Buf.Delete(ondisk.VisitsKey(h.visitAt, h.Pos))
	}
	if h.visitAt, h.indexed = at, true; at > 0 {
		t.Buf.Set(ondisk.VisitsKey(at, h.Pos), []byte{ondisk.Format})
		t.visitsAt = min(t.visitsAt, int64(at)*1000)
	}
}

const (
	// visitHosts is the number of hosts loaded in one step because a visit is due.
	visitHosts = 64
	// visitsAgain is the time in ms after which due hosts are looked for again if there were more.
	visitsAgain = 250
)

// LoadVisits loads hosts with due visits that are not in memory, a bounded number of them.
func (t *Table) LoadVisits() {
	if t.visitsAt > t.Now {
		return
	}
	t.Flush()
	type first struct {
		at  uint32
		pos ring.Pos
	}
	var list []first
	begin := t.visitsFrom
	t.visitsAt, t.visitsFrom = Never, nil
	passed := 0
	t.Buf.Scan(append([]byte{ondisk.SpaceVisit}, begin...), []byte{ondisk.SpaceVisit + 1}, func(key, _ []byte) bool {
		if len(key) != 1+4+ring.PosSize {
			t.Buf.Fail(ondisk.ErrFormat)
			return false
		}
		e := first{binary.BigEndian.Uint32(key[1:]), ring.Pos(key[5:])}
		if due := int64(e.at) * 1000; due > t.Now {
			t.visitsAt = due
			return false
		}
		if h := t.ByPos[e.pos]; h == nil || h.visitAt != e.at {
			list = append(list, e)
		}
		if passed++; len(list) == visitHosts || passed == SweepPasses {
			t.visitsAt, t.visitsFrom = t.Now+visitsAgain, append(slices.Clone(key[1:]), 0)
			return false
		}
		return true
	})
	if begin != nil {
		t.visitsAt = min(t.visitsAt, t.Now+visitsAgain) // those before it
	}
	for _, e := range list {
		if h := t.At(e.pos); h == nil || h.visitAt != e.at { // of an earlier process
			t.Buf.Delete(ondisk.VisitsKey(e.at, e.pos))
			if h != nil {
				t.Touched(h)
			}
		}
	}
}

// NextLoad returns when hosts with due visits are loaded next.
func (t *Table) NextLoad() int64 { return t.visitsAt }

// Scan is a scan over the entries of hosts, to set the times of their visits.
type Scan struct {
	from, to []byte
	job      *JobState
	by       job.Refresh // of the job, when the scan began
	again    *wire.Again // a request of a user; nil: all entries of the job are scheduled
	worker   string      // only entries reported by this worker are made pending again; empty: none
}

// schedules reports whether all entries of the job are scheduled.
func (c *Scan) schedules() bool { return c.again == nil && c.worker == "" }

// Scans are the scans in progress.
type Scans struct {
	*Step
	jobs   *JobTable
	hosts  *Table
	agenda *Agenda
	list   []*Scan
}

const (
	// scannedAtOnce bounds the records read in one step by a scan.
	scannedAtOnce = 512
	maxScans      = 1024
)

// All begins a scan of a job's entries on this peer, in place of an earlier one.
func (s *Scans) All(js *JobState) {
	s.list = slices.DeleteFunc(s.list, func(c *Scan) bool { return c.job == js && c.schedules() })
	s.list = append(s.list, &Scan{from: []byte{ondisk.SpaceHost}, to: []byte{ondisk.SpaceHost + 1}, job: js, by: js.Refresh})
}

// Reset begins a scan that makes the URLs of a job pending again whose outcomes a worker reported.
func (s *Scans) Reset(js *JobState, worker string) {
	from, to := []byte{ondisk.SpaceHost}, []byte{ondisk.SpaceHost + 1}
	for _, c := range s.list {
		if c.job == js && c.worker == worker {
			c.from = from // it may have reported more since the scan began
			return
		}
	}
	js.Checks++ // the job is not done before
	s.list = append(s.list, &Scan{from: from, to: to, job: js, worker: worker})
}

// reset makes a URL pending again that a worker reported. It is paid for already.
func (s *Scans) reset(h *Host, hj *Job, hash uint64, f *ondisk.Final, worker string) {
	if f.Holder != worker {
		return
	}
	if it := h.Lease.Item(hash); it != nil {
		if it.Check != nil {
			it.Check.Out = false
		}
		delete(h.Lease.Out, hash) // a visit of the page; a report of it is late then
	}
	hj.Reopen(hash, f, pageOf(f))
	s.hosts.Touched(h)
	s.agenda.Changed(h)
}

// pageOf reports whether an outcome was paid for by a page of the job's budget.
func pageOf(f *ondisk.Final) bool { return f.Outcome.Fetched() || f.Outcome == link.OutcomeNoIndex }

// Host begins a scan of a job's entries on a host, for a request; false if there are too many scans
// already.
func (s *Scans) Host(h *Host, js *JobState, a *wire.Again) bool {
	prefix := ondisk.JobPrefix(h.Pos, ondisk.KindEntry, js.ID)
	for _, c := range s.list {
		if c.job != js || c.again == nil || !bytes.HasPrefix(c.from, prefix) {
			continue
		}
		if at, was := a.GetAtS(), c.again.GetAtS(); at > was || at == was && a.GetNow() && !c.again.GetNow() {
			c.from, c.again = prefix, a // in place of an earlier request
		}
		return true
	}
	if len(s.list) >= maxScans {
		return false
	}
	s.list = append(s.list, &Scan{from: prefix, to: kv.PrefixEnd(prefix), job: js, again: a})
	return true
}

// Some reports whether a scan is in progress or due.
func (s *Scans) Some() bool {
	return len(s.list) > 0 || slices.ContainsFunc(s.jobs.Order, func(js *JobState) bool { return js.Known && js.visits.rescan })
}

// Rescan makes the entries of the job be scanned once more, also by a later process.
func (js *JobState) Rescan() {
	js.visits.rescan = true
	js.Scheduled(0)
}

// Visits reports whether the job makes visits of known pages by its refresh.
func (js *JobState) Visits() bool { return js.Known && js.State.Grants() && js.Refresh != 0 }

// Begin begins the scans of jobs whose entries are not all scheduled.
func (s *Scans) Begin() {
	for _, js := range s.jobs.Order {
		if js.Known && (js.visits.rescan || js.Refresh != 0 && !js.Schedules()) && !slices.ContainsFunc(s.list, func(c *Scan) bool { return c.job == js && c.schedules() }) {
			js.visits.rescan = false
			s.All(js)
		}
	}
}

// Go continues the first scan.
func (s *Scans) Go() {
	if len(s.list) == 0 {
		return
	}
	s.hosts.Flush()
	c := s.list[0]
	type found struct {
		key   []byte
		entry ondisk.Entry
	}
	var list []found
	for n := 0; n < scannedAtOnce; {
		var skip []byte
		end := true
		s.Buf.Scan(slices.Clone(c.from), c.to, func(key, value []byte) bool {
			n++
			end = false
			c.from = append(append(c.from[:0], key...), 0)
			pos := ring.Pos(key[1:])
			if prefix := ondisk.JobPrefix(pos, ondisk.KindEntry, c.job.ID); !bytes.HasPrefix(key, prefix) {
				if skip = prefix; bytes.Compare(key, prefix) > 0 {
					skip = ondisk.HostPrefix(pos, 0xff)
				}
			} else if e, err := ondisk.DecodeEntry(value); err != nil {
				s.Buf.Fail(err)
			} else if e.Done {
				list = append(list, found{slices.Clone(key), e})
			}
			return skip == nil && n < scannedAtOnce
		})
		if skip != nil {
			c.from = skip
		}
		if end || s.Buf.Err() != nil {
			c.from = c.to
			break
		}
	}
	for i := range list {
		key := list[i].key
		hash, ok := ondisk.HashIn(key[ondisk.JobPrefixLen:])
		if h := s.hosts.At(ring.Pos(key[1:])); ok && h != nil {
			hj := s.Book(h, s.jobs.Of(ondisk.JobIn(key)))
			if c.worker != "" {
				s.reset(h, hj, hash, &list[i].entry.Final, c.worker)
			} else {
				s.one(h, hj, hash, &list[i].entry.Final, c.again)
			}
		}
	}
	if string(c.from) >= string(c.to) {
		if s.list = s.list[1:]; c.worker != "" {
			c.job.Checks--
		} else if c.again == nil {
			c.job.Scheduled(c.by)
			s.jobs.Changed(c.job)
		}
	}
}

// one sets the time of the next visit of a URL.
func (s *Scans) one(h *Host, hj *Job, hash uint64, f *ondisk.Final, a *wire.Again) {
	next := *f
	s.hosts.Touched(h)
	switch {
	case ondisk.Knows(f.Outcome) < pageKnown || a != nil && f.LastVisit() > a.GetAtS():
		return
	case a != nil && a.GetNow():
		next.Revisit.Due = ondisk.DueAsked
	case a != nil:
		next.Revisit.Due = ondisk.Seconds(s.Now)
	case f.Revisit.Due == ondisk.DueAsked:
		return
	default:
		next.Revisit.Due = s.jobs.Due(hj, hash, f, fresh.Unchanged)
	}
	if next.Revisit.Due != f.Revisit.Due {
		hj.Correct(hash, f, &next)
		s.agenda.Changed(h)
	}
}

// Signal makes the visit of a page earlier that a signal states to have changed: it counts as time
// without a visit.
func (s *Scans) Signal(h *Host, hj *Job, url string, kind ondisk.Signal, at uint32) {
	hash := link.Hash(hj.State.ID, url)
	n, ok := hj.Entry(hash)
	f := &n.Final
	if r := &f.Revisit; !ok || !n.Done || r.Due <= ondisk.DueAsked || r.Signal != 0 || f.LastVisit() >= at || at > ondisk.Seconds(s.Now+s.Cfg.Day.Milliseconds()) {
		return
	}
	next := *f
	earlier := s.RateOf(hj, f).Elapsed(h.Rec.Signals[kind-1].Mean()) * s.Cfg.Day.Seconds()
	next.Revisit.Signal = kind
	next.Revisit.Due = uint32(min(max(float64(f.Revisit.Due)-earlier, float64(ondisk.Seconds(s.Now))), float64(f.Revisit.Due)))
	hj.Correct(hash, f, &next)
	s.agenda.Changed(h)
}

// URL makes a page due for a request; false if the URL is none.
func (s *Scans) URL(h *Host, hj *Job, hash uint64, a *wire.Again) bool {
	n, ok := hj.Entry(hash)
	if ok = ok && n.Done && ondisk.Knows(n.Final.Outcome) >= pageKnown; ok {
		s.one(h, hj, hash, &n.Final, a)
	}
	return ok
}
