package owner

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/apoidea/apoidea/crawl/fresh"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

const (
	// tlsFails is the limit of consecutive TLS failures of a host, regardless of a job's retries,
	// since it may have pages without TLS as well.
	tlsFails = 2
	// absentFails is the limit of consecutive failures of a host whose name does not exist: the first
	// answer may come from a name server with stale data.
	absentFails = 1
	// stallsLeast is the least limit of consecutive failures, regardless of a job's retries, of a host
	// that only returns timeouts, 429 and 503: each may concern one URL alone.
	stallsLeast = 3
	// fewOut URLs that are out stay with the worker after a timeout; more are taken back.
	fewOut = 4
)

// outcomes processes the outcomes that workers report.
type outcomes struct {
	*hosts.Step
	jobs    *hosts.JobTable
	hosts   *hosts.Table
	traps   *hosts.Traps
	domains *hosts.Domains
	leases  *leases.Leases
	emitter *links.Emitter
	scans   *hosts.Scans
	checks  *hosts.Checks
	agenda  *hosts.Agenda
}

// report processes the outcome of one URL with the links of its page that were not processed
// before. All its writes are in one batch.
func (oc *outcomes) report(h *hosts.Host, from string, f *wire.Fetched, went links.Ahead) {
	js := oc.jobs.Of(job.ID(f.GetJob()))
	url := string(f.GetUrl())
	if link.Host(url) != h.Rec.Name {
		return
	}
	hash := link.Hash(js.ID, url)
	got := finalOf(url, from, f)
	if got.Outcome == link.OutcomeNone {
		if js.State != job.StateCanceled {
			oc.piece(h, js, hash, &got, f, went)
		}
		return
	}
	hj := oc.Book(h, js)
	p := ondisk.Pending{Hash: hash, Hops: got.Hops, Kind: got.Kind, URL: url}
	p.Depth = got.Depth
	it := h.Lease.Item(hash)
	if it != nil && (it.Job != hj || it.Check != nil && h.Lease.Session.Peer != from) {
		it = nil // a check is made by the worker that was chosen for it
	}
	if it != nil {
		delete(h.Lease.Out, hash)
		h.Lease.Owing = oc.Now
		h.Lease.Session.Earned++
	}
	if it != nil && it.Check != nil {
		oc.checked(h, it.Check, &got, f)
		return
	}
	if it != nil && !it.Again {
		hj.Returned(&it.Pending)
		p = it.Pending
		p.URL = url
		oc.settle(hj, &p, &got)
	} else if n, ok := hj.Entry(hash); ok {
		switch {
		case n.Done && (f.GetAgain() || it != nil && it.Again):
			oc.revisited(h, hj, hash, it, &n.Final, &got, f, went)
			return
		case n.Done:
			oc.again(h, hj, &n.Final, &got, f, went)
			return
		}
		if p, ok = hj.Pending(n.At); !ok {
			return
		}
		if p.Due > oc.Now && got.Outcome.Retryable(got.Status) {
			return // repeated report after a lost reply: one fetch counts as one try
		}
		oc.settle(hj, &p, &got)
	} else if oc.Buf.Err() != nil || !unknown(hj, &got, hash) {
		return
	}
	oc.conclusion(h, hj, &p, &got, f, went)
}

// unknown accepts a URL leased by an owner whose records did not arrive here, so that it is not
// fetched again; false if the job does not admit it.
func unknown(hj *hosts.Job, got *ondisk.Final, hash uint64) bool {
	canonical, err := link.Canonical(got.URL)
	spec := hj.State.Spec
	if err != nil || canonical != got.URL || links.Refusal(spec, got.URL, got.Depth, got.Kind, spec.OpenScope() || spec.Enters(link.Host(got.URL), got.Depth, got.Hops, got.Kind)) != "" {
		return false
	}
	hj.Learn(hash)
	return true
}

// finalOf converts a worker's report.
func finalOf(url, from string, f *wire.Fetched) ondisk.Final {
	final := ondisk.Final{
		URL: url, Outcome: link.Outcome(f.GetOutcome()), Status: int(min(f.GetStatus(), 999)), Depth: f.GetDepth(), Hops: uint8(f.GetHops()),
		Kind: link.Kind(f.GetKind()), FetchedMs: min(max(f.GetFetchedMs(), 0), ondisk.MaxTime), DurationMs: f.GetDurationMs(), Size: f.GetSize(),
		Digest: f.GetDigest(), RecordID: f.GetRecordId(), Holder: from, ETag: f.GetEtag(), LastModified: f.GetLastModified(),
		MIME: f.GetMime(), Detail: f.GetDetail(), LeftOut: f.GetLeftOut(),
	}
	if len(f.GetLinks()) > 0 {
		final.SetTarget(string(f.GetLinks()[0]))
	}
	return final
}

