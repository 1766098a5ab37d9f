package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhttest"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// bandwidth of a site's answer in bytes a second.
	bandwidth = 1 << 20
	// maxKnown bounds the links remembered as acknowledged.
	maxKnown = 1 << 16
	// sessionTimeout bounds a message to an owner.
	sessionTimeout = leaseTTL / 2
)

// worker fetches what owners grant. It has the sessions and the frontier of crawl/worker; what it
// does for them takes no goroutines, and has no archive and no robots.txt.
type worker struct {
	c        *crawlPeer
	sessions *session.Machine
	speakers map[*session.Session]*speaker
	frontier *frontier.Frontier[session.URL]
	next     alarm // when the frontier is looked at next
	watching bool  // leases are looked at when the next one ends
	inHand   int   // exchanges under way, and pages not reported yet
	known    map[uint64]struct{}
	pages    int
}

// speaker carries the messages of one session.
type speaker struct {
	busy bool
	at   time.Time // when to look at the session; zero: when something changes
}

// outcome is what a worker notes with a report.
type outcome struct {
	hashes []uint64 // of links to be known once it is acknowledged
	digest [32]byte
	fresh  bool // the body is new: its owner is told
}

var _ session.Driver = (*worker)(nil)

func newWorker(c *crawlPeer) *worker {
	w := &worker{c: c, speakers: make(map[*session.Session]*speaker), known: make(map[uint64]struct{})}
	w.next = alarm{c: c, do: w.look}
	cfg := session.DefaultConfig()
	cfg.Incarnation, cfg.TTL = c.disk.starts, leaseTTL
	w.sessions = session.New(cfg, w)
	// The rest after a request is the experiment's, however long the request took.
	w.frontier = frontier.New[session.URL](frontier.Config{Delay: c.world.cfg.Delay, Factor: -1})
	return w
}

func (w *worker) now() time.Time { return w.c.world.Now() }

// clock is the lease clock.
func (w *worker) clock() time.Duration { return w.c.world.Elapsed() }

// offered takes hosts on; it returns those that it declines.
func (w *worker) offered(from peer.ID, hosts []string) (declined []string) {
	for _, i := range w.sessions.Offer(w.now(), string(from), hosts) {
		declined = append(declined, hosts[i])
	}
	return declined
}

// Wake implements session.Driver: it plans the next look at a session.
func (w *worker) Wake(s *session.Session) {
	sp := w.speakers[s]
	if sp == nil {
		sp = new(speaker)
		w.speakers[s] = sp
	}
	now, at := w.now(), s.Due()
	if at.Before(now) || s.Over() {
		at = now
	}
	if sp.busy || !sp.at.IsZero() && !at.Before(sp.at) {
		return
	}
	sp.at = at
	w.c.Host.After(at.Sub(now), func() {
		if !sp.busy && sp.at.Equal(at) {
			sp.at = time.Time{}
			w.attend(s, sp)
		}
	})
}

// attend speaks to an owner if it is time.
func (w *worker) attend(s *session.Session, sp *speaker) {
	due := s.Due()
	switch {
	case s.Over():
		w.sessions.End(s)
		delete(w.speakers, s)
	case due.IsZero():
	case due.After(w.now()):
		w.Wake(s)
	default:
		w.exchange(s, sp)
	}
}

// exchange sends one message and takes its answer in.
func (w *worker) exchange(s *session.Session, sp *speaker) {
	sp.busy = true
	t := w.sessions.Turn(w.now(), s, s.Begin(), nil)
	for _, r := range t.Reports {
		if o := r.Note.(*outcome); o.fresh {
			o.fresh = false
			w.c.bodies.confirm(o.digest, string(r.Fetched.GetUrl()))
		}
	}
	sent := w.clock()
	w.c.speak(peer.ID(s.Owner()), t.Message, func(reply *wire.SessionReply, err error) {
		sp.busy, sp.at = false, time.Time{}
		if err != nil {
			w.sessions.Unanswered(w.now(), s, t)
			w.sessions.Follow(w.now(), s, w.routes(s.Hosts()))
		} else {
			w.sessions.Answered(w.now(), s, t, reply, sent, w.routes(reply.GetMoved()))
		}
		w.look()
		w.attend(s, sp)
	})
}

