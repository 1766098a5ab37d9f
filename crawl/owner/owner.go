package owner

import (
	"fmt"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

// Owner manages the hosts that a peer owns; the package comment describes how to drive it. It is
// not safe for concurrent use.
type Owner struct{ books }

// New returns an owner of the state in the store; leases of an earlier process have ended with it.
// Now is the lease-clock time, as in Begin.
func New(cfg hosts.Config, store kv.Store, seen hosts.Seen, jobs hosts.Jobs, ring hosts.Ring, now time.Time) (*Owner, error) {
	cfg.Fill()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	at := now.UnixMilli()
	s := &hosts.Step{Cfg: cfg, Ring: ring, Seen: seen, Specs: jobs, Buf: ondisk.NewBuffer(store), Now: at, Start: at}
	s.Sources = ondisk.NewSources(func(key []byte) ([]byte, bool, error) {
		value, ok := s.Buf.Get(key)
		return value, ok, s.Buf.Err()
	})
	s.Ledger = ledger.New(s.Buf, seen, s.BoundsOf)
	o := &Owner{books{newParts(s)}}
	if o.jobs.Load() {
		o.outgoing.Box.Spill()
	}
	if raw, ok := o.Buf.Get([]byte{ondisk.SpaceTotals}); ok {
		var err error
		if o.hosts.Totals, err = ondisk.DecodeTotals(raw); err != nil {
			return nil, fmt.Errorf("owner: totals: %w", err)
		}
	}
	o.hosts.Sweep.Wanted = true
	if o.Buf.Err() != nil {
		return nil, o.Buf.Err()
	}
	return o, nil
}

// Memory returns the jobs and hosts in memory, for checks in tests.
func (o *Owner) Memory() (*hosts.JobTable, *hosts.Table) { return o.jobs, o.hosts }

// Scanning reports whether entries are being scanned for their schedules, for checks in tests.
func (o *Owner) Scanning() bool { return o.scans.Some() }

// Begin opens a step at a lease-clock time (design, section 4: the clock includes suspend time and
// never goes back; an earlier time counts as unchanged). Expired leases have ended when it returns.
func (o *Owner) Begin(now time.Time) { o.BeginBehind(now, now) }

// BeginBehind is Begin while inputs are queued that arrived after read: leases that ended later
// continue, since a queued input may renew them. So a slow owner takes no host from a worker that
// renewed in time.
func (o *Owner) BeginBehind(now, read time.Time) {
	o.Now, o.Read = max(o.Now, now.UnixMilli()), read.UnixMilli()
	o.Ready, o.Room = hosts.Ready{}, nil
	o.evaluateDue()
}

// settle schedules the changed hosts.
func (o *Owner) settle() {
	o.hosts.Collect()
	o.agenda.Settle()
}

// evaluatedAtOnce bounds the hosts evaluated in one step. Hosts with expired leases are not
// counted: those leases must end before any input.
const evaluatedAtOnce = 256

func (o *Owner) evaluateDue() {
	o.settle()
	defer o.settle()
	n := 0
	for h := o.agenda.Wakes.Due(o.Now); h != nil; h = o.agenda.Wakes.Due(o.Now) {
		if h.Lease == nil && n >= evaluatedAtOnce {
			o.agenda.Searches.Queue.Add(h)
			continue
		}
		n++
		o.evaluate(h)
	}
	for n = 0; n < evaluatedAtOnce && o.agenda.Searches.Waiting(); n++ {
		if h := o.agenda.Searches.Queue.Take(); h.Kept() {
			if o.agenda.MayBePlaced(h) {
				o.placer.Ask(h)
			}
			o.evaluate(h)
		}
	}
}

// Commit ends the step. After a store error the owner does nothing more, and the state of
// unacknowledged input is unknown: the process should exit and restart from disk.
func (o *Owner) Commit() (hosts.Ready, error) {
	o.reviewer.some()
	o.settle()
	o.purger.some()
	o.hosts.Flush()
	o.granter.All()
	o.hosts.SweepSome()
	o.hosts.LoadVisits()
	o.scans.Begin()
	o.scans.Go()
	o.jobs.Hours()
	o.outgoing.Refill()
	o.evaluateDue()
	o.jobs.Draws()
	o.hosts.Flush()
	o.evict()
	o.Buf.Flush()
	o.Ready.Wait = o.Buf.Take()
	o.Ready.Outbox = o.outgoing.Box.Queued() > 0
	o.Ready.Next = o.next()
	return o.Ready, o.Buf.Err()
}

// next returns the time of the owner's next timed action.
func (o *Owner) next() time.Time {
	at := o.agenda.Wakes.First()
	if o.agenda.Purges.Some() || o.reviewer.review.reviewing() || o.agenda.Searches.Waiting() || o.outgoing.Box.MayRefill() || o.scans.Some() || o.hosts.Sweep.Wanted && !o.hosts.Sweep.Idle(o.Now) {
		at = o.Now
	} else if o.hosts.Sweep.Wanted {
		at = min(at, o.hosts.Sweep.NextAt)
	}
	at = min(at, o.jobs.NextDraw(), o.jobs.NextHour(), o.hosts.NextLoad())
	if at == hosts.Never {
		return time.Time{}
	}
	return time.UnixMilli(max(at, o.Now))
}

// maxSessions is the number of workers beyond which idle sessions are dropped.
const maxSessions = 256

// evict drops hosts from memory, hosts without waiting URLs first, each in LRU order. It is called
// when everything is flushed.
func (o *Owner) evict() {
	o.hosts.Evict(&o.hosts.Idle)
	o.hosts.Evict(&o.hosts.Busy)
	if !o.reviewer.review.reviewing() {
		o.jobs.Evict(o.hosts.ByName)
	}
	if len(o.placer.Sessions) > maxSessions {
		for peer, s := range o.placer.Sessions {
			if len(s.Leases) == 0 && len(s.Offers) == 0 && o.Now-s.Heard > o.Cfg.TTL.Milliseconds() {
				delete(o.placer.Sessions, peer)
			}
		}
	}
}

// Types of an owner's configuration and of the results of a step.
type (
	// Config configures an owner.
	Config = hosts.Config
	// Seen is a filter in front of the URL sets.
	Seen = hosts.Seen
	// Jobs looks up jobs in memory.
	Jobs = hosts.Jobs
	// Ring reports which hosts this peer owns.
	Ring = hosts.Ring
	// OptOuts is the local list of opt-outs.
	OptOuts = hosts.OptOuts
	// Ready is the result of a step.
	Ready = hosts.Ready
	// Place requests a worker for a host.
	Place = hosts.Place
	// Placement is the reply to a [Place].
	Placement = hosts.Placement
	// Offer offers hosts to a worker.
	Offer = hosts.Offer
	// Draw requests a part of a job's budget.
	Draw = hosts.Draw
	// Admission asks whether a registrable domain may have one more host in a job.
	Admission = hosts.Admission
)

// Counters and waits.
type (
	// Counts are the counters of a job.
	Counts = hosts.Counts
	// HostCounts are the counters of a job on a host.
	HostCounts = hosts.HostCounts
	// RuleLeft are the URLs of a host that a trap rule left.
	RuleLeft = hosts.RuleLeft
	// Wait is a reason why URLs wait, and their number.
	Wait = hosts.Wait
	// WaitingHost is a host with waiting URLs.
	WaitingHost = hosts.WaitingHost
	// PutOff counts the deferred URLs, whose next try is beyond a horizon.
	PutOff = hosts.PutOff
)

// Parts of records that other packages read.
type (
	// Final is the outcome of a URL.
	Final = ondisk.Final
	// Epoch grows with every change of a host's owner or worker.
	Epoch = ondisk.Epoch
	// Measurement is the RTT of one candidate to a site.
	Measurement = ondisk.Measurement
	// SetID identifies a URL set.
	SetID = ondisk.SetID
	// OutLink is a link for the owner of another host.
	OutLink = links.OutLink
	// Cursor is a position in the iteration over all URLs.
	Cursor = ondisk.Cursor
)

// DefaultConfig returns the default configuration of the peer self.
func DefaultConfig(self string) hosts.Config {
	c := hosts.Config{Self: self}
	c.Fill()
	return c
}

// parts holds the components of an owner. Each depends only on those above it that were passed to
// its constructor.
type parts struct {
	*hosts.Step
	jobs     *hosts.JobTable
	rests    *hosts.Rests
	domains  *hosts.Domains
	traps    *hosts.Traps
	agenda   *hosts.Agenda
	hosts    *hosts.Table
	scans    *hosts.Scans
	checks   *hosts.Checks
	outgoing *links.Outgoing
	intake   *links.Intake
	emitter  *links.Emitter
	placer   *leases.Placer
	leases   *leases.Leases
	reviewer *reviewer
	granter  *leases.Granter
	outcomes *outcomes
	importer *importer
	remover  *remover
	purger   *purger
	visits   *visits
}

func newParts(s *hosts.Step) parts {
	t := hosts.New(s)
	l, g := links.New(t), leases.New(t)
	p := parts{
		Step: s, jobs: t.Jobs, rests: t.Rests, domains: t.Domains, traps: t.Traps, agenda: t.Agenda, hosts: t.Table, scans: t.Scans, checks: t.Checks,
		outgoing: l.Outgoing, intake: l.Intake, emitter: l.Emitter, placer: g.Placer, leases: g.Leases, granter: g.Granter,
	}
	p.reviewer = &reviewer{Step: s, hosts: p.hosts, agenda: p.agenda, placer: p.placer, leases: p.leases, intake: p.intake}
	p.outcomes = &outcomes{
		Step: s, jobs: p.jobs, hosts: p.hosts, traps: p.traps, domains: p.domains, leases: p.leases, emitter: p.emitter, scans: p.scans,
		checks: p.checks, agenda: p.agenda,
	}
	p.importer = &importer{
		Step: s, jobs: p.jobs, hosts: p.hosts, outgoing: p.outgoing, leases: p.leases, reviewer: p.reviewer,
	}
	p.remover = &remover{Step: s, jobs: p.jobs, hosts: p.hosts, placer: p.placer, leases: p.leases, outgoing: p.outgoing}
	p.purger = &purger{Step: s, hosts: p.hosts, agenda: p.agenda, traps: p.traps, domains: p.domains}
	p.visits = &visits{Step: s, jobs: p.jobs, hosts: p.hosts, agenda: p.agenda, leases: p.leases, placer: p.placer, granter: p.granter, checks: p.checks}
	return p
}

// JobChanged applies a new job or a new state of a job. Paused: nothing more is granted, and URLs
// that are out are finished. Canceled: pending URLs are dropped over the next steps, and outcomes
// of URLs that are out are still accepted. Part of a step.
func (o *Owner) JobChanged(id job.ID) {
	js := o.jobs.ByID[id]
	if js == nil {
		return
	}
	js.Ask(o.Specs)
	o.reviewer.job(js)
}

// Drawn applies the reply to a Draw; nil if there was none. Part of a step.
func (o *Owner) Drawn(d hosts.Draw, reply *wire.JobReply) {
	js := o.jobs.ByID[d.Job]
	if js == nil || !js.Budget.Drawing || !js.Budget.Answered(d.Draw, reply, o.Now) {
		return
	}
	if js.Budget.Changed {
		o.jobs.Changed(js)
	}
	if reply.GetExhausted() && !o.jobs.Affords(js) && !js.Exhausted() {
		js.Exhaust()
		o.jobs.Changed(js)
	}
	o.reviewer.job(js)
}
