package owner

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Merging is a union (design, section 4, invariant 4): each part of a record has a total order, and
// the greater of two values wins, so merges are idempotent and commute. State that a stale copy
// must not restore is not merged: that a host is down, and the budget reserved for a URL that is
// already present.

// importer merges records of other owners.
type importer struct {
	*hosts.Step
	jobs     *hosts.JobTable
	hosts    *hosts.Table
	outgoing *links.Outgoing
	leases   *leases.Leases
	reviewer *reviewer
}

// admitRecord rejects a host record that no correct owner writes, since workers would reject grants
// made from it. It also clamps values later than any that this peer writes: the greater value wins
// a merge, so they could never be replaced.
func (m *importer) admitRecord(r *ondisk.Host) error {
	if !isHost("http://", r.Name) && !isHost("https://", r.Name) {
		return errors.New("invalid host name")
	}
	for _, addr := range r.Addrs {
		if len(addr) != 4 && len(addr) != 16 {
			return fmt.Errorf("address of %d bytes, want 4 or 16", len(addr))
		}
	}
	if m.Ahead(r.Epoch) {
		return fmt.Errorf("epoch %d is too far in the future", r.Epoch.Counter)
	}
	latest := m.Latest()
	r.NotBefore, r.BackoffUntil = min(r.NotBefore, latest), min(r.BackoffUntil, latest)
	r.PlacedAt, r.OptOut.At = min(r.PlacedAt, latest), min(r.OptOut.At, latest)
	return nil
}

// isHost reports whether name is the host of URLs with this scheme. Its port may be one that is
// rejected by now: existing records of the host are still transferred, and nothing new is accepted.
func isHost(scheme, name string) bool {
	if domain.HasPort(name) {
		port := strings.TrimPrefix(name, job.HostName(name)+":")
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
			return false
		}
		name = job.HostName(name)
	}
	canonical, err := link.Canonical(scheme + name + "/")
	return err == nil && link.Host(canonical) == name
}

// host merges the host record. Its worker may hold a lease until the given time.
func (m *importer) host(h *hosts.Host, in *ondisk.Host, until int64) {
	m.leases.Claimed(h, in, until)
	if h.Rec.Merge(in, m.Cfg.ProveOptOuts) {
		m.reviewer.optOutChanged(h)
	}
	m.hosts.Touched(h)
}

func (m *importer) record(h *hosts.Host, rec kv.Record) error {
	kind, tail := rec.Key[1+ring.PosSize], rec.Key[1+ring.PosSize+1:]
	if kind == ondisk.KindRobots {
		return m.robots(h, string(tail), rec)
	}
	if len(tail) < job.IDSize {
		return ondisk.ErrFormat
	}
	js := m.jobs.Of(job.ID(tail))
	tail = tail[job.IDSize:]
	switch kind {
	case ondisk.KindReady, ondisk.KindDelayed:
		return m.pending(h, js, kind, tail, rec.Value)
	case ondisk.KindEntry:
		return m.entry(h, js, tail, rec.Value)
	case ondisk.KindOutbox:
		return m.outbox(h, js, tail, rec.Value)
	case ondisk.KindCounters:
		return m.counters(h, js, tail, rec.Value)
	case ondisk.KindTrap:
		return m.trap(h, js, tail, rec)
	case ondisk.KindSource:
		return m.source(js, tail, rec)
	case ondisk.KindVisit:
		return nil // the entry has it
	default:
		return ondisk.ErrFormat
	}
}

// robots merges the robots.txt state of an origin: the one fetched later wins.
func (m *importer) robots(h *hosts.Host, origin string, rec kv.Record) error {
	if !h.HasOrigin(origin) {
		return ondisk.ErrFormat
	}
	in, err := ondisk.DecodeRobots(rec.Value)
	if err != nil {
		return err
	}
	raw, ok := m.Buf.Get(rec.Key)
	if had, err := ondisk.DecodeRobots(raw); ok && err == nil {
		order := cmp.Or(in.Fetched.Compare(had.Fetched), in.Expires.Compare(had.Expires), bytes.Compare(rec.Value, raw))
		if order <= 0 {
			return nil
		}
	}
	m.Buf.Set(rec.Key, rec.Value)
	return nil
}

// maxCounted bounds the counters of a host that are not recomputed from its URLs, so that no sum
// over the hosts that can be sent overflows.
const maxCounted = 1 << 32

// counters merges the counters that are not recomputed from the URLs.
func (m *importer) counters(h *hosts.Host, js *hosts.JobState, tail, value []byte) error {
	in, err := ondisk.DecodeCounters(value)
	if err != nil {
		return err
	}
	if len(tail) > 0 || max(in.Refetched, in.Requests, in.Cut) > maxCounted {
		return ondisk.ErrFormat
	}
	m.Book(h, js).Merge(&in)
	return nil
}

// source stores a source of URLs.
func (m *importer) source(js *hosts.JobState, tail []byte, rec kv.Record) error {
	from, err := ondisk.DecodeSource(rec.Value)
	if hash, ok := ondisk.HashIn(tail); err != nil || !ok || hash != ondisk.SourceHash(js.ID, rec.Value) || !from.Canonical() {
		return ondisk.ErrFormat
	}
	if _, had := m.Buf.Get(rec.Key); !had {
		m.Buf.Set(rec.Key, rec.Value)
	}
	return nil
}

