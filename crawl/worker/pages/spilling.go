package pages

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
)

const (
	// troubleLasts is for how long a disk that refused a page counts as one that takes none: no
	// exchange begins meanwhile that memory has no room for.
	troubleLasts = 5 * time.Second
	// troubleEvery is how often it is told; what comes in between is counted.
	troubleEvery = time.Minute
)

// trouble is when the disk last refused pages.
type trouble struct {
	mu     sync.Mutex
	at     time.Time
	told   time.Time
	untold int
}

// note takes an error in, and says whether to tell of it, and of how many before it nobody was
// told.
func (t *trouble) note(now time.Time) (tell bool, before int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = now
	if !t.told.IsZero() && now.Sub(t.told) < troubleEvery {
		t.untold++
		return false, 0
	}
	before, t.told, t.untold = t.untold, now, 0
	return true, before
}

func (t *trouble) lasts(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.at.IsZero() && now.Sub(t.at) < troubleLasts
}

// disk makes a place on disk for a body.
func (l *Pipeline) disk() (fetch.Spilled, error) {
	if l.deps.Spill == nil {
		return nil, errNoSpill
	}
	file, err := l.deps.Spill.Create()
	if err != nil {
		l.refusedBy(err)
		return nil, err
	}
	return watchedSpill{file, l}, nil
}

// refusedBy tells that the disk takes no pages.
func (l *Pipeline) refusedBy(err error) {
	if tell, before := l.trouble.note(time.Now()); tell {
		l.deps.Log.Warn("disk takes no pages that memory has no room for, fewer are fetched", "err", err, "times_before", before)
	}
}

// watchedSpill notes that a write failed.
type watchedSpill struct {
	fetch.Spilled
	l *Pipeline
}

// Write implements fetch.Spilled.
func (s watchedSpill) Write(p []byte) (int, error) {
	n, err := s.Spilled.Write(p)
	if err != nil {
		s.l.refusedBy(err)
	}
	return n, err
}

// spill moves the body of a page to disk.
func (l *Pipeline) spill(p *Page) error {
	file, err := l.disk()
	if err != nil {
		return err
	}
	if _, err := file.Write(p.resp.Body); err != nil {
		return errors.Join(err, file.Close())
	}
	p.resp.Spilled = file
	p.strip()
	return nil
}

// strip gives the buffers of a page back whose body is on disk; its heads are copied.
func (p *Page) strip() {
	r := p.resp
	stripped := &fetch.Response{
		URL: r.URL, Status: r.Status, Proto: r.Proto, Header: r.Header, Truncated: r.Truncated, ContentEncoding: r.ContentEncoding,
		WireBytes: r.WireBytes, Addr: r.Addr, Start: r.Start, TTFB: r.TTFB, Duration: r.Duration, Held: r.Held,
		RequestHead: bytes.Clone(r.RequestHead), ResponseHead: bytes.Clone(r.ResponseHead), Spilled: r.Spilled,
	}
	r.Release()
	p.resp = stripped
	p.size = int64(pageSize + len(stripped.RequestHead) + 2*len(stripped.ResponseHead) + fieldSize*len(stripped.Header))
}

// lost deals with a page that could not be read back from disk.
func (l *Pipeline) lost(p *Page, err error) {
	l.deps.Log.Warn("page on disk was lost, it is fetched again", "url", p.item.URL, "err", err)
	l.leave(p)
}

// leave lets a page go of which nothing was said: it is fetched again.
func (l *Pipeline) leave(p *Page) {
	l.worker.Leave(p.lease, &p.item)
	l.done(p)
}
