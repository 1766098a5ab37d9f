package worker

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/crawl/fetch"
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
	size   int64    // counted against the bound on memory

	waitUntil, askAt time.Time // of a body that somebody else is archiving
	askStep          time.Duration
}

var pages = sync.Pool{New: func() any { return new(page) }}

// pageSize is about what a page takes beside its bytes.
const pageSize = 4 << 10

func newPage(h *host, it item, resp *fetch.Response) *page {
	p := pages.Get().(*page)
	*p = page{host: h, item: it, resp: resp, found: extract.Page{Links: p.found.Links[:0]}, urls: p.urls[:0]}
	p.size = int64(pageSize + len(resp.Body) + len(resp.RequestHead) + len(resp.ResponseHead))
	return p
}

// recycle gives the page's memory back.
func (p *page) recycle() {
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
	*p = page{found: extract.Page{Links: links}, urls: urls}
	pages.Put(p)
}

var errSpilled = errors.New("malformed spilled page")

// encode writes what is large of a page: its bytes. The rest stays in memory under the number.
func (p *page) encode(number uint64) []byte {
	r := p.resp
	out := make([]byte, 0, 8+12+len(r.RequestHead)+len(r.ResponseHead)+len(r.Body))
	out = binary.LittleEndian.AppendUint64(out, number)
	for _, part := range [][]byte{r.RequestHead, r.ResponseHead, r.Body} {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(part))) //nolint:gosec // bounded by fetch
		out = append(out, part...)
	}
	return out
}

// decodeSpilled reads what encode wrote; the parts are slices of raw.
func decodeSpilled(raw []byte) (number uint64, parts [3][]byte, err error) {
	if len(raw) < 8 {
		return 0, parts, errSpilled
	}
	number, raw = binary.LittleEndian.Uint64(raw), raw[8:]
	for i := range parts {
		if len(raw) < 4 {
			return 0, parts, errSpilled
		}
		n := binary.LittleEndian.Uint32(raw)
		if raw = raw[4:]; uint64(n) > uint64(len(raw)) {
			return 0, parts, errSpilled
		}
		parts[i], raw = raw[:n:n], raw[n:]
	}
	if len(raw) > 0 {
		return 0, parts, errSpilled
	}
	return number, parts, nil
}

// restore gives a page its bytes back.
func (p *page) restore(parts [3][]byte) {
	p.resp.RequestHead, p.resp.ResponseHead, p.resp.Body = parts[0], parts[1], parts[2]
}

// strip takes the bytes of a page away; what is small stays.
func (p *page) strip() {
	r := p.resp
	small := &fetch.Response{
		URL: r.URL, Status: r.Status, Proto: r.Proto, Header: r.Header, Truncated: r.Truncated, ContentEncoding: r.ContentEncoding,
		WireBytes: r.WireBytes, Addr: r.Addr, Start: r.Start, TTFB: r.TTFB, Duration: r.Duration, Held: r.Held,
	}
	r.Release()
	p.resp = small
}
