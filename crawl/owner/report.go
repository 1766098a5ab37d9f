package owner

import (
	"strconv"
	"strings"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// tlsFails in a row are taken for the whole host's, as a host may have pages without TLS as well.
	tlsFails = 2
	// absentFails in a row end a host whose name does not exist: the first may have been asked of a server that does not know yet.
	absentFails = 1
	// stallsLeast in a row at least, whatever a job's retries, end a host of which nothing came but timeouts, 429 and 503: each of them may be of one URL alone.
	stallsLeast = 3
)

// outcomes takes in what became of URLs that workers had.
type outcomes struct {
	*step
	jobs    *jobTable
	hosts   *hostTable
	urls    *urlSets
	traps   *traps
	domains *domains
	leases  *leases
	emitter *emitter
}

// report takes the outcome of one URL with the links of its page that did not go ahead of it. Everything it writes is one batch with it.
func (oc *outcomes) report(h *host, from string, f *wire.Fetched, went ahead) {
	js := oc.jobs.of(job.ID(f.GetJob()))
	url := string(f.GetUrl())
	if link.Host(url) != h.rec.Name {
		return
	}
	hash := link.Hash(js.id, url)
	got := finalOf(url, from, f)
	if got.Outcome == link.OutcomeNone {
		if js.state != job.StateCanceled {
			oc.piece(h, js, hash, &got, f, went)
		}
		return
	}
	hj := h.job(js, true)
	p := ondisk.Pending{Hash: hash, Hops: got.Hops, Kind: got.Kind, URL: url}
	p.Depth = got.Depth
	if it := h.lease.item(hash); it != nil && it.job == hj {
		delete(h.lease.out, hash)
		hj.c.returned(&it.Pending)
		p = it.Pending
		p.URL = url
		oc.urls.settle(h, hj, &p, pageOf(got.Outcome), got.Size)
	} else if raw, ok := oc.buf.Get(ondisk.EntryKey(h.pos, js.id, hash)); ok {
		n, err := ondisk.DecodeEntry(raw)
		if err != nil {
			oc.buf.Fail(err)
			return
		}
		if n.Done {
			oc.again(h, hj, &n.Final, &got, f, went)
			return
		}
		if p, ok = oc.urls.pending(h, js, n.At); !ok {
			return
		}
		oc.urls.settle(h, hj, &p, pageOf(got.Outcome), got.Size)
	} else if !oc.unknown(h, hj, &got, hash) {
		return
	}
	oc.conclusion(h, hj, &p, &got, f, went)
}

// unknown takes in a URL that is leased by an owner whose records did not reach this one; false if the job does not admit it. What was fetched is not fetched again.
func (oc *outcomes) unknown(h *host, hj *hostJob, got *ondisk.Final, hash uint64) bool {
	canonical, err := link.Canonical(got.URL)
	if err != nil || canonical != got.URL || Refusal(hj.state.spec, got.URL, got.Depth, got.Kind) != "" {
		return false
	}
	oc.urls.count(h, hj, got.Depth)
	oc.urls.addSeen(h, hj.state, hash)
	return true
}

// finalOf is what a worker tells of a URL.
func finalOf(url, from string, f *wire.Fetched) ondisk.Final {
	return ondisk.Final{
		URL: url, Outcome: link.Outcome(f.GetOutcome()), Status: int(min(f.GetStatus(), 999)), Depth: f.GetDepth(), Hops: uint8(f.GetHops()),
		Kind: link.Kind(f.GetKind()), FetchedMs: min(max(f.GetFetchedMs(), 0), ondisk.MaxTime), DurationMs: f.GetDurationMs(), Size: f.GetSize(),
		Digest: f.GetDigest(), RecordID: f.GetRecordId(), Holder: from, ETag: f.GetEtag(), LastModified: f.GetLastModified(),
		MIME: f.GetMime(), Detail: f.GetDetail(), LeftOut: f.GetLeftOut(),
	}
}

// piece takes links that come without an outcome: of a robots.txt, or the first ones of a page that has more than one outcome may hold. The page's depth is that
// of its record, and what is kept of its links for a smaller one grows by these.
func (oc *outcomes) piece(h *host, js *jobState, hash uint64, page *ondisk.Final, f *wire.Fetched, went ahead) {
	if page.Kind != link.KindRobots {
		if !wholePiece(f) {
			return // nobody of ours tells so few: it would cost more than it brings
		}
		oc.placeOfPage(h, js, hash, page)
	}
	links := children(page, f)
	if len(links) == 0 {
		return
	}
	if page.Kind != link.KindRobots {
		oc.emitter.keepLinks(h, js, hash, page, links)
	}
	if links = went.rest(links, page.Depth); len(links) > 0 {
		oc.emitter.forwardPiece(h, js, page.URL, page.Depth, links)
	}
}

