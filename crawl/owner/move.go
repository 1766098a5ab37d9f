package owner

import (
	"fmt"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Handoff of hosts between owners, each line in steps:
//
//	old owner   Freeze, Export and Lease in one step: the hosts do not change any more, and their workers get busy replies
//	new owner   Import of all records of a host, then Adopt of its lease; both are on disk, and at the replicas, before it replies
//	old owner   Remove; from now on workers get moved replies. Unfreeze instead if it owns the hosts again
//
// Records of an owner that died come from replicas instead: ImportUntil has the time until which
// its leases may be alive, and there is nothing to adopt. While records of an arc are missing,
// Config.Settled makes the new owner defer its answers to workers; SettledChanged ends that.

// rangeOf returns the key range of the hosts in [lo, hi); a zero hi is the end of the ring.
func rangeOf(lo, hi ring.Pos) (from, to []byte) {
	from = ondisk.HostPrefix(lo)
	if to = ondisk.HostPrefix(hi); hi == (ring.Pos{}) {
		to = []byte{ondisk.SpaceHost + 1}
	}
	return from, to
}

// Export calls fn for the records of the hosts at positions in [lo, hi) in key order, until it
// returns false. Key and value are valid only during the call. A zero hi is the end of the ring.
// Between the inputs of a step, or between steps.
func (o *Owner) Export(lo, hi ring.Pos, fn func(key, value []byte) bool) error {
	o.hosts.Flush()
	from, to := rangeOf(lo, hi)
	o.Buf.Scan(from, to, fn)
	return o.Buf.Err()
}

// Import is [Owner.ImportUntil] for records whose leases may just have been renewed.
func (o *Owner) Import(kvs []kv.Record) error { return o.ImportUntil(kvs, time.Time{}) }

// ImportUntil processes a [Merge] within one step, regardless of its size. Part of a step.
func (o *Owner) ImportUntil(kvs []kv.Record, until time.Time) error {
	m := o.Merge(kvs, until)
	for {
		if through, err := m.Go(); through || err != nil {
			return err
		}
	}
}

// Merge imports records of another owner over one or more steps.
type Merge struct {
	owner *Owner
	kvs   []kv.Record
	next  int
	bar   int64
}

// Merge begins to merge records of another owner: the union of URLs, outcomes and outboxes. An
// outcome beats pending, a page beats an error, and the smaller depth and the later epoch win.
// Calls may be repeated and reordered; within each, the records of a host are in key order.
//
// Until is the lease-clock time at which the last lease expires that the origin of the records may
// have granted or renewed. Before it, nothing is granted of a host whose records name a lease,
// unless [Owner.Adopt] continues that lease. The zero time means a TTL from now. Part of a step.
func (o *Owner) Merge(kvs []kv.Record, until time.Time) *Merge {
	bar := o.Now + o.Cfg.TTL.Milliseconds()
	if !until.IsZero() {
		bar = min(bar, until.UnixMilli())
	}
	return &Merge{owner: o, kvs: kvs, bar: bar}
}

// Unpacked returns the unpacked size of records in bytes. An untrusted peer can send links with a
// compression ratio above one hundred.
func Unpacked(kvs []kv.Record) (size int) {
	for _, rec := range kvs {
		switch kind := 1 + ring.PosSize; {
		case len(rec.Key) <= kind:
		case rec.Key[kind] == ondisk.KindOutbox:
			size += ondisk.UnpackedLinks(rec.Value)
			continue
		}
		size += len(rec.Value)
	}
	return size
}

// Go merges at least one record, more while the step has capacity, and reports whether all are
// merged; they are on disk after that step's Wait. A record that does not match its key ends the
// merge with an error; records before it stay merged. The lease state of a host's record is applied
// first, so other steps may run in between. Part of a step.
func (m *Merge) Go() (through bool, err error) {
	o := m.owner
	var h *hosts.Host
	for m.next < len(m.kvs) {
		if h, err = o.importer.one(h, m.kvs[m.next], m.bar); err != nil {
			return false, err
		}
		if m.next++; m.next < len(m.kvs) && !o.HasRoom() {
			break
		}
	}
	return m.next == len(m.kvs), o.Buf.Err()
}

// one merges one record and returns its host; h is the host of the previous record.
func (m *importer) one(h *hosts.Host, rec kv.Record, bar int64) (*hosts.Host, error) {
	if len(rec.Key) < 1+ring.PosSize+1 || rec.Key[0] != ondisk.SpaceHost {
		return nil, fmt.Errorf("import: key %.40x is not in the key space of hosts", rec.Key)
	}
	pos := ring.Pos(rec.Key[1:])
	if rec.Key[1+ring.PosSize] == ondisk.KindHost {
		own, err := ondisk.DecodeHost(rec.Value)
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		if ring.PosOf(ring.HostKey(own.Name)) != pos || len(rec.Key) != 1+ring.PosSize+1 {
			return nil, fmt.Errorf("import: host %q does not match the position of its key", own.Name)
		}
		if err := m.admitRecord(&own); err != nil {
			return nil, fmt.Errorf("import: host %q: %w", own.Name, err)
		}
		h = m.hosts.Open(own.Name)
		m.host(h, &own, bar)
		return h, nil
	}
	if h == nil || h.Pos != pos {
		if h = m.hosts.At(pos); h == nil {
			return nil, fmt.Errorf("import: no host record at %x", pos)
		}
	}
	if err := m.record(h, rec); err != nil {
		return nil, fmt.Errorf("import: %s: %w", h.Rec.Name, err)
	}
	return h, nil
}

// Flush writes everything gathered in the step to the store, for direct readers of the store.
// Between the inputs of a step.
func (o *Owner) Flush() error {
	o.hosts.Flush()
	return o.Buf.Err()
}

const (
	// removedOne is the number of a host's records up to which they are deleted individually:
	// thousands of range tombstones slow every later read.
	removedOne = 1024
	// removedAtOnce bounds the buffered writes while hosts are removed.
	removedAtOnce = 4096
)

// Remove deletes the hosts at positions in [lo, hi) once another owner has them on disk; a zero hi
// is the end of the ring. Part of a step.
func (o *Owner) Remove(lo, hi ring.Pos) {
	o.hosts.Flush()
	var list []ring.Pos
	from, to := rangeOf(lo, hi)
	o.Buf.Scan(from, to, func(key, _ []byte) bool {
		if key[1+ring.PosSize] == ondisk.KindHost {
			list = append(list, ring.Pos(key[1:]))
		}
		return true
	})
	for _, pos := range list {
		if h := o.hosts.At(pos); h != nil {
			o.remover.remove(h)
		}
		if o.Buf.Len() > removedAtOnce {
			o.hosts.Flush()
		}
	}
	o.intake.Known.Clear()
	o.emitter.Sent.Clear()
	o.hosts.Flush()
}

// remover deletes hosts that were handed off.
type remover struct {
	*hosts.Step
	jobs     *hosts.JobTable
	hosts    *hosts.Table
	placer   *leases.Placer
	leases   *leases.Leases
	outgoing *links.Outgoing
}

// remove deletes a host that has not changed since the last flush.
func (m *remover) remove(h *hosts.Host) {
	m.placer.End(h)
	if h.Lease != nil {
		m.leases.End(h, leases.Released, 0)
		m.hosts.Flush()
	}
	m.outgoing.Remove(h)
	for _, hj := range h.Jobs {
		hj.Cede()
		hj.Tally.Leave()
		m.jobs.Changed(hj.State)
		m.Seen.Drop(ondisk.SetID{Pos: h.Pos, Job: hj.State.ID})
	}
	m.hosts.Totals.Hosts--
	m.hosts.TotalsMod = true
	m.records(h)
	m.Buf.Delete(ondisk.WorkKey(h.Pos))
	if h.Rec.OptOut.Version > 0 {
		m.Buf.Delete(ondisk.OptOutKey(h.Pos))
		m.Buf.Delete(ondisk.ClaimKey(h.Pos))
	}
	h.Jobs = nil
	m.hosts.Forget(h)
}

func (m *remover) records(h *hosts.Host) {
	var keys [][]byte
	prefix := ondisk.HostPrefix(h.Pos)
	m.Buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, _ []byte) bool {
		keys = append(keys, slices.Clone(key))
		return len(keys) <= removedOne
	})
	if len(keys) > removedOne {
		m.hosts.Flush() // a range deletion is applied before buffered writes
		m.Buf.DeleteRange(prefix, kv.PrefixEnd(prefix))
		return
	}
	for _, key := range keys {
		m.Buf.Delete(key)
	}
}

