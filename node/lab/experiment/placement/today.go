package placement

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
)

// Today compares all strategies under present-day conditions.
var Today = trial.Experiment{
	Name:  "placement-today",
	About: "placement with CDNs, churn, unequal lines and changing routes",
	Long: `The experiment placement, with its rows and figures, under present-day conditions, over --hours (24):

CDNs. Half the sites are behind one of four networks of caches. Each answers at one address range from 64, 32, 16 or 8 places, and a peer reaches one place, plus 1 ms. One
peer in five is routed to another than the nearest (Calder et al., Analyzing the Performance of an Anycast CDN, IMC 2015). The registry lists one holder at one place.

Churn. There are --peers (24; 12 for a matrix with no more nodes than that). Sessions follow a Weibull distribution with scale 41.9 minutes and shape 0.59, measured for
BitTorrent. The source is Stutzbach and Rejaie, Understanding Churn in Peer-to-Peer Networks, IMC 2006. Absences last as long; two peers stay. So half are candidates on
average. A returning peer has lost its data and gets the latest 512 samples. A site in progress keeps its worker.

Lines. The median line has 39 Mbit/s, lognormal with sigma 0.79. This is fitted to the means of home lines of 176 countries (speedtest.net, April 2020). Routes. Round trips
vary by 1.6 % in the median from hour to hour, like those of 490 PlanetLab nodes over 18 measurements. One route in three changes once a day by a factor (sigma 0.1). Two in
three routes last for days (Paxson, End-to-end routing behavior in the Internet, 1997); the factor is ours. A site has the round trips of the time when it is found.

coordinates: at p90 it is 25 to 45 % faster than random in coordinates-strategies, which counts only chosen workers. In placement and here it is 10 to 15 %, since
random peers fetch 84 to 135 of a site's 170 pages to estimate. Without these (download_p90_placed_ms, chart download-times) it is 27 to 40 % in placement and 18 to 28 % here.`,
	Run: func(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
		return runPlacement(ctx, o, &placementSetup{peers: o.Count(todayPeers), span: o.Length(todayHours * time.Hour), today: true}, r, progress)
	},
}

const (
	todayPeers, todayHours = 24, 24
	// cachedShare of the sites are behind networks of caches; the k-th of these has 1/k of them.
	cachedShare = 0.5
	cacheAway   = time.Millisecond // from a cache's place to the cache
	misled      = 0.2              // share of peers that are sent to another than the nearest cache
	// sessionScale and sessionShape are the Weibull distribution of sessions and absences, staying
	// the number of peers that never leave.
	sessionScale, sessionShape = 41.9 * float64(time.Minute), 0.59
	staying                    = 2
	// lineMedian in bytes per second and lineSigma describe a peer's line.
	lineMedian, lineSigma = 39e6 / 8, 0.79
	// hourSigma is the variation of routes by hour, rerouted the share that changes once a day, by
	// reroutedSigma.
	hourSigma, rerouted, reroutedSigma = 0.016 / 0.6745, 1.0 / 3, 0.1
)

// cachesAt is the number of places of each network of caches.
var cachesAt = []int{64, 32, 16, 8}

// today holds the additions of the experiment placement-today.
type today struct {
	networks []cacheNetwork
	away     [][]absence // by peer, in order
	seed     uint64
}

// cacheNetwork answers at one range from many places.
type cacheNetwork struct {
	seat int             // a host beside which it is registered
	rtt  []time.Duration // by peer
}

// absence of a peer.
type absence struct{ from, to time.Duration }

// cachesRegistered are the ranges of the cache networks, used by no other host.
func cachesRegistered() (all []registry.Network) {
	for k := range cachesAt {
		all = append(all, registry.Network{Prefix: netip.PrefixFrom(cacheAddr(k, 0), 16), Org: fmt.Sprintf("Caches %d", k+1)})
	}
	return all
}

func cacheAddr(network int, host uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{240, byte(network), byte(host >> 8), byte(host)}) // cut off on purpose
}

