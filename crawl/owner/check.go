package owner

import (
	"fmt"
	"maps"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dht/ring"
)

// Check reads everything and says where the books do not add up: for each host and job, accepted URLs = pending + leased + outcomes; every
// pending URL has one record and every record one URL; at most one lease a host; bound tokens are those of the URLs that are out. It is for tests
// and for a store in doubt; it takes as long as reading the store. To be called between steps.
func (o *Owner) Check() error {
	if len(o.buf.writes) > 0 {
		return fmt.Errorf("check: %d writes outside a step", len(o.buf.writes))
	}
	c := checker{o: o, jobs: make(map[job.ID]*counters), boundPages: make(map[job.ID]uint64), boundBytes: make(map[job.ID]uint64)}
	o.buf.scan([]byte{spaceHost}, []byte{spaceHost + 1}, func(key, value []byte) bool {
		c.record(key, value)
		return c.err == nil
	})
	c.endHost()
	c.sums()
	c.leases()
	c.resters()
	if c.err == nil {
		c.err = o.buf.err
	}
	return c.err
}

type checker struct {
	o     *Owner
	err   error
	pos   ring.Pos
	name  string
	hosts int64
	// of the current host
	counted  map[job.ID]*counters
	stored   map[job.ID]*counters
	records  map[uint64]pending
	open     map[uint64]place
	rec      hostRecord
	entries  uint64
	outLinks map[job.ID]int64
	outN     map[job.ID]int64
	// over all
	jobs       map[job.ID]*counters
	boundPages map[job.ID]uint64
	boundBytes map[job.ID]uint64
}

func (c *checker) fail(text string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("check: host %q: "+text, append([]any{c.name}, args...)...)
	}
}

func (c *checker) of(m map[job.ID]*counters, id job.ID) *counters {
	if m[id] == nil {
		m[id] = &counters{}
	}
	return m[id]
}

// beginHost forgets what was counted of the host before.
func (c *checker) beginHost(pos ring.Pos) {
	c.pos, c.name, c.entries = pos, "", 0
	c.counted, c.stored = make(map[job.ID]*counters), make(map[job.ID]*counters)
	c.records, c.open = make(map[uint64]pending), make(map[uint64]place)
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
	case kindHost:
		c.host(value)
		return
	case kindRobots:
		return
	}
	id := job.ID(tail)
	tail = tail[job.IDSize:]
	switch kind {
	case kindCounters:
		got, err := decodeCounters(value)
		if err != nil {
			c.fail("counters: %w", err)
		}
		c.stored[id] = &got
	case kindReady, kindDelayed:
		c.waiting(id, kind, tail, value)
	case kindEntry:
		c.entry(id, tail, value)
	case kindOutbox:
		list, err := decodeLinks(value)
		if err != nil {
			c.fail("outbox: %w", err)
		}
		c.entries++
		c.outN[id]++
		c.outLinks[id] += int64(max(len(list.links), 1))
	case kindNovelty:
		if _, err := decodeNovelty(value); err != nil {
			c.fail("novelty: %w", err)
		}
	case kindOutlinks:
	default:
		c.fail("unknown record %x", key)
	}
}

// host reads the record of the host itself.
func (c *checker) host(value []byte) {
	rec, err := decodeHost(value)
	if err != nil {
		c.fail("record: %w", err)
	}
	c.rec, c.name = rec, rec.name
	c.hosts++
}

// waiting counts a pending record.
func (c *checker) waiting(id job.ID, kind byte, tail, value []byte) {
	at, ok := placeIn(kind, tail)
	if kind == kindDelayed {
		c.of(c.counted, id).delayed++
	}
	p, err := decodePending(at, value)
	if err != nil || !ok || link.Hash(id, p.url) != p.hash || link.Host(p.url) != c.name {
		c.fail("pending record %x of job %s: %v", tail, id, err)
	}
	if _, twice := c.records[p.hash]; twice {
		c.fail("%s is pending twice", p.url)
	}
	c.records[p.hash] = p
	if p.promised {
		c.of(c.counted, id).promised++
	}
	if p.promised && !p.foreign {
		c.boundPages[id]++
		c.boundBytes[id] += p.promisedBytes
	}
}

// entry counts a URL.
func (c *checker) entry(id job.ID, tail, value []byte) {
	n, err := decodeEntry(value)
	if err != nil {
		c.fail("entry: %w", err)
	}
	k := c.of(c.counted, id)
	k.accepted++
	if !n.done {
		d := dec{b: tail}
		c.open[d.hash()] = n.at
		return
	}
	k.outcomes[n.final.Outcome]++
	k.bytes += int64(n.final.Size)
	k.leftOut += int64(n.final.LeftOut)
}

func (c *checker) endHost() {
	if c.counted == nil || c.err != nil {
		return
	}
	for hash, at := range c.open {
		p, ok := c.records[hash]
		p.depth = max(p.depth, 0)
		if !ok || p.place != at {
			c.fail("entry %x says %v, its record %v (%v)", hash, at, p.place, ok)
		}
	}
	for hash, p := range c.records {
		if _, ok := c.open[hash]; !ok {
			c.fail("%s has a pending record and no pending entry", p.url)
		}
	}
	for id, k := range c.counted {
		s := c.stored[id]
		if s == nil {
			c.fail("job %s has no counters", id)
			return
		}
		if s.accepted != k.accepted || s.outcomes != k.outcomes || s.delayed != k.delayed || s.promised != k.promised || s.bytes != k.bytes || s.leftOut != k.leftOut {
			c.fail("job %s: counters say %+v, records %+v", id, *s, *k)
		}
	}
	c.sumUp()
	if c.rec.outbox != c.entries {
		c.fail("outbox of %d entries, record says %d", c.entries, c.rec.outbox)
	}
	_, work := c.o.buf.get(workKey(c.pos))
	if want := len(c.open) > 0 || c.entries > 0; work != want {
		c.fail("in the index of work: %v, want %v", work, want)
	}
	if h := c.o.hosts.byPos[c.pos]; h != nil {
		c.memory(h)
	}
}

