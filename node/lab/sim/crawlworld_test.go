package sim

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// CrawlConfig configures a crawl by many peers with the complete logic of the node. A zero field
// means its default.
type CrawlConfig struct {
	Seed  uint64 // of all random draws
	Peers int    // default 1,000
	// Internet defaults to [internet.Synthetic] of the seed. Sites are its first hosts, followed by
	// peers.
	Internet dhtsim.Internet
	// For is the duration of churn, default two hours; the crawl continues until it is done, at most
	// for an hour.
	For time.Duration
	// Session is the median session length; default 60 minutes, negative for no churn. Each ends with
	// a crash, half of them without dropping connections.
	Session time.Duration
	// Return is the fraction of crashed peers that return with their disk, after an exponential
	// absence of mean Absence (default ten minutes).
	Return  float64
	Absence time.Duration // mean time until a crashed peer returns
	// Replicas is r of the design: the number of peers that store a record, including its owner;
	// default 3.
	Replicas int
	// Hosts is the number of hosts, default one per peer; Delay is the minimum interval between
	// requests to one, default 20 s; PagesPerHost defaults to what can be fetched in For at that rate.
	Hosts, PagesPerHost int
	Delay               time.Duration // minimum interval between requests to a host
	// Progress, if set, is called after each second of virtual time.
	Progress func(done, all time.Duration)

	plant func(w *crawl) // corrupts the owners' state before it is judged, to test that a fault is detected
}

func (c *CrawlConfig) fill() {
	fill(&c.Peers, 1000)
	fill(&c.For, 2*time.Hour)
	fill(&c.Session, time.Hour)
	fill(&c.Absence, 10*time.Minute)
	fill(&c.Replicas, 3)
	fill(&c.Hosts, c.Peers)
	fill(&c.Delay, 20*time.Second)
	fill(&c.PagesPerHost, max(10, int(0.9*c.For.Seconds()/(c.Delay.Seconds()+1))))
	if c.Internet == nil {
		c.Internet = internet.Synthetic(c.Seed)
	}
}

// The web: pages are small, as only their links matter, and some are faulty.
const (
	crawlLinks     = 12
	crawlPageBytes = 1200
	crawlDomain    = "web.localhost"
	crossHosts     = 0.2
	errorShare     = 0.02
)

func (c *CrawlConfig) web() webgen.Config {
	w := webgen.DefaultConfig()
	w.Seed, w.Hosts, w.PagesPerHost, w.Links, w.PageBytes, w.Domain = c.Seed, c.Hosts, c.PagesPerHost, crawlLinks, crawlPageBytes, crawlDomain
	w.CrossHostShare, w.ErrorShare, w.RobotsShare, w.SitemapShare = crossHosts, errorShare, 0, 0
	w.SlowLatency = 1 // one nanosecond: the wait would be a real one
	return w
}

// CrawlReport is the result of a crawl.
type CrawlReport struct {
	Born, Died, Returned int // peers that arrived, crashed, and returned with their disk
	// Finished reports whether nothing was pending in the end, Took the time since the job was posted.
	Finished bool
	Took     time.Duration // from posting to the end
	// Truth is the number of pages that a correct crawl finds, Found the number found; Lost are those
	// that no live owner has as fetched. Extra are fetched ones beyond the truth.
	Truth, Found, Lost, Extra int
	// Quarantined are the lost ones that are known, and skipped since three leases on them ended
	// without a report.
	Quarantined int
	SiteAudit
	// Lapsed leases, and requests aborted by that.
	Lapsed, Broken int
	// Moved is the number of records that changed their owner.
	Moved int64
	// Sent is the traffic since the job was posted, by purpose.
	Sent [Purposes]dhtsim.Traffic
	// LostURLs has some of the lost URLs, for debugging.
	LostURLs []string
}

// crawl is a run in progress, and the job table that all peers read.
type crawl struct {
	*population
	cfg    CrawlConfig
	sites  *sites
	byID   map[peer.ID]*crawlPeer
	spec   *job.Spec
	report CrawlReport

	begin      time.Duration
	sentBefore dhtsim.Sent
	broken     int
	moved      int64
}

// RunCrawl runs the simulation. The error is ctx's, or that of a state machine that failed.
func RunCrawl(ctx context.Context, cfg CrawlConfig) (*CrawlReport, error) {
	cfg.fill()
	w, err := newCrawl(cfg)
	if err != nil {
		return nil, err
	}
	w.Found(cfg.Peers)
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	w.post()
	w.begin, w.sentBefore = w.Elapsed(), w.Sent
	if err := w.crawl(ctx); err != nil {
		return nil, err
	}
	if cfg.plant != nil {
		cfg.plant(w)
	}
	w.judge()
	return &w.report, w.err
}

func newCrawl(cfg CrawlConfig) (*crawl, error) {
	world := dhtsim.World{Seed: cfg.Seed, Internet: cfg.Internet, First: cfg.Hosts}
	w := &crawl{
		population: newPopulation(&world, cfg.Peers, cfg.Session), cfg: cfg, sites: newSites(cfg.web(), cfg.Delay),
		byID: make(map[peer.ID]*crawlPeer),
	}
	w.arrivals = time.Duration(float64(w.arrivals) / max(1-cfg.Return, 1e-3))
	w.length, w.progress, w.crash = cfg.For, cfg.Progress, w.crashed
	w.OnStart = func(p *dhtsim.Node) {
		d := new(disk)
		if before := w.byID[p.Peer.ID]; before != nil {
			d = before.disk
		}
		w.byID[p.Peer.ID] = newCrawlPeer(w, p, d)
	}
	w.OnEvent = func(p *dhtsim.Node, e dht.Event) { w.byID[p.Peer.ID].happened(e) }
	var err error
	w.spec, err = job.FromWire(&wire.JobSpec{
		Id: []byte("the job of a sim"), Seeds: [][]byte{[]byte(w.sites.web.Seeds(80)[0])}, Scope: []string{"*." + crawlDomain}, NoSitemaps: true,
	})
	return w, err
}

