package repair

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/warc"
)

// page is an exchange of the archive with its metadata.
type page struct {
	url       string
	date      time.Time
	status    int
	mime      string
	digest    []byte
	id        warc.ID // of the record
	at        warc.Ref
	size      int64 // bytes of the body
	revisit   bool
	refersTo  string // URL that a revisit refers to
	truncated bool   // by the size limit
	depth     uint32
	location  string // target of a redirect
	outlinks  []string
	counts    pages.LinkCounts // of the kinds of outlinks
	// via, path and seed are its provenance, as in the metadata.
	via, path, seed string
}

// source returns the page that led to a page; nil: none, or unknown.
func (p *page) source() *link.Source {
	s := &link.Source{URL: p.via, Seed: p.seed}
	if last := len(p.path) - 1; last >= 0 {
		s.Path, s.Role = p.path[:last], map[byte]link.Role{'R': link.RoleRedirect, 'M': link.RoleSitemap}[p.path[last]]
	}
	return usable(s)
}

// asSource returns a page as the source of its links; nil if its own is unknown.
func (p *page) asSource() *link.Source {
	s := &link.Source{URL: p.url, Path: p.path, Seed: p.seed}
	if p.outcome() == link.OutcomeRedirect {
		s.Role = link.RoleRedirect
	}
	return usable(s)
}

func usable(s *link.Source) *link.Source {
	if s.Seed == "" || !s.Valid() || !s.Canonical() {
		return nil
	}
	return s
}

// outcome returns the outcome as the worker reported it.
func (p *page) outcome() link.Outcome {
	good := p.status >= 200 && p.status <= 299
	switch {
	case good && p.truncated:
		return link.OutcomeTooLarge
	case good && p.revisit && p.refersTo != p.url:
		return link.OutcomeDuplicate
	case good:
		return link.OutcomeOK
	case p.status >= 300 && p.status <= 399 && p.location != "":
		return link.OutcomeRedirect
	default:
		return link.OutcomeHTTPError
	}
}

// concluded reports whether the URL would not be tried again.
func (p *page) concluded() bool {
	if p.status >= 400 {
		return !link.OutcomeHTTPError.Retryable(p.status)
	}
	return p.status >= 200 && p.status <= 299 || p.location != ""
}

// final returns the outcome as the owner stores it.
func (p *page) final(holder string) *owner.Final {
	f := &owner.Final{
		URL: p.url, Outcome: p.outcome(), Status: p.status, Depth: p.depth, Kind: link.KindPage, FetchedMs: p.date.UnixMilli(),
		Size: uint64(max(p.size, 0)), MIME: p.mime, Detail: "restored from the archive",
	}
	if f.Outcome.Fetched() || f.Outcome == link.OutcomeTooLarge {
		f.RecordID, f.Holder = p.id[:], holder
	}
	if f.Outcome.Fetched() {
		f.Digest = p.digest
	}
	f.SetTarget(p.location)
	return f
}

// found returns the links that were followed, of a page with that depth.
func (p *page) found(depth uint32) (list []foundLink) {
	if p.outcome() == link.OutcomeRedirect {
		list = append(list, foundLink{url: p.location, depth: depth})
	}
	rest := p.outlinks
	for _, group := range []struct {
		n     int
		kind  link.Kind
		depth uint32
	}{{p.counts.Pages, link.KindPage, depth + 1}, {p.counts.Requisites, link.KindRequisite, depth}, {p.counts.Sitemaps, link.KindSitemap, depth + 1}} {
		n := min(group.n, len(rest))
		for _, url := range rest[:n] {
			list = append(list, foundLink{url, group.depth, group.kind})
		}
		rest = rest[n:]
	}
	return list
}

// pageReader reads the pages of an archive file.
type pageReader struct {
	each func(*page) error
	file string // name of the current file
	page *page  // the last one, whose metadata may follow
	of   string // ID of its record
}

// read reads a file up to its end or an incomplete record.
func (r *pageReader) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r.file = filepath.Base(path)
	for records := warc.NewReader(f, false); ; {
		rec, err := records.Next()
		if err == nil {
			err = r.record(rec)
		}
		if errors.Is(err, io.EOF) || warc.IsDamage(err) {
			return r.flush()
		}
		if err != nil {
			return err
		}
	}
}