// Reopen makes a URL with an outcome pending again, whose archived page is lost, and reports
// whether it had one. Part of a step.
func (o *Owner) Reopen(id job.ID, url string) bool {
	h := o.hosts.At(ring.PosOf(ring.HostKey(link.Host(url))))
	if h == nil {
		return false
	}
	hash, hj := link.Hash(id, url), o.importer.Book(h, o.jobs.Of(id))
	n, ok := hj.Entry(hash)
	if ok && n.Done {
		hj.Reopen(hash, &n.Final, false)
	}
	return ok && n.Done
}

const (
	purgeHost = 8
)

// purger assigns shared outcomes to URLs, a bounded number per step.
type purger struct {
	*hosts.Step
	hosts   *hosts.Table
	agenda  *hosts.Agenda
	traps   *hosts.Traps
	domains *hosts.Domains
}

// some purges URLs of hosts, as many as the step has capacity for.
func (g *purger) some() {
	if !g.agenda.Purges.Some() {
		return
	}
	g.hosts.Flush()
	budget := leases.PurgePerStep
	for budget > 0 && g.agenda.Purges.Some() && g.Buf.Err() == nil {
		h := g.agenda.Purges.First()
		budget -= purgeHost
		for _, hj := range h.Jobs {
			budget -= g.purge(h, hj, budget)
		}
		if budget > 0 {
			g.agenda.Purges.Pass()
			g.agenda.Changed(h)
		}
	}
}

