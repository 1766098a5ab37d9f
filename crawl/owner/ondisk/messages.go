package ondisk

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/record"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Records that are messages of package record: hosts, counters, accounts, robots.txt, totals, and
// the lists of links in links.go. The small, most frequent records of URLs are not; see
// docs/decisions/27-records-as-messages.md. Unknown fields are preserved.

const (
	// maxMessage bounds messages other than links, and the memory to decode untrusted ones.
	maxMessage = 64 << 10
	// maxRest bounds the preserved unknown fields, in bytes.
	maxRest = 4 << 10
)

// marshal encodes a message with its unknown fields.
func marshal(m proto.Message, rest string) []byte {
	b := append(make([]byte, 0, 1+proto.Size(m)+len(rest)), Format)
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		panic(err) // cannot happen: messages of package record have no strings and no required fields
	}
	return append(b, rest...)
}

// unmarshal decodes a message of at most maxMessage bytes, and returns its unknown fields.
func unmarshal(value []byte, m proto.Message) (rest string, err error) {
	if len(value) == 0 || value[0] != Format || len(value) > maxMessage {
		return "", ErrFormat
	}
	if err := proto.Unmarshal(value[1:], m); err != nil {
		return "", fmt.Errorf("%w: %w", ErrFormat, err)
	}
	fields := m.ProtoReflect().GetUnknown()
	if len(fields) > maxRest {
		return "", fmt.Errorf("%w: %d bytes of unknown fields", ErrFormat, len(fields))
	}
	return string(fields), nil
}

// reader checks the bounds of a message's fields; bad is set once one was exceeded.
type reader struct{ bad bool }

func (r *reader) within(ok bool) {
	if !ok {
		r.bad = true
	}
}

func (r *reader) str(b []byte, most int) string {
	r.within(len(b) <= most)
	return string(b)
}

func (r *reader) time(n int64) int64 {
	r.within(n >= 0 && n <= MaxTime)
	return n
}

func (r *reader) count(n int64) int64 {
	r.within(n >= 0 && n <= 1<<62)
	return n
}

func (r *reader) total(n uint64) uint64 {
	r.within(n <= 1<<62)
	return n
}

func (r *reader) outcome(n uint32) link.Outcome {
	r.within(n < uint32(link.Outcomes))
	return link.Outcome(n) // bounded
}

func (r *reader) end(err error) error {
	if err == nil && r.bad {
		return ErrFormat
	}
	return err
}

// Encode returns the encoded record.
func (r *Host) Encode() []byte {
	m := record.Host{
		Name: []byte(r.Name), EpochCounter: r.Epoch.Counter, EpochPeer: []byte(r.Epoch.Peer), Version: r.Version, Worker: []byte(r.Worker),
		NotBeforeMs: max(r.NotBefore, 0), BackoffUntilMs: max(r.BackoffUntil, 0), BackoffReason: []byte(r.BackoffReason),
		Fails: r.Fails, FailOutcome: uint32(r.FailOutcome), Addrs: r.Addrs,
		Placed: []byte(r.Placed), PlacedAtMs: max(r.PlacedAt, 0), PlacedWhy: []byte(r.PlacedWhy),
		FetchBaseMs: r.fetchBase, SlowRuns: r.slowRuns, Seq: r.Seq, Outbox: r.Outbox, Secure: r.Secure,
		OptOutVersion: r.OptOut.Version, OptOut: r.OptOut.On, OptOutAtMs: max(r.OptOut.At, 0), OptOutWhy: []byte(r.OptOut.Why), OptOutUnproved: r.OptOut.Unproved,
		Conditional: r.Validators.Used, Checked: r.Validators.Checked, Lied: r.Validators.Lied,
	}
	if r.Signals != [signals]Precision{} {
		for _, p := range r.Signals {
			m.Signals = append(m.Signals, p.Right, p.Wrong)
		}
	}
	if len(r.Measured) > 0 {
		list := make([]record.Measurement, len(r.Measured))
		m.Measured = make([]*record.Measurement, len(r.Measured))
		for i := range r.Measured {
			of := &r.Measured[i]
			list[i].Peer, list[i].RttUs, list[i].Error = []byte(of.Peer), max(of.RTTUs, 0), []byte(of.Error)
			m.Measured[i] = &list[i]
		}
	}
	return marshal(&m, r.rest)
}

