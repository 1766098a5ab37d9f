package hosts

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trust"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// Table caches hosts in memory and loads them from the store.
type Table struct {
	*Step
	jobs       *JobTable
	agenda     *Agenda
	rests      *Rests
	traps      *Traps
	checks     *Checks
	ByName     map[string]*Host
	ByPos      map[ring.Pos]*Host
	Busy, Idle Lru // with waiting URLs, and without
	Totals     ondisk.Totals
	TotalsMod  bool
	Sweep      sweep
	visitsAt   int64  // when hosts with due visits are loaded next
	visitsFrom []byte // where the search for them continues
}

// KeyOf returns the ring key of a host name.
func (t *Table) KeyOf(name string) ring.Key {
	if h := t.ByName[name]; h != nil {
		return h.Key
	}
	return ring.HostKey(name)
}

// Find returns a host from memory or the store, nil if there is none.
func (t *Table) Find(name string) *Host {
	if h := t.ByName[name]; h != nil {
		t.touch(h)
		return h
	}
	key := ring.HostKey(name)
	return t.load(ring.PosOf(key), name, key)
}

// At returns the host at a position, nil if there is none.
func (t *Table) At(pos ring.Pos) *Host {
	if h := t.ByPos[pos]; h != nil {
		t.touch(h)
		return h
	}
	return t.load(pos, "", ring.Key{})
}

// Open returns a host, created if missing.
func (t *Table) Open(name string) *Host {
	if h := t.Find(name); h != nil {
		return h
	}
	name = strings.Clone(name) // it may be a substring of a URL, which must not stay in memory
	h := &Host{Key: ring.HostKey(name), heap: -1, wakeAt: Never}
	h.Pos, h.Rec.Name = ring.PosOf(h.Key), name
	t.keep(h)
	t.Totals.Hosts++
	t.TotalsMod = true
	t.Touched(h)
	return h
}

func (t *Table) keep(h *Host) {
	t.ByName[h.Rec.Name], t.ByPos[h.Pos] = h, h
	t.touch(h)
}

// touch marks a host as used.
func (t *Table) touch(h *Host) {
	if h.work&workPending != 0 {
		t.Busy.touch(h)
	} else {
		t.Idle.touch(h)
	}
}

// load reads a host from the store. A host leased when the last process ended waits for TTL, unless
// its worker was that process.
func (t *Table) load(pos ring.Pos, name string, key ring.Key) *Host {
	raw, ok := t.Buf.Get(ondisk.HostKey(pos))
	if !ok {
		return nil
	}
	rec, err := ondisk.DecodeHost(raw)
	if err == nil && name != "" && rec.Name != name {
		err = ondisk.ErrFormat
	}
	if err != nil {
		t.Buf.Fail(fmt.Errorf("owner: host record %x: %q: %w", pos, rec.Name, err))
		return nil
	}
	if name == "" {
		key = ring.HostKey(rec.Name)
	}
	h := &Host{Key: key, Pos: pos, Rec: rec, saved: true, heap: -1, wakeAt: Never}
	for _, a := range t.Ledger.Load(rec.Name, pos, h, func(id job.ID) *ledger.Job { return t.jobs.Of(id).Job }) {
		h.Jobs = append(h.Jobs, &Job{Account: a, State: t.jobs.Of(a.Job.ID)})
	}
	if h.Rec.Outbox > 0 {
		h.work |= WorkOutbox
	}
	if slices.ContainsFunc(h.Jobs, func(hj *Job) bool { return hj.Tally.Open() > 0 }) {
		h.work |= workPending
	}
	h.visitAt = h.firstVisit()
	if h.Rec.Worker != "" {
		// The entry stays until the next lease: if this process ends before the wait is over, the next
		// one waits again.
		h.Rec.Owe(t.Start + t.Cfg.Delay.Milliseconds())
		if h.Rec.Worker != t.Cfg.Self {
			h.barUntil(t.Start + t.Cfg.TTL.Milliseconds())
		}
	}
	t.rests.back(h)
	t.keep(h)
	t.agenda.Changed(h)
	return h
}

// Touched marks a changed host to be saved and scheduled.
func (t *Table) Touched(h *Host) {
	t.agenda.Changed(h)
	if !h.dirty {
		h.dirty = true
		t.dirty = append(t.dirty, h)
	}
}

// Collect marks the hosts and jobs of changed accounts.
func (t *Table) Collect() {
	t.Ledger.Changed(func(a *ledger.Account) {
		if h := t.ByPos[a.Pos]; h != nil {
			t.Touched(h)
		}
		t.jobs.Changed(t.jobs.Of(a.Job.ID))
	})
}

// index adds a host to an index or removes it.
func (t *Table) index(key []byte, in bool, name string) {
	if in {
		t.Buf.Set(key, append([]byte{ondisk.Format}, name...))
	} else {
		t.Buf.Delete(key)
	}
}