// purge concludes up to limit pending URLs that are not out, and returns their number.
func (g *purger) purge(h *hosts.Host, hj *hosts.Job, limit int) int {
	fate, dead := g.agenda.Fate(h, hj)
	if !dead || limit <= 0 || h.Frozen > 0 || hj.Tally.Ready()+hj.Tally.Waiting() <= 0 || h.Barred(g.Now) && hj.Tally.PromisedHere() > 0 {
		return 0
	}
	return hj.ConcludeAll(limit, func(hash uint64) bool { return h.Lease.Item(hash) != nil }, ondisk.Final{Outcome: fate, Detail: g.text(h, hj, fate)})
}

// text returns the reason of a shared outcome for display.
func (g *purger) text(h *hosts.Host, hj *hosts.Job, fate link.Outcome) string {
	switch {
	case fate == link.OutcomeNone:
		return "the job was canceled"
	case fate == link.OutcomeOptedOut:
		return ondisk.Clip(g.WhyOptedOut(h))
	case hj.Tally.Counters().Admission.TurnsAway():
		return ondisk.Clip(g.domains.TurnedAway(hj.Tally.Counters().Admission))
	case fate == link.OutcomeTrap:
		return g.traps.Text(h, hj)
	case fate == link.OutcomeOutOfBudget && hj.State.Exhausted():
		return "the job's budget was exhausted"
	case fate == link.OutcomeOutOfBudget && g.Spends(hj) != hosts.SpentNothing:
		return g.SpentText(hj)
	case fate == link.OutcomeOutOfBudget:
		return fmt.Sprintf("the job reached its page limit for the host (--max-pages-per-host %d)", hj.State.Spec.MaxPagesPerHost)
	default:
		return "too many consecutive failures of the host: " + h.Rec.BackoffReason
	}
}
