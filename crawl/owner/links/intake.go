package links

import (
	"bytes"
	"slices"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trap"
)

// LinksAtOnce is the number of links processed between two checks of the step's capacity.
const LinksAtOnce = 128

// Intake adds links to hosts of this peer to their URL sets.
type Intake struct {
	*hosts.Step
	hosts   *hosts.Table
	domains *hosts.Domains
	Known   depths           // depth of the links processed here
	fresh   []ondisk.Pending // accepted last, and not yet read by the emitter
	from    lastSource
}

// lastSource is the source that was stored last, during one call of Admit.
type lastSource struct {
	of    *link.Source
	job   job.ID
	value []byte
	hash  uint64
	at    *hosts.Host // has the record
}

// Arrival is a link to a host of this peer.
type Arrival struct {
	ondisk.Link
	Js   *hosts.JobState
	Host string
	Hash uint64
	// Source is the page with the link, one pointer for all of its links; nil or empty: none.
	Source *link.Source
}

// memo returns the cache key of a link: the URL of a page found as an image first must be processed
// again.
func memo(hash uint64, kind link.Kind) uint64 {
	if kind == link.KindRequisite {
		return ^hash
	}
	return hash
}

func (a *Arrival) memo() uint64 { return memo(a.Hash, a.Kind) }

// Admit processes links to hosts for which AnswersFor returned Here, in order. Links that the
// filters cannot identify as new are looked up in the store sorted by key, so that it is read in
// one direction.
func (in *Intake) Admit(list []Arrival) {
	in.from = lastSource{}
	list = slices.DeleteFunc(list, func(a Arrival) bool { return in.refuses(&a) })
	stored, ok := in.stored(list)
	if !ok {
		return
	}
	for i := range list {
		a := &list[i]
		if a.Js == nil || in.Known.covers(a.memo(), a.Depth) {
			continue
		}
		h := in.hosts.Open(a.Host)
		value := stored[i]
		if newer, ok := in.Buf.Gathered(ondisk.EntryKey(h.Pos, a.Js.ID, a.Hash)); ok {
			value = newer // same URL twice in a step
		}
		if value == nil && !in.accept(h, a) {
			continue // it may be found again when space is free
		}
		if value != nil {
			in.meet(h, a, value)
		}
		in.Known.Set(a.memo(), a.Depth)
	}
}

// stored reads the entries of links that the filters cannot identify as new, by index. A link that
// the filter alone marks as known has its Js cleared.
func (in *Intake) stored(list []Arrival) (stored map[int][]byte, ok bool) {
	type look struct {
		i   int
		key []byte
	}
	var looks []look
	for i := range list {
		a := &list[i]
		h := in.hosts.Find(a.Host)
		if h == nil {
			continue
		}
		hj := h.Job(a.Js)
		if hj == nil || hj.Tally.Accepted() == 0 {
			continue
		}
		seen, err := in.Seen.Test(ondisk.SetID{Pos: h.Pos, Job: a.Js.ID}, a.Hash)
		if err != nil {
			in.Buf.Fail(err)
			return nil, false
		}
		switch {
		case seen && in.Cfg.SeenBloom:
			a.Js = nil // filter alone is trusted
		case seen:
			looks = append(looks, look{i, ondisk.EntryKey(h.Pos, a.Js.ID, a.Hash)})
		}
	}
	slices.SortFunc(looks, func(x, y look) int { return bytes.Compare(x.key, y.key) })
	if len(looks) == 0 {
		return nil, true
	}
	stored = make(map[int][]byte, len(looks))
	for _, l := range looks {
		if value, ok := in.Buf.Get(l.key); ok {
			stored[l.i] = value
		}
	}
	return stored, true
}

// refuses reports whether a link needs no processing: it is known at this depth, malformed, not
// admitted by its job, or its host is rejected.
func (in *Intake) refuses(a *Arrival) bool {
	if in.Known.covers(a.memo(), a.Depth) {
		return true
	}
	canonical, err := link.Canonical(a.URL)
	entered := a.Js.Spec.Enters(a.Host, a.Depth, a.Hops, a.Kind) || in.Entered(a.Js, a.Host)
	if err != nil || canonical != a.URL || Refusal(a.Js.Spec, a.Link.URL, a.Depth, a.Kind, entered) != "" || a.Js.State == job.StateCanceled {
		if entered || !a.Js.Spec.OpenScope() { // else a seed may still redirect to its host
			in.Known.Set(a.memo(), a.Depth)
		}
		return true
	}
	return in.TurnsAway(a.Js, a.Link.URL) != ""
}

// Entered reports whether a seed of a job has redirected to a host that its scope does not name.
func (in *Intake) Entered(js *hosts.JobState, host string) bool {
	if !js.Spec.OpenScope() {
		return false
	}
	h := in.hosts.Find(host)
	if h == nil {
		return false
	}
	hj := h.Job(js)
	return hj != nil && hj.Tally.Accepted() > 0
}

