// Package ownertest checks the records of an owner against each other, for tests.
package ownertest

import (
	"fmt"
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
)

// Check reads all records and reports where they do not add up: for each host and job, accepted
// URLs = pending + leased + outcomes; every pending URL has one record and every record one URL; at
// most one lease a host; bound tokens are those of the URLs that are out. It is called between
// steps.
func Check(o *owner.Owner) error {
	if o.Buf.Len() > 0 {
		return fmt.Errorf("check: %d writes outside a step", o.Buf.Len())
	}
	jobs, table := o.Memory()
	c := checker{o: o, table: table, order: jobs.Order, jobs: make(map[job.ID]*ondisk.Counters), boundPages: make(map[job.ID]uint64), boundBytes: make(map[job.ID]uint64)}
	o.Buf.Scan([]byte{ondisk.SpaceHost}, []byte{ondisk.SpaceHost + 1}, func(key, value []byte) bool {
		c.record(key, value)
		return c.err == nil
	})
	c.endHost()
	c.sums()
	c.leases()
	if c.err == nil {
		c.err = o.Buf.Err()
	}
	return c.err
}

type checker struct {
	o     *owner.Owner
	table *hosts.Table
	order []*hosts.JobState
	err   error
	pos   ring.Pos
	name  string
	hosts int64
	// of the current host
	counted  map[job.ID]*ondisk.Counters
	stored   map[job.ID]*ondisk.Counters
	records  map[uint64]ondisk.Pending
	visits   map[string]bool // keys of visits, by the records and by the entries
	open     map[uint64]ondisk.Spot
	rec      ondisk.Host
	first    uint32 // due time of the first visit
	entries  uint64
	outLinks map[job.ID]int64
	outN     map[job.ID]int64
	// over all
	jobs       map[job.ID]*ondisk.Counters
	boundPages map[job.ID]uint64
	boundBytes map[job.ID]uint64
}

func (c *checker) fail(text string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("check: host %q: "+text, append([]any{c.name}, args...)...)
	}
}

func (c *checker) of(m map[job.ID]*ondisk.Counters, id job.ID) *ondisk.Counters {
	if m[id] == nil {
		m[id] = &ondisk.Counters{}
	}
	return m[id]
}

// beginHost forgets what was counted of the host before.
func (c *checker) beginHost(pos ring.Pos) {
	c.pos, c.name, c.entries, c.first = pos, "", 0, math.MaxUint32
	c.counted, c.stored = make(map[job.ID]*ondisk.Counters), make(map[job.ID]*ondisk.Counters)
	c.records, c.open = make(map[uint64]ondisk.Pending), make(map[uint64]ondisk.Spot)
	c.visits = make(map[string]bool)
	c.outLinks, c.outN = make(map[job.ID]int64), make(map[job.ID]int64)
}

// record counts a record.
func (c *checker) record(key, value []byte) {
	if pos := ring.Pos(key[1:]); pos != c.pos || c.counted == nil {
		c.endHost()
		c.beginHost(pos)
	}
	kind, tail := key[1+ring.PosSize], key[1+ring.PosSize+1:]
	switch kind {
	case ondisk.KindHost:
		c.host(value)
		return
	case ondisk.KindRobots:
		return
	}
	id := job.ID(tail)
	tail = tail[job.IDSize:]
	switch kind {
	case ondisk.KindCounters:
		got, err := ondisk.DecodeCounters(value)
		if err != nil {
			c.fail("counters: %w", err)
		}
		c.stored[id] = &got
	case ondisk.KindReady, ondisk.KindDelayed:
		c.waiting(id, kind, tail, value)
	case ondisk.KindEntry:
		c.entry(id, tail, value)
	case ondisk.KindVisit: // behind the entries
		if !c.visits[string(key)] {
			c.fail("visit %x has no entry", key)
		}
		delete(c.visits, string(key))
	case ondisk.KindOutbox:
		list, err := ondisk.DecodeLinks(value)
		if err != nil {
			c.fail("outbox: %w", err)
		}
		c.entries++
		c.outN[id]++
		c.outLinks[id] += int64(len(list.Links))
	case ondisk.KindTrap:
		if _, err := ondisk.DecodeTrap(value); err != nil {
			c.fail("trap state: %w", err)
		}
	case ondisk.KindSource:
		if hash, ok := ondisk.HashIn(tail); !ok || hash != ondisk.SourceHash(id, value) {
			c.fail("source %x has another hash", tail)
		}
		if _, err := ondisk.DecodeSource(value); err != nil {
			c.fail("source: %w", err)
		}
	default:
		c.fail("unknown record %x", key)
	}
}