// DecodeHost decodes the record of a host.
func DecodeHost(b []byte) (Host, error) {
	var m record.Host
	rest, err := unmarshal(b, &m)
	if err != nil {
		return Host{}, err
	}
	var d reader
	r := Host{
		Name: d.str(m.GetName(), wire.MaxHost), Epoch: Epoch{m.GetEpochCounter(), d.str(m.GetEpochPeer(), wire.MaxPeer)}, Version: m.GetVersion(),
		Worker: d.str(m.GetWorker(), wire.MaxPeer), NotBefore: d.time(m.GetNotBeforeMs()),
		BackoffUntil: d.time(m.GetBackoffUntilMs()), BackoffReason: d.str(m.GetBackoffReason(), maxReason),
		Fails: m.GetFails(), FailOutcome: d.outcome(m.GetFailOutcome()), Addrs: m.GetAddrs(),
		Placed: d.str(m.GetPlaced(), wire.MaxPeer), PlacedAt: d.time(m.GetPlacedAtMs()), PlacedWhy: d.str(m.GetPlacedWhy(), maxReason),
		fetchBase: m.GetFetchBaseMs(), slowRuns: m.GetSlowRuns(), Seq: m.GetSeq(), Outbox: m.GetOutbox(), Secure: m.GetSecure(),
		OptOut:     OptOut{Version: m.GetOptOutVersion(), On: m.GetOptOut(), At: d.time(m.GetOptOutAtMs()), Why: d.str(m.GetOptOutWhy(), maxReason), Unproved: m.GetOptOutUnproved()},
		Validators: Validators{Used: d.total(m.GetConditional()), Checked: d.total(m.GetChecked()), Lied: d.total(m.GetLied())},
		rest:       rest,
	}
	d.within(r.Name != "" && len(r.Addrs) <= wire.MaxAddrs && len(m.GetMeasured()) <= maxMeasurements && r.OptOut.Version <= maxVersion)
	for i, n := range m.GetSignals()[:min(len(m.GetSignals()), 2*signals)] {
		d.within(n <= 2*maxSignals)
		if p := &r.Signals[i/2]; i%2 == 0 {
			p.Right = n
		} else {
			p.Wrong = n
		}
	}
	d.within(r.OptOut.Version > 0 || r.OptOut == OptOut{})
	for _, addr := range r.Addrs {
		d.within(len(addr) <= 16)
	}
	for _, of := range m.GetMeasured() {
		r.Measured = append(r.Measured, Measurement{d.str(of.GetPeer(), wire.MaxPeer), d.count(of.GetRttUs()), d.str(of.GetError(), maxReason)})
	}
	return r, d.end(nil)
}

// Encode returns the encoded record.
func (c *Counters) Encode() []byte {
	last := len(c.Outcomes)
	for last > 0 && c.Outcomes[last-1] <= 0 {
		last--
	}
	return marshal(&record.Counters{
		Accepted: max(c.Accepted, 0), Outcomes: c.Outcomes[:last], Delayed: max(c.Delayed, 0), Promised: max(c.Promised, 0),
		Bytes: max(c.Bytes, 0), Refetched: max(c.Refetched, 0), Down: uint32(c.Down), DownUntilMs: max(c.DownUntil, 0),
		Outbox: max(c.Outbox, 0), Entries: max(c.Entries, 0), Exhausted: c.Exhausted, Admission: uint32(c.Admission),
		LeftOut: max(c.LeftOut, 0), Requests: max(c.Requests, 0), Cut: max(c.Cut, 0), Trap: c.Trap,
		Scheduled: max(c.Scheduled, 0), Rated: max(c.Rated, 0), Rates: max(c.Rates, 0), Visits: max(c.Visits, 0), Changes: max(c.Changes, 0),
		NotModified: max(c.NotModified, 0), Threshold: c.Threshold, Refresh: uint64(c.Refresh),
	}, c.Rest)
}

