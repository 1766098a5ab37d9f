package owner

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/record"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Records that are messages of package record behind a byte with the version: hosts, counters,
// accounts, robots.txt, totals, and the lists of links in outlinks.go. What earlier versions wrote
// is read by old.go, and becomes a message when it is written next. Fields that are not known here
// are kept and written back.

// formatMessage is the first byte of a value that is a message. The tiny records that are written
// most often, of URLs, have format; why is in docs/decisions/27-records-as-messages.md.
const formatMessage = 2

// ErrNewer says that a record was written by a later version.
var ErrNewer = errors.New("a later version wrote it")

func newer(version byte) error {
	return fmt.Errorf("%w: record of format %d, this version of apoidea reads up to %d: run that later version again, nothing is lost", ErrNewer, version, formatMessage)
}

const (
	// maxMessage bounds a message but for those of links and robots.txt: what a stranger sent takes
	// little memory to read.
	maxMessage = 64 << 10
	// maxRest bounds what is kept of fields that are not known here.
	maxRest = 4 << 10
)

// marshal writes a message, with the fields that are not known here.
func marshal(m proto.Message, rest string) []byte {
	b := append(make([]byte, 0, 1+proto.Size(m)+len(rest)), formatMessage)
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		panic(err) // no message of package record has a field that could fail: they have no strings and no required fields
	}
	return append(b, rest...)
}

// unmarshal reads a message of at most so many bytes, and returns the fields that are not known here.
func unmarshal(value []byte, m proto.Message, most int) (rest string, err error) {
	switch {
	case len(value) > 0 && value[0] > formatMessage:
		return "", newer(value[0])
	case len(value) == 0 || value[0] != formatMessage || len(value) > most:
		return "", errFormat
	}
	if err := proto.Unmarshal(value[1:], m); err != nil {
		return "", fmt.Errorf("%w: %w", errFormat, err)
	}
	fields := m.ProtoReflect().GetUnknown()
	if len(fields) > maxRest {
		return "", fmt.Errorf("%w: %d bytes of fields that are not known here", errFormat, len(fields))
	}
	return string(fields), nil
}

// isOld says whether a value was written before records were messages.
func isOld(value []byte) bool { return len(value) > 0 && value[0] == format }

// reader takes fields of a message within their bounds; bad once one was beyond.
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
	r.within(n >= 0 && n <= maxTime)
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
	return link.Outcome(n) //nolint:gosec // bounded
}

func (r *reader) end(err error) error {
	if err == nil && r.bad {
		return errFormat
	}
	return err
}

func (r *hostRecord) encode() []byte {
	m := record.Host{
		Name: []byte(r.name), EpochCounter: r.epoch.Counter, EpochPeer: []byte(r.epoch.Peer), Version: r.version, Worker: []byte(r.worker),
		NotBeforeMs: max(r.notBefore, 0), BackoffUntilMs: max(r.backoffUntil, 0), BackoffReason: []byte(r.backoffReason),
		Fails: r.fails, FailOutcome: uint32(r.failOutcome), Addrs: r.addrs,
		Placed: []byte(r.placed), PlacedAtMs: max(r.placedAt, 0), PlacedWhy: []byte(r.placedWhy),
		FetchBaseMs: r.fetchBase, SlowRuns: r.slowRuns, Seq: r.seq, Outbox: r.outbox, Secure: r.secure,
		OptOutVersion: r.optOut.version, OptOut: r.optOut.on, OptOutAtMs: max(r.optOut.at, 0), OptOutWhy: []byte(r.optOut.why),
	}
	if len(r.measured) > 0 {
		list := make([]record.Measurement, len(r.measured))
		m.Measured = make([]*record.Measurement, len(r.measured))
		for i := range r.measured {
			of := &r.measured[i]
			list[i].Peer, list[i].RttUs, list[i].Error = []byte(of.Peer), max(of.RTTUs, 0), []byte(of.Error)
			m.Measured[i] = &list[i]
		}
	}
	return marshal(&m, r.rest)
}

func decodeHost(b []byte) (hostRecord, error) {
	if isOld(b) {
		return oldHost(b)
	}
	var m record.Host
	rest, err := unmarshal(b, &m, maxMessage)
	if err != nil {
		return hostRecord{}, err
	}
	var d reader
	r := hostRecord{
		name: d.str(m.GetName(), wire.MaxHost), epoch: Epoch{m.GetEpochCounter(), d.str(m.GetEpochPeer(), wire.MaxPeer)}, version: m.GetVersion(),
		worker: d.str(m.GetWorker(), wire.MaxPeer), notBefore: d.time(m.GetNotBeforeMs()),
		backoffUntil: d.time(m.GetBackoffUntilMs()), backoffReason: d.str(m.GetBackoffReason(), maxReason),
		fails: m.GetFails(), failOutcome: d.outcome(m.GetFailOutcome()), addrs: m.GetAddrs(),
		placed: d.str(m.GetPlaced(), wire.MaxPeer), placedAt: d.time(m.GetPlacedAtMs()), placedWhy: d.str(m.GetPlacedWhy(), maxReason),
		fetchBase: m.GetFetchBaseMs(), slowRuns: m.GetSlowRuns(), seq: m.GetSeq(), outbox: m.GetOutbox(), secure: m.GetSecure(),
		optOut: optOut{version: m.GetOptOutVersion(), on: m.GetOptOut(), at: d.time(m.GetOptOutAtMs()), why: d.str(m.GetOptOutWhy(), maxReason)},
		rest:   rest,
	}
	d.within(r.name != "" && len(r.addrs) <= wire.MaxAddrs && len(m.GetMeasured()) <= maxMeasurements && r.optOut.version <= maxVersion)
	d.within(r.optOut.version > 0 || r.optOut == optOut{})
	for _, addr := range r.addrs {
		d.within(len(addr) <= 16)
	}
	for _, of := range m.GetMeasured() {
		r.measured = append(r.measured, Measurement{d.str(of.GetPeer(), wire.MaxPeer), d.count(of.GetRttUs()), d.str(of.GetError(), maxReason)})
	}
	return r, d.end(nil)
}

