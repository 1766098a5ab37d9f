package pages

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// read runs the first step of a page: its links and the digest of its body.
func (l *Pipeline) read(x *extract.Extractor, p *Page) {
	p.digest = sha256.Sum256(p.resp.Body)
	if !good(p.resp.Status) {
		return
	}
	spec := p.item.Job.Spec
	opt := extract.Options{
		Agent: l.cfg.Agent, Requisites: spec != nil && spec.Requisites, Sitemaps: spec == nil || !spec.NoSitemaps,
		URLList: p.item.Depth == 0, Cut: p.resp.Truncated != "",
	}
	var err error
	switch p.item.Kind {
	case link.KindPage:
		err = x.Document(&p.found, p.item.URL, p.resp.Header, p.resp.Body, opt)
		p.found.NoIndex = p.found.NoIndex && !l.cfg.ArchiveNoIndex
	case link.KindSitemap:
		err = x.Sitemap(&p.found, p.item.URL, p.resp.Body, p.resp.Truncated != "")
	case link.KindRequisite:
		if opt.Requisites {
			err = x.StyleSheet(&p.found, p.item.URL, p.resp.Header, p.resp.Body)
		}
	case link.KindRobots:
	}
	if err != nil {
		l.deps.Log.Debug("links not extracted", "url", p.item.URL, "err", err)
	}
	p.content, p.links = contentOf(&p.found, p.digest, len(p.resp.Body))
	p.asked = len(p.resp.Body) > 0 && !p.found.NoIndex && p.resp.Truncated == "" // a truncated body is not claimed
}

func good(status int) bool { return status >= 200 && status <= 299 }

// contentOf returns the digest of the text and the set of links of an HTML document, and of other
// media types the start of the body's digest, 0 without a body; and the SimHash of the first links.
// All peers must compute the same.
func contentOf(found *extract.Page, body [32]byte, size int) (content, similar uint64) {
	switch {
	case size == 0:
		return 0, 0
	case found.Text == 0:
		return max(binary.BigEndian.Uint64(body[:]), 1), 0
	}
	content = found.Text
	var first extract.SimHash
	for i := range found.Links {
		sum := xxhash.Sum64String(found.Links[i].URL)
		content += sum
		if i < similarLinks {
			first.Add(sum)
		}
	}
	return max(content, 1), first.Sum()
}

// similarLinks bounds the links that are compared, as each costs as much as a short word of text.
const similarLinks = 256

// compare returns what a visit after the first fetch found.
func (p *Page) compare() Change {
	before := p.item.Revisit
	switch {
	case before == nil:
		return ""
	case p.resp.Status == http.StatusNotModified && len(p.item.Conditions()) > 0:
		return NotModified
	case !good(p.resp.Status) || p.resp.Truncated != "" || p.found.NoIndex || len(before.GetDigest()) == 0:
		return UnknownChange
	case bytes.Equal(p.digest[:], before.GetDigest()):
		return SameBody
	case p.content != 0 && p.content == before.GetContent():
		return OtherBody
	default:
		return OtherText
	}
}

// finish runs the second step, when the claim is answered: archive and report.
func (l *Pipeline) finish(f *reports.Follower, p *Page) {
	p.change = p.compare()
	outcome, links := p.outcome(l.cfg.DuplicatesDrop)
	var revisit *Original
	switch before := p.item.Revisit; {
	case p.change == NotModified:
		revisit = &Original{URL: p.item.URL, RecordID: recordURN(before.GetRecordId())}
		if ms := before.GetFetchedMs(); ms > 0 {
			revisit.Date = time.UnixMilli(ms)
		}
	case p.known():
		revisit = &p.answer.Original
	}
	if t := p.resp.Truncated; t != "" && t != fetch.TruncatedLength {
		l.incomplete.Add(1)
	}
	recordID := ""
	if !p.found.NoIndex {
		var err error
		switch recordID, err = l.deps.Archive.Save(p.exchange(outcome, revisit, links)); {
		case errors.Is(err, ErrUnarchivable):
			l.deps.Log.Warn("page not archived", "url", p.item.URL, "err", err)
		case err != nil:
			l.worker.Broken(err)
			return // not reported, and so fetched again
		}
	}
	if p.change == SameBody || p.change == OtherBody {
		links = nil // reported at an earlier visit
	}
	l.worker.Report(p.report(f, outcome, links, recordID), len(p.found.Links))
	l.done(p)
}

