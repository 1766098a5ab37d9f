package worker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// testOwner is an owner in a hundred lines: it takes outcomes, keeps what was seen, grants.
type testOwner struct {
	x           *world
	name        string
	ttl         time.Duration
	hosts       map[string]*testHost
	epoch       uint64
	silent      bool // answers nobody
	busy        bool // refuses outcomes
	waiting     bool // says nothing of its hosts yet
	pause       time.Duration
	loseAnswers int
	voided      bool // knows none of its leases any more
	sessions    int
	reported    int
	ack, seq    uint64
}

type testHost struct {
	pending   []testURL
	out       map[string]testURL
	seen      map[string]bool
	done      map[string]*wire.Fetched
	again     int
	epoch     uint64
	by        string // the owner that made it
	addrs     [][]byte
	owed      time.Time
	backoff   uint32
	reason    string
	returned  int
	left      int // out when it was given back
	notBefore time.Time
	moved     bool
	give      bool
	tries     map[string]int
	from      map[string]*link.Source // of URLs
	before    map[string]*wire.Revisit
}

type testURL struct {
	url   string
	depth uint32
	hops  uint8
	kind  link.Kind
}

func (o *testOwner) String() string {
	s := fmt.Sprintf("%s after %d sessions:", o.name, o.sessions)
	for name, h := range o.hosts {
		s += fmt.Sprintf(" %s: %d pending, %d out, %d done, epoch %d;", name, len(h.pending), len(h.out), len(h.done), h.epoch)
	}
	return s
}

func (o *testOwner) host(name string) *testHost {
	h := o.hosts[name]
	if h == nil {
		h = &testHost{
			out: make(map[string]testURL), seen: make(map[string]bool), done: make(map[string]*wire.Fetched),
			tries: make(map[string]int), from: make(map[string]*link.Source),
		}
		o.hosts[name] = h
	}
	return h
}

func (o *testOwner) add(url string, depth uint32, hops uint8, kind link.Kind) {
	h := o.host(link.Host(url))
	if !h.seen[url] && o.x.spec.AdmitsDepth(link.Host(url), depth) && (o.x.spec.InScope(link.Host(url)) || o.x.spec.Enters(link.Host(url), depth, hops, kind)) {
		h.seen[url] = true
		h.pending = append(h.pending, testURL{url, depth, hops, kind})
	}
}

func (o *testOwner) outstanding() (n int) {
	for _, h := range o.hosts {
		n += len(h.pending) + len(h.out)
	}
	return n
}

func (o *testOwner) session(m *wire.Session) *wire.SessionReply {
	if m.GetSeq() > 0 {
		o.sessions++
		o.ack, o.seq = m.GetAck(), m.GetSeq()
	}
	reply := &wire.SessionReply{TtlMs: uint32(o.ttl.Milliseconds())}
	if o.voided {
		o.voided = false
		for _, h := range o.hosts {
			o.end(h)
		}
	}
	if o.waiting {
		names := make(map[string]struct{})
		for _, l := range m.GetHeld() {
			names[l.GetHost()] = struct{}{}
		}
		for _, w := range m.GetHosts() {
			names[w.GetHost()] = struct{}{}
		}
		reply.Refused = slices.Sorted(maps.Keys(names))
		reply.NotRenewed = reply.GetRefused()
		return reply
	}
	for _, l := range m.GetHeld() {
		if h := o.host(l.GetHost()); h.moved {
			reply.Moved = append(reply.Moved, l.GetHost())
		} else if h.epoch != l.GetEpoch().GetCounter() {
			reply.Revoked = append(reply.Revoked, l.GetHost())
		}
	}
	for _, w := range m.GetHosts() {
		o.work(w, reply)
	}
	return reply
}

// end puts back what is out under a lease.
func (o *testOwner) end(h *testHost) {
	h.epoch = 0
	for url, u := range h.out {
		delete(h.out, url)
		h.pending = append(h.pending, u)
	}
}

func (o *testOwner) work(w *wire.HostWork, reply *wire.SessionReply) {
	h := o.host(w.GetHost())
	if h.moved {
		reply.Moved = append(reply.Moved, w.GetHost())
		return
	}
	if o.busy && len(w.GetFetched()) > 0 {
		reply.Refused = append(reply.Refused, w.GetHost())
		return
	}
	if len(w.GetAddrs()) > 0 {
		h.addrs = w.GetAddrs()
	}
	for _, f := range w.GetFetched() {
		o.report(h, f)
	}
	held := h.epoch != 0 && h.epoch == w.GetEpoch().GetCounter()
	switch {
	case held && w.GetRelease():
		h.owed, h.backoff, h.reason, h.returned = time.Now().Add(time.Duration(w.GetOwedMs())*time.Millisecond), w.GetBackoffMs(), w.GetBackoffReason(), len(w.GetReturned())
		if h.backoff > 0 {
			h.notBefore = time.Now().Add(time.Duration(h.backoff) * time.Millisecond)
			time.AfterFunc(time.Duration(h.backoff)*time.Millisecond, o.x.offerAll)
		}
		h.give, h.left = false, len(h.out)
		o.end(h)
	case w.GetEpoch() == nil && w.GetWant() > 0:
		if h.epoch != 0 {
			o.end(h)
		}
		if len(h.pending) > 0 {
			o.epoch++
			h.epoch, h.by = o.epoch, o.name
			o.grant(w.GetHost(), h, int(w.GetWant()), true, reply)
		}
	case held && w.GetWant() > 0:
		o.grant(w.GetHost(), h, int(w.GetWant()), false, reply)
	case !held && !w.GetRelease():
		reply.Revoked = append(reply.Revoked, w.GetHost())
	}
}

