package owner

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// Epoch grows with every change of a host's owner or worker; (Counter, Peer) is a total order.
type Epoch struct {
	Counter uint64 // the higher is the later
	Peer    string // who counted, to tell equal counters apart
}

// After says whether e is later than o.
func (e Epoch) After(o Epoch) bool {
	return e.Counter > o.Counter || e.Counter == o.Counter && e.Peer > o.Peer
}

func (e Epoch) wire() *wire.Epoch { return &wire.Epoch{Counter: e.Counter, Peer: []byte(e.Peer)} }

func (e Epoch) is(m *wire.Epoch) bool {
	return m != nil && m.GetCounter() == e.Counter && string(m.GetPeer()) == e.Peer
}

// Measurement is what one candidate measured to a site.
type Measurement struct {
	Peer  string // who measured
	RTTUs int64  // 0 if it failed
	Error string // why it failed
}

// Bounds on what a host record holds.
const (
	maxMeasurements = 64
	maxReason       = 256
	// maxValue of a value as it is kept: a message of 4 MiB takes it to a replica, or to the next owner.
	maxValue = 3 << 20
	// maxPayload of a value in bytes, packed or not: a page's links at worst.
	maxPayload = 32 << 20
)

// hostRecord is what is kept of a host beside its URLs.
type hostRecord struct {
	name    string
	epoch   Epoch
	version uint64 // grows with every write
	// worker that holds a lease, or held one when the owner died: nothing is granted to another for TTL after a start.
	worker string
	// notBefore is the politeness owed to the host, Unix ms.
	notBefore     int64
	backoffUntil  int64
	backoffReason string
	fails         uint32 // host-wide failures in a row
	failOutcome   link.Outcome
	addrs         [][]byte
	placed        string // worker chosen by the last placement
	placedAt      int64
	placedWhy     string
	measured      []Measurement
	// Calibration: mean time of a fetch in ms when the worker was new, runs of reports in a row above twice of it.
	fetchBase uint32
	slowRuns  uint32
	seq       uint64 // last number given to a pending record
	outbox    uint64 // entries in the host's outbox
	secure    bool   // a URL of the host is https
	optOut    optOut
	rest      string // fields of later versions
}

// counters are what is counted of a job, on a host or on the whole peer.
type counters struct {
	accepted  int64
	outcomes  [link.Outcomes]int64 // none: dropped by a cancel
	delayed   int64                // pending records that wait for another try
	promised  int64                // pending records with a part of the budget
	bytes     int64
	refetched int64
	minDepth  uint32
	down      link.Outcome // the host gave this outcome too often: pending URLs share it until downUntil
	downUntil int64
	outbox    int64 // links in the outbox (peer only)
	entries   int64 // outbox entries (peer only)
	exhausted bool  // the job's budget is used up (peer only)
	requests  int64 // outcomes that a worker told, other tries among them
	cut       int64 // links that were not taken, as they led to more new hosts than pages may bring
	trap      bool  // the host's pages bring nothing new any more (host only)
	// admission is what the owner of the host's registrable domain said of the host (host only).
	admission domain.Verdict
	leftOut   int64  // links of pages beyond the bounds
	rest      string // fields of later versions
}

func (c *counters) done() (n int64) {
	for _, k := range c.outcomes {
		n += k
	}
	return n
}

// open are the URLs without an outcome.
func (c *counters) open() int64 { return c.accepted - c.done() }

// pending is a URL that waits; depth, due time and number are in its key.
type pending struct {
	place
	hash   uint64
	hops   uint8
	kind   link.Kind
	tries  uint8
	lapses uint8
	// promised: a page of the job's budget, and so many bytes, are bound to the URL from its first grant until its outcome, or until a worker
	// hands it back untouched. So whoever fetched it, and whatever crashed since, it is paid for once.
	promised      bool
	promisedBytes uint64
	// foreign: the promise is in the account of an earlier owner of the host, which has paid for it; see [Owner.cede].
	foreign bool
	url     string
}

// How a promise is written.
const (
	promiseNone = iota
	promiseOwn
	promiseForeign

	promiseEnd
)

func (p *pending) promise() byte {
	switch {
	case !p.promised:
		return promiseNone
	case p.foreign:
		return promiseForeign
	default:
		return promiseOwn
	}
}

func (p *pending) encode() []byte {
	e := newEnc(len(p.url) + 32)
	e.hash(p.hash)
	e.u64(uint64(p.depth))
	e.byte(p.hops)
	e.byte(byte(p.kind))
	e.byte(p.tries)
	e.byte(p.lapses)
	e.byte(p.promise())
	e.u64(p.promisedBytes)
	e.str(p.url)
	return e
}

func decodePending(at place, b []byte) (pending, error) {
	p, err := decodeValue(b)
	if err == nil && at.due == 0 && p.depth != at.depth {
		err = errFormat
	}
	p.due, p.seq = at.due, at.seq
	return p, err
}

// decodeValue is decodePending without what the key tells.
func decodeValue(b []byte) (pending, error) {
	d := newDec(b)
	p := d.pending()
	return p, d.end()
}