// outcome returns the outcome of a URL that was answered, and which links are followed.
func (p *Page) outcome(drop bool) (link.Outcome, []link.Link) {
	switch status := p.resp.Status; {
	case p.change == NotModified:
		return link.OutcomeDuplicate, nil
	case good(status) && p.resp.Truncated == fetch.TruncatedLength:
		return link.OutcomeTooLarge, p.found.Links // of the retained part
	case good(status) && p.found.NoIndex:
		return link.OutcomeNoIndex, p.found.Links
	case good(status) && p.known() && p.answer.Original.URL == p.item.URL && p.change != SameBody:
		return link.OutcomeOK, p.found.Links // its own earlier record, whose report was lost
	case good(status) && p.known() && drop:
		return link.OutcomeDuplicate, nil
	case good(status) && p.known():
		return link.OutcomeDuplicate, p.found.Links
	case good(status):
		return link.OutcomeOK, p.found.Links
	case status >= 300 && status <= 399 && status != http.StatusNotModified && p.resp.Location() != "":
		if p.item.Hops >= wire.MaxRedirects {
			return link.OutcomeTooManyRedirects, nil
		}
		return link.OutcomeRedirect, nil
	default:
		return link.OutcomeHTTPError, nil
	}
}

// known reports whether the body is archived already.
func (p *Page) known() bool { return p.asked && p.answer.Verdict == Known }

// exchange returns the page as the archive takes it. Its links are grouped by kind, so that the
// followed ones can be identified.
func (p *Page) exchange(outcome link.Outcome, revisit *Original, followed []link.Link) *Exchange {
	var counts LinkCounts
	for group, n := range counts.all() {
		for i := range p.found.Links {
			if l := &p.found.Links[i]; groupOf(l, len(followed) > 0) == group {
				p.urls = append(p.urls, l.URL)
				*n++
			}
		}
	}
	x := &Exchange{
		URL: p.item.URL, Date: p.resp.Start, Protocol: strings.ToLower(p.resp.Proto), RequestHead: p.resp.RequestHead,
		ResponseHead: p.resp.ResponseHead, Body: p.resp.Body, Digest: p.digest, RevisitOf: revisit, Outlinks: p.urls, Links: counts,
		Depth: p.item.Depth, Hops: p.item.Hops, Duration: p.resp.Duration, Truncated: p.resp.Truncated,
		Job: p.item.Job.ID, Outcome: outcome.String(), Change: p.change,
	}
	if before := p.item.Revisit; before != nil {
		x.Visit, x.Before = before.GetVisits()+1, before.GetDigest()
	}
	x.Via, x.HopPath, x.Seed = link.Provenance(p.item.Source, p.item.URL, p.item.Kind, p.item.Depth, p.item.Hops)
	if x.Protocol == "http/2.0" {
		x.Protocol = "h2"
	}
	if addr := p.resp.Addr.Addr(); addr.IsValid() {
		x.IP = addr.Unmap().String()
	}
	return x
}

// groupOf returns the index of a link's kind in LinkCounts.
func groupOf(l *link.Link, followed bool) int {
	switch {
	case !followed || l.Nofollow:
		return 3
	case l.Kind == link.KindRequisite:
		return 1
	case l.Kind == link.KindSitemap:
		return 2
	default:
		return 0
	}
}

