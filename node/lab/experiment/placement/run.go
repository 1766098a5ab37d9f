package placement

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/dht/dhtsim/clock"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

const (
	// placementWarmUp is how long peers gossip before the first site is found.
	placementWarmUp = 10 * time.Minute
	// politeness is the time between the end of a download and the next request to the site.
	politeness = time.Second
	// dueFor is the time of a site's crawl beyond 1.5 s per page, after which its pages count as
	// due but not fetched.
	dueFor = 5 * time.Second
	// samplesEvery is how often owners send and forward samples to their leaf set, heartbeatEvery
	// how often a worker renews its leases with an owner.
	samplesEvery, heartbeatEvery = time.Second, 2 * time.Second
	// sampleHops is how many leaf sets a sample comes through, sampleBeyond how many peers beyond the
	// leaf set one knows the distance of, candidatesBeyond how many may be candidates for a site.
	sampleHops, sampleBeyond, candidatesBeyond = 8, 47, 4
	// samplesKept is the number of samples sent to a returning neighbor.
	samplesKept = 512
	// probeTries is the number of connects per probe; the median counts.
	probeTries = 3
	// probeNoise is the mean error of a measurement on a busy machine.
	probeNoise = 300 * time.Microsecond
	// Bytes beyond the overhead of a message: a measurement in a sample, a grant with robots rules
	// and delays, a reported link.
	sampleBytes, grantBytes, foundBytes = 12, 200, 72
	// newLinks is the number of links per page that a worker reports to other owners: those not yet
	// acknowledged.
	newLinks = 10
	// grantURLs and reportURLs are how many URLs go in a message to and from a worker.
	grantURLs, reportURLs = 256, 16
)

// placementRun is the crawl by one strategy in virtual time.
type placementRun struct {
	w     *placementWorld
	row   *placementRow
	fleet *fleet
	clock clock.Clock
	err   error

	hosts    []hostRun
	left     int // hosts that are not done
	pairs    map[[2]int]int
	load     []int           // pages by peer
	took     []time.Duration // of the judged sites
	placed   []time.Duration // of them, by workers that are no estimators
	messages int
	bytes    int
	sent     int // URLs, to workers that are not the owner
	onTime   int // pages fetched while they were due
	fetches  int

	gone map[int]bool      // peers that were absent when they should send samples
	kept []adaptive.Sample // the latest of all peers
}

// hostRun is the crawl of a site.
type hostRun struct {
	site       *placementSite
	number     int
	candidates []int
	beyond     int // of them
	measured   map[string]placement.Measurement
	probes     int
	estimating int
	worker     int
	assigned   int // the last worker that was more than an estimator, or else the last one
	settled    bool
	placed     bool
	after      time.Duration // from being found to the first worker
	page       int           // next
	view       placement.View
}

func newPlacementRun(w *placementWorld, row *placementRow) (*placementRun, error) {
	f, err := row.fleet(w, row.all)
	if err != nil {
		return nil, err
	}
	return &placementRun{w: w, row: row, fleet: f, hosts: make([]hostRun, len(w.sites)), left: len(w.sites), pairs: make(map[[2]int]int), gone: make(map[int]bool), load: make([]int, len(w.peers))}, nil
}

// crawl runs the whole crawl.
func (r *placementRun) crawl(ctx context.Context) error {
	for i := range r.w.sites {
		r.clock.After(placementWarmUp+r.w.sites[i].found, func() { r.begin(i) })
	}
	for i := range r.fleet.gossip {
		r.every(coordinates.DefaultGossipConfig().Every, func() { r.gossip(i) })
	}
	for i := range r.fleet.samples {
		r.every(samplesEvery, func() { r.tell(i) })
	}
	r.every(heartbeatEvery, func() { r.message(2*len(r.pairs), 0) })
	for r.left > 0 && r.err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.clock.Run(time.Minute)
	}
	return r.err
}

// every runs fn repeatedly until the crawl is finished.
func (r *placementRun) every(period time.Duration, fn func()) {
	r.clock.After(period, func() {
		fn()
		if r.left > 0 {
			r.every(period, fn)
		}
	})
}

// message counts messages and the bytes in them.
func (r *placementRun) message(n, bytes int) {
	r.messages += n
	r.bytes += n*worlds.MessageBytes + bytes
}