// DecodeCounters decodes the counters of a job.
func DecodeCounters(b []byte) (Counters, error) {
	var m record.Counters
	rest, err := unmarshal(b, &m)
	if err != nil {
		return Counters{}, err
	}
	var d reader
	c := Counters{
		Accepted: d.count(m.GetAccepted()), Delayed: d.count(m.GetDelayed()), Promised: d.count(m.GetPromised()), Bytes: d.count(m.GetBytes()),
		Refetched: d.count(m.GetRefetched()), Down: d.outcome(m.GetDown()), DownUntil: d.time(m.GetDownUntilMs()),
		Outbox: d.count(m.GetOutbox()), Entries: d.count(m.GetEntries()), Exhausted: m.GetExhausted(),
		Admission: domain.Verdict(min(m.GetAdmission(), 255)), LeftOut: d.count(m.GetLeftOut()), // bounded
		Requests: d.count(m.GetRequests()), Cut: d.count(m.GetCut()), Trap: m.GetTrap(), Rest: rest,
		Scheduled: d.count(m.GetScheduled()), Rated: d.count(m.GetRated()), Rates: d.count(m.GetRates()), Visits: d.count(m.GetVisits()),
		Changes: d.count(m.GetChanges()), NotModified: d.count(m.GetNotModified()), Threshold: m.GetThreshold(), Refresh: job.Refresh(m.GetRefresh()),
	}
	d.within(c.Admission.Valid() && len(m.GetOutcomes()) <= len(c.Outcomes))
	for i, n := range m.GetOutcomes()[:min(len(m.GetOutcomes()), len(c.Outcomes))] {
		c.Outcomes[i] = d.count(n)
	}
	return c, d.end(nil)
}

// Accounts is this peer's account of the budget of a job.
type Accounts struct {
	Pages Account // in pages
	Bytes Account // in bytes
	Rest  string  // unknown fields
}

// Encode returns the encoded record.
func (a *Accounts) Encode() []byte {
	return marshal(&record.Accounts{
		PagesDrawn: a.Pages.Drawn, PagesReturned: a.Pages.Returned, PagesUsed: a.Pages.Used, PagesBound: a.Pages.Bound,
		BytesDrawn: a.Bytes.Drawn, BytesReturned: a.Bytes.Returned, BytesUsed: a.Bytes.Used, BytesBound: a.Bytes.Bound,
	}, a.Rest)
}

// DecodeAccounts decodes the account of a job's budget.
func DecodeAccounts(b []byte) (Accounts, error) {
	var m record.Accounts
	rest, err := unmarshal(b, &m)
	var d reader
	return Accounts{
		Pages: Account{Drawn: d.total(m.GetPagesDrawn()), Returned: d.total(m.GetPagesReturned()), Used: d.total(m.GetPagesUsed()), Bound: d.total(m.GetPagesBound())},
		Bytes: Account{Drawn: d.total(m.GetBytesDrawn()), Returned: d.total(m.GetBytesReturned()), Used: d.total(m.GetBytesUsed()), Bound: d.total(m.GetBytesBound())},
		Rest:  rest,
	}, d.end(err)
}

// Totals holds counters of the peer that are not part of a job's counters.
type Totals struct {
	Hosts int64  // with a record
	rest  string // unknown fields
}

// Encode returns the encoded record.
func (t *Totals) Encode() []byte { return marshal(&record.Totals{Hosts: max(t.Hosts, 0)}, t.rest) }

// DecodeTotals decodes totals.
func DecodeTotals(b []byte) (Totals, error) {
	var m record.Totals
	rest, err := unmarshal(b, &m)
	var d reader
	return Totals{Hosts: d.count(m.GetHosts()), rest: rest}, d.end(err)
}

// EncodeRobots encodes the robots.txt state of an origin: it replaces the existing record.
func EncodeRobots(state []byte) []byte { return marshal(&record.Robots{State: state}, "") }

// DecodeRobots decodes the robots.txt state of an origin.
func DecodeRobots(value []byte) (state robots.State, err error) {
	var m record.Robots
	if _, err = unmarshal(value, &m); err == nil {
		err = state.UnmarshalBinary(m.GetState())
	}
	return state, err
}
