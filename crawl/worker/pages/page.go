package pages

import (
	"bytes"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/frame"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// Page is what an exchange brought, on its way to the archive.
type Page struct {
	lease  *session.Lease
	item   reports.Item
	resp   *fetch.Response
	took   time.Duration
	pause  time.Duration // that the site asked for
	found  extract.Page
	own    frame.Own // what it says itself
	digest [32]byte
	asked  bool // its body is a matter for the content owner
	answer Answer
	urls   []string // outlinks, for the archive
	size   int64    // in memory, as far as it is counted
	held   *share   // what it was given of the memory's bound
	number uint64   // in the order in which pages came
	packed bool     // a gzip file that may be a sitemap, as far as that can be seen

	waitUntil, askAt time.Time // of a body that somebody else is archiving
	askStep          time.Duration
}

var recycled = sync.Pool{New: func() any { return new(Page) }}

// pageSize is about what a page takes beside its bytes, fieldSize a field of its head.
const (
	pageSize  = 4 << 10
	fieldSize = 192
)

// New makes the page of a response that took that long, whose body was given that room, and whose
// site wishes for that pause.
func New(l *session.Lease, it *reports.Item, resp *fetch.Response, room *Room, took, pause time.Duration) *Page {
	p := recycled.Get().(*Page)
	*p = Page{
		lease: l, item: *it, resp: resp, took: took, pause: pause, held: &room.share, found: extract.Page{Links: p.found.Links[:0]}, urls: p.urls[:0],
	}
	p.packed = (resp.Spilled != nil || packed(resp.Body)) &&
		(it.Kind == link.KindSitemap || it.Kind == link.KindPage && extract.MayBeSitemap(extract.ContentType(resp.Header)))
	if resp.Spilled != nil {
		p.strip()
	} else {
		p.size = int64(pageSize + cap(resp.Body) + len(resp.RequestHead) + 2*len(resp.ResponseHead) + fieldSize*len(resp.Header))
	}
	return p
}

// large says whether working on the page takes much memory beside its own: it has many bytes, or is
// a sitemap that unpacks to many.
func (p *Page) large() bool {
	return p.resp.Size() > largePage || p.packed
}

// packed says whether a body is packed by gzip as a file, beneath any content coding.
func packed(body []byte) bool { return bytes.HasPrefix(body, []byte("\x1f\x8b")) }

// linkBytes is about what its links take.
func (p *Page) linkBytes() (n int64) {
	const perLink = 64
	for i := range p.found.Links {
		n += perLink + int64(len(p.found.Links[i].URL))
	}
	return n
}

// recycle gives the page's memory back.
func (p *Page) recycle() {
	if p.resp != nil {
		if p.resp.Spilled != nil {
			_ = p.resp.Spilled.Close() // nobody will read it
		}
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