// flush passes on the page that was read last.
func (r *pageReader) flush() error {
	p := r.page
	if r.page = nil; p == nil {
		return nil
	}
	return r.each(p)
}

func (r *pageReader) record(rec *warc.Record) error {
	switch {
	case rec.Type == warc.TypeMetadata && r.page != nil && strings.Trim(rec.Get("WARC-Concurrent-To"), "<>") == r.of:
		return r.metadata(rec)
	case rec.Type != warc.TypeResponse && rec.Type != warc.TypeRevisit:
		return rec.Skip()
	}
	head, err := rec.HTTPHead()
	if err != nil {
		return err
	}
	p := &page{
		url: rec.TargetURI, date: rec.Date, at: warc.Ref{File: r.file, Offset: rec.Offset}, size: rec.ContentLength - int64(len(head)), revisit: rec.Type == warc.TypeRevisit,
		refersTo: strings.Trim(rec.Get("WARC-Refers-To-Target-URI"), "<>"), truncated: rec.Type == warc.TypeResponse && rec.Get("WARC-Truncated") == warc.TruncatedLength,
	}
	p.id, _ = warc.ParseID(rec.ID) // zero if it is not a UUID
	if _, sum, ok := strings.Cut(rec.Get("WARC-Payload-Digest"), ":"); ok {
		p.digest, _ = hex.DecodeString(sum)
	}
	status, header, target := crawling.ParseHead(p.url, head)
	p.status, p.location = status, target
	p.mime, _, _ = strings.Cut(header.Get("Content-Type"), ";")
	p.mime = strings.ToLower(strings.TrimSpace(p.mime))
	if err := errors.Join(rec.Skip(), r.flush()); err != nil {
		return err
	}
	r.page, r.of = p, rec.ID
	return nil
}

// maxMetadata is the maximum size of a page's metadata, in bytes.
const maxMetadata = 64 << 20

// metadata reads the depth and the links of a page.
func (r *pageReader) metadata(rec *warc.Record) error {
	raw, err := io.ReadAll(io.LimitReader(rec, maxMetadata))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "outlink":
			r.page.outlinks = append(r.page.outlinks, value)
		case crawling.LinkCountsField:
			r.page.counts, _ = pages.ParseLinkCounts(value)
		case "via":
			r.page.via = value
		case "seed":
			r.page.seed = value
		case crawling.DepthField, "hopsFromSeed": // the latter is the depth in files of an earlier version
			if n, err := strconv.ParseUint(value, 10, 32); err == nil {
				r.page.depth = uint32(n)
			} else {
				r.page.path = value
			}
		}
	}
	return rec.Skip()
}

