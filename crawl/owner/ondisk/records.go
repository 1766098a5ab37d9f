package ondisk

import (
	"bytes"
	"cmp"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/owner/record"
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

// Wire is the epoch as messages have it.
func (e Epoch) Wire() *wire.Epoch { return &wire.Epoch{Counter: e.Counter, Peer: []byte(e.Peer)} }

// Is says whether a message names that epoch.
func (e Epoch) Is(m *wire.Epoch) bool {
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
	// maxValue of a value as it is kept: a message of 4 MiB takes it to a replica, or to the next
	// owner.
	maxValue = 3 << 20
	// maxPayload of a value in bytes, packed or not: a page's links at worst.
	maxPayload = 32 << 20
)

// Host is what is kept of a host beside its URLs.
type Host struct {
	Name    string // with the port if it is not the usual one
	Epoch   Epoch  // of the last lease
	Version uint64 // grows with every write
	// Worker that holds a lease, or held one when the owner died: nothing is granted to another
	// for TTL after a start.
	Worker        string
	NotBefore     int64         // politeness owed to the host, Unix ms
	BackoffUntil  int64         // it is left alone before, Unix ms
	BackoffReason string        // why, in words
	Fails         uint32        // host-wide failures in a row
	FailOutcome   link.Outcome  // of the last of them
	Addrs         [][]byte      // 4 or 16 bytes each
	Placed        string        // worker chosen by the last placement
	PlacedAt      int64         // when, Unix ms
	PlacedWhy     string        // in words
	Measured      []Measurement // what candidates measured for it
	// Calibration: mean time of a fetch in ms when the worker was new, runs of reports in a row
	// above twice of it.
	fetchBase uint32
	slowRuns  uint32
	Seq       uint64 // last number given to a pending record
	Outbox    uint64 // entries in the host's outbox
	Secure    bool   // a URL of the host is https
	OptOut    OptOut // the wish of those who run it
	rest      string // unknown fields
}

// Counters are what is counted of a job, on a host or on the whole peer.
type Counters struct {
	Accepted  int64                // URLs of the set
	Outcomes  [link.Outcomes]int64 // none: dropped by a cancel
	Delayed   int64                // pending records that wait for another try
	Promised  int64                // pending records with a part of the budget
	Bytes     int64                // of bodies fetched
	Refetched int64                // fetched though they had their outcome
	MinDepth  uint32               // the smallest at which a URL was met
	Down      link.Outcome         // the host gave this too often: pending URLs share it until DownUntil
	DownUntil int64                // Unix ms
	Outbox    int64                // links in the outbox (peer only)
	Entries   int64                // outbox entries (peer only)
	Exhausted bool                 // the job's budget is used up (peer only)
	Requests  int64                // outcomes that a worker told, other tries among them
	Cut       int64                // links to more new hosts than pages may bring
	Trap      bool                 // the host's pages bring nothing new any more (host only)
	Admission domain.Verdict       // what the owner of the registrable domain said (host only)
	LeftOut   int64                // links of pages beyond the bounds
	Rest      string               // unknown fields
}

// Done are the URLs with an outcome.
func (c *Counters) Done() (n int64) {
	for _, k := range c.Outcomes {
		n += k
	}
	return n
}

// Count adds an outcome, or takes one away.
func (c *Counters) Count(f *Final, n int64) {
	c.Outcomes[f.Outcome] += n
	c.Bytes += n * int64(f.Size)
	c.LeftOut += n * int64(f.LeftOut)
}

// Open are the URLs without an outcome.
func (c *Counters) Open() int64 { return c.Accepted - c.Done() }

// Pending is a URL that waits; depth, due time and number are in its key.
type Pending struct {
	Spot             // where it lies
	Hash   uint64    // of the URL in its job
	Hops   uint8     // redirects followed to come here
	Kind   link.Kind // what it was found as
	Tries  uint8     // that failed
	Lapses uint8     // leases that ended without a word while it was out
	// Promised: a page of the job's budget, and PromisedBytes, are bound to the URL from its first
	// grant until its outcome, or until a worker hands it back untouched. So whoever fetched it,
	// and whatever crashed since, it is paid for once.
	Promised      bool
	PromisedBytes uint64 // 0: bytes are not bounded
	// Foreign: the promise is in the account of an earlier owner of the host, which has paid for
	// it.
	Foreign bool
	URL     string // canonical
}

// How a promise is written.
const (
	promiseNone = iota
	promiseOwn
	promiseForeign

	promiseEnd
)

func (p *Pending) promise() byte {
	switch {
	case !p.Promised:
		return promiseNone
	case p.Foreign:
		return promiseForeign
	default:
		return promiseOwn
	}
}

// Encode writes the record.
func (p *Pending) Encode() []byte {
	e := newEnc(len(p.URL) + 32)
	e.hash(p.Hash)
	e.u64(uint64(p.Depth))
	e.byte(p.Hops)
	e.byte(byte(p.Kind))
	e.byte(p.Tries)
	e.byte(p.Lapses)
	e.byte(p.promise())
	e.u64(p.PromisedBytes)
	e.str(p.URL)
	return e
}

// DecodePending reads the record that lies at a place.
func DecodePending(at Spot, b []byte) (Pending, error) {
	p, err := DecodeWaiting(b)
	p.Spot = at.at(p.Depth)
	return p, err
}

// DecodeWaiting is DecodePending without what the key tells.
func DecodeWaiting(b []byte) (Pending, error) {
	d := newDec(b)
	p := d.pending()
	return p, d.end()
}

// pending reads what waits, but for what its key tells.
func (d *dec) pending() Pending {
	p := Pending{Hash: d.hash()}
	p.Depth = d.u32()
	p.Hops, p.Kind = uint8(d.Uint(wire.MaxRedirects+1)), link.Kind(d.Uint(uint64(link.KindRobots)))
	p.Tries, p.Lapses = d.Byte(), d.Byte()
	promise := d.Uint(promiseEnd - 1)
	p.Promised, p.Foreign = promise != promiseNone, promise == promiseForeign
	p.PromisedBytes, p.URL = d.Uint(1<<62), d.str(link.MaxURL)
	return p
}

// Entry is the member of a URL set.
type Entry struct {
	Done  bool     // it has its outcome
	At    Spot     // of the pending record
	Waits *Pending // that record, in a copy
	Final Final    // once done
}

// Final is how a URL ended, by its last visit.
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
	Detail       string       // of a failure, in words; of a redirect, its target, and a note on it
	// LeftOut are links of the page beyond the bounds of what is taken of one.
	LeftOut uint32
	Revisit Revisit
}

