package owner

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// restAfter nobody was found for a host, or found nothing to do, it is left alone for so long.
	restAfter = 500
	// unreadAfter in ms a lease is looked at again whose renewal may be among the inputs that wait.
	unreadAfter = 50
	// maxExcluded workers that did not take a host, then its owner does.
	maxExcluded = 3
	// offerURLs is how much backlog an offer that is not answered yet stands for.
	offerURLs = 8
	// grownFactor times what a host has to have to be placed by measure, it is placed anew if it
	// was not.
	grownFactor = 4
	// leastPlacing hosts are placed at a time even while nobody seems to have room.
	leastPlacing = 32

	// Why a host is placed anew.
	anewSlower   = "placed anew, as fetches had become slower"
	anewRelieved = "placed anew, as its worker had its hands full"
	anewGrown    = "placed anew, as the host had grown"
)

// agenda is when something is to be done for hosts, and which of them wait for their turn.
type agenda struct {
	*step
	jobs     *jobTable
	domains  *domains
	rests    *rests
	wakes    wakes
	searches searches
	purges   purges
	moved    []*host // of which something has changed since they were scheduled
}

// evaluate does for a host what its time has come for.
func (o *Owner) evaluate(h *host) {
	if h.frozen <= o.now {
		h.thaw()
	}
	switch {
	case !h.lapsed(o.now):
	case h.lease.spokenOf():
		h.lease.expires = o.now + o.cfg.TTL.Milliseconds()
	case h.lease.expires > o.read:
		h.lease.lookAt = o.now + unreadAfter
	default:
		h.rec.Owe(o.owedAfter(h.lease.expires))
		o.leases.end(h, o.leases.lapse(h.lease), 0)
	}
	if h.search.state != searchIdle && h.search.until <= o.now {
		o.placer.declined(h, h.search.offered)
	}
	if o.agenda.mayBePlaced(h) {
		o.agenda.searches.queue.add(h) // those that wait already have their turns as well
	}
	o.agenda.changed(h)
}

// mayBePlaced says whether a worker is to be looked for now.
func (a *agenda) mayBePlaced(h *host) bool {
	return h.search.state == searchIdle && a.placeAt(h) <= a.now
}

// changed notes that something of a host is not as it was: it is scheduled before the step is over.
func (a *agenda) changed(h *host) {
	if !h.moved {
		h.moved = true
		a.moved = append(a.moved, h)
	}
}

// settle schedules the hosts that have changed. It is the one place that does.
func (a *agenda) settle() {
	for _, h := range a.moved {
		h.moved = false
		if h.kept() {
			a.schedule(h)
		}
	}
	clear(a.moved)
	a.moved = a.moved[:0]
}

// schedule sets when a host is evaluated next.
func (a *agenda) schedule(h *host) {
	purge := min(a.checkPurge(h), a.domains.ask(h))
	var at int64
	switch {
	case h.changesAt() != never:
		at = h.changesAt()
	case h.search.state != searchIdle:
		at = h.search.until
	default:
		if at = a.placeAt(h); at <= a.now && (h.queued || !a.searches.room()) {
			a.searches.queue.add(h)
			at = never
		}
	}
	a.wakes.set(h, min(at, purge))
	a.rests.note(h)
}

// jobAt is the earliest time at which a job may give URLs of a host; never if only something else
// can change that.
func (a *agenda) jobAt(h *host, hj *hostJob) int64 {
	at := hj.NextDue()
	if hj.Tally.Ready() > 0 {
		at = 0
	}
	js := hj.state
	if at == never || !a.jobs.knows(js) || !js.State.Grants() || !a.domains.admitted(h, hj) {
		return never
	}
	if _, dead := a.fate(h, hj); dead || hj.pagesLeft() <= 0 && hj.Tally.PromisedHere() == 0 || a.requestsLeft(hj) <= 0 {
		return never
	}
	if hj.Tally.PromisedHere() == 0 && !a.jobs.affords(js) {
		js.Budget.Starved = js.Budget.Starved || at <= a.now
		return never
	}
	return at
}