// restore restores where the archive has bodies. For a peer that is alone it restores the outcomes
// of archived pages too, the records of their bodies, and their links: only then every archived
// page is one of its own hosts.
func (d *draft) restore(ctx context.Context, dir string, alone bool, result *Result) error {
	content, err := dedup.NewContent(d.store.Keyspace(storage.KeyspaceContent))
	if err == nil && alone {
		err = d.restoreJobs()
	}
	if err != nil {
		return err
	}
	paths, err := warc.Files(crawling.ArchiveDir(dir), true)
	if err != nil {
		return nil //nolint:nilerr // no archive has no pages
	}
	for _, path := range paths {
		r := pageReader{each: func(p *page) error {
			err := errors.Join(ctx.Err(), d.body(content, p, alone))
			if err != nil || !alone {
				return err
			}
			restored, err := d.page(p)
			result.Restored += restored
			return err
		}}
		if err := r.read(path); err != nil {
			return err
		}
	}
	if t := d.owner.Totals(); t.URLsPending+t.URLsWaiting > 0 {
		for id := range d.jobs {
			if err := d.resume(d.now, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreJobs restores the records of the jobs and their seeds, which no other peer has.
func (d *draft) restoreJobs() error {
	registry := job.NewRegistry(d.store.Keyspace(storage.KeyspaceJobs))
	for id, j := range d.jobs {
		_, _, err := registry.Restore(d.now.UnixMilli(), j.spec, j.standing)
		if err == nil {
			_, err = registry.SeedsSent(d.now.UnixMilli(), id, uint64(len(j.spec.Seeds)))
		}
		if err != nil {
			return err
		}
		seeds := make([]foundLink, len(j.spec.Seeds))
		for i, url := range j.spec.Seeds {
			seeds[i].url = url
		}
		if err := d.admit(id, seeds, nil); err != nil {
			return err
		}
	}
	return nil
}

// page restores the outcome of a page, and admits its links.
func (d *draft) page(p *page) (restored int64, err error) {
	var fates []owner.Fate
	if err := d.step(func() error {
		fates = d.owner.Why(p.url)
		return nil
	}); err != nil {
		return 0, err
	}
	depths := make(map[job.ID]uint32) // of the jobs that have its outcome
	for i := range fates {
		if f := &fates[i]; f.State == "done" {
			depths[f.Job] = f.Final.Depth
		}
	}
	if len(depths) == 0 && p.concluded() {
		for _, id := range d.jobsOf(p, fates) {
			depths[id] = p.depth
			restored++
			if err := d.step(func() error { return d.owner.Import(outcome(id, p.final(string(d.self)), p.source())) }); err != nil {
				return restored, err
			}
		}
	}
	for id, depth := range depths {
		if err := d.admit(id, p.found(depth), p.asSource()); err != nil {
			return restored, err
		}
	}
	return restored, nil
}

// outcome returns the records of a URL's outcome, of its host, and of its source, which may be nil.
func outcome(id job.ID, f *owner.Final, from *link.Source) []kv.Record {
	name := link.Host(f.URL)
	pos := ring.PosOf(ring.HostKey(name))
	host, entry := ondisk.Host{Name: name}, ondisk.Entry{Done: true, Final: *f}
	list := []kv.Record{{Key: ondisk.HostKey(pos), Value: host.Encode()}}
	if from != nil {
		value := ondisk.EncodeSource(from)
		entry.Final.Via = ondisk.SourceHash(id, value)
		list = append(list, kv.Record{Key: ondisk.SourceKey(pos, id, entry.Final.Via), Value: value})
	}
	return append(list, kv.Record{Key: ondisk.EntryKey(pos, id, link.Hash(id, f.URL)), Value: entry.Encode()})
}

// jobsOf returns the jobs of a page without an outcome: those where it is pending, else those that
// would admit it.
func (d *draft) jobsOf(p *page, fates []owner.Fate) (ids []job.ID) {
	for i := range fates {
		if fates[i].State != "unknown" {
			ids = append(ids, fates[i].Job)
		}
	}
	if len(ids) > 0 {
		return ids
	}
	for id, j := range d.jobs {
		if host := link.Host(p.url); links.Refusal(j.spec, p.url, p.depth, link.KindPage, j.spec.MayReach("", host)) == "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// body records where the archive has a body, and of a peer that is alone that this peer has it.
func (d *draft) body(content *dedup.Content, p *page, alone bool) error {
	if p.outcome() != link.OutcomeOK || p.revisit || p.size <= 0 || len(p.digest) != sha256.Size || p.id == (warc.ID{}) {
		return nil
	}
	err := d.store.Keyspace(storage.KeyspaceBodies).UpdateNoSync(func(b kv.Batch) { crawling.PutBody(b, p.digest, p.at) })
	if err != nil || !alone {
		return err
	}
	_, err = content.Confirm(dedup.Key(ring.ContentKey(p.digest)), dedup.Record{URL: p.url, Peer: string(d.self), RecordID: p.id.String(), Date: p.date})
	return err
}

// foundLink is a link of an archived page.
type foundLink struct {
	url   string
	depth uint32
	kind  link.Kind
}

// admit processes links of a page, nil if it is unknown, as those of another owner.
func (d *draft) admit(id job.ID, list []foundLink, from *link.Source) error {
	for part := range slices.Chunk(list, atOnce) {
		m := &wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{id[:]}}
		var sources wire.SourceTable
		for _, l := range part {
			sources.Add(from)
			m.Url, m.Job = append(m.Url, []byte(l.url)), append(m.Job, 0)
			m.Depth, m.Kind = append(m.Depth, l.depth), append(m.Kind, byte(l.kind))
		}
		m.Sources, m.Source = sources.Columns()
		if err := d.step(func() error {
			d.owner.Links(m)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