func (c *counters) encode() []byte {
	last := len(c.outcomes)
	for last > 0 && c.outcomes[last-1] <= 0 {
		last--
	}
	return marshal(&record.Counters{
		Accepted: max(c.accepted, 0), Outcomes: c.outcomes[:last], Delayed: max(c.delayed, 0), Promised: max(c.promised, 0),
		Bytes: max(c.bytes, 0), Refetched: max(c.refetched, 0), MinDepth: c.minDepth, Down: uint32(c.down), DownUntilMs: max(c.downUntil, 0),
		Outbox: max(c.outbox, 0), Entries: max(c.entries, 0), Exhausted: c.exhausted, Admission: uint32(c.admission),
		LeftOut: max(c.leftOut, 0), Requests: max(c.requests, 0), Cut: max(c.cut, 0), Trap: c.trap,
	}, c.rest)
}

func decodeCounters(b []byte) (counters, error) {
	if isOld(b) {
		return oldCounters(b)
	}
	var m record.Counters
	rest, err := unmarshal(b, &m, maxMessage)
	if err != nil {
		return counters{}, err
	}
	var d reader
	c := counters{
		accepted: d.count(m.GetAccepted()), delayed: d.count(m.GetDelayed()), promised: d.count(m.GetPromised()), bytes: d.count(m.GetBytes()),
		refetched: d.count(m.GetRefetched()), minDepth: m.GetMinDepth(), down: d.outcome(m.GetDown()), downUntil: d.time(m.GetDownUntilMs()),
		outbox: d.count(m.GetOutbox()), entries: d.count(m.GetEntries()), exhausted: m.GetExhausted(),
		admission: domain.Verdict(min(m.GetAdmission(), 255)), leftOut: d.count(m.GetLeftOut()), //nolint:gosec // bounded
		requests: d.count(m.GetRequests()), cut: d.count(m.GetCut()), trap: m.GetTrap(), rest: rest,
	}
	d.within(c.admission.Valid() && len(m.GetOutcomes()) <= len(c.outcomes))
	for i, n := range m.GetOutcomes()[:min(len(m.GetOutcomes()), len(c.outcomes))] {
		c.outcomes[i] = d.count(n)
	}
	return c, d.end(nil)
}

// accounts are what is kept of the budget of a job.
type accounts struct {
	pages, bytes account
	rest         string // fields of later versions
}

func (a *accounts) encode() []byte {
	return marshal(&record.Accounts{
		PagesDrawn: a.pages.drawn, PagesReturned: a.pages.returned, PagesUsed: a.pages.used, PagesBound: a.pages.bound,
		BytesDrawn: a.bytes.drawn, BytesReturned: a.bytes.returned, BytesUsed: a.bytes.used, BytesBound: a.bytes.bound,
	}, a.rest)
}

func decodeAccounts(b []byte) (accounts, error) {
	if isOld(b) {
		return oldAccounts(b)
	}
	var m record.Accounts
	rest, err := unmarshal(b, &m, maxMessage)
	var d reader
	return accounts{
		pages: account{drawn: d.total(m.GetPagesDrawn()), returned: d.total(m.GetPagesReturned()), used: d.total(m.GetPagesUsed()), bound: d.total(m.GetPagesBound())},
		bytes: account{drawn: d.total(m.GetBytesDrawn()), returned: d.total(m.GetBytesReturned()), used: d.total(m.GetBytesUsed()), bound: d.total(m.GetBytesBound())},
		rest:  rest,
	}, d.end(err)
}

func (t *totals) encode() []byte { return marshal(&record.Totals{Hosts: max(t.hosts, 0)}, t.rest) }

func decodeTotals(b []byte) (totals, error) {
	if isOld(b) {
		return oldTotals(b)
	}
	var m record.Totals
	rest, err := unmarshal(b, &m, maxMessage)
	var d reader
	return totals{hosts: d.count(m.GetHosts()), rest: rest}, d.end(err)
}

// encodeRobots writes what is kept of an origin's robots.txt: it replaces what was there.
func encodeRobots(state []byte) []byte { return marshal(&record.Robots{State: state}, "") }

// robotsState is the encoding of [robots.State] in a record.
func robotsState(value []byte) ([]byte, error) {
	if isOld(value) {
		return value[1:], nil
	}
	var m record.Robots
	if _, err := unmarshal(value, &m, wire.MaxRobotsState+maxMessage); err != nil {
		return nil, err
	}
	return m.GetState(), nil
}

// decodeRobots reads what is kept of an origin's robots.txt.
func decodeRobots(value []byte) (state robots.State, err error) {
	raw, err := robotsState(value)
	if err == nil && len(raw) > wire.MaxRobotsState {
		err = errFormat
	}
	if err == nil {
		err = state.UnmarshalBinary(raw)
	}
	return state, err
}
