package ondisk

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/fresh"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/record"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Epoch grows with every change of a host's owner or worker; (Counter, Peer) is a total order.
type Epoch struct {
	Counter uint64 // higher is later
	Peer    string // peer that made it, as a tie-breaker
}

// After reports whether e is later than o.
func (e Epoch) After(o Epoch) bool {
	return e.Counter > o.Counter || e.Counter == o.Counter && e.Peer > o.Peer
}

// Wire returns the epoch as a protocol message.
func (e Epoch) Wire() *wire.Epoch { return &wire.Epoch{Counter: e.Counter, Peer: []byte(e.Peer)} }

// Is reports whether a message has that epoch.
func (e Epoch) Is(m *wire.Epoch) bool {
	return m != nil && m.GetCounter() == e.Counter && string(m.GetPeer()) == e.Peer
}

// Measurement is the RTT of one candidate to a site.
type Measurement struct {
	Peer  string // candidate
	RTTUs int64  // microseconds; 0 if it failed
	Error string // reason of the failure
}

// Bounds of records.
const (
	maxMeasurements = 64
	maxReason       = 256
	// maxValue bounds a stored value: it is sent to a replica or the next owner in a message of 4 MiB.
	maxValue = 3 << 20
	// maxPayload bounds an unpacked value in bytes: the links of a page in the worst case.
	maxPayload = 32 << 20
)

// Host is the record of a host, besides its URLs.
type Host struct {
	Name    string // with the port unless it is the default
	Epoch   Epoch  // of the last lease
	Version uint64 // grows with every write
	// Worker holds a lease, or held one when the owner died: after a start the host is not leased to
	// another for TTL.
	Worker        string
	NotBefore     int64         // politeness, Unix ms
	BackoffUntil  int64         // not fetched before, Unix ms
	BackoffReason string        // for display
	Fails         uint32        // consecutive host-wide failures
	FailOutcome   link.Outcome  // of the last failure
	Addrs         [][]byte      // 4 or 16 bytes each
	Placed        string        // worker chosen by the last placement
	PlacedAt      int64         // Unix ms
	PlacedWhy     string        // for display
	Measured      []Measurement // of the candidates
	// Calibration: mean fetch time in ms when the worker was new, and consecutive reports above twice
	// that.
	fetchBase uint32
	slowRuns  uint32
	Seq       uint64 // last number given to a pending record
	Outbox    uint64 // entries in the host's outbox
	Secure    bool   // a URL of the host is https
	OptOut    OptOut // opt-out of the site
	// Validators are those of its pages.
	Validators Validators
	// Signals are right and wrong signals, by Signal.
	Signals [signals]Precision
	rest    string // unknown fields
}

// Counters are the counters of a job, on a host or on the whole peer.
type Counters struct {
	Accepted  int64                // URLs of the set
	Outcomes  [link.Outcomes]int64 // none: dropped by a cancel
	Delayed   int64                // pending records that wait for a retry
	Promised  int64                // pending records with reserved budget
	Bytes     int64                // of bodies fetched
	Refetched int64                // fetches of URLs that had their outcome
	Down      link.Outcome         // outcome of a failed host, shared by pending URLs until DownUntil
	DownUntil int64                // Unix ms
	Outbox    int64                // links in the outbox (peer only)
	Entries   int64                // outbox entries (peer only)
	Exhausted bool                 // the job's budget is used up (peer only)
	Requests  int64                // reported outcomes, including failed tries
	Cut       int64                // links to more new hosts than pages may add
	Trap      bool                 // the host's pages have no new content any more (host only)
	Admission domain.Verdict       // verdict of the owner of the registrable domain (host only)
	LeftOut   int64                // links of pages beyond the limits
	// Scheduled URLs are fetched again; Rated ones have a change rate, and Rates is the sum of its
	// means, in millionths of a change a day.
	Scheduled, Rated, Rates int64
	Visits, Changes         int64       // visits that checked for a change, and changes found
	NotModified             int64       // answers with status 304
	Threshold               float64     // logarithm of the value at which a visit is due (peer only)
	Refresh                 job.Refresh // by which all entries are scheduled (peer only)
	Rest                    string      // unknown fields
}

// Done returns the number of URLs with an outcome.
func (c *Counters) Done() (n int64) {
	for _, k := range c.Outcomes {
		n += k
	}
	return n
}

