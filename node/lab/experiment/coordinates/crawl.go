package coordinates

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// Crawl repeats 5.12 and 5.13 of the thesis.
var Crawl = trial.Experiment{
	Name:  "coordinates-crawl",
	About: "a whole crawl placed by network coordinates: coverage, messages, balance (Malet 2009)",
	Long: `The thesis' whole run (sections 5.12, 5.13 and 5.4.2) in virtual time. It has 14 peers, cycle mode, 184 minutes, error 0.25 and hosts of 150 URLs. The thesis states 100 hosts per
batch, yet 836 hosts in 114 cycles. 5,360 requests of 100 URLs would be three times all its pages. Batches have 8 hosts here, the second size tried; with 100, only two batches were
assigned. Links per page are also the second value tried. Each peer serves its queue of assigned URLs, estimates and found URLs. Pages link to their own host and to others; links
go to the peer that owns the host. A page is fetched once and a host by one peer at a time, so overlap is 0 by construction; it is measured anyway. A peer has three fetchers that
wait for their host as politeness requires, which is about the rate of the thesis' hundred threads. A message requests all servers of a batch that have answered, after 30 s for
those available. communication counts as the thesis does: twice the requests plus the assignments. communication_as_sent counts sent messages, since answers to one request arrive
separately. Fewer hosts are assigned than in the thesis: a server takes more updates here (updates_of_a_server) until its error is small enough. The thesis' 836 hosts, at 47
requests per cycle, took about as many estimates as here.

Row crawl-queue-height uses the length of a peer's queue as height (3.8 b). In row crawl-wait a peer slows its own crawl while its batch is estimated, an option of the thesis (3.4,
step 3). With probability ` + fmt.Sprint(crawlWait) + ` it fetches nothing for half a second, which is our value. The aim is to keep busy threads out of measurements. Simulated peers are equally fast when
busy, so the effect cannot show, and estimates wait in the same queue. batch_took is the time from the start of a batch to its assignment. --peers is the number of peers.`,
	Run: runCoordCrawl,
}

// The set-up of 5.12.
const (
	crawlPeers     = 14
	crawlMinutes   = 184
	crawlBatch     = 8
	crawlBucket    = 150 // mu
	crawlFetchers  = 3
	crawlHostsEach = 220 // hosts owned by a peer
	crawlDelay     = time.Second
	crawlIdle      = 500 * time.Millisecond
	crawlOwnLinks  = 40               // new pages of the same host that a page leads to, in the mean
	crawlFarLinks  = 2                // links to other hosts
	crawlHostSize  = 1200             // median number of pages of a host
	crawlPerURL    = 2                // ms of height for a waiting URL, in the second row
	crawlWait      = 0.5              // probability that nothing is fetched while a batch is estimated, in the third
	crawlGather    = 30 * time.Second // that a request waits for stragglers of the one before, so that it is for the whole batch as in the thesis
	crawlWindow    = 2                // samples of a pair before they count: with five, fourteen estimators would take 70 updates before any does; the thesis had 47 requests a cycle
	crawlTimeout   = 10 * time.Minute // of an estimate, which waits in its estimator's queue
	crawlTries     = 8                // URLs that an idle fetcher tries while hosts are busy
)

// coordCrawl is a running crawl.
type coordCrawl struct {
	crawlRow
	run     *coordRun
	rnd     *rand.Rand
	queues  []*queue
	hosts   []crawlHost
	done    []int // pages by peer
	fetched map[string]int
	failed  int
	bytes   int // of the pages
	// assigned counts URLs assigned to other peers, answered those fetched of them.
	assigned, answered int
	placed             map[int]bool // hosts
	byMinute           [][3]float64 // pages, waiting, assigned
}

// crawlRow is a row of the table.
type crawlRow struct {
	name   string
	perURL float64 // ms of height for a waiting URL
	wait   float64 // while a batch is estimated
}

func crawlRows() []crawlRow {
	return []crawlRow{{name: "crawl"}, {name: "crawl-queue-height", perURL: crawlPerURL}, {name: "crawl-wait", wait: crawlWait}}
}

type crawlHost struct {
	size, known int
	busy        bool
	next        time.Time
}