// routes says who is believed to own hosts.
func (w *worker) routes(hosts []string) map[string]string {
	routes := make(map[string]string, len(hosts))
	for _, name := range hosts {
		p, _ := w.c.Guess(ring.HostKey(name))
		routes[name] = string(p.ID)
	}
	return routes
}

// Backlog implements session.Driver.
func (w *worker) Backlog() int { return w.frontier.Items() + w.inHand }

// Full implements session.Driver: these URLs are short.
func (w *worker) Full() bool { return false }

// Left implements session.Driver.
func (w *worker) Left(l *session.Lease) int { return w.frontier.Len(l.Host) }

// Pace implements session.Driver.
func (w *worker) Pace(l *session.Lease) time.Duration { return w.frontier.Pace(l.Host) }

// Owed implements session.Driver.
func (w *worker) Owed(now time.Time, l *session.Lease) time.Duration {
	return w.frontier.Owed(now, l.Host)
}

// Learn implements session.Driver.
func (w *worker) Learn(now time.Time, l *session.Lease, g *wire.Grant) (backoff time.Duration, reason string) {
	if pct := g.GetPacePct(); pct > 0 {
		w.frontier.Slow(l.Host, float64(pct)/100)
	}
	if owed := time.Duration(g.GetNotBeforeMs()) * time.Millisecond; owed > 0 {
		w.frontier.NotBefore(l.Host, now.Add(owed))
	}
	if !w.watching {
		w.watching = true
		w.c.Host.After(l.Until()-w.clock(), w.watch)
	}
	return 0, ""
}

// Take implements session.Driver.
func (w *worker) Take(l *session.Lease, g *wire.Grant) int {
	urls := slices.Collect(session.URLs(g))
	w.frontier.Push(l.Host, urls...)
	return len(urls)
}

// Drain implements session.Driver.
func (w *worker) Drain(now time.Time, l *session.Lease, backoff time.Duration) {
	w.frontier.NotBefore(l.Host, now.Add(backoff))
	for u, ok := w.frontier.Take(l.Host); ok; u, ok = w.frontier.Take(l.Host) {
		l.Return(u.Job, u.URL)
	}
}

// Forget implements session.Driver.
func (w *worker) Forget(l *session.Lease) []*wire.Robots {
	w.frontier.Remove(l.Host)
	return nil // no site has one here
}

// Acknowledged implements session.Driver.
func (w *worker) Acknowledged(r *session.Report) {
	if len(w.known) > maxKnown {
		clear(w.known)
	}
	for _, hash := range r.Note.(*outcome).hashes {
		w.known[hash] = struct{}{}
	}
}

// watch drops leases that have ended.
func (w *worker) watch() {
	lapsed, next := w.sessions.Lapse(w.now(), w.clock(), false)
	w.c.world.lapsed += len(lapsed)
	if w.watching = next > 0; w.watching {
		w.c.Host.After(next-w.clock(), w.watch)
	}
}

// look begins the requests that are due, and looks again when the next one is.
func (w *worker) look() {
	now := w.now()
	for {
		name, due := w.frontier.Next(now)
		if name == "" {
			w.next.set(due)
			return
		}
		l := w.sessions.Lease(name)
		u, ok := w.frontier.Take(name)
		switch {
		case !ok:
			w.frontier.Free(name)
		case !l.Holds(w.clock()):
			w.frontier.Free(name)
			w.lapse(l)
		default:
			w.fetch(l, u)
		}
	}
}

// lapse drops a lease that ended before anybody looked.
func (w *worker) lapse(l *session.Lease) {
	if !l.Over() {
		w.c.world.lapsed++
		w.sessions.Revoke(w.now(), l)
	}
}