// SetTarget notes where a redirect leads, before the note that Detail has, unless both are longer
// than a record has room for.
func (f *Final) SetTarget(url string) {
	detail := strings.TrimSuffix(url+" "+f.Detail, " ")
	if f.Outcome == link.OutcomeRedirect && url != "" && len(detail) <= wire.MaxText {
		f.Detail = detail
	}
}

// Target is where a redirect leads; empty where that is not recorded, as it was too long.
func (f *Final) Target() string {
	target, _, _ := strings.Cut(f.Detail, " ")
	if url, err := link.Canonical(target); err != nil || url != target || f.Outcome != link.OutcomeRedirect {
		return ""
	}
	return target
}

// Revisit is what fetching a URL again needs beside its last outcome, which has the time of the
// visit, the validators (RFC 9110, section 8.8) and the digest of the raw body. Nobody sets it yet.
type Revisit struct {
	Text            uint64 // digest of the text and the links of the page
	NextDue         int64  // Unix ms; 0: it is not fetched again
	Visits, Changes uint32 // visits that looked for a change, and changes that they found
	rest            string // unknown fields
}

// append writes the record, if it has any field: a message up to the end of the value.
func (r *Revisit) append(e enc) enc {
	if *r == (Revisit{}) {
		return e
	}
	m := record.Revisit{Text: r.Text, NextDueMs: max(r.NextDue, 0), Visits: r.Visits, Changes: r.Changes}
	return append(append(e, marshal(&m, "")[1:]...), r.rest...)
}

// revisit reads what stands behind an entry's values.
func (d *dec) revisit() (r Revisit) {
	if len(d.Rest) == 0 {
		return r
	}
	var m record.Revisit
	if err := proto.Unmarshal(d.Rest, &m); err != nil || len(m.ProtoReflect().GetUnknown()) > maxRest {
		d.Fail()
		return r
	}
	var in reader
	r = Revisit{Text: m.GetText(), NextDue: in.time(m.GetNextDueMs()), Visits: m.GetVisits(), Changes: m.GetChanges(), rest: string(m.ProtoReflect().GetUnknown())}
	d.Rest, d.Bad = nil, d.Bad || in.bad
	return r
}