func runCoordCrawl(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return err
	}
	peers, minutes := o.Count(crawlPeers), trial.Either(o, crawlMinutes, 60)
	if o.Hours > 0 {
		minutes = int(math.Ceil(o.Hours * 60))
	}
	r.Input("peers", peers)
	r.Input("minutes", minutes)
	r.Input("candidates", "all peers")
	pages := report.Plot{Name: "pages", Title: "Pages of a crawl placed by coordinates", X: "minutes", Y: "pages"}
	rows := crawlRows()
	for i, row := range rows {
		c, err := newCoordCrawl(net, o.Seed, peers, row)
		if err != nil {
			return err
		}
		for m := range minutes {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.run.clock.Run(time.Minute)
			c.note()
			progress(fmt.Sprintf("%s, minute %d", row.name, m+1), (float64(i)+float64(m+1)/float64(minutes))/float64(len(rows)))
		}
		c.table(r, i == 0 && peers == crawlPeers && minutes == crawlMinutes)
		c.plot(r, &pages)
	}
	r.Plots = append(r.Plots, pages)
	return nil
}

func newCoordCrawl(net *internet.Internet, seed uint64, peers int, row crawlRow) (*coordCrawl, error) {
	rnd := rand.New(rand.NewPCG(seed, 0x637261776c))
	w, err := newCoordWorld(net, rnd, peers, peers*crawlHostsEach)
	if err != nil {
		return nil, err
	}
	setup := paperSetup(0.25)
	setup.cycle.mode, setup.cycle.hosts, setup.cycle.maxUpdates = modeCycle, crawlBatch, crawlBucket
	setup.cycle.gather, setup.servers.Filter.Min = crawlGather, crawlWindow
	setup.cycle.timeout = crawlTimeout + 3*downloadTimeout // an estimate that began in time is back by then
	setup.gossip.PerURL = row.perURL
	c := &coordCrawl{crawlRow: row, run: newCoordRun(w, &setup, seed), rnd: rnd, done: make([]int, peers), fetched: make(map[string]int), placed: make(map[int]bool)}
	for range w.servers {
		c.hosts = append(c.hosts, crawlHost{size: int(crawlHostSize * math.Exp(rnd.NormFloat64()))})
	}
	c.run.estimates = func(at int, r *request) { c.queues[at].proxy.push(*r) }
	c.run.assigned = func(_ int, a *assignment) {
		c.assigned += len(a.urls)
		to := c.run.index[a.to]
		c.queues[to].assigned.push(a.urls...)
		for i := range a.urls {
			c.placed[serverOf(a.urls[i].addr)] = true
		}
	}
	for i := range w.peers {
		c.queues = append(c.queues, newQueue(rand.New(rand.NewPCG(seed, uint64(i))))) // a small count
	}
	for h := range c.hosts {
		c.find(h, 3) // the seeds
	}
	c.run.start()
	for i := range w.peers {
		c.upkeep(i)
		for range crawlFetchers {
			c.fetch(i)
		}
	}
	return c, nil
}

// owner of a host by its hash.
func (c *coordCrawl) owner(host int) int { return host % len(c.queues) }

// find adds n new URLs of a host at its owner; a host with a full bucket becomes ready for a batch.
func (c *coordCrawl) find(host, urls int) {
	h := &c.hosts[host]
	q := c.queues[c.owner(host)]
	for range min(urls, h.size-h.known) {
		u := c.run.bucket(host, h.known, 1)[0]
		if !q.find(&u) {
			return
		}
		h.known++
	}
	if name := fmt.Sprintf("host%d", host); q.bucket(name) >= crawlBucket {
		c.run.cycles[c.owner(host)].add(q.take(name))
	}
}

// upkeep reports a peer's backlog each second, and slows its crawl during estimation.
func (c *coordCrawl) upkeep(i int) {
	c.run.clock.After(time.Second, func() { c.upkeep(i) })
	q := c.queues[i]
	c.run.gossip[i].SetBacklog(q.assigned.len() + q.proxy.len())
	q.wait = 0
	if c.run.cycles[i].estimating() {
		q.wait = c.wait
	}
}

// fetch is one fetcher of a peer: the next URL whose host is free.
func (c *coordCrawl) fetch(i int) {
	now := c.run.clock.Now()
	for range crawlTries {
		due, from := c.queues[i].next()
		if from == idle {
			break
		}
		if from == proxy && now.Sub(due.at) >= crawlTimeout {
			continue // the turn is over: the requester has taken the URL back
		}
		host := serverOf(due.addr)
		if h := &c.hosts[host]; h.busy || now.Before(h.next) {
			c.later(i, &due, from)
			continue
		}
		c.download(i, host, &due, from)
		return
	}
	c.run.clock.After(crawlIdle, func() { c.fetch(i) })
}