// Count adds n, which may be negative, to the counter of an outcome.
func (c *Counters) Count(f *Final, n int64) {
	c.Outcomes[f.Outcome] += n
	c.Bytes += n * int64(f.Size)
	c.LeftOut += n * int64(f.LeftOut)
	r := &f.Revisit
	if r.Due > 0 {
		c.Scheduled += n
	}
	if r.Visits > 0 {
		c.Rated += n
		c.Rates += n * int64(min(r.Rate.Mean()*rateUnit, maxRate))
		c.Visits += n * int64(r.Visits)
		c.Changes += n * int64(r.Changes)
	}
}

// CountVisits adds the counters of visits of another record, or subtracts them with a negative
// sign.
func (c *Counters) CountVisits(o *Counters, sign int64) {
	c.Scheduled += sign * o.Scheduled
	c.Rated += sign * o.Rated
	c.Rates += sign * o.Rates
	c.Visits += sign * o.Visits
	c.Changes += sign * o.Changes
	c.NotModified += sign * o.NotModified
}

// Means returns the mean change rate of the URLs.
func (c *Counters) Means() fresh.Means {
	return fresh.Means{Pages: int(c.Rated), Sum: float64(c.Rates) / rateUnit}
}

// rateUnit converts a change a day to the unit of Counters.Rates, maxRate bounds that of a URL: no
// sum can overflow.
const rateUnit, maxRate = 1e6, 1e9

// Open returns the number of URLs without an outcome.
func (c *Counters) Open() int64 { return c.Accepted - c.Done() }

// Pending is a URL that waits; depth, due time and number are in its key.
type Pending struct {
	Spot             // position
	Hash   uint64    // of the URL in its job
	Hops   uint8     // redirects followed to it
	Kind   link.Kind // how it was found
	Tries  uint8     // failed tries
	Lapses uint8     // leases that lapsed while it was out
	// Promised is set if a page of the job's budget, and PromisedBytes, are reserved for the URL, from
	// its first grant until its outcome, or until a worker returns it without a fetch. So it is paid
	// for once, regardless of crashes and of the peer that fetched it.
	Promised      bool
	PromisedBytes uint64 // 0: bytes are not bounded
	// Foreign is set if the reservation is in the account of an earlier owner of the host, which has
	// paid for it.
	Foreign bool
	URL     string // canonical
	Via     uint64 // hash of its source, see SourceHash; 0: a seed, or unknown
}

// Encodings of a reservation.
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

// Encode returns the encoded record.
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
	if p.Via != 0 {
		e.hash(p.Via)
	}
	return e
}

// DecodePending decodes the record at a position.
func DecodePending(at Spot, b []byte) (Pending, error) {
	p, err := DecodeWaiting(b)
	p.Spot = at.at(p.Depth)
	return p, err
}

// DecodeWaiting is DecodePending without the fields of the key.
func DecodeWaiting(b []byte) (Pending, error) {
	d := newDec(b)
	p := d.pending()
	return p, d.end()
}

// pending reads a pending record, except for the fields of its key. It is the end of a value.
func (d *dec) pending() Pending {
	p := Pending{Hash: d.hash()}
	p.Depth = d.u32()
	p.Hops, p.Kind = uint8(d.Uint(wire.MaxRedirects+1)), link.Kind(d.Uint(uint64(link.KindRobots)))
	p.Tries, p.Lapses = d.Byte(), d.Byte()
	promise := d.Uint(promiseEnd - 1)
	p.Promised, p.Foreign = promise != promiseNone, promise == promiseForeign
	p.PromisedBytes, p.URL = d.Uint(1<<62), d.str(link.MaxURL)
	if len(d.Rest) > 0 {
		if p.Via = d.hash(); p.Via == 0 {
			d.Fail()
		}
	}
	return p
}

// Entry is a member of a URL set.
type Entry struct {
	Done  bool     // has its outcome
	At    Spot     // of the pending record
	Waits *Pending // the pending record, in a copy
	Final Final    // set once done
}

// Final is the outcome of a URL, by its last visit.
type Final struct {
	URL          string       // canonical
	Outcome      link.Outcome // result
	Status       int          // HTTP status; 0 without a response
	Depth        uint32       // links from a seed
	Hops         uint8        // redirects followed to it
	Kind         link.Kind    // how it was found
	Tries        uint8        // earlier failed tries
	FetchedMs    int64        // Unix ms; 0 if it was never fetched
	DurationMs   uint32       // of the fetch
	Size         uint64       // bytes of the body
	Digest       []byte       // SHA-256 of the body, empty without one
	RecordID     []byte       // 16 bytes, empty without a record
	Holder       string       // peer that has the WARC record
	ETag         string       // of the response
	LastModified string       // of the response, unparsed
	MIME         string       // type of the body
	Detail       string       // of a failure, for display; of a redirect, its target and a note
	// LeftOut counts links of the page beyond its limits.
	LeftOut uint32
	Via     uint64 // as in Pending
	Revisit Revisit
}

