package owner

import (
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// host is a host in memory.
type host struct {
	key  ring.Key
	pos  ring.Pos
	rec  ondisk.Host
	jobs []*hostJob

	saved, dirty bool
	work         byte // flags of the work index as stored
	turn         int  // job that is served first next time

	tenure
	search     search
	purging    bool
	hangs      hangs
	rester     int // number in Owner.resters, from 1 on; 0: it is not there
	wakeAt     int64
	heap       int // index in wakes, -1 if absent
	queued     bool
	moved      bool // it stands in agenda.moved
	newer, old *host
	in         *lru
}

// hostJob is a job on a host in memory.
type hostJob struct {
	state *jobState
	c     tally
	dirty bool
	late  int // URLs granted, of which some may be due again, see lateShare
	// novelty is what is known of its pages, nil if that was not read; news says that the store is to have it.
	novelty *novelty.State
	news    bool
	length  float64 // mean of the last URLs that were taken in, in bytes; 0: none was
	// askedAt is when the host's admission was asked for; 0: not yet.
	askedAt int64
	// from is the first place where a ready record that is not out may lie; dueFrom likewise, and nextDue (never if none) for delayed ones.
	from    ondisk.Spot
	nextDue int64
}

func (hj *hostJob) ready() int64   { return hj.c.Open() - hj.c.Delayed - (hj.c.out - hj.c.outD) }
func (hj *hostJob) waiting() int64 { return hj.c.Delayed - hj.c.outD }

// pages are those fetched, also if only their beginnings were taken.
func (hj *hostJob) pages() int64 {
	return hj.c.Outcomes[link.OutcomeOK] + hj.c.Outcomes[link.OutcomeDuplicate] + hj.c.Outcomes[link.OutcomeTooLarge]
}

const (
	workPending = 1
	workOutbox  = 2
)

// hostTable are the hosts in memory, found again in the store when they are not.
type hostTable struct {
	*step
	jobs       *jobTable
	agenda     *agenda
	rests      *rests
	traps      *traps
	byName     map[string]*host
	byPos      map[ring.Pos]*host
	busy, idle lru // with URLs that wait, and without
	totals     ondisk.Totals
	totalsMod  bool
	sweep      sweep
}

func newHostTable(s *step, jobs *jobTable, a *agenda, r *rests, t *traps) *hostTable {
	return &hostTable{step: s, jobs: jobs, agenda: a, rests: r, traps: t, byName: make(map[string]*host), byPos: make(map[ring.Pos]*host)}
}

// find returns a host in memory or in the store, nil if there is none.
func (t *hostTable) find(name string) *host {
	if h := t.byName[name]; h != nil {
		t.touch(h)
		return h
	}
	key := ring.HostKey(name)
	return t.load(ring.PosOf(key), name, key)
}

// at returns the host at a position, nil if there is none (any more).
func (t *hostTable) at(pos ring.Pos) *host {
	if h := t.byPos[pos]; h != nil {
		t.touch(h)
		return h
	}
	return t.load(pos, "", ring.Key{})
}

// open is find that makes the host where there is none.
func (t *hostTable) open(name string) *host {
	if h := t.find(name); h != nil {
		return h
	}
	name = strings.Clone(name) // it may be part of a URL, which need not live as long
	h := &host{key: ring.HostKey(name), heap: -1, wakeAt: never}
	h.pos, h.rec.Name = ring.PosOf(h.key), name
	t.keep(h)
	t.totals.Hosts++
	t.totalsMod = true
	t.touched(h)
	return h
}

func (t *hostTable) keep(h *host) {
	t.byName[h.rec.Name], t.byPos[h.pos] = h, h
	t.touch(h)
}

// touch notes that a host was used.
func (t *hostTable) touch(h *host) {
	if h.work&workPending != 0 {
		t.busy.touch(h)
	} else {
		t.idle.touch(h)
	}
}

// load reads a host from the store. A host that had a lease when the last process ended waits for TTL, unless its worker was that process.
func (t *hostTable) load(pos ring.Pos, name string, key ring.Key) *host {
	raw, ok := t.buf.Get(ondisk.HostKey(pos))
	if !ok {
		return nil
	}
	rec, err := ondisk.DecodeHost(raw)
	if err == nil && name != "" && rec.Name != name {
		err = ondisk.ErrFormat
	}
	if err != nil {
		t.buf.Fail(fmt.Errorf("owner: host record %x: %q: %w", pos, rec.Name, err))
		return nil
	}
	if name == "" {
		key = ring.HostKey(rec.Name)
	}
	h := &host{key: key, pos: pos, rec: rec, saved: true, heap: -1, wakeAt: never}
	t.loadJobs(h)
	if h.rec.Outbox > 0 {
		h.work |= workOutbox
	}
	if h.openURLs() > 0 {
		h.work |= workPending
	}
	if h.rec.Worker != "" {
		// The note stays until the next lease: should this process end as well before the wait is over, the next one waits again.
		h.rec.Owe(t.start + t.cfg.Delay.Milliseconds())
		if h.rec.Worker != t.cfg.Self {
			h.barUntil(t.start + t.cfg.TTL.Milliseconds())
		}
	}
	t.rests.back(h)
	t.keep(h)
	t.agenda.changed(h)
	return h
}

func (t *hostTable) loadJobs(h *host) {
	prefix := ondisk.HostPrefix(h.pos, ondisk.KindCounters)
	t.buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		id, ok := job.IDFrom(key[len(prefix):])
		c, err := ondisk.DecodeCounters(value)
		if !ok {
			err = ondisk.ErrFormat
		}
		if err != nil {
			t.buf.Fail(fmt.Errorf("owner: counters of %s: %w", h.rec.Name, err))
			return false
		}
		js := t.jobs.of(id)
		h.jobs = append(h.jobs, &hostJob{state: js, c: newTally(js, c), nextDue: never})
		return true
	})
	for _, hj := range h.jobs {
		if hj.c.Delayed > 0 {
			hj.nextDue = t.firstDue(h, hj)
		}
	}
}