func (m *importer) pending(h *hosts.Host, js *hosts.JobState, kind byte, tail, value []byte) error {
	at, ok := ondisk.SpotIn(kind, tail)
	p, err := ondisk.DecodePending(at, value)
	if !ok || err != nil {
		return ondisk.ErrFormat
	}
	return m.waiting(h, js, p)
}

// waiting merges a pending URL.
func (m *importer) waiting(h *hosts.Host, js *hosts.JobState, p ondisk.Pending) error {
	if link.Host(p.URL) != h.Rec.Name || link.Hash(js.ID, p.URL) != p.Hash {
		return ondisk.ErrFormat
	}
	p.Due = min(p.Due, m.Latest())
	hj := m.Book(h, js)
	n, ok, err := hj.Peek(p.Hash)
	if err != nil {
		return err
	}
	if !ok {
		hj.Learn(p.Hash)
		if p.Promised {
			hj.Adopt(&p)
		}
		due := p.Due
		p.Seq, p.Due, p.Foreign = 0, 0, p.Promised
		hj.Wait(&p, due)
		return nil
	}
	if !n.Done {
		mergePending(h, hj, n.At, &p)
	}
	return nil
}

// mergePending merges two states of a URL without an outcome.
func mergePending(h *hosts.Host, hj *hosts.Job, at ondisk.Spot, in *ondisk.Pending) {
	had, ok := hj.Pending(at)
	if !ok {
		return
	}
	p := had
	p.Hops, p.Kind = min(p.Hops, in.Hops), min(p.Kind, in.Kind) // a page ranks before a requisite
	p.Depth, p.Via = ondisk.Nearer(p.Depth, p.Via, in.Depth, in.Via)
	p.Lapses = max(p.Lapses, in.Lapses)
	if in.Tries > p.Tries || in.Tries == p.Tries && in.Due > p.Due {
		p.Tries, p.Due = in.Tries, in.Due
	}
	if p == had {
		return
	}
	it := h.Lease.Item(p.Hash)
	hj.Move(had.Spot, &p, it != nil)
	if it != nil {
		it.Pending = p
		it.URL = ""
	}
}

func (m *importer) entry(h *hosts.Host, js *hosts.JobState, tail, value []byte) error {
	in, err := ondisk.DecodeEntry(value)
	hash, ok := ondisk.HashIn(tail)
	if err != nil || !ok {
		return ondisk.ErrFormat
	}
	switch {
	case in.Done:
	case in.Waits == nil:
		return nil // the pending record has the state
	case in.Waits.Hash != hash:
		return ondisk.ErrFormat
	default:
		return m.waiting(h, js, *in.Waits)
	}
	f := &in.Final
	if hash != link.Hash(js.ID, f.URL) || link.Host(f.URL) != h.Rec.Name {
		return ondisk.ErrFormat
	}
	if f.Revisit.Due == 0 && js.Refresh != 0 {
		js.Rescan() // its last owner had not scheduled it
	}
	hj := m.Book(h, js)
	n, had, err := hj.Peek(hash)
	if err != nil {
		return err
	}
	if !had {
		hj.Learn(hash)
		p := ondisk.Pending{Hash: hash, URL: f.URL, Hops: f.Hops, Kind: f.Kind, Tries: f.Tries, Via: f.Via, Spot: ondisk.Spot{Depth: f.Depth}}
		hj.Conclude(&p, *f)
		return nil
	}
	if n.Done {
		m.mergeDone(hj, hash, &n, f)
	} else {
		m.mergeOutcome(h, hj, n.At, f)
	}
	return nil
}

// mergeOutcome applies an imported outcome to a URL that is pending here.
func (m *importer) mergeOutcome(h *hosts.Host, hj *hosts.Job, at ondisk.Spot, f *ondisk.Final) {
	p, ok := hj.Pending(at)
	if !ok {
		return
	}
	if it := h.Lease.Item(p.Hash); it != nil {
		delete(h.Lease.Out, p.Hash)
		hj.Returned(&it.Pending)
	}
	hj.Settle(&p, pageOf(f.Outcome), f.Size)
	hj.Drop(&p)
	p.Depth, p.Hops, p.Kind, p.Tries, p.Via = f.Depth, f.Hops, f.Kind, f.Tries, f.Via
	hj.Conclude(&p, *f)
}

// mergeDone merges two outcomes of one URL.
func (m *importer) mergeDone(hj *hosts.Job, hash uint64, n *ondisk.Entry, in *ondisk.Final) {
	had := n.Final
	if in.Beats(&had) {
		n.Final = *in
	}
	n.Final.Depth, n.Final.Via = ondisk.Nearer(had.Depth, had.Via, in.Depth, in.Via)
	n.Final.Revisit.Due = ondisk.Later(&had, in)
	hj.Correct(hash, &had, &n.Final)
}

func (m *importer) outbox(h *hosts.Host, js *hosts.JobState, tail, value []byte) error {
	in, err := ondisk.DecodeLinks(value)
	hash, ok := ondisk.HashIn(tail)
	if err != nil || !ok || len(in.Links) == 0 {
		return ondisk.ErrFormat
	}
	if in.Links = ondisk.Sorted(in.Links); in.Source != nil && !in.Source.Canonical() {
		in.Source = nil
	}
	m.outgoing.Put(h, js, hash, in)
	return nil
}
