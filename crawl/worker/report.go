package worker

import (
	"hash/maphash"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// report is an outcome on its way to its owner.
type report struct {
	session.Report
	ahead   []*report // with the first links of a page that has very many, queued before it
	hashes  []uint64  // of links to be known once it is acknowledged
	confirm *Confirmation
}

// reportOf makes a report of what is to be told.
func reportOf(h *host, f *wire.Fetched) *report {
	r := &report{Report: session.Report{Lease: h.Lease, Fetched: f}}
	r.Note = r
	return r
}

// newReport makes the report of an outcome.
func newReport(h *host, it *item, outcome link.Outcome) *report {
	return reportOf(h, &wire.Fetched{
		Job: it.job.id[:], Url: []byte(it.url), Depth: it.depth, Hops: uint32(it.hops), Kind: uint32(it.kind), Outcome: uint32(outcome),
	})
}

// queue puts a report on its way. Under the worker's mutex.
func (w *Worker) queue(r *report) {
	now := time.Now()
	for _, one := range r.ahead {
		w.sessions.Report(now, &one.Report)
	}
	r.ahead = nil
	full := w.sessions.Report(now, &r.Report)
	w.weigh()
	if !full && w.piped == 0 && w.running.Load() == 0 && w.inFlight() >= w.mostInFlight() {
		w.hurry(now) // nothing more will come before this is told
	}
}

// weigh sums up what is to be told, but for owners that do not answer, and lets go on what waits for it to become less. Under the worker's mutex.
func (w *Worker) weigh() {
	sum := w.sessions.Telling()
	if before := w.telling.Swap(sum); before >= w.cfg.MaxReportBytes && sum < w.cfg.MaxReportBytes {
		w.wakeAll()
		w.pipe.goOn()
	}
}

// laden says that so much is to be told that it is to be acknowledged first.
func (w *Worker) laden() bool { return w.telling.Load() >= w.cfg.MaxReportBytes }

// event counts an outcome and tells who wants to know.
func (w *Worker) event(r *report, links int) {
	f := r.Fetched
	outcome := link.Outcome(f.GetOutcome()) //nolint:gosec // one of link's
	w.stats.count(outcome, int64(f.GetSize()))
	if w.deps.Events != nil {
		w.deps.Events(Event{
			URL: string(f.GetUrl()), Job: job.ID(f.GetJob()), Depth: f.GetDepth(), Outcome: outcome, Status: int(f.GetStatus()),
			Size: int64(f.GetSize()), Duration: time.Duration(f.GetDurationMs()) * time.Millisecond, Links: links, Detail: f.GetDetail(),
		})
	}
}

// follower picks the links of a page that its owner is told of.
type follower struct {
	w      *Worker
	index  []int32
	hashes []uint64
	keep   []int32
}

// told are the links that are reported.
type told struct {
	urls   [][]byte
	kinds  []byte
	hashes []uint64 // to be known once acknowledged; lent until the next page
	own    int      // links to the page's own host, those included that are not told again
}

// kindStep tells the hashes of a URL apart by what it was found as: a page met first as an image is still to be read.
const kindStep = 0x9e3779b97f4a7c15

// follow drops what the job does not want, what is not to be followed, and what the page's owner has acknowledged before.
func (f *follower) follow(ref *jobRef, page string, links []link.Link) (t told) {
	f.index, f.hashes, f.keep = f.index[:0], f.hashes[:0], f.keep[:0]
	origin := strings.TrimSuffix(page, link.PathQuery(page))
	for i := range links {
		if l := &links[i]; !l.Nofollow && wanted(ref.spec, l.Kind) {
			if l.Kind == link.KindPage && strings.HasPrefix(l.URL, origin) && strings.HasPrefix(l.URL[len(origin):], "/") {
				t.own++
			}
			f.index = append(f.index, int32(i)) //nolint:gosec // at most extract.MaxLinks
			f.hashes = append(f.hashes, (maphash.String(f.w.seed, l.URL)^ref.salt)+uint64(l.Kind)*kindStep)
		}
	}
	// A job with a depth has the owner told of every link again, since it keeps them for when it learns of a smaller depth.
	learns := ref.spec != nil && !ref.spec.HasMaxDepth
	if learns {
		f.keep = f.w.known.filter(f.hashes, f.keep)
	} else {
		for i := range f.index {
			f.keep = append(f.keep, int32(i)) //nolint:gosec // as above
		}
	}
	kept, kinds := f.inScope(ref, links)
	if len(f.keep) == 0 {
		return t
	}
	text := make([]byte, 0, kept)
	t.urls = make([][]byte, len(f.keep))
	if kinds {
		t.kinds = make([]byte, len(f.keep))
	}
	for n, i := range f.keep {
		l := &links[f.index[i]]
		begin := len(text)
		text = append(text, l.URL...)
		t.urls[n] = text[begin:len(text):len(text)]
		if kinds {
			t.kinds[n] = byte(l.Kind)
		}
		f.hashes[n] = f.hashes[i]
	}
	if learns {
		t.hashes = f.hashes[:len(f.keep)]
	}
	return t
}

// inScope drops links to hosts that the job does not visit; the others' bytes, and whether any is no page.
func (f *follower) inScope(ref *jobRef, links []link.Link) (size int, kinds bool) {
	keep := f.keep[:0]
	last, admitted := "", true
	for _, i := range f.keep {
		l := &links[f.index[i]]
		if ref.spec != nil {
			if name := link.Host(l.URL); name != last {
				last, admitted = name, ref.spec.InScope(name)
			}
		}
		if admitted {
			keep = append(keep, i)
			size += len(l.URL)
			kinds = kinds || l.Kind != link.KindPage
		}
	}
	f.keep = keep
	return size, kinds
}

func wanted(spec *job.Spec, kind link.Kind) bool {
	if spec == nil {
		return kind != link.KindRequisite
	}
	switch kind {
	case link.KindRequisite:
		return spec.Requisites
	case link.KindSitemap:
		return !spec.NoSitemaps
	default:
		return true
	}
}