// urlsAt is the earliest time at which there is a URL of a host to grant.
func (a *agenda) urlsAt(h *host) int64 {
	at := never
	for _, hj := range h.jobs {
		at = min(at, a.jobAt(h, hj))
	}
	return at
}

// starved says whether URLs of a host wait for a part of their job's budget.
func (h *host) starved() bool {
	for _, hj := range h.jobs {
		if hj.state.Budget.Starved && !hj.state.Exhausted() && hj.Tally.Ready()+hj.Tally.Waiting() > 0 {
			return true
		}
	}
	return false
}

// placeAt is when a worker is to be looked for, for a host without.
func (a *agenda) placeAt(h *host) int64 {
	if h.lease != nil || h.frozen > 0 || h.purging {
		return never
	}
	at := a.urlsAt(h)
	if at == never || !a.ring.Mine(h.key) || !a.cfg.Settled(h.key) {
		return never
	}
	polite := max(a.politeAt(h), h.rec.BackoffUntil) - a.cfg.PlaceAhead.Milliseconds()
	return max(at, h.bar, h.search.rest, polite)
}

// SettledChanged says that the ring, or [Config.Settled], may answer otherwise than before: hosts
// that waited for that are looked at again. Part of a step; with thousands of hosts in memory, over
// the next ones.
func (o *Owner) SettledChanged() {
	o.reviewer.all(false)
	o.hosts.sweep.wanted, o.hosts.sweep.cursor, o.hosts.sweep.nextAt = true, nil, 0
}

// placer looks for workers for hosts, and knows the workers.
type placer struct {
	*step
	agenda   *agenda
	hosts    *hostTable
	sessions map[string]*session
}

func (pl *placer) ask(h *host) {
	pl.agenda.searches.under++
	if others := h.search.ask(pl.now + pl.cfg.PlaceTimeout.Milliseconds()); !others {
		pl.offer(h, pl.cfg.Self)
		return
	}
	n := h.unleased()
	h.search.tiny = n < pl.cfg.PlaceMin
	p := Place{
		Host: h.rec.Name, Addrs: h.rec.Addrs, Pending: n, Tiny: h.search.tiny, Known: h.rec.Placed, Exclude: slices.Clone(h.search.exclude),
		Secure: h.rec.Secure, Remeasure: h.search.remeasure, Measured: slices.Clone(h.rec.Measured), NotBefore: time.UnixMilli(pl.politeAt(h)),
	}
	if h.rec.PlacedAt > 0 {
		p.MeasuredAt = time.UnixMilli(h.rec.PlacedAt)
	}
	pl.reserve(h, &p)
	pl.ready.Places = append(pl.ready.Places, p)
}

// reserve keeps a host from being fetched from while candidates may send requests to measure it. It
// is on disk before the first of them, and goes along with the host's record: should this peer die
// meanwhile, whoever is the owner then waits as well.
func (pl *placer) reserve(h *host, p *Place) {
	if pl.cfg.RequestTime <= 0 || h.search.tiny || h.rec.BackoffUntil > pl.now {
		return
	}
	polite := pl.politeAt(h)
	until := max(pl.now, polite, 1) + pl.cfg.RequestTime.Milliseconds()
	h.search.reserve(polite, until)
	h.rec.Reserve(until)
	p.RequestsUntil = time.UnixMilli(until)
	pl.hosts.touched(h)
}

// unreserve ends the time of requests that measure: what is owed is what was owed before, and what
// is for those that were made.
func (pl *placer) unreserve(h *host, owed time.Time) {
	before, until := h.search.unreserve()
	if before == 0 {
		return
	}
	h.rec.Unreserve(until, before)
	if !owed.IsZero() {
		h.rec.Owe(min(owedFor(owed), pl.now+pl.cfg.MaxRetryAfter.Milliseconds()))
	}
	pl.hosts.touched(h)
}

// Placement is the answer to a [Place].
type Placement struct {
	// Worker is the one chosen; empty for none but this peer.
	Worker string
	// URLs bounds how many URLs the worker may fetch before the host is placed anew; 0: no bound.
	URLs int
	// Pace is by how much the host is to be asked less often than usual; 1 or less: as usual.
	Pace float64
	// Measured is what the candidates measured, Why says why it was this worker.
	Measured []ondisk.Measurement
	Why      string // reason of the choice, in words
	// NotBefore is until when politeness is owed for requests that were made to measure; zero if
	// none was.
	NotBefore time.Time
}