// modernise draws the additions of placement-today.
func (w *placementWorld) modernise(rnd *rand.Rand) error {
	t := &today{seed: rnd.Uint64()}
	for _, places := range cachesAt {
		if size := w.net.Size(); size > 0 {
			places = min(places, size/2)
		}
		_, at, err := w.net.Draw(rnd, 0, places)
		if err != nil {
			return fmt.Errorf("%w: %w", trial.ErrOptions, err)
		}
		n := cacheNetwork{seat: at[0]}
		for i := range w.peers {
			n.rtt = append(n.rtt, w.toCache(rnd, i, at))
		}
		t.networks = append(t.networks, n)
	}
	for i := range w.peers {
		w.peers[i].rate = lineMedian * math.Exp(lineSigma*rnd.NormFloat64())
		t.away = append(t.away, absences(rnd, i < staying, w.setup.span))
	}
	w.today = t
	return nil
}

// toCache returns the round trip of a peer to its cache, negative if it reaches none.
func (w *placementWorld) toCache(rnd *rand.Rand, peer int, at []int) time.Duration {
	var ways []time.Duration
	for _, host := range at {
		if rtt := w.net.RTT(w.peers[peer].host, host+w.net.Size()); rtt >= 0 {
			ways = append(ways, rtt+cacheAway)
		}
	}
	if len(ways) == 0 {
		return -1
	}
	slices.Sort(ways)
	if rnd.Float64() < misled {
		return ways[min(1+rnd.IntN(3), len(ways)-1)]
	}
	return ways[0]
}

// absences of a peer up to the end, one that begins before the first site among them.
func absences(rnd *rand.Rand, stays bool, span time.Duration) (all []absence) {
	weibull := func() time.Duration { return time.Duration(sessionScale * math.Pow(rnd.ExpFloat64(), 1/sessionShape)) }
	for at := -weibull(); !stays && at < span; {
		a := absence{from: at + weibull()}
		a.to = a.from + weibull()
		all, at = append(all, a), a.to
	}
	return all
}

// here reports whether a peer is present at a time after the first site.
func (w *placementWorld) here(peer int, at time.Duration) bool {
	return w.today == nil || !slices.ContainsFunc(w.today.away[peer], func(a absence) bool { return a.from <= at && at < a.to })
}

// present returns the peers present at a time, in ring order.
func (w *placementWorld) present(at time.Duration) []int {
	return slices.DeleteFunc(slices.Clone(w.inRing), func(k int) bool { return !w.here(k, at) })
}

// change may put a site behind a network of caches, and sets its round trips at the time when it is
// found.
func (t *today) change(w *placementWorld, rnd *rand.Rand, s *placementSite) {
	if rnd.Float64() < cachedShare {
		k := zipf(rnd, len(t.networks))
		n := &t.networks[k]
		s.addr, s.rtt, s.place, s.cached = cacheAddr(k, rnd.Uint32N(1<<16)), slices.Clone(n.rtt), -1-k, true
		w.positions[s.addr] = worlds.Locate(w.net, n.seat)
	}
	for k, rtt := range s.rtt {
		if rtt > 0 {
			s.rtt[k] = time.Duration(float64(rtt) * t.drift(k, s.place, s.found))
		}
	}
}

// zipf draws one of n, the k-th with a weight of 1/k.
func zipf(rnd *rand.Rand, n int) int {
	total := 0.0
	for k := range n {
		total += 1 / float64(k+1)
	}
	left := rnd.Float64() * total
	for k := range n {
		if left -= 1 / float64(k+1); left < 0 {
			return k
		}
	}
	return n - 1
}

// drift is the factor on the round trip of a peer to a place at a time.
func (t *today) drift(peer, place int, at time.Duration) float64 {
	way := rand.New(rand.NewPCG(t.seed^uint64(peer)<<40, uint64(place))) // nothing secret
	factor := 0.0
	if way.Float64() < rerouted && at > time.Duration(way.Float64()*float64(24*time.Hour)) {
		factor = reroutedSigma * way.NormFloat64()
	}
	hour := rand.New(rand.NewPCG(t.seed^uint64(peer)<<40^uint64(at/time.Hour)<<20, uint64(place)))
	return math.Exp(factor + hourSigma*hour.NormFloat64())
}