// host reads the record of the host itself.
func (c *checker) host(value []byte) {
	rec, err := ondisk.DecodeHost(value)
	if err != nil {
		c.fail("record: %w", err)
	}
	c.rec, c.name = rec, rec.Name
	c.hosts++
}

// waiting counts a pending record.
func (c *checker) waiting(id job.ID, kind byte, tail, value []byte) {
	at, ok := ondisk.SpotIn(kind, tail)
	if kind == ondisk.KindDelayed {
		c.of(c.counted, id).Delayed++
	}
	p, err := ondisk.DecodePending(at, value)
	if err != nil || !ok || link.Hash(id, p.URL) != p.Hash || link.Host(p.URL) != c.name {
		c.fail("pending record %x of job %s: %v", tail, id, err)
	}
	if _, twice := c.records[p.Hash]; twice {
		c.fail("%s is pending twice", p.URL)
	}
	c.records[p.Hash] = p
	if p.Promised {
		c.of(c.counted, id).Promised++
	}
	if p.Promised && !p.Foreign {
		c.boundPages[id]++
		c.boundBytes[id] += p.PromisedBytes
	}
}

// entry counts a URL.
func (c *checker) entry(id job.ID, tail, value []byte) {
	n, err := ondisk.DecodeEntry(value)
	if err != nil {
		c.fail("entry: %w", err)
	}
	k := c.of(c.counted, id)
	k.Accepted++
	if !n.Done {
		hash, _ := ondisk.HashIn(tail)
		c.open[hash] = n.At
		return
	}
	k.Count(&n.Final, 1)
	if due := n.Final.Revisit.Due; due > 0 {
		hash, _ := ondisk.HashIn(tail)
		c.visits[string(ondisk.VisitKey(c.pos, id, due, hash))] = true
		if slices.ContainsFunc(c.order, func(js *hosts.JobState) bool { return js.ID == id && js.Visits() }) {
			c.first = min(c.first, due)
		}
	}
}

func (c *checker) endHost() {
	if c.counted == nil || c.err != nil {
		return
	}
	for key := range c.visits {
		c.fail("no record of visit %x", key)
	}
	indexed := false
	c.o.Buf.Scan([]byte{ondisk.SpaceVisit}, ondisk.VisitsKey(c.first, c.pos), func(key, _ []byte) bool {
		indexed = indexed || ring.Pos(key[5:]) == c.pos
		return true
	})
	if _, ok := c.o.Buf.Get(ondisk.VisitsKey(c.first, c.pos)); c.first < math.MaxUint32 && !ok && !indexed && !c.o.Scanning() {
		c.fail("first visit at %d is not in the index", c.first)
	}
	for hash, at := range c.open {
		p, ok := c.records[hash]
		p.Depth = max(p.Depth, 0)
		if !ok || p.Spot != at {
			c.fail("entry %x says %v, its record %v (%v)", hash, at, p.Spot, ok)
		}
	}
	for hash, p := range c.records {
		if _, ok := c.open[hash]; !ok {
			c.fail("%s has a pending record and no pending entry", p.URL)
		}
	}
	for id, k := range c.counted {
		s := c.stored[id]
		if s == nil {
			c.fail("job %s has no counters", id)
			return
		}
		if s.Accepted != k.Accepted || s.Outcomes != k.Outcomes || s.Delayed != k.Delayed || s.Promised != k.Promised || s.Bytes != k.Bytes || s.LeftOut != k.LeftOut ||
			s.Scheduled != k.Scheduled || s.Rated != k.Rated || s.Rates != k.Rates || s.Visits != k.Visits || s.Changes != k.Changes {
			c.fail("job %s: counters say %+v, records %+v", id, *s, *k)
		}
	}
	c.sumUp()
	if c.rec.Outbox != c.entries {
		c.fail("outbox of %d entries, record says %d", c.entries, c.rec.Outbox)
	}
	_, work := c.o.Buf.Get(ondisk.WorkKey(c.pos))
	if want := len(c.open) > 0 || c.entries > 0; work != want {
		c.fail("in the index of work: %v, want %v", work, want)
	}
	if h := c.table.ByPos[c.pos]; h != nil {
		c.memory(h)
	}
}