// gossip queries a neighbor, as Vivaldi's peers do (papers 3.2).
func (r *placementRun) gossip(i int) {
	g := r.fleet.gossip[i]
	other, ok := g.Tick(r.clock.Now())
	if !ok {
		return
	}
	k := r.w.index[other]
	rtt := r.w.between[i][k]
	r.message(2, coordinates.EncodedSize)
	r.clock.After(rtt, func() {
		at := r.fleet.gossip[k].At()
		g.Reply(other, rtt, &at)
	})
}

// tell sends samples to the owners around one.
func (r *placementRun) tell(i int) {
	here := func(k int) bool { return r.w.here(k, r.clock.Elapsed()-placementWarmUp) }
	if !here(i) {
		r.gone[i] = true
		return
	}
	if r.gone[i] {
		r.comeBack(i)
	}
	samples := r.fleet.samples[i].Samples()
	if len(samples) == 0 {
		return
	}
	bytes := 0
	for k := range samples {
		bytes += worlds.ResultBytes + sampleBytes*len(samples[k].RTTs)
	}
	r.kept = append(r.kept, samples...)
	r.kept = r.kept[max(0, len(r.kept)-samplesKept):]
	for k := range r.w.peers {
		hops := r.w.hops(i, k)
		if hops == 0 || hops > sampleHops || !here(k) {
			continue
		}
		r.message(min(hops, 2), min(hops, 2)*bytes) // those beyond the leaf set receive it from two
		r.clock.After(r.w.between[i][k]/2+time.Duration(hops-1)*samplesEvery, func() {
			for l := range samples {
				r.fleet.samples[k].Learn(r.clock.Now(), &samples[l])
			}
		})
	}
}

// comeBack clears the data of a returning peer, since its process is new, and sends it the latest
// samples.
func (r *placementRun) comeBack(i int) {
	delete(r.gone, i)
	s := r.fleet.fresh(i)
	r.fleet.of[i], r.fleet.samples[i] = s, s
	for k := range r.kept {
		s.Learn(r.clock.Now(), &r.kept[k])
	}
}

// begin to crawl a site.
func (r *placementRun) begin(i int) {
	s := &r.w.sites[i]
	h := &r.hosts[i]
	*h = hostRun{site: s, number: i, candidates: r.w.candidates(s, r.row.all), measured: make(map[string]placement.Measurement)}
	h.view = r.w.view(s, h.candidates, r.row)
	if r.row.keyed && !h.view.Site.IsValid() {
		h.view.Site = blank(i)
	}
	if r.fleet.coordinator {
		r.message(2, 0)
	}
	if f := r.fleet.records; f != nil && !r.fleet.coordinator {
		r.message(4, 2*worlds.ResultBytes) // requests for the records of the subnet and of its organization
		if _, worker := f.Worker(s.addr); worker == "" {
			r.message(4, 2*worlds.ResultBytes) // updates with the outcome
		}
	}
	r.place(h)
}

// reach adds likely nearer peers beyond the leaf set to the candidates of a site.
func (r *placementRun) reach(h *hostRun) {
	if r.fleet.samples == nil {
		return
	}
	s := r.fleet.samples[h.site.owner]
	reaches := func(peer string) bool {
		return slices.Contains(h.site.present, r.w.index[peer]) && h.site.rtt[r.w.index[peer]] >= 0
	}
	for _, peer := range s.Beyond(&h.view, candidatesBeyond-h.beyond, reaches) {
		h.beyond++
		k := r.w.index[peer]
		h.candidates = append(h.candidates, k)
		h.view.Candidates = append(h.view.Candidates, placement.Candidate{Peer: peer, Addr: r.w.peers[k].addr})
	}
}

// view of a site by some of the peers.
func (w *placementWorld) view(s *placementSite, candidates []int, row *placementRow) placement.View {
	v := placement.View{Host: s.name, Site: s.addr}
	if row.blind {
		v.Site = netip.Addr{}
	}
	for _, k := range candidates {
		v.Candidates = append(v.Candidates, placement.Candidate{Peer: w.peers[k].id, Self: k == s.owner, Addr: w.peers[k].addr})
	}
	return v
}

// probe is a peer's measurement of the site: the n-th probe has the same error for every caller.
func (s *placementSite) probe(peer int, n uint64) time.Duration {
	rnd := rand.New(rand.NewPCG(s.seed^n<<32, uint64(peer))) // not negative
	return s.rtt[peer] + time.Duration(rnd.ExpFloat64()*float64(probeNoise))
}

