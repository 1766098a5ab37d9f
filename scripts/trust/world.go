package main

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	checkRate  = 0.02                     // as in the public profile
	delay      = time.Second              // politeness delay, and the time of a page
	rtt        = 20 * time.Millisecond    // of a message
	wanted     = 8                        // URLs of a request for work
	robotsLife = 24 * time.Hour           // for which a worker keeps a robots.txt
	startMs    = int64(1_795_000_000_000) // Unix ms
	self       = "self"                   // the owner's own worker
)

// shape is what one owner and its workers are like.
type shape struct {
	rate      float64 // share of pages that are checked
	workers   int     // with the owner's own
	liars     int     // of them; -1: a fifth of all peers, drawn
	lies      float64
	collude   bool // liars report the same forged pages
	pages     int  // of the owner's hosts
	hostPages int
	only      bool // all hosts are placed at one worker, a liar if there are any
	parallel  int  // hosts that a worker fetches from at once
	seed      uint64
}

// world is one owner with its workers, in virtual time.
type world struct {
	shape
	owner   *owner.Owner
	spec    *job.Spec
	rng     *rand.Rand
	now     time.Time
	inputs  inputs
	seq     int
	workers []*worker
	byName  map[string]*worker
	posted  int // hosts
	replies []reply
	pages   map[string]struct{} // with an outcome

	requests, robots int
}

// worker is one that may forge pages.
type worker struct {
	name     string
	liar     bool
	reported int                          // pages, checks of others included
	robots   map[string]time.Time         // when it read the robots.txt of a host
	signed   map[string]*wire.Certificate // of its leases by host
}

// input is an input of the owner at a time.
type input struct {
	at  time.Time
	seq int
	do  func()
}

type inputs []input

func (l inputs) Len() int { return len(l) }

func (l inputs) Less(i, j int) bool {
	return cmp.Or(l[i].at.Compare(l[j].at), cmp.Compare(l[i].seq, l[j].seq)) < 0
}

func (l inputs) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *inputs) Push(x any) { *l = append(*l, x.(input)) }

// Pop implements heap.Interface.
func (l *inputs) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// reply is complete after the step.
type reply struct {
	to *worker
	m  *wire.SessionReply
}

// unseen is an unused filter: no URL occurs twice.
type unseen struct{}

func (unseen) Add(owner.SetID, uint64) error { return nil }

func (unseen) Test(owner.SetID, uint64) (bool, error) { return false, nil }

func (unseen) Drop(owner.SetID) {}

// Job implements owner.Jobs.
func (w *world) Job(id job.ID) (*job.Spec, job.Standing, bool) {
	return w.spec, job.Standing{State: job.StateRunning, Version: 1}, id == w.spec.ID
}

// Mine implements owner.Ring.
func (*world) Mine(ring.Key) bool { return true }

func newWorld(s shape) (*world, error) {
	w := &world{
		shape: s, rng: rand.New(rand.NewPCG(s.seed, 58)), now: time.UnixMilli(startMs), byName: make(map[string]*worker),
		pages: make(map[string]struct{}),
	}
	var err error
	w.spec, err = job.FromWire(&wire.JobSpec{Id: []byte("0123456789abcdef"), Seeds: [][]byte{[]byte("http://h0.example/")}, Scope: []string{"*.example"}})
	if err != nil {
		return nil, err
	}
	store := crawltest.NewStore()
	store.Forgetful = true
	random := rand.New(rand.NewPCG(s.seed, 59))
	cfg := owner.Config{
		Self: self, TTL: time.Hour, CheckRate: s.rate, Random: random.Float64,
		Sign:      func(text []byte) []byte { return text[:8] },
		Certified: func(string, ring.Key, []byte, []byte) bool { return true },
	}
	if w.owner, err = owner.New(cfg, store, unseen{}, w, w, w.now); err != nil {
		return nil, err
	}
	for i := range s.workers {
		liar := i >= 1 && i <= s.liars || s.liars < 0 && w.rng.IntN(5) == 0
		x := &worker{name: fmt.Sprintf("w%d", i), liar: liar, robots: make(map[string]time.Time), signed: make(map[string]*wire.Certificate)}
		if i == 0 {
			x.name = self
		}
		w.workers = append(w.workers, x)
		w.byName[x.name] = x
	}
	return w, nil
}