// Encode writes the record as an owner has it: what waits is not in it.
func (n *Entry) Encode() []byte {
	if !n.Done {
		e := newEnc(24)
		e.bool(false)
		e.u64(uint64(n.At.Depth) | uint64(n.At.Rank)<<32)
		e.int(n.At.Due)
		e.u64(n.At.Seq)
		return e
	}
	f := &n.Final
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
	e.u64(uint64(f.LeftOut))
	return f.Revisit.append(e)
}

// DecodeEntry reads a URL.
func DecodeEntry(b []byte) (Entry, error) {
	d := newDec(b)
	if !d.bool() {
		place := d.u64()
		n := Entry{At: Spot{Depth: uint32(place), Rank: uint32(place >> 32), Due: d.time(), Seq: d.u64()}} // both of 32 bits
		if len(d.Rest) > 0 {
			p := d.pending()
			if p.Depth != n.At.Depth {
				d.Fail()
			}
			p.Spot = n.At
			n.Waits = &p
		}
		return n, d.end()
	}
	f := Final{
		Outcome: link.Outcome(d.Uint(uint64(link.Outcomes - 1))), Status: int(d.Uint(1 << 20)), Depth: d.u32(),
		Hops: uint8(d.Uint(wire.MaxRedirects + 1)), Kind: link.Kind(d.Uint(uint64(link.KindRobots))), Tries: d.Byte(),
		FetchedMs: d.time(), DurationMs: d.u32(), Size: d.Uint(wire.MaxSize), Digest: d.bytes(32), RecordID: d.bytes(16), Holder: d.str(wire.MaxPeer),
		ETag: d.str(wire.MaxText), LastModified: d.str(wire.MaxText), MIME: d.str(wire.MaxText), Detail: d.str(wire.MaxText), URL: d.str(link.MaxURL),
		LeftOut: uint32(d.Uint(wire.MaxLeftOut)), // bounded
	}
	f.Revisit = d.revisit()
	return Entry{Done: true, Final: f}, d.end()
}

// Beats orders outcomes of one URL, their depths aside: that which knows more, the one with a
// record, the smaller record, and any order for the rest.
func (f *Final) Beats(g *Final) bool {
	if order := cmp.Or(cmp.Compare(Knows(f.Outcome), Knows(g.Outcome)), cmp.Compare(len(f.RecordID), len(g.RecordID))); order != 0 {
		return order > 0
	}
	if order := bytes.Compare(f.RecordID, g.RecordID); order != 0 {
		return order < 0
	}
	a, b := Entry{Done: true, Final: *f}, Entry{Done: true, Final: *g}
	a.Final.Depth, b.Final.Depth = 0, 0
	return bytes.Compare(a.Encode(), b.Encode()) < 0
}

// Knows orders outcomes by what they tell of a URL.
func Knows(outcome link.Outcome) int {
	switch outcome {
	case link.OutcomeOK, link.OutcomeDuplicate, link.OutcomeNoIndex, link.OutcomeRedirect:
		return 3
	case link.OutcomeHTTPError, link.OutcomeRobotsDenied, link.OutcomeTooLarge, link.OutcomeTooManyRedirects:
		return 2
	case link.OutcomeNone, link.OutcomeOutOfBudget, link.OutcomeQuarantined:
		return 0
	default:
		return 1
	}
}

// DecodeNovelty reads what is known of the pages of a job on a host.
func DecodeNovelty(raw []byte) (*novelty.State, error) {
	if len(raw) == 0 || raw[0] != Format || len(raw) > 1+novelty.MaxBytes {
		return nil, ErrFormat
	}
	s, err := novelty.Decode(raw[1:])
	if err != nil {
		return nil, ErrFormat
	}
	return s, nil
}

// Account is what this peer drew of a job's budget, in pages or in bytes. Totals, but for what is
// bound.
type Account struct {
	Drawn    uint64 // had from the job's owner
	Returned uint64 // given back
	Used     uint64 // spent
	Bound    uint64 // to URLs without an outcome
}

// Free is what may be spent.
func (a *Account) Free() uint64 {
	spent := a.Returned + a.Used + a.Bound
	return a.Drawn - min(spent, a.Drawn)
}

// Spend makes bound parts used ones.
func (a *Account) Spend(n uint64) {
	n = min(n, a.Bound)
	a.Bound -= n
	a.Used += n
}

// SetID names one URL set: those of one job on one host.
type SetID struct {
	Pos ring.Pos // of the host
	Job job.ID   // whose set it is
}