// sumUp adds the counters of the host to those of all.
func (c *checker) sumUp() {
	for id, s := range c.stored {
		sum := c.of(c.jobs, id)
		sum.Accepted += s.Accepted
		for i, n := range s.Outcomes {
			sum.Outcomes[i] += n
		}
		sum.Delayed += s.Delayed
		sum.Promised += s.Promised
		sum.Bytes += s.Bytes
		sum.LeftOut += s.LeftOut
		sum.Refetched += s.Refetched
		sum.Requests += s.Requests
		sum.Cut += s.Cut
		sum.CountVisits(s, 1)
	}
	for id, n := range c.outN {
		sum := c.of(c.jobs, id)
		sum.Entries += n
		sum.Outbox += c.outLinks[id]
	}
}

// memory compares what is in memory of a host.
func (c *checker) memory(h *hosts.Host) {
	for _, hj := range h.Jobs {
		if s := c.stored[hj.State.ID]; s != nil && *s != hj.Tally.Counters() {
			c.fail("job %s: memory %+v, store %+v", hj.State.ID, hj.Tally.Counters(), *s)
		}
		var out, outD, outP int64
		if h.Lease != nil {
			for hash, it := range h.Lease.Out {
				if it.Job != hj || it.Again {
					continue
				}
				out++
				if it.Due > 0 {
					outD++
				}
				if it.Promised {
					outP++
				}
				if at, ok := c.open[hash]; !ok || at != it.Spot {
					c.fail("leased URL %x is at %v, want %v (%v)", hash, at, it.Spot, ok)
				}
			}
		}
		if all := hj.Tally.Counters(); out != hj.Tally.Out() || outD != all.Delayed-hj.Tally.Waiting() || outP != all.Promised-hj.Tally.PromisedHere() {
			c.fail("%d, %d, %d URLs out, counted %d, %d, %d", out, outD, outP, hj.Tally.Out(), all.Delayed-hj.Tally.Waiting(), all.Promised-hj.Tally.PromisedHere())
		}
	}
	for _, p := range c.records {
		if h.Lease.Item(p.Hash) != nil {
			continue
		}
		for _, hj := range h.Jobs {
			if link.Hash(hj.State.ID, p.URL) != p.Hash {
				continue
			}
			if hj.Missed(p.Spot) {
				c.fail("%s lies before the mark of what waits", p.URL)
			}
		}
	}
}

// sums compares the counters of the peer with those of its hosts.
func (c *checker) sums() {
	c.name = "*"
	if c.hosts != c.table.Totals.Hosts {
		c.fail("%d hosts, counted %d", c.hosts, c.table.Totals.Hosts)
	}
	for _, js := range c.order {
		want := *c.of(c.jobs, js.ID)
		got := js.Sums()
		got.Exhausted, got.Threshold, got.Refresh = false, 0, 0
		if got != want {
			c.fail("job %s: peer counts %+v, hosts %+v", js.ID, got, want)
		}
	}
}

// leases compares leases, sessions and accounts.
func (c *checker) leases() {
	leased := 0
	out := make(map[*hosts.JobState]int64)
	for _, h := range c.table.ByName {
		if h.Lease == nil {
			continue
		}
		leased++
		if _, ok := h.Lease.Session.Leases[h]; !ok || h.Key != ring.HostKey(h.Rec.Name) {
			c.fail("lease of %s is unknown to its session", h.Rec.Name)
		}
		for _, it := range h.Lease.Out {
			if !it.Again {
				out[it.Job.State]++
			}
		}
	}
	if int64(leased) != c.o.Totals().HostsLeased {
		c.fail("%d hosts leased, counted %d", leased, c.o.Totals().HostsLeased)
	}
	for _, js := range c.order {
		if js.Out() != out[js] {
			c.fail("job %s: %d out, counted %d", js.ID, out[js], js.Out())
		}
		if !js.Known {
			continue
		}
		pages := c.boundPages[js.ID]
		if js.Spec.MaxPages == 0 {
			pages = 0
		}
		if js.Budget.Pages.Bound != pages || js.Budget.Bytes.Bound != c.boundBytes[js.ID] {
			c.fail("job %s: %d pages and %d bytes promised, counted %d and %d", js.ID, pages, c.boundBytes[js.ID], js.Budget.Pages.Bound, js.Budget.Bytes.Bound)
		}
		for _, a := range []ondisk.Account{js.Budget.Pages, js.Budget.Bytes} {
			if a.Returned+a.Used+a.Bound > a.Drawn {
				c.fail("job %s: account %+v is overdrawn", js.ID, a)
			}
		}
	}
}
