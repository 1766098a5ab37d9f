package owner

import (
	"fmt"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// How hosts move from one owner to another, each line in steps:
//
//	old owner   Freeze, Export and Lease in one step: nothing of the hosts changes from here on, their workers hear that they are busy
//	new owner   Import of all records of a host, then Adopt of its lease; both are on disk, and at the replicas, when it answers
//	old owner   Remove; from now on workers hear that the hosts have moved. Unfreeze instead if it serves them again
//
// Records of an owner that died come from copies instead: ImportUntil says how long its leases may
// be alive, and there is nothing to adopt. While some records of an arc have yet to come,
// Config.Settled keeps the new owner from saying of a host what it cannot know; SettledChanged ends
// that.

// rangeOf are the keys of the hosts at positions in [lo, hi); a zero hi is the end of the circle.
func rangeOf(lo, hi ring.Pos) (from, to []byte) {
	from = ondisk.HostPrefix(lo)
	if to = ondisk.HostPrefix(hi); hi == (ring.Pos{}) {
		to = []byte{ondisk.SpaceHost + 1}
	}
	return from, to
}

// Export calls fn for the records of the hosts at positions in [lo, hi), in key order, key and
// value lent, until it returns false. A zero hi is the end of the circle. Between the inputs of a
// step, or between steps.
func (o *Owner) Export(lo, hi ring.Pos, fn func(key, value []byte) bool) error {
	o.hosts.Flush()
	from, to := rangeOf(lo, hi)
	o.Buf.Scan(from, to, fn)
	return o.Buf.Err()
}

// Import is [Owner.ImportUntil] for records whose leases may have been renewed a moment ago.
func (o *Owner) Import(kvs []kv.Record) error { return o.ImportUntil(kvs, time.Time{}) }

// ImportUntil is a [Merge] that is taken in within one step, whatever it takes. Part of a step.
func (o *Owner) ImportUntil(kvs []kv.Record, until time.Time) error {
	m := o.Merge(kvs, until)
	for {
		if through, err := m.Go(); through || err != nil {
			return err
		}
	}
}

// Merge is records of another owner that come into this one's over as many steps as that takes.
type Merge struct {
	owner *Owner
	kvs   []kv.Record
	next  int
	bar   int64
}

// Merge begins to merge records of another owner into this one's: the union of URLs, outcomes and
// outboxes; an outcome beats pending, a page beats an error, the smaller depth and the later epoch
// win. Any number of times and in any order of calls, with the records of a host in key order in
// each.
//
// Until is when, by the lease clock, the last lease that the records' origin may have given or
// renewed is over: nothing is granted before of a host that the records say is leased, unless
// [Owner.Adopt] continues that lease. The zero time is a TTL from now. Part of a step.
func (o *Owner) Merge(kvs []kv.Record, until time.Time) *Merge {
	bar := o.Now + o.Cfg.TTL.Milliseconds()
	if !until.IsZero() {
		bar = min(bar, until.UnixMilli())
	}
	return &Merge{owner: o, kvs: kvs, bar: bar}
}

// Unpacked is how many bytes records hold when the links in them are unpacked, which a stranger
// packs a hundredfold and more.
func Unpacked(kvs []kv.Record) (size int) {
	for _, rec := range kvs {
		switch kind := 1 + ring.PosSize; {
		case len(rec.Key) <= kind:
		case rec.Key[kind] == ondisk.KindOutlinks, rec.Key[kind] == ondisk.KindOutbox:
			size += ondisk.UnpackedLinks(rec.Value)
			continue
		}
		size += len(rec.Value)
	}
	return size
}

// Go merges records for as long as the step has room, and one in any case, and says whether all of
// them are in: they are on disk after the Wait of that step. A record that does not belong where
// its key says ends it with an error, the ones before it taken. What a host's own record says of a
// lease comes first of all, so other steps may come in between. Part of a step.
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

// one merges one record, h being the host of the one before it, and returns the host that it is of.
func (m *importer) one(h *hosts.Host, rec kv.Record, bar int64) (*hosts.Host, error) {
	if len(rec.Key) < 1+ring.PosSize+1 || rec.Key[0] != ondisk.SpaceHost {
		return nil, fmt.Errorf("import: key %.40x is none of a host", rec.Key)
	}
	pos := ring.Pos(rec.Key[1:])
	if rec.Key[1+ring.PosSize] == ondisk.KindHost {
		own, err := ondisk.DecodeHost(rec.Value)
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		if ring.PosOf(ring.HostKey(own.Name)) != pos || len(rec.Key) != 1+ring.PosSize+1 {
			return nil, fmt.Errorf("import: host %q lies elsewhere", own.Name)
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
			return nil, fmt.Errorf("import: record of an unknown host at %x", pos)
		}
	}
	if err := m.record(h, rec); err != nil {
		return nil, fmt.Errorf("import: %s: %w", h.Rec.Name, err)
	}
	return h, nil
}

// Flush has everything that the step gathered so far in the store, for those who read that
// themselves. Between the inputs of a step.
func (o *Owner) Flush() error {
	o.hosts.Flush()
	return o.Buf.Err()
}

const (
	// removedOne is the number of a host's records up to which they are deleted one by one:
	// thousands of deleted ranges make every later read slow.
	removedOne = 1024
	// removedAtOnce bounds the writes that gather while hosts are removed.
	removedAtOnce = 4096
)

// Remove forgets the hosts at positions in [lo, hi) once another owner has them on disk; a zero hi
// is the end of the circle. Part of a step.
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

// remover forgets hosts that another owner has.
type remover struct {
	*hosts.Step
	jobs     *hosts.JobTable
	hosts    *hosts.Table
	placer   *leases.Placer
	leases   *leases.Leases
	outgoing *links.Outgoing
}

// remove forgets a host of which nothing has changed since the last flush.
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
		m.hosts.Flush() // a range goes before what was gathered
		m.Buf.DeleteRange(prefix, kv.PrefixEnd(prefix))
		return
	}
	for _, key := range keys {
		m.Buf.Delete(key)
	}
}

// Mend brings records into an owner whose store was empty: in key order, any number at a time. Of
// what Import refuses it tells, and takes the rest. A step.
func (o *Owner) Mend(kvs []kv.Record, refused func(kv.Record, error)) error {
	if err := o.Import(kvs); err == nil || o.Buf.Err() != nil {
		return o.Buf.Err()
	}
	for i := range kvs { // one of them; those before it come to the same once more
		if err := o.Import(kvs[i : i+1]); err != nil && o.Buf.Err() == nil {
			refused(kvs[i], err)
		}
	}
	return o.Buf.Err()
}