// place a site; it is called again when measurements have arrived.
func (r *placementRun) place(h *hostRun) {
	h.view.Now, h.view.Measured = r.clock.Now(), h.measured
	r.reach(h)
	c := r.fleet.of[h.site.owner].Next(&h.view)
	if len(c.Probe) > 0 {
		wait := time.Duration(0)
		for _, peer := range c.Probe {
			k := r.w.index[peer]
			if _, again := h.measured[peer]; again {
				r.err = fmt.Errorf("%s: repeated probe by %s of %s", r.row.name, peer, h.site.name)
				return
			}
			h.probes++
			h.measured[peer] = placement.Measurement{RTT: h.site.probe(k, uint64(h.probes))} // not negative
			if k != h.site.owner {
				r.message(2, worlds.ResultBytes)
			}
			wait = max(wait, r.w.between[h.site.owner][k]+probeTries*h.site.rtt[k])
		}
		r.clock.After(wait, func() { r.place(h) })
		return
	}
	k, ok := r.w.index[c.Worker]
	if !ok || !slices.Contains(h.candidates, k) {
		r.err = fmt.Errorf("%s: %s was placed with %q, not a candidate: %s", r.row.name, h.site.name, c.Worker, c.Why)
		return
	}
	if !h.placed {
		h.after = r.clock.Elapsed() - placementWarmUp - h.site.found
	}
	h.worker, h.placed = k, true
	r.lease(h, c.URLs)
}

// lease a site to its worker for n URLs, 0 for all that are left; one is for an estimator.
func (r *placementRun) lease(h *hostRun, urls int) {
	estimates := urls == 1
	if estimates {
		h.estimating++
	}
	if !estimates || !h.settled {
		h.assigned, h.settled = h.worker, !estimates
	}
	if left := h.site.pages - h.page; urls == 0 || urls > left {
		urls = left
	}
	if h.worker != h.site.owner {
		r.pairs[[2]int{h.site.owner, h.worker}]++
		r.message(2*((urls+grantURLs-1)/grantURLs), grantBytes+urls*worlds.URLBytes)
		r.message(2*((urls+reportURLs-1)/reportURLs), urls*(worlds.ResultBytes+newLinks*foundBytes))
		r.sent += urls
	}
	r.clock.After(r.w.between[h.site.owner][h.worker]/2, func() { r.fetch(h, urls) })
}

// fetch the next page of a lease.
func (r *placementRun) fetch(h *hostRun, urls int) {
	s := h.site
	rnd := rand.New(rand.NewPCG(s.seed, uint64(h.page))) // the same page costs every strategy the same
	size := internet.PageSize(rnd)
	took := internet.Transfer{RTT: s.rtt[h.worker], Bytes: size, Server: s.serving, Rate: r.w.peers[h.worker].rate}.Time(rnd)
	r.clock.After(took, func() {
		r.fetches++
		r.load[h.worker]++
		if h.number >= r.w.trains {
			r.took = append(r.took, took)
			if h.settled {
				r.placed = append(r.placed, took)
			}
		}
		if r.clock.Elapsed()-placementWarmUp-s.found <= time.Duration(s.pages)*politeness*3/2+dueFor {
			r.onTime++
		}
		if o, ok := r.fleet.of[s.owner].(placement.Observer); ok {
			o.Observe(&placement.Fetch{
				At: r.clock.Now(), Host: s.name, Site: h.view.Site, Worker: r.w.peers[h.worker].id, Took: took, Bytes: int64(size),
			})
		}
		h.page++
		r.clock.After(politeness, func() { r.next(h, urls-1) })
	})
}

// next page, lease or end.
func (r *placementRun) next(h *hostRun, urls int) {
	if urls > 0 {
		r.fetch(h, urls)
		return
	}
	if h.worker != h.site.owner {
		pair := [2]int{h.site.owner, h.worker}
		if r.pairs[pair]--; r.pairs[pair] == 0 {
			delete(r.pairs, pair)
		}
	}
	if h.page < h.site.pages {
		r.place(h)
		return
	}
	h.view, h.measured = placement.View{}, nil
	r.left--
}

// judged are the sites after those that trained.
func (r *placementRun) judged() []hostRun { return r.hosts[r.w.trains:] }

// over some sites, the mean of a figure.
func over(sites []hostRun, of func(*hostRun) float64) float64 {
	sum := 0.0
	for i := range sites {
		sum += of(&sites[i])
	}
	return sum / float64(len(sites))
}