// placeOfPage gives a page the depth that is known here.
func (oc *outcomes) placeOfPage(h *host, js *jobState, hash uint64, page *ondisk.Final) {
	raw, ok := oc.buf.Get(ondisk.EntryKey(h.pos, js.id, hash))
	if !ok {
		return
	}
	n, err := ondisk.DecodeEntry(raw)
	switch {
	case err != nil:
		oc.buf.Fail(err)
	case n.Done:
		page.Depth, page.Hops = n.Final.Depth, n.Final.Hops
	default:
		page.Depth = n.At.Depth
	}
}

// forwardPiece is forward for some of the links of a page, which have an entry of their own in the outbox.
func (em *emitter) forwardPiece(h *host, js *jobState, page string, depth uint32, links []ondisk.Link) {
	em.forward(h, js, link.Hash(js.id, page+" "+links[0].URL), depth, links)
}

// wholePiece says whether links without an outcome are as many as a worker puts into a piece.
func wholePiece(f *wire.Fetched) bool {
	size := 0
	for _, url := range f.GetLinks() {
		size += len(url) + wire.LinkBytes
	}
	return len(f.GetLinks()) >= wire.PieceLinks || size > wire.PieceBytes-link.MaxURL-wire.LinkBytes
}

// conclusion decides whether a URL that was tried is done, waits for another try, or shares the fate of its host.
func (oc *outcomes) conclusion(h *host, hj *hostJob, p *ondisk.Pending, got *ondisk.Final, f *wire.Fetched, went ahead) {
	spec := hj.state.spec
	retryable := got.Outcome.Retryable(got.Status)
	hung := false // nothing came of this URL alone
	oc.urls.requested(h, hj)
	switch {
	case got.Outcome.HostWide():
		oc.hostFailed(h, got, int64(f.GetRetryAfterMs()))
		if retryable {
			oc.urls.wait(h, hj, p, 0)
			return
		}
	case got.Outcome == link.OutcomeTimeout && got.Status == link.Hung:
		hung = oc.hung(h, p.URL)
		if !hung {
			oc.hostFailed(h, got, int64(f.GetRetryAfterMs()))
		}
	case stalls(got):
		oc.hostFailed(h, got, int64(f.GetRetryAfterMs()))
	default:
		h.hangs.answered(p.URL)
		oc.hostAnswered(h)
	}
	if got.Outcome == link.OutcomeDNS || got.Outcome == link.OutcomeTimeout {
		got.Status = 0 // which says how often to try, and nothing to people
	}
	if retryable && int(p.Tries) < spec.Retries && hj.state.state != job.StateCanceled {
		p.Tries++
		wait := max(oc.cfg.backoff(uint32(p.Tries)), min(int64(f.GetRetryAfterMs()), oc.cfg.MaxRetryAfter.Milliseconds()))
		if hung {
			wait = max(wait, lastMost)
		}
		oc.urls.wait(h, hj, p, oc.now+wait)
		return
	}
	final := *got
	oc.urls.conclude(h, hj, p, final)
	if hj.state.state != job.StateCanceled {
		final.Depth, final.Hops = p.Depth, p.Hops
		before := hj.c.Accepted
		oc.doubt(h, hj, f)
		oc.emitter.emit(h, hj.state, p.Hash, &final, f, went)
		oc.observe(h, hj, &final, f, went.brought+hj.c.Accepted-before)
	}
}

// hung notes that nothing came of a URL, and says whether that is the URL's alone. What is out that may well hang too is taken back.
func (oc *outcomes) hung(h *host, url string) (alone bool) {
	alone, found := h.hangs.hung(url)
	if found && h.lease != nil && len(h.lease.out) > fewOut {
		oc.leases.end(h, released, h.lease.expires)
	}
	return alone
}

// stalls says whether an outcome, though one URL's, is what all URLs of a host come to that does not answer, or wants to be left alone.
func stalls(got *ondisk.Final) bool {
	return got.Outcome == link.OutcomeTimeout || got.Outcome == link.OutcomeHTTPError && (got.Status == 429 || got.Status == 503)
}

// requested counts a request that was made to a host, or would have been.
func (u *urlSets) requested(h *host, hj *hostJob) {
	hj.c.requested()
	u.hosts.changed(h, hj)
}

// wait puts a URL back that is not out any more: among the ready ones, or until due.
func (u *urlSets) wait(h *host, hj *hostJob, p *ondisk.Pending, due int64) {
	u.drop(h, hj, p)
	if p.Seq == 0 || due > 0 {
		p.Seq = h.rec.Number()
	}
	if p.Due = due; due > 0 {
		hj.c.waits(1)
	}
	u.put(h, hj.state, p)
	hj.lower(p.Spot)
	u.hosts.changed(h, hj)
}

// drop deletes a pending record.
func (u *urlSets) drop(h *host, hj *hostJob, p *ondisk.Pending) {
	if p.Seq == 0 {
		return // it never had one
	}
	u.buf.Delete(p.Key(h.pos, hj.state.id))
	if p.Due > 0 {
		hj.c.waits(-1)
	}
	u.hosts.changed(h, hj)
}