// report returns the report of a page that was answered. It copies everything, since the page's
// memory is reused.
func (p *Page) report(f *reports.Follower, outcome link.Outcome, links []link.Link, recordID string) *reports.Report {
	r := reports.New(p.lease, &p.item, outcome)
	m := r.Fetched
	m.Status = uint32(p.resp.Status) // three digits
	m.FetchedMs = p.resp.Start.UnixMilli()
	m.DurationMs = session.Milliseconds(p.took)
	m.Size = uint64(len(p.resp.Body))
	m.RetryAfterMs = session.OwnerMilliseconds(p.pause)
	m.Etag, m.LastModified = short(p.resp.Header.Get("Etag")), short(p.resp.Header.Get("Last-Modified"))
	m.Mime = short(extract.MediaType(extract.ContentType(p.resp.Header)))
	m.Text, m.Masked, m.Content = p.found.Text, p.found.Masked, p.content
	m.WordsSimhash, m.LinksSimhash = p.found.Words, p.links
	switch before := p.item.Revisit; {
	case p.change == NotModified:
		m.Digest, m.Content, m.RecordId = before.GetDigest(), before.GetContent(), recordUUID(recordID)
		m.Etag, m.LastModified = cmp.Or(m.GetEtag(), before.GetEtag()), cmp.Or(m.GetLastModified(), before.GetLastModified())
	case outcome.Fetched():
		m.Digest = append(make([]byte, 0, len(p.digest)), p.digest[:]...)
		m.RecordId = recordUUID(recordID)
		if p.resp.Truncated != "" {
			m.Detail = fmt.Sprintf("incomplete (%s): only the first %d bytes were received or decoded", p.resp.Truncated, len(p.resp.Body))
		}
		if p.asked && !p.known() && recordID != "" {
			r.Archived = &reports.Confirmation{Digest: p.digest, URL: p.item.URL, RecordID: recordID, Date: p.resp.Start}
		}
	}
	if p.resp.Status == http.StatusNotModified && p.change != NotModified {
		m.Detail = "status 304 without a condition"
	}
	if outcome == link.OutcomeTooLarge {
		m.RecordId = recordUUID(recordID)
		m.Detail = fmt.Sprintf("archived up to its first %d bytes", len(p.resp.Body))
		if recordID == "" {
			m.Detail = fmt.Sprintf("truncated to its first %d bytes, and not archived", len(p.resp.Body))
		}
	}
	p.signals(m)
	switch {
	case outcome == link.OutcomeRedirect:
		redirectTarget(r, p)
	case len(links) > 0:
		m.LeftOut = uint32(min(p.found.LeftOut, wire.MaxLeftOut)) // bounded
		f.AddLinks(r, p.item.Job, p.item.URL, links)
	}
	return r
}

// signals reports the URLs of the host that a sitemap or feed states to have changed since its last
// visit.
func (p *Page) signals(m *wire.Fetched) {
	if p.item.Revisit == nil || p.change == NotModified {
		return
	}
	m.Feed = p.found.Feed
	for i := range p.found.Links {
		l := &p.found.Links[i]
		if int64(l.Modified)*1000 > p.item.Revisit.GetFetchedMs() && link.Host(l.URL) == p.lease.Host && len(m.GetChanged()) < wire.MaxChanged {
			m.Changed, m.ChangedS = append(m.GetChanged(), []byte(l.URL)), append(m.GetChangedS(), l.Modified)
		}
	}
}

// redirectTarget makes the target of a redirect its only link, of the kind of the URL itself. It is
// reported each time, because a known link does not imply that the redirect is known.
func redirectTarget(r *reports.Report, p *Page) {
	m := r.Fetched
	base, err := link.NewBase(p.item.URL)
	if err != nil {
		return
	}
	target, err := base.AppendResolve(nil, []byte(p.resp.Location()))
	if err != nil {
		m.Detail = reports.Clip("redirect: " + err.Error())
		return
	}
	m.Links = [][]byte{target}
	spec, host := p.item.Job.Spec, link.Host(string(target))
	if spec != nil && !spec.MayReach(link.Host(p.item.URL), host) && !spec.Enters(host, p.item.Depth, p.item.Hops+1, p.item.Kind) {
		m.Detail = reports.Clip(fmt.Sprintf("is out of scope: --scope %s admits it", host))
	}
}

// short returns a header's value if it is short valid text, else "".
func short(value string) string {
	if len(value) > wire.MaxText || !utf8.ValidString(value) {
		return ""
	}
	return value
}

// recordURN returns what recordUUID parses; empty if id has not 16 bytes.
func recordURN(id []byte) string {
	if len(id) != 16 {
		return ""
	}
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// recordUUID parses the 16 bytes of urn:uuid:...; nil if invalid.
func recordUUID(urn string) []byte {
	const length = 36
	digits, ok := strings.CutPrefix(urn, "urn:uuid:")
	if !ok || len(digits) != length {
		return nil
	}
	id, err := hex.DecodeString(strings.ReplaceAll(digits, "-", ""))
	if err != nil || len(id) != 16 {
		return nil
	}
	return id
}