// pending reads what waits, but for what its key tells.
func (d *dec) pending() pending {
	p := pending{hash: d.hash()}
	p.depth = d.u32()
	p.hops, p.kind = uint8(d.uint(wire.MaxRedirects+1)), link.Kind(d.uint(uint64(link.KindRobots)))
	p.tries, p.lapses = d.byte(), d.byte()
	promise := d.uint(promiseEnd - 1)
	p.promised, p.foreign = promise != promiseNone, promise == promiseForeign
	p.promisedBytes, p.url = d.uint(1<<62), d.str(link.MaxURL)
	return p
}

// entry is the member of a URL set.
type entry struct {
	done  bool
	at    place    // of the pending record
	waits *pending // that record, in a copy
	final Final    // once done
}

// Final is how a URL ended.
type Final struct {
	URL          string       // canonical
	Outcome      link.Outcome // how it ended
	Status       int          // of HTTP; 0 without an answer
	Depth        uint32       // links from a seed
	Hops         uint8        // redirects followed to come here
	Kind         link.Kind    // what it was found as
	Tries        uint8        // that failed before
	FetchedMs    int64        // Unix ms; 0 if it was never fetched
	DurationMs   uint32       // of the exchange
	Size         uint64       // bytes of the body
	Digest       []byte       // SHA-256 of the body, empty without one
	RecordID     []byte       // 16 bytes, empty without a record
	Holder       string       // peer that holds the WARC record
	ETag         string       // of the answer
	LastModified string       // of the answer, as the site wrote it
	MIME         string       // type of the body
	Detail       string       // of a failure, in words
	// LeftOut are links of the page beyond the bounds of what is taken of one.
	LeftOut uint32
}

func (n *entry) encode() []byte {
	if !n.done {
		e := newEnc(24)
		e.bool(false)
		e.u64(uint64(n.at.depth))
		e.int(n.at.due)
		e.u64(n.at.seq)
		return e
	}
	f := &n.final
	e := newEnc(len(f.URL) + len(f.Holder) + len(f.ETag) + len(f.LastModified) + len(f.MIME) + len(f.Detail) + 100)
	e.bool(true)
	e.byte(byte(f.Outcome))
	e.int(int64(f.Status))
	e.u64(uint64(f.Depth))
	e.byte(f.Hops)
	e.byte(byte(f.Kind))
	e.byte(f.Tries)
	e.int(f.FetchedMs)
	e.u64(uint64(f.DurationMs))
	e.u64(f.Size)
	e.bytes(f.Digest)
	e.bytes(f.RecordID)
	e.str(f.Holder)
	e.str(f.ETag)
	e.str(f.LastModified)
	e.str(f.MIME)
	e.str(f.Detail)
	e.str(f.URL)
	if f.LeftOut > 0 {
		e.u64(uint64(f.LeftOut))
	}
	return e
}

func decodeEntry(b []byte) (entry, error) {
	d := newDec(b)
	if !d.bool() {
		n := entry{at: place{depth: d.u32(), due: d.time(), seq: d.u64()}}
		if len(d.b) > 0 {
			p := d.pending()
			if p.depth != n.at.depth {
				d.fail()
			}
			p.place = n.at
			n.waits = &p
		}
		return n, d.end()
	}
	f := Final{
		Outcome: link.Outcome(d.uint(uint64(link.Outcomes - 1))), Status: d.size(1 << 20), Depth: d.u32(),
		Hops: uint8(d.uint(wire.MaxRedirects + 1)), Kind: link.Kind(d.uint(uint64(link.KindRobots))), Tries: d.byte(),
		FetchedMs: d.time(), DurationMs: d.u32(), Size: d.uint(wire.MaxSize), Digest: d.bytes(32), RecordID: d.bytes(16), Holder: d.str(wire.MaxPeer),
		ETag: d.str(wire.MaxText), LastModified: d.str(wire.MaxText), MIME: d.str(wire.MaxText), Detail: d.str(wire.MaxText), URL: d.str(link.MaxURL),
	}
	if len(d.b) > 0 {
		if f.LeftOut = uint32(d.uint(wire.MaxLeftOut)); f.LeftOut == 0 { //nolint:gosec // bounded
			d.fail()
		}
	}
	return entry{done: true, final: f}, d.end()
}

// account is what this peer drew of a job's budget, in pages or in bytes. Totals, but for what is bound.
type account struct {
	drawn, returned, used uint64
	bound                 uint64 // to URLs without an outcome
}

// free is what may be spent.
func (a *account) free() uint64 {
	spent := a.returned + a.used + a.bound
	return a.drawn - min(spent, a.drawn)
}

// spend makes bound parts used ones.
func (a *account) spend(n uint64) {
	n = min(n, a.bound)
	a.bound -= n
	a.used += n
}

// SetID names one URL set: those of one job on one host.
type SetID struct {
	Pos ring.Pos // of the host
	Job job.ID   // whose set it is
}
