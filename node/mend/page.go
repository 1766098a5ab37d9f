package mend

import (
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/storage/warc"
)

// page is an exchange of the archive.
type page struct {
	url, host string
	date      time.Time
	status    int
	mime      string
	digest    []byte
	// What follows is known of pages that were read, not of those that an index tells of.
	id        []byte // of the record
	size      int64  // of the body
	revisit   bool
	refersTo  string // the URL that a revisit refers to
	truncated bool   // at the bound on size
	depth     uint32
	seed      bool   // no link led there
	location  string // where a redirect leads
	links     []string
	counts    pages.LinkCounts // of what kind the links are
}

// outcome is what became of the URL, as the worker that fetched it told.
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

// concluded says that the URL is done with it: another try would not be made. What an index tells
// of a redirect is not enough.
func (p *page) concluded() bool {
	if p.status >= 400 {
		return !link.OutcomeHTTPError.Retryable(p.status)
	}
	return p.status >= 200 && p.status <= 299 || p.location != ""
}

// final is the outcome as the owner keeps it.
func (p *page) final(holder string) *owner.Final {
	f := &owner.Final{
		URL: p.url, Outcome: p.outcome(), Status: p.status, Depth: p.depth, Kind: link.KindPage, FetchedMs: p.date.UnixMilli(),
		Size: uint64(max(p.size, 0)), MIME: p.mime, Detail: "taken from the archive by a repair",
	}
	if f.Outcome.Fetched() || f.Outcome == link.OutcomeTooLarge {
		f.RecordID, f.Holder = p.id, holder
	}
	if f.Outcome.Fetched() {
		f.Digest = p.digest
	}
	f.SetTarget(p.location)
	return f
}

// pageReader reads the pages of one archive file.
type pageReader struct {
	path  string
	links bool // read the file, and what belongs to each page
	each  func(*page) error
	page  *page // whose metadata may follow
	of    string
}

func (r *pageReader) read() error {
	name := filepath.Base(r.path)
	lines, err := readIndex(warc.IndexName(r.path))
	if !r.links && err == nil {
		return r.indexed(lines)
	}
	known := warc.Extents(lines)
	if err != nil {
		known = nil
	}
	if err := warc.Sift(r.open, name, known, r.record, func(warc.Loss) error { return r.flush() }); err != nil {
		return err
	}
	return r.flush()
}

func readIndex(path string) ([]warc.IndexLine, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return warc.ParseIndex(f)
}

func (r *pageReader) open(offset int64) (io.ReadCloser, error) {
	f, err := os.Open(r.path)
	if err != nil {
		return nil, err
	}
	_, err = f.Seek(offset, io.SeekStart)
	return f, err
}

func (r *pageReader) indexed(lines []warc.IndexLine) error {
	for i := range lines {
		l := &lines[i]
		p := &page{url: l.URL, host: link.Host(l.URL), date: l.Date, mime: l.MIME}
		p.status, _ = strconv.Atoi(l.Status)
		if err := r.each(p); err != nil {
			return err
		}
	}
	return nil
}

// flush tells of the page that was read last.
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
		url: rec.TargetURI, host: link.Host(rec.TargetURI), date: rec.Date, size: rec.ContentLength - int64(len(head)), revisit: rec.Type == warc.TypeRevisit,
		refersTo: strings.Trim(rec.Get("WARC-Refers-To-Target-URI"), "<>"), truncated: rec.Type == warc.TypeResponse && rec.Get("WARC-Truncated") == warc.TruncatedLength,
	}
	if id, err := warc.ParseID(rec.ID); err == nil {
		p.id = id[:]
	}
	if _, sum, ok := strings.Cut(rec.Get("WARC-Payload-Digest"), ":"); ok {
		p.digest, _ = hex.DecodeString(sum)
	}
	p.head(head)
	if err := errors.Join(rec.Skip(), r.flush()); err != nil {
		return err
	}
	r.page, r.of = p, rec.ID
	return nil
}

// head reads status, type and goal of an HTTP head.
func (p *page) head(raw []byte) {
	status, header, target := crawling.ParseHead(p.url, raw)
	p.status, p.location = status, target
	p.mime, _, _ = strings.Cut(header.Get("Content-Type"), ";")
	p.mime = strings.ToLower(strings.TrimSpace(p.mime))
}

// maxMetadata bounds the metadata of a page, in bytes.
const maxMetadata = 64 << 20

// metadata reads the depth and the links of a page.
func (r *pageReader) metadata(rec *warc.Record) error {
	raw, err := io.ReadAll(io.LimitReader(rec, maxMetadata))
	if err != nil {
		return err
	}
	if err := rec.Skip(); err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "outlink":
			r.page.links = append(r.page.links, value)
		case crawling.LinkCountsField:
			r.page.counts, _ = pages.ParseLinkCounts(value)
		case "hopsFromSeed":
			n, _ := strconv.ParseUint(value, 10, 32)
			r.page.depth, r.page.seed = uint32(n), value == "0"
		}
	}
	return nil
}

// followed calls fn for the links that were followed, with their kinds.
func (p *page) followed(fn func(url string, kind link.Kind)) {
	at := 0
	for _, group := range []struct {
		n    int
		kind link.Kind
	}{{p.counts.Pages, link.KindPage}, {p.counts.Requisites, link.KindRequisite}, {p.counts.Sitemaps, link.KindSitemap}} {
		for ; group.n > 0 && at < len(p.links); group.n, at = group.n-1, at+1 {
			fn(p.links[at], group.kind)
		}
	}
}