// firstDue reads when the first delayed record is due.
func (t *hostTable) firstDue(h *host, hj *hostJob) int64 {
	due := never
	prefix := ondisk.JobPrefix(h.pos, ondisk.KindDelayed, hj.state.id)
	t.buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, _ []byte) bool {
		if at, ok := ondisk.DelayedSpot(key[len(prefix):]); ok {
			due = at.Due
		}
		return false
	})
	return due
}

// kept says whether the host is in memory; one that was dropped may stand in a list yet.
func (h *host) kept() bool { return h.in != nil }

// openURLs counts the host's URLs without an outcome.
func (h *host) openURLs() (n int64) {
	for _, hj := range h.jobs {
		n += hj.c.Open()
	}
	return n
}

// unleased counts those of them that are not out.
func (h *host) unleased() (n int64) {
	for _, hj := range h.jobs {
		n += hj.c.Open() - hj.c.out
	}
	return n
}

// job returns the host's part of a job, made if create.
func (h *host) job(js *jobState, create bool) *hostJob {
	for _, hj := range h.jobs {
		if hj.state == js {
			return hj
		}
	}
	if !create {
		return nil
	}
	hj := &hostJob{state: js, c: newTally(js, ondisk.Counters{MinDepth: 1<<32 - 1}), nextDue: never}
	h.jobs = append(h.jobs, hj)
	return hj
}

// touched notes that a host's record has changed, which therefore is saved, and scheduled.
func (t *hostTable) touched(h *host) {
	t.agenda.changed(h)
	if !h.dirty {
		h.dirty = true
		t.dirty = append(t.dirty, h)
	}
}

func (t *hostTable) changed(h *host, hj *hostJob) {
	hj.dirty = true
	t.touched(h)
	t.jobs.changed(hj.state)
}

func (t *hostTable) save(h *host) {
	h.dirty, h.saved = false, true
	h.rec.Version++
	t.rests.note(h)
	t.buf.Set(ondisk.HostKey(h.pos), h.rec.Encode())
	if h.rec.OptOut.On {
		t.buf.Set(ondisk.OptOutKey(h.pos), append([]byte{ondisk.Format}, h.rec.Name...))
	} else if h.rec.OptOut.Version > 0 {
		t.buf.Delete(ondisk.OptOutKey(h.pos))
	}
	var work byte
	for _, hj := range h.jobs {
		if hj.dirty {
			hj.dirty = false
			t.buf.Set(ondisk.CountersKey(h.pos, hj.state.id), hj.c.Encode())
			t.traps.save(h, hj)
		}
		if hj.c.Open() > 0 {
			work |= workPending
		}
	}
	if h.rec.Outbox > 0 {
		work |= workOutbox
	}
	if work == h.work {
		return
	}
	h.work = work
	if h.kept() {
		t.touch(h)
	}
	if work == 0 {
		t.buf.Delete(ondisk.WorkKey(h.pos))
	} else {
		t.buf.Set(ondisk.WorkKey(h.pos), []byte{ondisk.Format, work})
	}
}

// maxSessions is the number of workers beyond which those without anything to do are forgotten.
const maxSessions = 256

// evict drops hosts from memory, those without URLs that wait first, and of each kind the longest untouched. Called when everything is flushed.
func (o *Owner) evict() {
	o.hosts.evict(&o.hosts.idle)
	o.hosts.evict(&o.hosts.busy)
	if !o.reviewer.review.reviewing() {
		o.jobs.evict(o.hosts.byName)
	}
	if len(o.placer.sessions) > maxSessions {
		for peer, s := range o.placer.sessions {
			if len(s.leases) == 0 && len(s.offers) == 0 && o.now-s.heard > o.cfg.TTL.Milliseconds() {
				delete(o.placer.sessions, peer)
			}
		}
	}
}

func (t *hostTable) evict(l *lru) {
	for h := l.oldest; h != nil && len(t.byName) > t.cfg.MaxHosts; {
		next := h.newer
		if h.lease == nil && h.search.state == searchIdle && !h.barred(t.now) && h.frozen == 0 && !h.purging && !h.dirty {
			t.rests.leave(h)
			t.forget(h)
		}
		h = next
	}
}

func (t *hostTable) forget(h *host) {
	if h.work&workPending != 0 {
		t.sweep.wanted, t.sweep.dropped = true, true
	}
	t.agenda.wakes.remove(h)
	t.rests.forget(h)
	h.in.remove(h)
	delete(t.byName, h.rec.Name)
	delete(t.byPos, h.pos)
}
