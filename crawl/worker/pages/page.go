package pages

import (
	"bytes"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Page is the result of an exchange, in transit to the archive.
type Page struct {
	lease  *session.Lease
	item   reports.Item
	resp   *fetch.Response
	took   time.Duration
	pause  time.Duration // requested by the site
	found  extract.Page
	digest [32]byte
	// content is the digest of its text and links, see wire.Revisit.
	content uint64
	// links is the SimHash of its links.
	links  uint64
	change Change // empty at the first fetch
	asked  bool   // its body is claimed
	answer Answer
	urls   []string // outlinks, for the archive
	size   int64    // bytes counted in memory
	held   *share   // its share of the memory
	packed bool     // possibly a gzipped sitemap

	waitUntil, askAt time.Time // of a body that another peer is archiving
	askStep          time.Duration
}

var recycled = sync.Pool{New: func() any { return new(Page) }}

// pageSize is the approximate overhead of a page in memory, fieldSize that of a header field.
const (
	pageSize  = 4 << 10
	fieldSize = 192
)

// New returns the page of a response that took that long. Room is the memory of its body, pause the
// one requested by the site.
func New(l *session.Lease, it *reports.Item, resp *fetch.Response, room *BodyMemory, took, pause time.Duration) *Page {
	p := recycled.Get().(*Page)
	*p = Page{
		lease: l, item: *it, resp: resp, took: took, pause: pause, held: &room.share, found: extract.Page{Links: p.found.Links[:0]}, urls: p.urls[:0],
	}
	p.packed = packed(resp.Body) &&
		(it.Kind == link.KindSitemap || it.Kind == link.KindPage && extract.MayBeSitemap(extract.ContentType(resp.Header)))
	p.size = int64(pageSize + cap(resp.Body) + len(resp.RequestHead) + 2*len(resp.ResponseHead) + fieldSize*len(resp.Header))
	return p
}

// large reports whether processing the page needs much memory beside its own: it is long, or a
// sitemap that may unpack to a long one.
func (p *Page) large() bool {
	return len(p.resp.Body) > largePage || p.packed
}

// packed reports whether a body is a gzip file, beneath any content coding.
func packed(body []byte) bool { return bytes.HasPrefix(body, []byte("\x1f\x8b")) }

// linkBytes returns the approximate size of its links.
func (p *Page) linkBytes() (n int64) {
	const perLink = 64
	for i := range p.found.Links {
		n += perLink + int64(len(p.found.Links[i].URL))
	}
	return n
}

// recycle frees the page's memory.
func (p *Page) recycle() {
	if p.resp != nil {
		p.resp.Release()
	}
	clear(p.found.Links)
	clear(p.urls)
	const mostKept = 4096
	links, urls := p.found.Links[:0], p.urls[:0]
	if cap(links) > mostKept {
		links, urls = nil, nil
	}
	*p = Page{found: extract.Page{Links: links}, urls: urls}
	recycled.Put(p)
}
