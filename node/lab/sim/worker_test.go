package sim

import (
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
	"github.com/apoidea/apoidea/crawl/worker/visits"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// bandwidth is that of a site's answer in bytes per second.
	bandwidth = 1 << 20
	// maxKnown is the maximum number of links remembered as acknowledged.
	maxKnown = 1 << 16
	// sessionTimeout is the timeout of a message to an owner.
	sessionTimeout = leaseTTL / 2
)

// worker fetches granted URLs. It drives the machines of crawl/worker without goroutines, and has
// no archive and no robots.txt.
type worker struct {
	c        *crawlPeer
	visits   *visits.Machine
	sessions *session.Machine // of the same peer
	speakers map[*session.Session]*speaker
	next     alarm // for the next visit
	watching bool  // a check of leases is scheduled for the next expiry
	known    map[uint64]struct{}
}

// speaker sends the messages of one session.
type speaker struct {
	busy bool
	at   time.Time // next check of the session; zero: after a change
}

// outcome is the data that a worker keeps with a report.
type outcome struct {
	hashes []uint64 // of links to remember once it is acknowledged
	digest [32]byte
	fresh  bool // the body is new: its owner gets a confirmation
}

var _ visits.Driver = (*worker)(nil)

func newWorker(c *crawlPeer) *worker {
	w := &worker{c: c, speakers: make(map[*session.Session]*speaker), known: make(map[uint64]struct{})}
	w.next = alarm{c: c, do: w.look}
	cfg := session.DefaultConfig()
	cfg.Incarnation, cfg.TTL = c.disk.starts, leaseTTL
	// The delay after a request is the experiment's, whatever the request took.
	w.visits = visits.New(visits.Config{Sessions: cfg, Politeness: frontier.Config{Delay: c.world.cfg.Delay, Factor: -1}}, w)
	w.sessions = w.visits.Sessions()
	return w
}

func (w *worker) now() time.Time { return w.c.world.Now() }

// clock is the lease clock.
func (w *worker) clock() time.Duration { return w.c.world.Elapsed() }

// offered accepts hosts; it returns those that it declines.
func (w *worker) offered(from peer.ID, hosts []string) (declined []string) {
	for _, i := range w.sessions.Offer(w.now(), string(from), hosts) {
		declined = append(declined, hosts[i])
	}
	return declined
}

// Wake implements visits.Driver: it schedules the next check of a session.
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

// attend sends the next message to an owner if it is due.
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

// exchange sends one message and processes its answer.
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
			if !w.watching {
				w.watch()
			}
		}
		w.look()
		w.attend(s, sp)
	})
}

// routes returns the likely owners of hosts.
func (w *worker) routes(hosts []string) map[string]string {
	routes := make(map[string]string, len(hosts))
	for _, name := range hosts {
		p, _ := w.c.Guess(ring.HostKey(name))
		routes[name] = string(p.ID)
	}
	return routes
}

// Job implements visits.Driver.
func (w *worker) Job(id job.ID) *reports.Job { return &reports.Job{ID: id} }

// Acknowledged implements visits.Driver.
func (w *worker) Acknowledged(r *session.Report) {
	if len(w.known) > maxKnown {
		clear(w.known)
	}
	for _, hash := range r.Note.(*outcome).hashes {
		w.known[hash] = struct{}{}
	}
}

// watch drops expired leases.
func (w *worker) watch() {
	next := w.visits.Lapse(w.now(), w.clock())
	if w.watching = next > 0; w.watching {
		w.c.Host.After(next-w.clock(), w.watch)
	}
}

// look begins the visits that are due, and schedules the next check.
func (w *worker) look() {
	for {
		v, due := w.visits.Next(w.now())
		if v == nil {
			w.next.set(due)
			return
		}
		if err := v.Permit(w.clock()); err != nil {
			w.visits.Ended(w.now(), v, visits.Failed{Err: err})
			continue
		}
		w.fetch(v)
	}
}

// fetch makes one request under a valid lease. No site has a robots.txt here.
func (w *worker) fetch(v *visits.Visit) {
	world, l := w.c.world, v.Lease
	busy := world.sites.begin(w.clock(), l.Host, w.c.Host, l.Until)
	f, digest := world.sites.get(v.Item.URL)
	rtt := world.Internet.RTT(w.c.Index, world.sites.host(l.Host).index)
	took := 2*rtt + time.Duration(f.GetSize())*time.Second/bandwidth // bytes of a page
	w.c.Host.After(took, func() {
		world.sites.end(min(w.clock(), l.Until()), l.Host, busy)
		if w.clock() >= l.Until() {
			world.broken++
			w.visits.Ended(w.now(), v, visits.Failed{Err: visits.ErrLapsed, Took: took})
		} else {
			f.DurationMs = session.Milliseconds(took)
			f.FetchedMs = world.Now().UnixMilli()
			it := v.Item
			w.visits.Fetched(w.now(), v, new(fetch.Response), took, 0)
			w.page(l, &it, f, digest)
		}
		w.look()
	})
}

// page claims the body of a page and reports it.
func (w *worker) page(l *session.Lease, it *reports.Item, f *wire.Fetched, digest [32]byte) {
	if link.Outcome(f.GetOutcome()) != link.OutcomeOK { // one of its constants
		w.report(l, it, f, &outcome{digest: digest})
		return
	}
	w.c.bodies.claim(digest, it.URL, func(v dedup.Verdict) {
		if v == dedup.Known {
			f.Outcome = uint32(link.OutcomeDuplicate)
		}
		w.report(l, it, f, &outcome{digest: digest, fresh: v != dedup.Known})
	})
}

// report sends an outcome to the owner, with the links that are new to it.
func (w *worker) report(l *session.Lease, it *reports.Item, f *wire.Fetched, o *outcome) {
	f.Job, f.Depth, f.Hops, f.Kind = it.Job.ID[:], it.Depth, uint32(it.Hops), uint32(it.Kind)
	if link.Outcome(f.GetOutcome()) != link.OutcomeRedirect { // one of its constants
		fresh := f.GetLinks()[:0:0]
		for _, to := range f.GetLinks() {
			hash := link.Hash(it.Job.ID, string(to))
			if _, known := w.known[hash]; !known {
				o.hashes = append(o.hashes, hash)
				fresh = append(fresh, to)
			}
		}
		f.Links = fresh
	}
	r := reports.Of(l, f)
	r.Note = o
	w.visits.Processed(w.now(), r)
}

// speak sends a worker's message to an owner, and returns the answer. As the node does, it looks up
// the owners of hosts that have moved, or lost their owner, before the worker gets it.
func (c *crawlPeer) speak(to peer.ID, m *wire.Session, done func(*wire.SessionReply, error)) {
	from := string(c.Peer.ID)
	ask := func(o *owner.Owner) *wire.SessionReply { return o.Session(from, m) }
	atOwner(c, to, Sessions, 1+proto.Size(m), sessionTimeout, ask, func(r *wire.SessionReply, err error) {
		var sought []string
		switch {
		case err == nil:
			sought = r.GetMoved()
		case errors.Is(err, dhtsim.ErrRefused):
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

// maxSeeks and seekTime limit the lookups after one answer, as in the node.
const (
	maxSeeks = 16
	seekTime = time.Second
)

// seek looks up the owners of hosts whose likely owner is unknown, or denied it.
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