// Job implements owner.Jobs: every peer has the one job.
func (w *crawl) Job(id job.ID) (*job.Spec, job.Standing, bool) {
	return w.spec, job.Posted(), id == w.spec.ID
}

// fail ends the run: a state machine violated its contract.
func (w *crawl) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// post sends the first page of every host to the owners, from one peer.
func (w *crawl) post() {
	from := w.byID[w.Living()[0].Peer.ID]
	var links []owner.OutLink
	for _, seed := range w.sites.web.Seeds(80) {
		host := link.Host(seed)
		links = append(links, owner.OutLink{Job: w.spec.ID, URL: seed, Host: host, Key: ring.HostKey(host)})
	}
	from.mail.box.Put(w.Now(), links)
	from.mail.pump()
}

// crawl runs churn until For is over, and then waits until nothing is pending.
func (w *crawl) crawl(ctx context.Context) error {
	// The poster must not crash before its links are delivered.
	if err := w.run(ctx, 15*time.Second); err != nil {
		return err
	}
	if w.cfg.Session > 0 {
		w.churn()
	}
	for w.Elapsed()-w.begin < w.cfg.For+time.Hour {
		if err := w.run(ctx, time.Minute); err != nil {
			return err
		}
		if w.Elapsed()-w.begin < w.cfg.For {
			continue
		}
		w.alive = false
		if done, pending := w.counts(); pending == 0 && done > 0 && w.Coverage().Owned > 1-1e-9 {
			w.report.Finished = true
			break
		}
	}
	w.report.Took = w.Elapsed() - w.begin
	return nil
}

// crashed ends a peer: its memory is lost, and its disk too unless it will return.
func (w *crawl) crashed(p *dhtsim.Node) {
	c := w.byID[p.Peer.ID]
	w.kill(p)
	w.report.Lapsed += int(c.worker.visits.Counts().Lapsed)
	rest := &crawlPeer{Node: p, world: w} // only the identity remains
	w.byID[p.Peer.ID] = rest
	if w.Rand.Float64() >= w.cfg.Return {
		return
	}
	rest.disk = c.disk
	w.After(w.exponential(w.cfg.Absence), func() {
		if w.alive {
			w.report.Returned++
			w.Restart(p, p.Memory)
			w.live(p)
		}
	})
}

// counts returns the URLs with and without an outcome, by the live owners.
func (w *crawl) counts() (done, pending int64) {
	for _, p := range w.Living() {
		if !p.Started() {
			continue
		}
		counts := w.byID[p.Peer.ID].owner.Counts(w.spec.ID)
		pending += counts.Outstanding()
		done += counts.Done
	}
	return done, pending
}

// judge compares the state of the live owners with the truth.
func (w *crawl) judge() {
	r := &w.report
	r.Born, r.Died = w.born, w.died
	fetched, quarantined := make(map[string]bool), make(map[string]bool)
	for _, p := range w.Living() {
		if !p.Started() {
			continue
		}
		c := w.byID[p.Peer.ID]
		w.report.Lapsed += int(c.worker.visits.Counts().Lapsed)
		var cursor owner.Cursor
		for {
			next, err := c.owner.URLs(cursor, 1000, func(_ job.ID, f *owner.Final) {
				switch {
				case !c.Serves(ring.HostKey(link.Host(f.URL))):
				case f.Outcome == link.OutcomeOK || f.Outcome == link.OutcomeDuplicate:
					fetched[f.URL] = true
				case f.Outcome == link.OutcomeQuarantined:
					quarantined[f.URL] = true
				}
			})
			if err != nil {
				w.fail(err)
				return
			}
			if cursor = next; next == nil {
				break
			}
		}
	}
	truth := webtruth.Of(w.sites.web, webtruth.Walk{Port: 80, Everywhere: true, MaxDepth: -1, NoSitemaps: true})
	r.Truth = len(truth.URLs)
	for _, url := range truth.URLs {
		if fetched[url] {
			r.Found++
			delete(fetched, url)
			continue
		}
		r.Lost++
		if quarantined[url] {
			r.Quarantined++
		}
		if len(r.LostURLs) < 20 {
			r.LostURLs = append(r.LostURLs, url)
		}
	}
	r.Extra = len(fetched)
	r.SiteAudit, r.Broken, r.Moved = w.sites.audit, w.broken, w.moved
	for purpose := range Purposes {
		r.Sent[purpose] = dhtsim.Traffic{
			Calls: w.Sent[purpose].Calls - w.sentBefore[purpose].Calls, Bytes: w.Sent[purpose].Bytes - w.sentBefore[purpose].Bytes,
		}
	}
}

// request is a call to the process that a peer runs on arrival: it may have crashed and restarted
// since.
type request struct {
	Purpose Purpose
	Size    int
	Timeout time.Duration
	Handle  func(target *crawlPeer, reply func(size int, answer any))
	Done    func(answer any, err error)
}

// request sends a call; an unknown peer refuses.
func (w *crawl) request(from *crawlPeer, to peer.ID, q *request) {
	var host *dhtsim.Host
	if known := w.byID[to]; known != nil {
		host = known.Host
	}
	w.Call(from.Host, host, &dhtsim.Call{
		Purpose: q.Purpose, Size: q.Size, Timeout: q.Timeout, Done: q.Done,
		Handle: func(reply func(int, any)) { q.Handle(w.byID[to], reply) },
	})
}