func (t *Table) save(h *Host) {
	h.dirty, h.saved = false, true
	h.Rec.Version++
	t.Buf.Set(ondisk.HostKey(h.Pos), h.Rec.Encode())
	if o := &h.Rec.OptOut; o.Version > 0 {
		t.index(ondisk.OptOutKey(h.Pos), o.Out(), h.Rec.Name)
		t.index(ondisk.ClaimKey(h.Pos), o.Unproved, h.Rec.Name)
	}
	var work byte
	for _, hj := range h.Jobs {
		hj.Save()
		t.traps.save(h, hj)
		if hj.Tally.Open() > 0 {
			work |= workPending
		}
	}
	if h.Rec.Outbox > 0 {
		work |= WorkOutbox
	}
	t.indexVisits(h)
	if work == h.work {
		return
	}
	h.work = work
	if h.Kept() {
		t.touch(h)
	}
	if work == 0 {
		t.Buf.Delete(ondisk.WorkKey(h.Pos))
	} else {
		t.Buf.Set(ondisk.WorkKey(h.Pos), []byte{ondisk.Format, work})
	}
}

// Evict drops the least recently used hosts while too many are in memory.
func (t *Table) Evict(l *Lru) {
	for h := l.Oldest; h != nil && len(t.ByName) > t.Cfg.MaxHosts; {
		next := h.Newer
		if h.Lease == nil && len(h.Checks) == 0 && h.Search.State == SearchIdle && !h.Barred(t.Now) && h.Frozen == 0 && !h.purging && !h.dirty {
			t.rests.leave(h)
			t.Forget(h)
		}
		h = next
	}
}

// Forget drops a host from memory.
func (t *Table) Forget(h *Host) {
	if h.work&workPending != 0 {
		t.Sweep.Wanted, t.Sweep.dropped = true, true
	}
	if h.visitAt > 0 {
		t.visitsAt = min(t.visitsAt, max(int64(h.visitAt)*1000, t.Now+visitsAgain))
	}
	t.checks.Unclear(h, func(*Check) bool { return true })
	t.agenda.Wakes.remove(h)
	h.in.remove(h)
	delete(t.ByName, h.Rec.Name)
	delete(t.ByPos, h.Pos)
}

// Answer is the peer that is responsible for a host.
type Answer uint8

const (
	Here  Answer = iota // this peer
	Moved               // another peer
	Busy                // none at present: the records are being transferred
)

// AnswersFor reports whether this peer may change a host's record now.
func (t *Table) AnswersFor(name string) Answer {
	h := t.ByName[name]
	if h == nil {
		key := ring.HostKey(name)
		if !t.Ring.Mine(key) {
			return Moved
		}
		if h = t.load(ring.PosOf(key), name, key); h == nil {
			return Here
		}
	}
	switch {
	case h.Frozen > 0:
		return Busy
	case !t.Ring.Mine(h.Key):
		return Moved
	default:
		return Here
	}
}

// Worker returns what is known of a worker.
func (t *Table) Worker(id string) *trust.Worker { return t.checks.Workers.Of(id) }

// SpeaksFor reports whether this peer may answer a worker about a host. Unlike for a link, the host
// must be synced, since a missing record may name a lease. A worker whose lease is known here gets
// an answer in any case.
func (t *Table) SpeaksFor(name string, s *Session, epoch *wire.Epoch) Answer {
	verdict := t.AnswersFor(name)
	if verdict == Here && !t.Cfg.Settled(t.KeyOf(name)) && !t.ByName[name].LeasedTo(s, epoch) {
		return Busy
	}
	return verdict
}

// Learnt marks the trap state of a job on a host to be written with the step.
func (t *Table) Learnt(h *Host, hj *Job) {
	hj.TrapMod = true
	t.Touched(h)
}

// Flush writes the changes; called between operations only.
func (t *Table) Flush() {
	t.Collect()
	for _, h := range t.dirty {
		t.save(h)
	}
	t.dirty = t.dirty[:0]
	for _, js := range t.dirtyJobs {
		t.jobs.save(js)
	}
	t.dirtyJobs = t.dirtyJobs[:0]
	if t.TotalsMod {
		t.Buf.Set([]byte{ondisk.SpaceTotals}, t.Totals.Encode())
		t.TotalsMod = false
	}
	t.Buf.Flush()
}