// piece processes links without an outcome: of a robots.txt, or the first links of a page with more
// than one outcome can hold. Its depth is that of the page's record.
func (oc *outcomes) piece(h *hosts.Host, js *hosts.JobState, hash uint64, page *ondisk.Final, f *wire.Fetched, went links.Ahead) {
	if page.Kind != link.KindRobots && !wholePiece(f) {
		return // no correct worker sends so few: processing costs more than it yields
	}
	oc.placeOfPage(h, js, hash, page, f)
	if links := went.Rest(links.Children(page, f)); len(links) > 0 {
		oc.emitter.ForwardPiece(h, js, page, links)
	}
}

// placeOfPage sets the depth and the source of a page to those known here; of a robots.txt, the
// source is the URL that required it.
func (oc *outcomes) placeOfPage(h *hosts.Host, js *hosts.JobState, hash uint64, page *ondisk.Final, f *wire.Fetched) {
	hj := h.Job(js)
	if hj == nil {
		return
	}
	if page.Kind != link.KindRobots {
		if had, ok := oc.known(hj, hash); ok {
			page.Depth, page.Hops, page.Via = had.Depth, had.Hops, had.Via
		}
		return
	}
	if had, ok := oc.known(hj, link.Hash(js.ID, string(f.GetAskedBy()))); ok {
		page.Via = oc.emitter.KeepSource(h, js, &had)
	}
}

// known returns the place of a URL as it is known here, without its outcome.
func (oc *outcomes) known(hj *hosts.Job, hash uint64) (f ondisk.Final, ok bool) {
	n, ok := hj.Entry(hash)
	if !ok || n.Done {
		n.Final.Outcome = link.OutcomeNone
		return n.Final, ok
	}
	p, ok := hj.Pending(n.At)
	return ondisk.Final{URL: p.URL, Depth: p.Depth, Hops: p.Hops, Kind: p.Kind, Via: p.Via}, ok
}

// wholePiece reports whether links without an outcome fill a piece, as a worker sends them.
func wholePiece(f *wire.Fetched) bool {
	size := 0
	for _, url := range f.GetLinks() {
		size += len(url) + wire.LinkBytes
	}
	return len(f.GetLinks()) >= wire.PieceLinks || size > wire.PieceBytes-link.MaxURL-wire.LinkBytes
}

// conclusion decides whether a URL that was tried is done, waits for a retry, or shares the fate of
// its host.
func (oc *outcomes) conclusion(h *hosts.Host, hj *hosts.Job, p *ondisk.Pending, got *ondisk.Final, f *wire.Fetched, went links.Ahead) {
	spec := hj.State.Spec
	retryable := got.Outcome.Retryable(got.Status)
	hj.Requested()
	hung := oc.health(h, p.URL, got, f)
	if got.Outcome.HostWide() && retryable {
		hj.Wait(p, 0)
		return
	}
	if got.Outcome == link.OutcomeDNS || got.Outcome == link.OutcomeTimeout {
		got.Status = 0 // it sets the number of tries, and is not shown
	}
	if retryable && int(p.Tries) < spec.Retries && hj.State.State != job.StateCanceled {
		p.Tries++
		wait := max(oc.Cfg.WaitAfter(uint32(p.Tries)), min(int64(f.GetRetryAfterMs()), oc.Cfg.MaxRetryAfter.Milliseconds()))
		if hung {
			wait = max(wait, hosts.LastMost)
		}
		hj.Wait(p, oc.Now+wait)
		return
	}
	final := *got
	final.URL, final.Depth = p.URL, p.Depth
	if got.Outcome.Fetched() { // without a refresh too: one may be set later, or asked for
		final.Revisit.Content = f.GetContent()
	}
	final.Revisit.Due = oc.jobs.Due(hj, p.Hash, &final, fresh.Unchanged)
	hj.Conclude(p, final)
	oc.checks.Begin(h, hj, p.Hash, opinionOf(&final, f))
	if hj.State.State != job.StateCanceled {
		final.Depth, final.Hops, final.Via = p.Depth, p.Hops, p.Via
		before := hj.Tally.Accepted()
		if page := oc.emitter.Page; hj.State.Rules().On() && page.Of(f) && !hj.Tally.Counters().Trap {
			_, masked := textOf(f)
			page.Behind = oc.traps.Of(h, hj).Known(masked)
		}
		oc.emitter.Emit(h, hj.State, &final, f, went)
		oc.observe(h, hj, &final, f, went.Brought+hj.Tally.Accepted()-before)
	}
}

