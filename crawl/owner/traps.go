package owner

import (
	"encoding/binary"
	"slices"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/storage/kv"
)

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

// doubt puts the URLs of its own host that a page brings behind others, if its text is known.
func (oc *outcomes) doubt(h *hosts.Host, hj *hosts.Job, f *wire.Fetched) {
	if page := oc.emitter.Page; hj.State.Rules().On() && page.Of(f) && !hj.Tally.Counters().Trap {
		_, masked := textOf(f)
		page.Behind = oc.traps.Of(h, hj).Known(masked)
	}
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