// fetch makes one request under a lease that holds.
func (w *worker) fetch(l *session.Lease, u session.URL) {
	world := w.c.world
	l.Running = true
	w.inHand++
	v := world.sites.begin(w.clock(), l.Host, w.c.Host, l.Until)
	f, digest := world.sites.get(u.URL)
	rtt := world.Internet.RTT(w.c.Index, world.sites.host(l.Host).index)
	took := 2*rtt + time.Duration(f.GetSize())*time.Second/bandwidth // bytes of a page
	w.c.Host.After(took, func() {
		l.Running = false
		world.sites.end(min(w.clock(), l.Until()), l.Host, v)
		w.frontier.Done(w.now(), l.Host, took)
		if w.clock() >= l.Until() {
			w.inHand--
			world.broken++
			w.lapse(l)
		} else {
			f.DurationMs = session.Milliseconds(took)
			f.FetchedMs = world.Now().UnixMilli()
			w.page(l, u, f, digest)
			w.sessions.Changed(w.now(), l)
		}
		w.look()
	})
	w.sessions.Changed(w.now(), l)
}

// page asks about the body of a page and reports it.
func (w *worker) page(l *session.Lease, u session.URL, f *wire.Fetched, digest [32]byte) {
	w.pages++
	l.Piped++
	report := func(fresh bool) {
		l.Piped--
		w.inHand--
		w.report(l, u, f, &outcome{digest: digest, fresh: fresh})
		w.sessions.Changed(w.now(), l)
	}
	if link.Outcome(f.GetOutcome()) != link.OutcomeOK { // one of its constants
		report(false)
		return
	}
	w.c.bodies.claim(digest, u.URL, func(v dedup.Verdict) {
		if v == dedup.Known {
			f.Outcome = uint32(link.OutcomeDuplicate)
		}
		report(v != dedup.Known)
	})
}

// report tells an outcome to the owner, with the links that it does not know yet.
func (w *worker) report(l *session.Lease, u session.URL, f *wire.Fetched, o *outcome) {
	f.Job, f.Depth, f.Hops, f.Kind = u.Job[:], u.Depth, uint32(u.Hops), uint32(u.Kind)
	if link.Outcome(f.GetOutcome()) != link.OutcomeRedirect { // one of its constants
		fresh := f.GetLinks()[:0:0]
		for _, to := range f.GetLinks() {
			hash := link.Hash(u.Job, string(to))
			if _, known := w.known[hash]; !known {
				o.hashes = append(o.hashes, hash)
				fresh = append(fresh, to)
			}
		}
		f.Links = fresh
	}
	w.sessions.Report(w.now(), &session.Report{Lease: l, Fetched: f, Note: o})
}

// speak brings what a worker says to an owner, and the answer back. As the node does, it looks up
// who owns hosts that have moved, or whose owner is gone, before the worker hears of it.
func (c *crawlPeer) speak(to peer.ID, m *wire.Session, done func(*wire.SessionReply, error)) {
	from := string(c.Peer.ID)
	ask := func(o *owner.Owner) *wire.SessionReply { return o.Session(from, m) }
	atOwner(c, to, Sessions, 1+proto.Size(m), sessionTimeout, ask, func(r *wire.SessionReply, err error) {
		var sought []string
		switch {
		case err == nil:
			sought = r.GetMoved()
		case errors.Is(err, dhttest.ErrRefused):
			c.Missed(to)
			for _, held := range m.GetHeld() {
				sought = append(sought, held.GetHost())
			}
			for _, work := range m.GetHosts() {
				sought = append(sought, work.GetHost())
			}
		}
		c.seek(to, sought, func() { done(r, err) })
	})
}

// maxSeeks and seekTime bound the lookups after one answer, as in the node.
const (
	maxSeeks = 16
	seekTime = time.Second
)

// seek looks up who owns hosts where the peer that does not is still believed to, or nobody is.
func (c *crawlPeer) seek(not peer.ID, hosts []string, done func()) {
	seeks, over := 0, false
	finish := func() {
		if !over {
			over = true
			done()
		}
	}
	var next func()
	next = func() {
		for ; len(hosts) > 0 && !over; hosts = hosts[1:] {
			key := ring.HostKey(hosts[0])
			if p, ok := c.Guess(key); ok && p.ID != not {
				continue
			}
			if seeks++; seeks > maxSeeks {
				break
			}
			if seeks == 1 {
				c.Host.After(seekTime, finish)
			}
			hosts = hosts[1:]
			c.Lookup(key, func(_ dht.Lookup, err error) {
				if err != nil {
					finish()
					return
				}
				next()
			})
			return
		}
		finish()
	}
	next()
}