func (o *testOwner) grant(name string, h *testHost, n int, first bool, reply *wire.SessionReply) {
	id := o.x.spec.ID
	g := &wire.Grant{Host: name, Epoch: &wire.Epoch{Counter: h.epoch, Peer: []byte(h.by)}, JobIds: [][]byte{id[:]}, GiveBack: h.give}
	if first {
		g.NotBeforeMs = session.Milliseconds(max(time.Until(h.owed), 0))
		g.Addrs = h.addrs
	}
	n = min(n, len(h.pending))
	if h.give {
		n = 0
	}
	var sources wire.SourceTable
	for i, u := range h.pending[:n] {
		if r := h.before[u.url]; r != nil {
			r.At = uint32(i)
			g.Revisits = append(g.Revisits, r)
		}
		sources.Add(h.from[u.url])
		h.out[u.url] = u
		g.Url = append(g.Url, []byte(u.url))
		g.Job = append(g.Job, 0)
		g.Depth = append(g.Depth, u.depth)
		g.Hops = append(g.Hops, u.hops)
		g.Kind = append(g.Kind, byte(u.kind))
		g.Tries = append(g.Tries, byte(h.tries[u.url])) // a handful
		g.MaxBytes = append(g.MaxBytes, o.x.maxBytes)
	}
	g.Sources, g.Source = sources.Columns()
	h.pending = slices.Clone(h.pending[n:])
	g.More = len(h.pending) > 0
	reply.Grants = append(reply.Grants, g)
}

// retries of a URL whose outcome is worth another try; they come at once, unless the host has to be
// left alone.
const retries = 3

func (o *testOwner) report(h *testHost, f *wire.Fetched) {
	url := string(f.GetUrl())
	outcome := link.Outcome(f.GetOutcome())
	if outcome != link.OutcomeNone {
		o.reported++
		if h.done[url] != nil {
			h.again++
		}
		u, out := h.out[url]
		delete(h.out, url)
		h.pending = slices.DeleteFunc(h.pending, func(p testURL) bool { return p.url == url }) // reported under a lease that is over
		if h.tries[url]++; out && outcome.Retryable(int(f.GetStatus())) && h.tries[url] <= retries {
			h.pending = append(h.pending, u)
			return
		}
		h.done[url] = f
	}
	from := h.source(url, f)
	for i, raw := range f.GetLinks() {
		target := string(raw)
		kind := link.KindPage
		if len(f.GetLinkKind()) > 0 {
			kind = link.Kind(f.GetLinkKind()[i])
		}
		depth, hops := f.GetDepth()+1, uint8(0)
		if outcome == link.OutcomeRedirect {
			depth, hops, kind = f.GetDepth(), uint8(f.GetHops())+1, link.Kind(f.GetKind())
		} else if outcome == link.OutcomeNone || kind == link.KindRequisite {
			depth = f.GetDepth()
		}
		if hops > wire.MaxRedirects {
			continue
		}
		to := o.x.ownerOf(link.Host(target))
		to.add(target, depth, hops, kind)
		if known := to.host(link.Host(target)).from; known[target] == nil && depth+uint32(hops)+uint32(kind) > 0 {
			known[target] = from
		}
	}
}

// source is the page of a report as the source of its links.
func (h *testHost) source(url string, f *wire.Fetched) *link.Source {
	s := &link.Source{URL: url}
	if by := string(f.GetAskedBy()); by != "" {
		asker := link.Source{URL: by}
		_, asker.Path, asker.Seed = link.Provenance(h.from[by], by, link.KindPage, f.GetDepth(), 0)
		s.Path, s.Seed = asker.PathTo(link.KindRobots), asker.Seed
		return s
	}
	_, s.Path, s.Seed = link.Provenance(h.from[url], url, link.Kind(f.GetKind()), f.GetDepth(), uint8(f.GetHops()))
	switch {
	case f.GetOutcome() == uint32(link.OutcomeRedirect):
		s.Role = link.RoleRedirect
	case f.GetKind() == uint32(link.KindSitemap):
		s.Role = link.RoleSitemap
	}
	return s
}