// Refusal returns a short reason why a job does not admit a canonical URL, empty if it does. The
// scope is not checked for a host that was entered.
func Refusal(spec *job.Spec, url string, depth uint32, kind link.Kind, entered bool) string {
	host := link.Host(url)
	switch {
	case !entered && !spec.InScope(host):
		return "out of scope"
	case !spec.AdmitsDepth(host, depth):
		return "beyond the job's depth limit"
	case kind == link.KindRequisite && !spec.Requisites:
		return "page requisites are not enabled for the job"
	case kind == link.KindSitemap && spec.NoSitemaps:
		return "sitemaps are not enabled for the job"
	}
	if spec.Traps.On() && trap.Structure(url) {
		return spec.Traps.Text(trap.Paths)
	}
	return spec.Filtered(url, depth, kind)
}

// via returns the hash of a link's source; 0 without one.
func (in *Intake) via(a *Arrival) uint64 {
	if a.Source == nil || a.Source.URL == "" {
		return 0
	}
	if l := &in.from; a.Source != l.of || a.Js.ID != l.job {
		value := ondisk.EncodeSource(a.Source)
		*l = lastSource{of: a.Source, job: a.Js.ID, value: value, hash: ondisk.SourceHash(a.Js.ID, value)}
	}
	return in.from.hash
}

// keep stores the source that via returned last, with a URL of a host that refers to it.
func (in *Intake) keep(h *hosts.Host, via uint64) {
	if l := &in.from; via != 0 && l.at != h {
		in.Buf.Set(ondisk.SourceKey(h.Pos, l.job, via), l.value)
		l.at = h
	}
}

// accept adds a URL to the set if there is space for it.
func (in *Intake) accept(h *hosts.Host, a *Arrival) bool {
	h.Rec.Serves(a.URL)
	via := in.via(a)
	p, ok := in.Book(h, a.Js).Accept(a.Hash, a.URL, a.Depth, a.Hops, a.Kind, via)
	if !ok {
		return false
	}
	in.keep(h, via)
	if in.fresh = append(in.fresh, p); len(in.fresh) > LinksAtOnce {
		in.fresh = in.fresh[:0] // of another page
	}
	return true
}

// meet processes a link to a URL in the set: the smaller depth wins while the URL waits.
func (in *Intake) meet(h *hosts.Host, a *Arrival, value []byte) {
	n, err := ondisk.DecodeEntry(value)
	if err != nil {
		in.Buf.Fail(err)
		return
	}
	if !n.Done {
		in.meetPending(h, in.Book(h, a.Js), a, n.At)
	}
}

func (in *Intake) meetPending(h *hosts.Host, hj *hosts.Job, a *Arrival, at ondisk.Spot) {
	upgrade := a.Kind == link.KindPage && a.Js.Spec.Requisites
	if a.Depth >= at.Depth && !upgrade {
		return
	}
	p, ok := hj.Pending(at)
	if !ok {
		return
	}
	it := h.Lease.Item(a.Hash)
	upgrade = upgrade && p.Kind == link.KindRequisite && it == nil
	if a.Depth >= p.Depth && !upgrade {
		return
	}
	if a.Depth < p.Depth {
		p.Depth, p.Via = a.Depth, in.via(a)
		in.keep(h, p.Via)
	}
	if upgrade {
		p.Kind = link.KindPage
	}
	hj.Move(at, &p, it != nil)
	if it != nil {
		it.Spot, it.Via = p.Spot, p.Via
	}
}

// TurnsAway returns the reason why a URL is rejected regardless of its job: an opt-out, or the host
// limit of its domain in the job.
func (in *Intake) TurnsAway(js *hosts.JobState, url string) string {
	if why := in.Cfg.OptOuts.URL(url); why != "" {
		return why
	}
	name := link.Host(url)
	h := in.hosts.Find(name)
	if h != nil && h.Rec.OptOut.Out() {
		return in.WhyOptedOut(h)
	}
	if h != nil {
		if hj := h.Job(js); hj != nil {
			if hj.Tally.Counters().Admission.TurnsAway() {
				return in.domains.TurnedAway(hj.Tally.Counters().Admission)
			}
			return ""
		}
	}
	if in.Cfg.Admission && len(in.domains.Full) > 0 && !domain.Plain(name) && !js.Seeded(name) {
		for _, whole := range []string{domain.Of(name), PortsOf(name)} {
			if v, full := in.domains.Full[hosts.DomainJob{ID: js.ID, Domain: whole}]; full {
				return in.domains.TurnedAway(v)
			}
		}
	}
	return ""
}

// PortsOf returns the key for all ports of a host's name in the set of full domains, which is not a
// domain name. It is empty for a host at its scheme's default port.
func PortsOf(host string) string {
	if !domain.HasPort(host) {
		return ""
	}
	return job.HostName(host) + ":"
}