// later returns a URL to the queue while its host is busy.
func (c *coordCrawl) later(i int, r *request, from source) {
	switch from {
	case assigned:
		c.queues[i].assigned.push(r.pageURL)
	case proxy:
		c.queues[i].proxy.push(*r)
	default:
		c.queues[i].find(&r.pageURL)
	}
}

func (c *coordCrawl) download(i, host int, r *request, from source) {
	h := &c.hosts[host]
	h.busy = true
	bytes := pageSize(c.rnd)
	took, failed := c.run.w.download(c.rnd, i, host, bytes)
	c.run.clock.After(took, func() {
		now := c.run.clock.Now()
		h.busy, h.next = false, now.Add(crawlDelay)
		c.done[i]++
		c.fetched[r.url]++
		switch {
		case failed:
			c.failed++
		default:
			c.bytes += bytes
			c.find(host, int(crawlOwnLinks*c.rnd.ExpFloat64()+0.5))
			for range crawlFarLinks {
				c.find(c.rnd.IntN(len(c.hosts)), 1)
			}
		}
		switch from {
		case assigned:
			c.answered++
		case proxy:
			c.run.estim[i].finished(now, r.requester, &estimate{pageURL: r.pageURL, took: took, failed: failed})
		}
		c.fetch(i)
	})
}

func (c *coordCrawl) note() {
	pages := 0
	for _, n := range c.done {
		pages += n
	}
	c.byMinute = append(c.byMinute, [3]float64{float64(pages), float64(c.assigned - c.answered), float64(c.assigned)})
}

func (c *coordCrawl) table(r *report.Report, paper bool) {
	var st cycleStats
	var updates, took []float64
	for _, cycle := range c.run.cycles {
		s := &cycle.stats
		for _, n := range s.updates {
			if n > 0 { // the server of a repeated host has a coordinate already
				updates = append(updates, float64(n))
			}
		}
		for _, d := range s.took {
			took = append(took, d.Seconds())
		}
		st.batches += s.batches
		st.requests += s.requests
		st.assignments += s.assignments
		st.asked += s.asked
	}
	slices.Sort(updates)
	slices.Sort(took)
	done := report.Ascending(c.done)
	pages := report.Sum(done)
	add := func(metric, unit string, published, here float64) {
		if !paper {
			published = math.NaN()
		}
		r.Table.Compare(c.name, metric, unit, published, here)
	}
	none := math.NaN()
	waiting := float64(c.assigned - c.answered)
	m := &c.run.messages
	add("pages", "fetches", 183456, pages)
	add("failed", "fetches", 9868, float64(c.failed))
	add("mb", "MB", 13465.4, float64(c.bytes)/1e6)
	add("hosts_assigned", "hosts", 836, float64(len(c.placed)))
	add("batches", "batches", 114, float64(st.batches))
	add("estimation_requests", "messages", 5360, float64(st.requests))
	add("assignment_messages", "messages", 1284, float64(st.assignments))
	add("communication", "messages/page", 0.065, float64(2*st.requests+st.assignments)/pages)
	add("communication_as_sent", "messages/page", none, float64(m.asks+m.reports+m.assignments)/pages)
	add("updates_of_a_server", "fetches per server", none, report.Quantile(updates, 0.5))
	add("batch_took", "s, median", none, report.Quantile(took, 0.5))
	add("bytes_per_page", "B/page", none, float64(c.run.messages.bytes())/pages)
	add("coverage", "fetched/due", 0.65, pages/(pages+waiting))
	add("overlap", "(n-u)/u", none, (pages-float64(len(c.fetched)))/float64(len(c.fetched)))
	add("urls_of_a_peer_min", "fetches", 2125, done[0])
	add("urls_of_a_peer_max", "fetches", 28374, done[len(done)-1])
	add("balance_deviation", "fetches", 7440, report.Deviation(done))
	add("balance", "max/mean", none, report.Spread(done))
	add("estimates", "fetches", none, float64(st.asked))
}

func (c *coordCrawl) plot(r *report.Report, pages *report.Plot) {
	s := report.Series{Name: c.name, Columns: []string{"minutes", "pages", "assigned_waiting", "assigned"}}
	for m, v := range c.byMinute {
		s.Rows = append(s.Rows, []float64{float64(m + 1), v[0], v[1], v[2]})
	}
	waiting := s.Line(c.name+", assigned and waiting", 2)
	waiting.Dashed = true
	pages.Lines = append(pages.Lines, s.Line(c.name, 1), waiting)
	r.Series = append(r.Series, s)
}