// conclude gives a URL that is not out its outcome. Depth, hops, kind and tries are those of the pending record.
func (u *urlSets) conclude(h *host, hj *hostJob, p *ondisk.Pending, f ondisk.Final) {
	u.drop(h, hj, p)
	f.URL, f.Depth, f.Hops, f.Kind, f.Tries = p.URL, p.Depth, p.Hops, p.Kind, p.Tries
	n := ondisk.Entry{Done: true, Final: f}
	u.buf.Set(ondisk.EntryKey(h.pos, hj.state.id, p.Hash), n.Encode())
	hj.c.concluded(&f)
	u.hosts.changed(h, hj)
}

// again deals with an outcome of a URL that has one. The same report once more (its answer was lost) is nothing new. Another fetch is counted, and
// counts only where it knows more: never an error in place of a page.
func (oc *outcomes) again(h *host, hj *hostJob, had, got *ondisk.Final, f *wire.Fetched, went ahead) {
	same := had.Outcome == got.Outcome && had.FetchedMs == got.FetchedMs && string(had.RecordID) == string(got.RecordID)
	if same || got.FetchedMs == 0 {
		return
	}
	if had.FetchedMs != 0 {
		hj.c.refetchedOne()
		oc.urls.requested(h, hj)
	}
	if ondisk.Knows(got.Outcome) <= ondisk.Knows(had.Outcome) {
		return
	}
	got.Depth, got.Hops, got.Kind, got.Tries = had.Depth, had.Hops, had.Kind, had.Tries
	n := ondisk.Entry{Done: true, Final: *got}
	js := hj.state
	oc.buf.Set(ondisk.EntryKey(h.pos, js.id, link.Hash(js.id, got.URL)), n.Encode())
	hj.c.corrected(had, got)
	oc.hosts.changed(h, hj)
	if js.state != job.StateCanceled {
		oc.emitter.emit(h, js, link.Hash(js.id, got.URL), got, f, went)
	}
}

// hostFailed notes a failure of the whole host: it is left alone for a while, and after too many in a row its pending URLs share the outcome.
// The failures of one window count as one. A first URL that stalls does not end the lease: the next one tells whether it is the host.
func (oc *outcomes) hostFailed(h *host, got *ondisk.Final, retryAfter int64) {
	r := &h.rec
	retryable := got.Outcome.Retryable(got.Status)
	if retryable && oc.now < r.BackoffUntil && r.FailOutcome == got.Outcome {
		return
	}
	r.Failed(got.Outcome)
	if retryable {
		wait := max(oc.cfg.backoff(r.Fails), min(retryAfter, oc.cfg.MaxRetryAfter.Milliseconds()))
		r.BackOff(oc.now+wait, failureText(got))
	}
	for _, hj := range h.jobs {
		if !hj.state.known {
			continue
		}
		limit := hj.state.spec.Retries
		switch {
		case got.Outcome == link.OutcomeTLS:
			limit = tlsFails
		case !retryable:
			limit = 0
		case got.Outcome == link.OutcomeDNS && got.Status == link.NameAbsent:
			limit = min(limit, absentFails)
		case !got.Outcome.HostWide():
			limit = max(limit, stallsLeast)
		}
		if int(r.Fails) > limit {
			hj.c.fails(got.Outcome, oc.now+oc.cfg.DownFor.Milliseconds())
			oc.hosts.changed(h, hj)
		}
	}
	oc.hosts.touched(h)
	if retryable && h.lease != nil && (got.Outcome.HostWide() || r.Fails > 1) {
		// Its worker is told to drop the rest of the window; as it may be about to send a request, nobody else gets the host before the
		// lease would have run out.
		oc.leases.end(h, released, h.lease.expires)
	}
}

// failureText says for people what a host failed with.
func failureText(got *ondisk.Final) string {
	text := got.Outcome.String()
	if got.Outcome == link.OutcomeHTTPError {
		text = "status " + strconv.Itoa(got.Status)
	}
	detail := got.Detail
	if _, after, ok := strings.Cut(detail, "fetch http"); ok { // the URL says nothing of the host that its name does not
		if _, after, ok = strings.Cut(after, ": "); ok {
			detail = after
		}
	}
	if detail = strings.TrimPrefix(detail, text+": "); detail != "" {
		text += ": " + detail
	}
	return ondisk.Clip(text)
}

// hostAnswered ends a run of failures.
func (oc *outcomes) hostAnswered(h *host) {
	if !h.rec.Answered() {
		return
	}
	for _, hj := range h.jobs {
		if hj.c.answers() {
			oc.hosts.changed(h, hj)
		}
	}
	oc.hosts.touched(h)
}

func pageOf(outcome link.Outcome) uint64 {
	if outcome.Fetched() {
		return 1
	}
	return 0
}