// Placed brings the answer to a Place. Part of a step.
func (o *Owner) Placed(name string, p Placement) {
	h := o.hosts.byName[name]
	if h == nil || h.search.state != searchAsked {
		return
	}
	o.placer.unreserve(h, p.NotBefore)
	if !o.ring.Mine(h.key) || !o.cfg.Settled(h.key) {
		o.placer.end(h)
		o.agenda.changed(h)
		return
	}
	if p.Worker == "" {
		p.Worker = o.cfg.Self
	}
	if h.search.anew != "" {
		p.Why += "; " + h.search.anew
	}
	if h.rec.PlacedBy(p.Worker, p.Why, p.Measured, o.now) {
		o.hosts.touched(h)
	}
	h.search.found(&p)
	o.placer.offer(h, p.Worker)
	o.agenda.changed(h)
}

// offer offers a host to a worker that has room.
func (pl *placer) offer(h *host, worker string) {
	s := pl.sessions[worker]
	if s != nil && pl.now-s.heard <= pl.cfg.TTL.Milliseconds() && s.capacity > 0 && int64(s.backlog)+int64(offerURLs*len(s.offers)) >= int64(s.capacity) {
		pl.declined(h, worker)
		return
	}
	if s == nil {
		s = &session{peer: worker, leases: make(map[*host]struct{})}
		pl.sessions[worker] = s
	}
	s.offers = append(s.offers, h)
	h.search.offer(worker, pl.now+pl.cfg.OfferTimeout.Milliseconds())
	for i := range pl.ready.Offers {
		if offer := &pl.ready.Offers[i]; offer.Worker == worker && len(offer.Hosts) < wire.MaxHosts {
			offer.Hosts = append(offer.Hosts, h.rec.Name)
			return
		}
	}
	pl.ready.Offers = append(pl.ready.Offers, Offer{worker, []string{h.rec.Name}})
}

// Declined says that a worker does not take hosts, or could not be told of them. Part of a step.
func (o *Owner) Declined(worker string, hosts []string) {
	for _, name := range hosts {
		if h := o.hosts.byName[name]; h != nil && h.search.offeredTo(worker) {
			o.placer.declined(h, worker)
			o.agenda.changed(h)
		}
	}
}

// declined looks for another worker than that one, which does not take the host; if it is this peer
// itself, or nobody, after a rest.
func (pl *placer) declined(h *host, worker string) {
	if worker == pl.cfg.Self {
		pl.agenda.searches.declined()
	}
	h.search.refused(worker, pl.cfg.Self, pl.now)
	pl.end(h)
}

// end ends the search for a worker.
func (pl *placer) end(h *host) {
	if h.search.state == searchIdle {
		return
	}
	worker := h.search.offered
	if offered := h.search.end(); offered {
		s := pl.sessions[worker]
		at := slices.Index(s.offers, h)
		s.offers = slices.Delete(s.offers, at, at+1)
	}
	pl.agenda.searches.under--
}

// calibrate compares how long fetches take with how long they took when the worker was new (design,
// section 5), and has the host placed anew if they are slower several times in a row. A host that
// was too small to be placed by measure is placed so once it has grown.
func (pl *placer) calibrate(h *host, fetched []*wire.Fetched) {
	var sum, n uint64
	for _, f := range fetched {
		if f.GetFetchedMs() > 0 && f.GetDurationMs() > 0 {
			sum += uint64(f.GetDurationMs())
			n++
		}
	}
	if n == 0 || h.lease == nil {
		return
	}
	if h.search.tiny && h.unleased() >= grownFactor*pl.cfg.PlaceMin {
		h.search.again(anewGrown)
		h.search.tiny = false
	}
	if mean := uint32(min(sum/n, 1<<31)); h.rec.Slower(mean) { // bounded
		h.search.again(anewSlower)
		h.search.remeasure = true
	}
	pl.hosts.touched(h)
}