// sumUp adds the counters of the host to those of all.
func (c *checker) sumUp() {
	for id, s := range c.stored {
		sum := c.of(c.jobs, id)
		sum.accepted += s.accepted
		for i, n := range s.outcomes {
			sum.outcomes[i] += n
		}
		sum.delayed += s.delayed
		sum.promised += s.promised
		sum.bytes += s.bytes
		sum.leftOut += s.leftOut
		sum.refetched += s.refetched
		sum.requests += s.requests
		sum.cut += s.cut
	}
	for id, n := range c.outN {
		sum := c.of(c.jobs, id)
		sum.entries += n
		sum.outbox += c.outLinks[id]
	}
}

// memory compares what is in memory of a host.
func (c *checker) memory(h *host) {
	for _, hj := range h.jobs {
		if s := c.stored[hj.state.id]; s != nil && *s != hj.c.counters {
			c.fail("job %s: memory %+v, store %+v", hj.state.id, hj.c.counters, *s)
		}
		var out, outD, outP int64
		if h.lease != nil {
			for hash, it := range h.lease.out {
				if it.job != hj {
					continue
				}
				out++
				if it.due > 0 {
					outD++
				}
				if it.promised {
					outP++
				}
				if at, ok := c.open[hash]; !ok || at != it.place {
					c.fail("leased URL %x is at %v, want %v (%v)", hash, at, it.place, ok)
				}
			}
		}
		if out != hj.c.out || outD != hj.c.outD || outP != hj.c.outP {
			c.fail("%d, %d, %d URLs out, counted %d, %d, %d", out, outD, outP, hj.c.out, hj.c.outD, hj.c.outP)
		}
	}
	for _, p := range c.records {
		if h.lease.item(p.hash) != nil {
			continue
		}
		for _, hj := range h.jobs {
			if link.Hash(hj.state.id, p.url) != p.hash {
				continue
			}
			if p.due > 0 && p.due < hj.nextDue {
				c.fail("%s is due before the next one", p.url)
			}
			if p.due == 0 && p.before(hj.from) {
				c.fail("%s lies before the mark", p.url)
			}
		}
	}
}

// sums compares the counters of the peer with those of its hosts.
func (c *checker) sums() {
	c.name = "*"
	if c.hosts != c.o.hosts.totals.hosts {
		c.fail("%d hosts, counted %d", c.hosts, c.o.hosts.totals.hosts)
	}
	for _, js := range c.o.jobs.order {
		want := *c.of(c.jobs, js.id)
		got := js.c.counters
		got.exhausted, got.minDepth = false, 0
		if got != want {
			c.fail("job %s: peer counts %+v, hosts %+v", js.id, got, want)
		}
	}
}

// resters compares what is noted of hosts of which something waits with the hosts.
func (c *checker) resters() {
	o := c.o
	for i := range o.rests.list {
		if h := o.rests.list[i].h; h.rester != i+1 || !h.kept() {
			c.fail("%s is not where it waits", h.rec.name)
			return
		}
	}
	for _, h := range o.hosts.byName {
		c.name = h.rec.name
		want := rester{h: h, whole: o.restsUntil(h), backoff: h.rec.backoffUntil, outcome: h.rec.failOutcome}
		for _, horizon := range []int64{o.now, o.now + 5*60_000} {
			jobs, gotJobs := make(map[job.ID]PutOff), make(map[job.ID]PutOff)
			var got rest
			if r := want.rest(o.now, horizon, jobs); h.rester > 0 {
				got = o.rests.list[h.rester-1].rest(o.now, horizon, gotJobs)
				if got != r {
					c.fail("%+v waits, noted is %+v", r, got)
				}
			} else if r.urls > 0 {
				c.fail("%+v waits, and is not noted", r)
			}
			if !maps.Equal(jobs, gotJobs) {
				c.fail("put off %v, noted is %v", jobs, gotJobs)
			}
		}
	}
}

// leases compares leases, sessions and accounts.
func (c *checker) leases() {
	leased := 0
	out := make(map[*jobState]int64)
	for _, h := range c.o.hosts.byName {
		if h.lease == nil {
			continue
		}
		leased++
		if _, ok := h.lease.session.leases[h]; !ok || h.key != ring.HostKey(h.rec.name) {
			c.fail("lease of %s is unknown to its session", h.rec.name)
		}
		for _, it := range h.lease.out {
			out[it.job.state]++
		}
	}
	if leased != c.o.leases.n {
		c.fail("%d hosts leased, counted %d", leased, c.o.leases.n)
	}
	for _, js := range c.o.jobs.order {
		if js.c.out != out[js] {
			c.fail("job %s: %d out, counted %d", js.id, out[js], js.c.out)
		}
		if !js.known {
			continue
		}
		pages := c.boundPages[js.id]
		if js.spec.MaxPages == 0 {
			pages = 0
		}
		if js.budget.pages.bound != pages || js.budget.bytes.bound != c.boundBytes[js.id] {
			c.fail("job %s: %d pages and %d bytes promised, counted %d and %d", js.id, pages, c.boundBytes[js.id], js.budget.pages.bound, js.budget.bytes.bound)
		}
		for _, a := range []account{js.budget.pages, js.budget.bytes} {
			if a.returned+a.used+a.bound > a.drawn {
				c.fail("job %s: account %+v is overdrawn", js.id, a)
			}
		}
	}
}