func (w *world) hosts() int { return w.shape.pages / w.hostPages }

func (w *world) url(host, page int) string {
	return fmt.Sprintf("http://h%d.example/section/page-%d.html", host, page)
}

// post accepts the URLs of hosts, so many that each worker has its hosts in parallel.
func (w *world) post() {
	active := w.parallel
	if !w.only {
		active *= len(w.workers)
	}
	for w.posted < w.hosts() && w.posted*w.hostPages < len(w.pages)+active*w.hostPages {
		m := &wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{w.spec.ID[:]}}
		for i := range w.hostPages {
			m.Url = append(m.Url, []byte(w.url(w.posted, i)))
			m.Job, m.Depth = append(m.Job, 0), append(m.Depth, 1)
		}
		w.owner.Links(m)
		w.posted++
	}
}

// after queues an input.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.inputs, input{w.now.Add(d), w.seq, do})
}

// run makes steps until there is nothing left to do, or until returns true.
func (w *world) run(ctx context.Context, until func() bool) error {
	for step := 0; until == nil || !until(); step++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.owner.Begin(w.now)
		w.post()
		for len(w.inputs) > 0 && !w.inputs[0].at.After(w.now) {
			heap.Pop(&w.inputs).(input).do()
		}
		ready, err := w.owner.Commit()
		if err != nil {
			return err
		}
		w.answer(&ready)
		if n := w.owner.Counts(w.spec.ID); len(w.inputs) == 0 && w.posted == w.hosts() && n.Outstanding() == 0 {
			return nil
		}
		next := ready.Next
		if len(w.inputs) > 0 && (next.IsZero() || w.inputs[0].at.Before(next)) {
			next = w.inputs[0].at
		}
		if next.IsZero() {
			return fmt.Errorf("seed %d: nothing to do, but %+v", w.seed, w.owner.Counts(w.spec.ID))
		}
		if next.After(w.now) {
			w.now = next
		}
		if w.now.Sub(time.UnixMilli(startMs)) > 30*24*time.Hour {
			return errors.New("the job does not end within 30 days")
		}
	}
	return nil
}

// answer handles the results of a step.
func (w *world) answer(ready *owner.Ready) {
	for _, p := range ready.Places {
		w.after(rtt, func() { w.owner.Placed(p.Host, owner.Placement{Worker: w.choose(&p), Why: "simulation"}) })
	}
	for _, o := range ready.Offers {
		to := w.byName[o.Worker]
		for _, host := range o.Hosts {
			w.after(rtt, func() { w.say(to, &wire.HostWork{Host: host, Want: wanted}) })
		}
	}
	replies := w.replies
	w.replies = nil
	for _, r := range replies {
		for _, g := range r.m.GetGrants() {
			w.fetch(r.to, g)
		}
	}
}

// choose places a host, or a check.
func (w *world) choose(p *owner.Place) string {
	list := slices.DeleteFunc(slices.Clone(w.workers), func(x *worker) bool { return slices.Contains(p.Exclude, x.name) })
	switch {
	case len(list) == 0:
		return ""
	case w.only && !p.Check:
		return w.workers[1].name
	}
	if known := w.byName[p.Known]; known != nil && !p.Check && slices.Contains(list, known) {
		return p.Known // as strategies that measure do
	}
	return list[w.rng.IntN(len(list))].name
}

// say is a message of a worker on one host.
func (w *world) say(from *worker, work *wire.HostWork) {
	w.replies = append(w.replies, reply{from, w.owner.Session(from.name, &wire.Session{Incarnation: 1, Capacity: 10_000, Hosts: []*wire.HostWork{work}})})
}

// fetch fetches the URLs of a grant, reports them, and asks for more.
func (w *world) fetch(x *worker, g *wire.Grant) {
	host := g.GetHost()
	if len(g.GetSignature()) > 0 {
		x.signed[host] = &wire.Certificate{Epoch: g.GetEpoch(), Signature: g.GetSignature()}
	}
	if n := len(g.GetUrl()); n > 0 && w.now.Sub(x.robots[host]) >= robotsLife {
		x.robots[host] = w.now
		w.robots++
	}
	takes := time.Duration(g.GetNotBeforeMs())*time.Millisecond + time.Duration(len(g.GetUrl()))*delay
	w.after(max(takes, rtt), func() {
		work := &wire.HostWork{Host: host, Epoch: g.GetEpoch(), Certificate: x.signed[host], Want: wanted}
		for _, url := range g.GetUrl() {
			work.Fetched = append(work.Fetched, w.page(x, string(url)))
		}
		if g.GetGiveBack() || len(g.GetUrl()) == 0 {
			work.Release, work.Want, work.OwedMs = true, 0, uint32(delay.Milliseconds())
		}
		w.say(x, work)
	})
}

