package owner

import (
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
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

// hostJob is a job on a host in memory: its books, and what else is known of it.
type hostJob struct {
	*ledger.Account
	state *jobState
	late  int // URLs granted, of which some may be due again, see lateShare
	// novelty is what is known of its pages, nil if that was not read; news says that the store is
	// to have it.
	novelty *novelty.State
	news    bool
	// askedAt is when the host's admission was asked for; 0: not yet.
	askedAt int64
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

// load reads a host from the store. A host that had a lease when the last process ended waits for
// TTL, unless its worker was that process.
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
	for _, a := range t.ledger.Load(rec.Name, pos, h, func(id job.ID) *ledger.Job { return t.jobs.of(id).Job }) {
		h.jobs = append(h.jobs, &hostJob{Account: a, state: t.jobs.of(a.Job.ID)})
	}
	if h.rec.Outbox > 0 {
		h.work |= workOutbox
	}
	if h.openURLs() > 0 {
		h.work |= workPending
	}
	if h.rec.Worker != "" {
		// The note stays until the next lease: should this process end as well before the wait is
		// over, the next one waits again.
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

// Number implements ledger.Sequence.
func (h *host) Number() uint64 { return h.rec.Number() }

// kept says whether the host is in memory; one that was dropped may stand in a list yet.
func (h *host) kept() bool { return h.in != nil }

// openURLs counts the host's URLs without an outcome.
func (h *host) openURLs() (n int64) {
	for _, hj := range h.jobs {
		n += hj.Tally.Open()
	}
	return n
}

// unleased counts those of them that are not out.
func (h *host) unleased() (n int64) {
	for _, hj := range h.jobs {
		n += hj.Tally.Unleased()
	}
	return n
}

// job returns the host's part of a job, nil if it has none.
func (h *host) job(js *jobState) *hostJob {
	for _, hj := range h.jobs {
		if hj.state == js {
			return hj
		}
	}
	return nil
}

// book is the host's part of a job, opened if it has none.
func (s *step) book(h *host, js *jobState) *hostJob {
	hj := h.job(js)
	if hj == nil {
		hj = &hostJob{Account: s.ledger.Open(js.Job, h.pos, h), state: js}
		h.jobs = append(h.jobs, hj)
	}
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

// collect takes in which accounts have changed: their hosts and jobs have, too.
func (t *hostTable) collect() {
	t.ledger.Changed(func(a *ledger.Account) {
		if h := t.byPos[a.Pos]; h != nil {
			t.touched(h)
		}
		t.jobs.changed(t.jobs.of(a.Job.ID))
	})
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
		hj.Save()
		t.traps.save(h, hj)
		if hj.Tally.Open() > 0 {
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

// evict drops hosts from memory, those without URLs that wait first, and of each kind the longest
// untouched. Called when everything is flushed.
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