// hung records a timeout and reports whether it concerns this URL alone. URLs that are out and
// likely to time out as well are taken back.
func (oc *outcomes) hung(h *hosts.Host, url string) (alone bool) {
	alone, found := h.Hangs.Hung(url)
	if found && h.Lease != nil && len(h.Lease.Out) > fewOut {
		oc.leases.End(h, leases.Released, h.Lease.Expires)
	}
	return alone
}

// stalls reports whether an outcome of one URL is what all URLs of an overloaded or unresponsive
// host return.
func stalls(got *ondisk.Final) bool {
	return got.Outcome == link.OutcomeTimeout || got.Outcome == link.OutcomeHTTPError && (got.Status == 429 || got.Status == 503)
}

// again processes an outcome of a URL that has one. A repeated report (its reply was lost) has no
// effect. A further fetch is counted, and replaces the outcome only if it is better: never an error
// in place of a page.
func (oc *outcomes) again(h *hosts.Host, hj *hosts.Job, had, got *ondisk.Final, f *wire.Fetched, went links.Ahead) {
	same := (had.Outcome == got.Outcome || had.Outcome == link.OutcomeOutOfBudget) && had.FetchedMs == got.FetchedMs && string(had.RecordID) == string(got.RecordID)
	if same || got.FetchedMs == 0 {
		return
	}
	if had.FetchedMs != 0 {
		hj.Refetched()
		hj.Requested()
	}
	if ondisk.Knows(got.Outcome) <= ondisk.Knows(had.Outcome) {
		return
	}
	got.Depth, got.Hops, got.Kind, got.Tries, got.Via, got.Revisit = had.Depth, had.Hops, had.Kind, had.Tries, had.Via, had.Revisit
	js, hash := hj.State, link.Hash(hj.State.ID, got.URL)
	if got.Revisit.Due == 0 {
		got.Revisit.Due = oc.jobs.Due(hj, hash, got, fresh.Unchanged)
	}
	hj.Correct(hash, had, got)
	oc.checks.Begin(h, hj, hash, opinionOf(got, f))
	if js.State != job.StateCanceled {
		oc.emitter.Emit(h, js, got, f, went)
	}
}

// hostFailed records a failure of the whole host: a backoff begins, and after too many consecutive
// failures its pending URLs share the outcome. The failures of one window count as one. A first URL
// that stalls does not end the lease: the next one shows whether the host is the cause.
func (oc *outcomes) hostFailed(h *hosts.Host, got *ondisk.Final, retryAfter int64) {
	r := &h.Rec
	retryable := got.Outcome.Retryable(got.Status)
	if retryable && oc.Now < r.BackoffUntil && r.FailOutcome == got.Outcome {
		return
	}
	r.Failed(got.Outcome)
	if retryable {
		wait := max(oc.Cfg.WaitAfter(r.Fails), min(retryAfter, oc.Cfg.MaxRetryAfter.Milliseconds()))
		r.BackOff(oc.Now+wait, failureText(got))
	}
	for _, hj := range h.Jobs {
		if !hj.State.Known {
			continue
		}
		limit := hj.State.Spec.Retries
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
			hj.Fail(got.Outcome, oc.Now+oc.Cfg.DownFor.Milliseconds())
		}
	}
	oc.hosts.Touched(h)
	if retryable && h.Lease != nil && (got.Outcome.HostWide() || r.Fails > 1) {
		// Its worker must drop the rest of the window, but may be about to send a request: the host is
		// not leased again before the lease would have expired.
		oc.leases.End(h, leases.Released, h.Lease.Expires)
	}
}

// failureText describes a host failure for display.
func failureText(got *ondisk.Final) string {
	text := got.Outcome.String()
	if got.Outcome == link.OutcomeHTTPError {
		text = "status " + strconv.Itoa(got.Status)
	}
	detail := got.Detail
	if _, after, ok := strings.Cut(detail, "fetch http"); ok { // the URL adds nothing to the host's name
		if _, after, ok = strings.Cut(after, ": "); ok {
			detail = after
		}
	}
	if detail = strings.TrimPrefix(detail, text+": "); detail != "" {
		text += ": " + detail
	}
	return ondisk.Clip(text)
}

// hostAnswered resets the consecutive failures.
func (oc *outcomes) hostAnswered(h *hosts.Host) {
	if !h.Rec.Answered() {
		return
	}
	for _, hj := range h.Jobs {
		hj.Answers()
	}
	oc.hosts.Touched(h)
}