// SetTarget stores the target of a redirect before the note in Detail, unless both exceed the limit
// of the field.
func (f *Final) SetTarget(url string) {
	detail := strings.TrimSuffix(url+" "+f.Detail, " ")
	if f.Outcome == link.OutcomeRedirect && url != "" && len(detail) <= wire.MaxText {
		f.Detail = detail
	}
}

// Target returns the target of a redirect; empty if it was too long to be stored.
func (f *Final) Target() string {
	target, _, _ := strings.Cut(f.Detail, " ")
	if url, err := link.Canonical(target); err != nil || url != target || f.Outcome != link.OutcomeRedirect {
		return ""
	}
	return target
}

// Revisit is the schedule of a URL that is fetched again, besides its last outcome, which has the
// validators (RFC 9110, section 8.8) and the digest of the body.
type Revisit struct {
	Rate            fresh.Rate // of changes; zero: no visit yet
	Content         uint64     // digest of the text and the links of the page; 0: unknown
	Last            uint32     // Unix seconds of the last visit that checked for a change; 0: Final.FetchedMs
	Due             uint32     // Unix seconds of the next visit; 0: it is not fetched again
	Visits, Changes uint32     // visits that checked for a change, and changes found
	Signal          Signal     // that stated a change after the last visit; 0: none
	Misses          uint8      // visits in a row that found the page gone
	rest            string     // unknown fields
}

// DueAsked is the due time of a URL whose visit a user asked for: before all others.
const DueAsked = 1

// LastVisit returns the Unix seconds of the last visit that checked for a change, or of the fetch.
func (f *Final) LastVisit() uint32 {
	if f.Revisit.Last > 0 {
		return f.Revisit.Last
	}
	return Seconds(f.FetchedMs)
}

// Validated takes over the validators of a later answer. A URL whose validators were dropped since
// they lied, or that never had one, has none.
func (f *Final) Validated(had, got *Final) {
	f.ETag, f.LastModified = had.ETag, had.LastModified
	if f.Validates() {
		f.ETag, f.LastModified = got.ETag, got.LastModified
	}
}

// Validates reports whether the answer had a validator.
func (f *Final) Validates() bool { return f.ETag != "" || f.LastModified != "" }

// SameValidator reports whether the validators of two answers would match (RFC 9110, section 13).
func (f *Final) SameValidator(g *Final) bool {
	if f.ETag != "" {
		return f.ETag == g.ETag
	}
	return f.LastModified != "" && f.LastModified == g.LastModified
}

// Seconds converts Unix ms to Unix seconds, within 32 bits.
func Seconds(ms int64) uint32 { return uint32(min(max(ms/1000, 0), math.MaxUint32)) }

// The tags of fields of record.Revisit, and the size of the field via.
const (
	viaTag      = 5<<3 | byte(protowire.Fixed64Type)
	viaSize     = 9
	scheduleTag = 6<<3 | byte(protowire.BytesType)
)

// maxMisses is the greatest number of misses that is stored: its byte has the signal as well.
const maxMisses = 1<<6 - 1

// append encodes the record and the source unless both are zero: a message up to the end of the
// value.
func (r *Revisit) append(e enc, via uint64) enc {
	if via != 0 {
		e = binary.LittleEndian.AppendUint64(append(e, viaTag), via)
	}
	if *r != (Revisit{rest: r.rest}) {
		s := make(enc, 0, 40)
		s.hash(r.Content)
		if *r != (Revisit{Content: r.Content, rest: r.rest}) {
			s.hash(uint64(math.Float32bits(r.Rate.A))<<32 | uint64(math.Float32bits(r.Rate.B)))
			s.hash(uint64(r.Last)<<32 | uint64(r.Due))
			s.u64(uint64(r.Visits))
			s.u64(uint64(r.Changes))
			s.byte(min(r.Misses, maxMisses) | byte(r.Signal)<<6)
		}
		e.byte(scheduleTag)
		e.bytes(s)
	}
	return append(e, r.rest...)
}

