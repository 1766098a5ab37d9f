package owner

import (
	"fmt"
	"time"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
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
	if o.agenda.Purges.Some() || o.reviewer.review.reviewing() || o.agenda.Searches.Waiting() || o.outgoing.Box.MayRefill() || o.hosts.Sweep.Wanted && !o.hosts.Sweep.Idle(o.Now) {
		at = o.Now
	} else if o.hosts.Sweep.Wanted {
		at = min(at, o.hosts.Sweep.NextAt)
	}
	at = min(at, o.jobs.NextDraw())
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