// settle releases the reservation of a URL. A body truncated below the reserve did not fit into the
// rest of the byte budget.
func (oc *outcomes) settle(hj *hosts.Job, p *ondisk.Pending, got *ondisk.Final) {
	size := got.Size
	if got.Outcome == link.OutcomeTooLarge && p.PromisedBytes > 0 && p.PromisedBytes < oc.Cfg.ByteReserve {
		got.Outcome, got.Detail = link.OutcomeOutOfBudget, "larger than the rest of the job's byte budget"
		bounds := oc.jobs.BoundsOf(hj.State.Spec)
		size = bounds.Least()
	}
	hj.Settle(p, pageOf(got.Outcome), size)
}

func pageOf(outcome link.Outcome) uint64 {
	if outcome.Fetched() || outcome == link.OutcomeNoIndex {
		return 1
	}
	return 0
}

const (
	// saveTrap is the number of pages after which the trap state of a host is written; a crash loses
	// at most so many.
	saveTrap = 256
	// maxParted bounds the pages whose links came in part and whose hosts are remembered.
	maxParted = 16
)

// observe applies the trap rules to a page whose links were taken in.
func (oc *outcomes) observe(h *hosts.Host, hj *hosts.Job, got *ondisk.Final, f *wire.Fetched, brought int64) {
	rules := hj.State.Rules()
	if !rules.On() || hj.Tally.Counters().Trap || got.Kind != link.KindPage && got.Kind != link.KindSitemap {
		return
	}
	p := trap.Page{URL: got.URL, Depth: got.Depth, Brought: uint64(max(brought, 0))}
	if page := oc.emitter.Page; page.Of(f) {
		p.New, p.Foreign = page.New, page.Foreign
	}
	switch got.Outcome {
	case link.OutcomeOK, link.OutcomeDuplicate, link.OutcomeNoIndex:
		if got.Kind == link.KindPage { // of a sitemap only the pages that it names count
			p.Text, p.Masked = textOf(f)
		}
	case link.OutcomeRedirect:
	default:
		return
	}
	s := oc.traps.Of(h, hj)
	s.Observe(&p, rules)
	if s.Pages()%saveTrap == 0 {
		oc.hosts.Learnt(h, hj)
	}
	if oc.traps.Outgrows(h, hj) {
		hj.Outgrown()
	}
	if s.Whole() {
		hj.Trapped()
		oc.hosts.Learnt(h, hj)
	}
}

// textOf returns the digests of a page's text: of the body if it is not HTML.
func textOf(f *wire.Fetched) (text, masked uint64) {
	if f.GetText() == 0 && len(f.GetDigest()) >= 8 {
		d := binary.LittleEndian.Uint64(f.GetDigest())
		return d, d
	}
	return f.GetText(), f.GetMasked()
}

// trap merges the trap state of a job on a host with that of a peer.
func (m *importer) trap(h *hosts.Host, js *hosts.JobState, tail []byte, rec kv.Record) error {
	if _, err := ondisk.DecodeTrap(rec.Value); err != nil || len(tail) > 0 {
		return ondisk.ErrFormat
	}
	hj := m.Book(h, js)
	raw, ok := m.Buf.Get(rec.Key)
	if hj.Trap != nil {
		raw, ok = hj.Trap.Append([]byte{ondisk.Format}), true
	}
	value := rec.Value
	if ok {
		merged, err := trap.Merge(rec.Value[1:], raw[1:])
		if err != nil {
			return ondisk.ErrFormat
		}
		value = append([]byte{ondisk.Format}, merged...)
	}
	m.Buf.Set(rec.Key, value)
	hj.Trap, hj.TrapMod = nil, false
	return nil
}

// account selects the PageHosts of a page. The pieces of a page with very many links may come in
// several sessions: it is kept until the page's outcome arrives, for at most maxParted pages.
func (v *Visit) account(js *hosts.JobState, f *wire.Fetched) {
	o := v.owner
	at := slices.IndexFunc(o.emitter.Parted, func(p *links.PageHosts) bool { return p.Of(f) })
	switch {
	case at >= 0:
		v.hosts = o.emitter.Parted[at]
		o.emitter.Parted = slices.Delete(o.emitter.Parted, at, at+1)
	case !v.hosts.Of(f):
		v.hosts = nil
	}
	if len(f.GetLinks()) == 0 {
		return
	}
	if v.hosts == nil {
		v.hosts = &links.PageHosts{Job: js.ID, URL: string(f.GetUrl())}
	}
	o.emitter.Page = v.hosts
	if link.Outcome(f.GetOutcome()) != link.OutcomeNone {
		return
	}
	if len(o.emitter.Parted) == maxParted {
		o.emitter.Parted = slices.Delete(o.emitter.Parted, 0, 1)
	}
	o.emitter.Parted = append(o.emitter.Parted, v.hosts)
}
