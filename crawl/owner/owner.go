package owner

import (
	"fmt"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/buffer"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/storage/kv"
)

// Owner keeps the hosts that a peer owns. See the package comment for how it is driven. Not safe
// for concurrent use.
type Owner struct{ books }

// Ready is what a step came to. Nothing in it, and no reply of the step, may leave before Wait has
// returned nil; the Readys of consecutive steps are released in their order.
type Ready struct {
	// Wait returns when everything of the step is on disk.
	Wait func() error
	// Places are hosts for which a worker is to be chosen: answer with [Owner.Placed].
	Places []Place
	// Offers are to be sent to workers; what they decline, or fail to hear, goes to
	// [Owner.Declined].
	Offers []Offer
	// NeedJobs are jobs of which something arrived and that nobody told us of: fetch their spec,
	// then call [Owner.JobChanged].
	NeedJobs []job.ID
	// Draws go to the owners of the jobs; each is answered with [Owner.Drawn].
	Draws []Draw
	// Admissions go to the owners of the hosts' registrable domains; each is answered with
	// [Owner.Admitted].
	Admissions []Admission
	// Outbox says that [Owner.Outbox] has links to send.
	Outbox bool
	// Next is when a step is to be made even if nothing arrives; the zero time if never.
	Next time.Time
}

// Place asks for a worker for a host.
type Place struct {
	Host string // to be placed
	// Addrs of the site, 4 or 16 bytes each, where known.
	Addrs [][]byte
	// Pending URLs at present. With Tiny the host is not to be probed: its range's known worker or
	// the owner takes it.
	Pending int64
	Tiny    bool // too few URLs to be worth a probe
	// Known is the worker of the last placement, empty if there was none; Exclude are workers that
	// did not take the host.
	Known   string
	Exclude []string // do not ask these
	// Secure says that a URL of the host is https, so that a probe knows the port.
	Secure bool
	// Measured is what candidates measured for the last placement, at MeasuredAt. Remeasure says
	// that it does not hold any more: fetches have become slower.
	Measured   []ondisk.Measurement
	MeasuredAt time.Time // zero: never
	Remeasure  bool      // what was measured does not hold any more
	// NotBefore is until when politeness is owed to the host. RequestsUntil, unless it is zero,
	// lets candidates send requests to measure the host from then on (HEAD), one at a time, as
	// polite as fetches and under the same rules: nobody fetches before it, and none may be sent
	// behind it.
	NotBefore, RequestsUntil time.Time
}

// Offer asks a worker to take hosts.
type Offer struct {
	Worker string   // to be asked
	Hosts  []string // names
}

// New returns an owner over the state in the store, whose leases ended with the process that gave
// them. Now is the time of the lease clock, as in Begin.
func New(cfg Config, store kv.Store, seen Seen, jobs Jobs, ring Ring, now time.Time) (*Owner, error) {
	cfg.fill()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	at := now.UnixMilli()
	s := &step{cfg: cfg, ring: ring, seen: seen, specs: jobs, buf: buffer.New(store), now: at, start: at}
	s.ledger = ledger.New(s.buf, seen, s.boundsOf)
	o := &Owner{books{newParts(s)}}
	if o.jobs.load() {
		o.outgoing.box.Spill()
	}
	if raw, ok := o.buf.Get([]byte{ondisk.SpaceTotals}); ok {
		var err error
		if o.hosts.totals, err = ondisk.DecodeTotals(raw); err != nil {
			return nil, fmt.Errorf("owner: totals: %w", err)
		}
	}
	o.hosts.sweep.wanted = true
	if o.buf.Err() != nil {
		return nil, o.buf.Err()
	}
	return o, nil
}

// Begin opens a step at a time of the lease clock (design, section 4: it counts suspend, and never
// goes back; a step back is taken as no progress). Leases whose time is over have ended when it
// returns.
func (o *Owner) Begin(now time.Time) { o.BeginBehind(now, now) }

// BeginBehind is Begin while inputs wait that came after read: leases that ended later go on, as
// what renews them may be among those inputs. So an owner that is slow takes no host from workers
// that said in time that they hold it.
func (o *Owner) BeginBehind(now, read time.Time) {
	o.now, o.read = max(o.now, now.UnixMilli()), read.UnixMilli()
	o.ready, o.within = Ready{}, nil
	o.evaluateDue()
}

// What a step takes in at most beside its time, give or take a piece, so that what Commit makes of
// it takes some milliseconds as well.
const (
	// wantsAtOnce bounds the wishes for URLs that a step serves.
	wantsAtOnce = 64
	// writesAtOnce bounds what a step writes; a host that has changed comes to about writesOfHost.
	writesAtOnce = 2048
	writesOfHost = 3
)

// settle schedules what has changed.
func (o *Owner) settle() {
	o.hosts.collect()
	o.agenda.settle()
}

// evaluatedAtOnce bounds the hosts that are evaluated at one go. Those whose leases are over are
// not counted: nothing may happen before they have ended.
const evaluatedAtOnce = 256

func (o *Owner) evaluateDue() {
	o.settle()
	defer o.settle()
	n := 0
	for h := o.agenda.wakes.due(o.now); h != nil; h = o.agenda.wakes.due(o.now) {
		if h.lease == nil && n >= evaluatedAtOnce {
			o.agenda.searches.queue.add(h)
			continue
		}
		n++
		o.evaluate(h)
	}
	for n = 0; n < evaluatedAtOnce && o.agenda.searches.waiting(); n++ {
		if h := o.agenda.searches.queue.take(); h.kept() {
			if o.agenda.mayBePlaced(h) {
				o.placer.ask(h)
			}
			o.evaluate(h)
		}
	}
}

// Commit ends the step. After an error of the store the owner does nothing any more, and what was
// not acknowledged is in doubt: the process should end and start again from what is on disk.
func (o *Owner) Commit() (Ready, error) {
	o.reviewer.some()
	o.emitter.again()
	o.settle()
	o.purger.some()
	o.hosts.flush()
	o.granter.all()
	o.hosts.sweepSome()
	o.outgoing.refill()
	o.evaluateDue()
	o.jobs.draws()
	o.hosts.flush()
	o.evict()
	o.buf.Flush()
	o.ready.Wait = o.buf.Take()
	o.ready.Outbox = o.outgoing.box.Queued() > 0
	o.ready.Next = o.next()
	return o.ready, o.buf.Err()
}

// flush writes what changed; called between operations only.
func (t *hostTable) flush() {
	t.collect()
	for _, h := range t.dirty {
		t.save(h)
	}
	t.dirty = t.dirty[:0]
	for _, js := range t.dirtyJobs {
		t.jobs.save(js)
	}
	t.dirtyJobs = t.dirtyJobs[:0]
	if t.totalsMod {
		t.buf.Set([]byte{ondisk.SpaceTotals}, t.totals.Encode())
		t.totalsMod = false
	}
	t.buf.Flush()
}

// next is when the owner has something to do by itself.
func (o *Owner) next() time.Time {
	at := o.agenda.wakes.first()
	at = min(at, o.outgoing.box.AgainNext())
	if o.agenda.purges.some() || o.reviewer.review.reviewing() || o.agenda.searches.waiting() || o.outgoing.box.MayRefill() || o.hosts.sweep.wanted && !o.hosts.sweep.idle(o.now) {
		at = o.now
	} else if o.hosts.sweep.wanted {
		at = min(at, o.hosts.sweep.nextAt)
	}
	at = min(at, o.jobs.nextDraw())
	if at == never {
		return time.Time{}
	}
	return time.UnixMilli(max(at, o.now))
}

const never = ledger.Never