// revisit reads the Revisit and the source behind an entry's values.
func (d *dec) revisit() (r Revisit, via uint64) {
	switch {
	case len(d.Rest) == 0:
		return r, 0
	case len(d.Rest) == viaSize && d.Rest[0] == viaTag: // the usual case, without an allocation
		via = binary.LittleEndian.Uint64(d.Rest[1:])
		d.Rest, d.Bad = nil, d.Bad || via == 0
		return r, via
	}
	var m record.Revisit
	if err := proto.Unmarshal(d.Rest, &m); err != nil || len(m.ProtoReflect().GetUnknown()) > maxRest {
		d.Fail()
		return r, 0
	}
	d.Rest = nil
	if len(m.GetSchedule()) > 0 {
		s := &dec{kv.Fields{Rest: m.GetSchedule()}}
		r.Content = s.hash()
		if len(s.Rest) > 0 {
			rate, times := s.hash(), s.hash()
			r.Rate = fresh.Rate{A: math.Float32frombits(uint32(rate >> 32)), B: math.Float32frombits(uint32(rate))}
			r.Last, r.Due, r.Visits, r.Changes = uint32(times>>32), uint32(times), s.u32(), s.u32()
			flags := s.Byte()
			r.Misses, r.Signal = flags&maxMisses, Signal(flags>>6)
		}
		d.Bad = d.Bad || !s.Whole() || r == (Revisit{}) || r.Rate != (fresh.Rate{}) && !r.Rate.Valid() || (r.Visits > 0) != (r.Rate != fresh.Rate{})
	}
	r.rest = string(m.ProtoReflect().GetUnknown())
	return r, m.GetVia()
}

// Encode returns the encoded record as an owner stores it, without Waits.
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
	return f.Revisit.append(e, f.Via)
}

// DecodeEntry decodes a URL entry.
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
	f.Revisit, f.Via = d.revisit()
	return Entry{Done: true, Final: f}, d.end()
}

// Beats orders outcomes of one URL, regardless of depth: by the number of visits, by Knows, then
// one with a record, the smaller record, and an arbitrary order of the rest.
func (f *Final) Beats(g *Final) bool {
	if order := cmp.Or(cmp.Compare(f.Revisit.Visits, g.Revisit.Visits), cmp.Compare(Knows(f.Outcome), Knows(g.Outcome)), cmp.Compare(len(f.RecordID), len(g.RecordID))); order != 0 {
		return order > 0
	}
	if order := bytes.Compare(f.RecordID, g.RecordID); order != 0 {
		return order < 0
	}
	a, b := Entry{Done: true, Final: *f}, Entry{Done: true, Final: *g}
	a.Final.Depth, b.Final.Depth, a.Final.Via, b.Final.Via, a.Final.Revisit.Due, b.Final.Revisit.Due = 0, 0, 0, 0, 0, 0
	return bytes.Compare(a.Encode(), b.Encode()) < 0
}

// Later merges the next visits of two records of a URL: that of the record with more visits, of
// equal ones the later.
func Later(f, g *Final) uint32 {
	if cmp.Or(cmp.Compare(f.Revisit.Visits, g.Revisit.Visits), cmp.Compare(f.Revisit.Due, g.Revisit.Due)) < 0 {
		return g.Revisit.Due
	}
	return f.Revisit.Due
}

// Nearer merges the places of two records of a URL: the smaller depth wins, with its source; of
// equal depths, the smaller hash of a known source.
func Nearer(depth uint32, via uint64, otherDepth uint32, other uint64) (uint32, uint64) {
	if otherDepth < depth || otherDepth == depth && other-1 < via-1 { // 0 is the greatest
		return otherDepth, other
	}
	return depth, via
}

// Knows ranks outcomes by their information about a URL.
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

// DecodeTrap decodes the trap state of a job on a host.
func DecodeTrap(raw []byte) (*trap.State, error) {
	if len(raw) == 0 || raw[0] != Format || len(raw) > 1+trap.MaxBytes {
		return nil, ErrFormat
	}
	s, err := trap.Decode(raw[1:])
	if err != nil {
		return nil, ErrFormat
	}
	return s, nil
}

// Account is this peer's part of a job's budget, in pages or in bytes. All fields but Bound are
// totals.
type Account struct {
	Drawn    uint64 // granted by the job's owner
	Returned uint64 // returned to it
	Used     uint64 // spent
	Bound    uint64 // reserved for URLs without an outcome
}

// Free returns the tokens that may be spent.
func (a *Account) Free() uint64 {
	spent := a.Returned + a.Used + a.Bound
	return a.Drawn - min(spent, a.Drawn)
}

// Spend turns reserved tokens into used ones.
func (a *Account) Spend(n uint64) {
	n = min(n, a.Bound)
	a.Bound -= n
	a.Used += n
}

// SetID identifies a URL set: that of one job on one host.
type SetID struct {
	Pos ring.Pos // of the host
	Job job.ID   // the job
}
