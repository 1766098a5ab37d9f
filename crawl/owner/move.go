package owner

import (
	"fmt"
	"slices"
	"time"

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
	o.hosts.flush()
	from, to := rangeOf(lo, hi)
	o.buf.Scan(from, to, fn)
	return o.buf.Err()
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
	bar := o.now + o.cfg.TTL.Milliseconds()
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
	var h *host
	for m.next < len(m.kvs) {
		if h, err = o.importer.one(h, m.kvs[m.next], m.bar); err != nil {
			return false, err
		}
		if m.next++; m.next < len(m.kvs) && !o.HasRoom() {
			break
		}
	}
	return m.next == len(m.kvs), o.buf.Err()
}

// one merges one record, h being the host of the one before it, and returns the host that it is of.
func (m *importer) one(h *host, rec kv.Record, bar int64) (*host, error) {
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
		h = m.hosts.open(own.Name)
		m.host(h, &own, bar)
		return h, nil
	}
	if h == nil || h.pos != pos {
		if h = m.hosts.at(pos); h == nil {
			return nil, fmt.Errorf("import: record of an unknown host at %x", pos)
		}
	}
	if err := m.record(h, rec); err != nil {
		return nil, fmt.Errorf("import: %s: %w", h.rec.Name, err)
	}
	return h, nil
}

// Flush has everything that the step gathered so far in the store, for those who read that
// themselves. Between the inputs of a step.
func (o *Owner) Flush() error {
	o.hosts.flush()
	return o.buf.Err()
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
	o.hosts.flush()
	var list []ring.Pos
	from, to := rangeOf(lo, hi)
	o.buf.Scan(from, to, func(key, _ []byte) bool {
		if key[1+ring.PosSize] == ondisk.KindHost {
			list = append(list, ring.Pos(key[1:]))
		}
		return true
	})
	for _, pos := range list {
		if h := o.hosts.at(pos); h != nil {
			o.remover.remove(h)
		}
		if o.buf.Len() > removedAtOnce {
			o.hosts.flush()
		}
	}
	o.intake.known.clear()
	o.emitter.sent.clear()
	o.hosts.flush()
}

// remover forgets hosts that another owner has.
type remover struct {
	*step
	jobs     *jobTable
	hosts    *hostTable
	placer   *placer
	leases   *leases
	outgoing *outgoing
}

// remove forgets a host of which nothing has changed since the last flush.
func (m *remover) remove(h *host) {
	m.placer.end(h)
	if h.lease != nil {
		m.leases.end(h, released, 0)
		m.hosts.flush()
	}
	m.outgoing.remove(h)
	for _, hj := range h.jobs {
		hj.Cede()
		hj.Tally.Leave()
		m.jobs.changed(hj.state)
		m.seen.Drop(ondisk.SetID{Pos: h.pos, Job: hj.state.ID})
	}
	m.hosts.totals.Hosts--
	m.hosts.totalsMod = true
	m.records(h)
	m.buf.Delete(ondisk.WorkKey(h.pos))
	if h.rec.OptOut.Version > 0 {
		m.buf.Delete(ondisk.OptOutKey(h.pos))
	}
	h.jobs = nil
	m.hosts.forget(h)
}

func (g *outgoing) remove(h *host) {
	if h.rec.Outbox == 0 {
		return
	}
	g.box.Leave(h.pos)
	prefix := ondisk.HostPrefix(h.pos, ondisk.KindOutbox)
	g.buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		if list, err := ondisk.DecodeLinks(value); err == nil && len(key) >= ondisk.JobPrefixLen {
			js := g.jobs.of(ondisk.JobIn(key))
			js.Queued(-1, -int64(max(len(list.Links), 1)))
			g.jobs.changed(js)
		}
		return true
	})
}

func (m *remover) records(h *host) {
	var keys [][]byte
	prefix := ondisk.HostPrefix(h.pos)
	m.buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, _ []byte) bool {
		keys = append(keys, slices.Clone(key))
		return len(keys) <= removedOne
	})
	if len(keys) > removedOne {
		m.hosts.flush() // a range goes before what was gathered
		m.buf.DeleteRange(prefix, kv.PrefixEnd(prefix))
		return
	}
	for _, key := range keys {
		m.buf.Delete(key)
	}
}

// Mend brings records into an owner whose store was empty: in key order, any number at a time. Of
// what Import refuses it tells, and takes the rest. A step.
func (o *Owner) Mend(kvs []kv.Record, refused func(kv.Record, error)) error {
	if err := o.Import(kvs); err == nil || o.buf.Err() != nil {
		return o.buf.Err()
	}
	for i := range kvs { // one of them; those before it come to the same once more
		if err := o.Import(kvs[i : i+1]); err != nil && o.buf.Err() == nil {
			refused(kvs[i], err)
		}
	}
	return o.buf.Err()
}