// SweepSome loads hosts with work that are not in memory, a bounded number of them.
func (t *Table) SweepSome() {
	s := &t.Sweep
	if !s.Wanted || s.NextAt > t.Now {
		return
	}
	if t.agenda.Searches.Queue.len() > t.Cfg.MaxPlacing { // they come first: each loaded host may evict one
		s.NextAt = t.Now + sweepEvery
		return
	}
	if len(t.agenda.Purges.list) > SweepHosts { // they stay in memory until their URLs have outcomes
		return
	}
	t.Flush()
	if s.Cursor == nil {
		s.dropped = false
		s.Cursor = []byte{ondisk.SpaceWork}
	}
	var missing []ring.Pos
	end, passed := true, 0
	t.Buf.Scan(slices.Clone(s.Cursor), []byte{ondisk.SpaceWork + 1}, func(key, value []byte) bool {
		if passed++; len(missing) == SweepHosts || passed > SweepPasses {
			end = false
			return false
		}
		s.Cursor = append(append(s.Cursor[:0], key...), 0)
		if len(key) == 1+ring.PosSize && len(value) >= 2 && value[1]&workPending != 0 && t.ByPos[ring.Pos(key[1:])] == nil {
			missing = append(missing, ring.Pos(key[1:]))
		}
		return true
	})
	for _, pos := range missing {
		t.load(pos, "", ring.Key{})
	}
	if end {
		s.Cursor, s.Wanted = nil, s.dropped
	}
	s.NextAt = math.MinInt64
	if t.Busy.n+SweepHosts > t.Cfg.MaxHosts {
		s.NextAt = t.Now + sweepEvery
	}
}

// Parts holds the components of this package. Each depends only on those above it.
type Parts struct {
	Jobs    *JobTable
	Rests   *Rests
	Domains *Domains
	Traps   *Traps
	Agenda  *Agenda
	Table   *Table
	Scans   *Scans
	Checks  *Checks
}

// New returns the parts, without any host.
func New(s *Step) *Parts {
	p := &Parts{
		Jobs:    &JobTable{Step: s, Away: JobState{Job: new(ledger.Job)}, ByID: make(map[job.ID]*JobState), asked: make(map[job.ID]int64)},
		Rests:   &Rests{Step: s, Away: make(Away)},
		Domains: &Domains{Step: s, Full: make(map[DomainJob]domain.Verdict)},
		Traps:   &Traps{Step: s},
	}
	p.Agenda = &Agenda{Step: s, jobs: p.Jobs, domains: p.Domains, Searches: Searches{most: s.Cfg.MaxPlacing, refused: max(s.Cfg.MaxPlacing-leastPlacing, 0)}}
	p.Table = &Table{
		Step: s, jobs: p.Jobs, agenda: p.Agenda, rests: p.Rests, traps: p.Traps,
		ByName: make(map[string]*Host), ByPos: make(map[ring.Pos]*Host),
	}
	p.Scans = &Scans{Step: s, jobs: p.Jobs, hosts: p.Table, agenda: p.Agenda}
	p.Checks = &Checks{Step: s, Workers: &Workers{Step: s, known: make(map[string]*trust.Worker)}, agenda: p.Agenda}
	p.Table.checks = p.Checks
	return p
}

// spread limits the new hosts of a job that link farms bring, on this peer and in memory alone.
type spread struct {
	row     int             // hosts in a row that led to new hosts and to no known one
	last    [maxLast]uint64 // of them, those counted last
	domains map[string]*domainHosts
}

// domainHosts counts the hosts of a registrable domain.
type domainHosts struct {
	own     int      // new hosts of the domain that its own hosts brought
	linkers []uint64 // hosts of other domains that link to it
}

const (
	// maxRow hosts in a row that lead to new hosts and to no known one bring no more.
	maxRow  = 400
	maxLast = 64
	// A domain's own hosts bring ownHosts new hosts of the domain, and linkedHosts more for each host
	// of another domain that links to it, of maxLinkers.
	ownHosts    = 1000
	linkedHosts = 100
	maxLinkers  = 64
	maxSpread   = 1 << 12 // domains
)

var spreadSeed = maphash.MakeSeed()

// Leads counts a page of a host that links to new hosts, home if also to a known one other than its
// own; false: it brings none of them.
func (sp *spread) Leads(host string, home bool) bool {
	if home {
		sp.row = 0
		return true
	}
	if sp.row >= maxRow {
		return false
	}
	sum := maphash.String(spreadSeed, host)
	if slices.Contains(sp.last[:], sum) {
		return true
	}
	sp.last[sp.row%maxLast] = sum
	sp.row++
	return true
}

// Brings reports whether a host may bring a new host, and counts it.
func (sp *spread) Brings(from, host string) bool {
	of := domain.Of(host)
	k := sp.domains[of]
	if k == nil {
		if sp.domains == nil || len(sp.domains) >= maxSpread {
			sp.domains = make(map[string]*domainHosts)
		}
		k = new(domainHosts)
		sp.domains[of] = k
	}
	if domain.Of(from) == of {
		k.own++
		return k.own <= ownHosts+linkedHosts*len(k.linkers)
	}
	sum := maphash.String(spreadSeed, from)
	if slices.Contains(k.linkers, sum) {
		return true
	}
	if len(k.linkers) < maxLinkers {
		k.linkers = append(k.linkers, sum)
	}
	return true
}