func (h *hostRun) excess() time.Duration {
	_, least := h.site.nearest(h.candidates)
	return h.site.rtt[h.assigned] - least
}

// Metrics of one site.
func (h *hostRun) optimal() float64  { return report.Truth(h.excess() <= worlds.Within) }
func (h *hostRun) asked() float64    { return float64(h.probes) }
func (h *hostRun) excessMS() float64 { return h.excess().Seconds() * 1000 }

// Metrics of all sites, training included.
func (r *placementRun) optimal() float64    { return over(r.hosts, (*hostRun).optimal) }
func (r *placementRun) probesEach() float64 { return over(r.hosts, (*hostRun).asked) }

func (r *placementRun) excessEach() float64 { return over(r.hosts, (*hostRun).excessMS) }

// quantile returns a quantile of download times, which it sorts, in ms; NaN of none.
func quantile(took []time.Duration, share float64) float64 {
	if len(took) == 0 {
		return math.NaN()
	}
	if !slices.IsSorted(took) {
		slices.Sort(took)
	}
	return took[int(share*float64(len(took)-1))].Seconds() * 1000
}

// downloadMean returns the mean download time of the judged sites, in ms.
func (r *placementRun) downloadMean() float64 {
	sum := time.Duration(0)
	for _, took := range r.took {
		sum += took
	}
	return sum.Seconds() * 1000 / float64(len(r.took))
}

// overlap is (n - u) / u of n fetches of u URLs (papers 3.7). A host has one worker at a time, so
// it is 0 unless a page is fetched again.
func (r *placementRun) overlap() float64 {
	urls := 0
	for i := range r.hosts {
		urls += r.hosts[i].page
	}
	return float64(r.fetches-urls) / float64(urls)
}

// loads returns the pages of each peer, ascending.
func (r *placementRun) loads() []float64 { return report.Ascending(r.load) }

// heldBack trains a strategy on the sites of a random half of the places and judges it by distant
// sites of the other half. NaN without any.
func heldBack(w *placementWorld, row *placementRow) (optimal, probes float64, err error) {
	f, err := row.fleet(w, true)
	if err != nil {
		return 0, 0, err
	}
	places := w.places()
	if len(places) < 2 {
		return math.NaN(), math.NaN(), nil
	}
	rnd := rand.New(rand.NewPCG(w.seed, 0x68616c66)) // nothing secret
	half := make(map[int]bool)
	for _, k := range rnd.Perm(len(places))[:len(places)/2] {
		half[places[k]] = true
	}
	var train, judge []int
	for i := range w.sites {
		if half[w.sites[i].place] {
			train = append(train, i)
		} else {
			judge = append(judge, i)
		}
	}
	judge = slices.DeleteFunc(judge, func(i int) bool {
		return slices.ContainsFunc(train, func(k int) bool {
			return !w.sites[i].cached && !w.sites[k].cached && w.net.RTT(w.sites[i].host, w.sites[k].host) <= worlds.Within
		})
	})
	if len(judge) == 0 {
		return math.NaN(), math.NaN(), nil
	}
	for n, i := range append(train, judge...) {
		s := &w.sites[i]
		of := w.candidates(s, row.all)
		if a, ok := f.of[s.owner].(*adaptive.Strategy); ok && n >= len(train) {
			a.Freeze()
		}
		worker, asked, err := placeOnce(w, f.of[s.owner], s, of, row)
		if err != nil {
			return 0, 0, err
		}
		if n >= len(train) {
			_, least := s.nearest(of)
			optimal += report.Truth(s.rtt[worker]-least <= worlds.Within) / float64(len(judge))
			probes += float64(asked) / float64(len(judge))
		}
	}
	return optimal, probes, nil
}

// placeOnce lets a strategy place a site in zero time.
func placeOnce(w *placementWorld, s placement.Strategy, site *placementSite, of []int, row *placementRow) (worker, probes int, err error) {
	v := w.view(site, of, row)
	v.Now, v.Measured = clock.Epoch, make(map[string]placement.Measurement)
	c, probes, err := worlds.Decide(s, &v, func(peer string) time.Duration { return site.probe(w.index[peer], 0) })
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", row.name, err)
	}
	worker, ok := w.index[c.Worker]
	if !ok {
		return 0, 0, fmt.Errorf("%s: %s: no worker chosen: %s", row.name, site.name, c.Why)
	}
	return worker, probes, nil
}
