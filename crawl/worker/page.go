package worker

import (
	"bytes"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// page is what an exchange brought, on its way to the archive.
type page struct {
	host   *host
	item   item
	resp   *fetch.Response
	took   time.Duration
	pause  time.Duration // that the site asked for
	found  extract.Page
	digest [32]byte
	asked  bool // its body is a matter for the content owner
	answer Answer
	urls   []string // outlinks, for the archive
	size   int64    // in memory, as far as it is counted
	held   *share   // what it was given of the memory's bound
	number uint64   // in the order in which pages came
	packed bool     // as a file, beneath any content coding, as far as that can be seen

	waitUntil, askAt time.Time // of a body that somebody else is archiving
	askStep          time.Duration
}

var pages = sync.Pool{New: func() any { return new(page) }}

// pageSize is about what a page takes beside its bytes, fieldSize a field of its head.
const (
	pageSize  = 4 << 10
	fieldSize = 192
)

// newPage makes the page of a response whose body was given that share of the memory.
func newPage(h *host, it item, resp *fetch.Response, held *share) *page {
	p := pages.Get().(*page)
	*p = page{host: h, item: it, resp: resp, held: held, found: extract.Page{Links: p.found.Links[:0]}, urls: p.urls[:0]}
	p.packed = resp.Spilled != nil || packed(resp.Body)
	if resp.Spilled != nil {
		p.strip()
	} else {
		p.size = int64(pageSize + cap(resp.Body) + len(resp.RequestHead) + 2*len(resp.ResponseHead) + fieldSize*len(resp.Header))
	}
	return p
}

// large says whether working on the page takes much memory beside its own: it has many bytes, or is a sitemap that unpacks to many.
func (p *page) large() bool {
	return p.resp.Size() > largePage || p.item.kind == link.KindSitemap && p.packed
}

// packed says whether a body is packed by gzip as a file, beneath any content coding.
func packed(body []byte) bool { return bytes.HasPrefix(body, []byte("\x1f\x8b")) }

// linkBytes is about what its links take.
func (p *page) linkBytes() (n int64) {
	const perLink = 64
	for i := range p.found.Links {
		n += perLink + int64(len(p.found.Links[i].URL))
	}
	return n
}

// recycle gives the page's memory back.
func (p *page) recycle() {
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
	*p = page{found: extract.Page{Links: links}, urls: urls}
	pages.Put(p)
}