// digest is that of a page, or of a forged one.
func digest(url, forger string) [32]byte { return sha256.Sum256([]byte(url + " " + forger)) }

// forger returns the name under which a worker forges a page; empty if it does not. A liar chooses
// its pages by a hash of the URL.
func (w *world) forger(x *worker, url string) string {
	if !x.liar {
		return ""
	}
	by := x.name
	if w.collude {
		by = "all liars"
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", w.seed, by, url))
	if float64(binary.BigEndian.Uint32(sum[:]))/(1<<32) < w.lies {
		return by
	}
	return ""
}

// page is a worker's report of a page.
func (w *world) page(x *worker, url string) *wire.Fetched {
	w.requests++
	x.reported++
	w.pages[url] = struct{}{}
	sum := digest(url, w.forger(x, url))
	n := func(at int) uint64 { return binary.BigEndian.Uint64(sum[at:]) }
	return &wire.Fetched{
		Job: w.spec.ID[:], Url: []byte(url), Outcome: uint32(link.OutcomeOK), Status: http.StatusOK, FetchedMs: w.now.UnixMilli() + int64(w.requests%1000), DurationMs: 90,
		Size: 30_000, Mime: "text/html", Digest: sum[:], RecordId: sum[:16], Content: n(0), WordsSimhash: n(8), LinksSimhash: n(16),
	}
}

// result is what became of a world.
type result struct {
	pages, forged   int
	liars, found    int // liars, and those that have lost a check
	wrong           int // honest workers that have lost one
	requests        int // of pages
	robots          int
	checked, losses uint64
	took            time.Duration
}

func (r *result) add(o *result) {
	r.pages, r.forged, r.liars, r.found, r.wrong = r.pages+o.pages, r.forged+o.forged, r.liars+o.liars, r.found+o.found, r.wrong+o.wrong
	r.requests, r.robots, r.checked, r.losses = r.requests+o.requests, r.robots+o.robots, r.checked+o.checked, r.losses+o.losses
	r.took = max(r.took, o.took)
}

// crawl runs a job to its end.
func crawl(ctx context.Context, s shape) (r result, err error) {
	w, err := newWorld(s)
	if err == nil {
		err = w.run(ctx, nil)
	}
	if err != nil {
		return r, err
	}
	r = result{requests: w.requests, robots: w.robots, took: w.now.Sub(time.UnixMilli(startMs))}
	for h := range w.hosts() {
		for i := range w.hostPages {
			url := w.url(h, i)
			fates := w.owner.Why(url)
			if len(fates) != 1 || fates[0].State != "done" {
				return r, fmt.Errorf("%s: %+v", url, fates)
			}
			r.pages++
			if sum := digest(url, ""); string(fates[0].Final.Digest) != string(sum[:]) {
				r.forged++
			}
		}
	}
	for _, x := range w.workers {
		if x.liar {
			r.liars++
		}
	}
	for name, t := range w.owner.Workers() {
		r.checked += t.Checked
		r.losses += t.Lost
		switch liar := w.byName[name].liar; {
		case t.Lost > 0 && liar:
			r.found++
		case t.Lost > 0:
			r.wrong++
		}
	}
	return r, nil
}

// untilFound returns the number of pages that a liar reports until it has lost a check; more than
// the world has if it has lost none.
func untilFound(ctx context.Context, s shape) (int, error) {
	w, err := newWorld(s)
	if err != nil {
		return 0, err
	}
	liar := w.workers[1]
	lost := func() bool { return w.owner.Workers()[liar.name].Lost > 0 }
	err = w.run(ctx, lost)
	if err == nil && !lost() {
		return s.pages + 1, nil
	}
	return liar.reported, err
}
