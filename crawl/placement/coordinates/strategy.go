package coordinates

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
)

// Peers has the coordinates of this peer and its neighbors. A [Gossip] provides those of the
// neighbors; the node adds its own.
type Peers interface {
	// Of returns a peer's coordinate, false if it is unknown or the peer is down.
	Of(peer string) (Coordinate, bool)
}

// Config is the configuration of the strategy.
type Config struct {
	Servers ServersConfig // of server coordinates
	// Theta is the error below which a server's coordinate is good enough to choose by, MaxUpdates
	// (pi) the updates after which it is used in any case.
	Theta      float64
	MaxUpdates int // pi: updates after which it is used in any case
	// Term is the number of URLs after which a host is placed again, by its current coordinate; 0:
	// never.
	Term int
	// Explore is the share of these placements that first use one URL at another candidate, so that
	// the coordinate continues to adapt; 0: none.
	Explore float64
	// PerURL is the addition of a candidate's waiting URL to its height, in ms (3.8 b); 0: none.
	PerURL float64
	// MaxHosts bounds the hosts whose address is stored.
	MaxHosts int
}

// DefaultConfig estimates until an error of 0.25 or 300 updates, as the paper in persistent mode
// (3.4): it places hosts again after 100 URLs, in one case of four by another candidate.
func DefaultConfig() Config {
	return Config{Servers: DefaultServersConfig(), Theta: 0.25, MaxUpdates: 300, Term: 100, Explore: 0.25, PerURL: 0.2, MaxHosts: 16384}
}

// Strategy places the hosts of a live node (design, section 5). Estimation uses leases of one URL:
// while a server's coordinate is not good enough, the worker is the candidate with the fewest
// samples of it, for one URL, and then the next; afterwards it is the candidate nearest in the
// space. The URLs are those that are due anyway, so a site gets no additional requests, and it has
// one worker at any moment.
type Strategy struct {
	cfg     Config
	peers   Peers
	servers *Servers
	rnd     *rand.Rand
	hosts   map[string]netip.Addr
	names   []string // of hosts, the oldest at turn
	turn    int
	explore map[string]bool // hosts that use a URL for exploring at present
}

var _ placement.Observer = (*Strategy)(nil)

// New returns a strategy without servers.
func New(cfg Config, peers Peers, seed uint64) *Strategy {
	return &Strategy{
		cfg: cfg, peers: peers, servers: NewServers(cfg.Servers, seed), rnd: rand.New(rand.NewPCG(seed, seedStrategy)),
		hosts: make(map[string]netip.Addr), explore: make(map[string]bool),
	}
}

// Servers returns the table of coordinates.
func (s *Strategy) Servers() *Servers { return s.servers }

// Next implements placement.Strategy; it never requests a probe.
func (s *Strategy) Next(v *placement.View) placement.Choice {
	who := v.Able()
	switch {
	case len(who) == 0:
		return placement.Choice{Why: "no candidate"}
	case len(who) == 1:
		return placement.Choice{Worker: who[0].Peer, Why: "the only candidate with capacity"}
	case v.Tiny:
		return s.tiny(v, who)
	}
	site := s.site(v)
	c := s.nextAt(v, who, site)
	if pace := s.servers.Pace(site); pace > 1 { // no peer is nearer: increase the server's delay (3.8 a), until a few pages show otherwise
		c.Pace = pace
		if c.URLs == 0 || c.URLs > pacedTerm {
			c.URLs = pacedTerm
		}
		c.Why += fmt.Sprintf("; the server is slower at all estimators: delay increased by a factor of %.1f", pace)
	}
	return c
}

// pacedTerm is the number of URLs after which a server that is slow for all candidates is placed
// again.
const pacedTerm = 8

// nextAt chooses a worker for a host at a server.
func (s *Strategy) nextAt(v *placement.View, who []placement.Candidate, site netip.Addr) placement.Choice {
	updates := s.servers.Updates(site)
	at, known := s.servers.At(v.Now, site)
	if !known || updates < s.cfg.MaxUpdates && (at.Error >= s.cfg.Theta || s.fewEstimators(site, who) || s.contradicted(site, &at, who)) {
		return s.estimate(site, who, updates, &at, known)
	}
	if c, ok := s.secondOpinion(site, who); ok {
		return c
	}
	if s.turnToExplore(v.Host) {
		c := s.estimate(site, who, updates, &at, known)
		c.Why = "one URL by another candidate to adapt the coordinate: " + c.Why
		return c
	}
	return s.choose(&at, who, updates)
}

// secondOpinion makes another candidate fetch one URL of a server whose last download was slow.
// This distinguishes a slow server, whose delay is increased, from a slow peer.
func (s *Strategy) secondOpinion(site netip.Addr, who []placement.Candidate) (placement.Choice, bool) {
	for _, c := range who {
		if _, ok := s.peers.Of(c.Peer); ok && s.servers.unsure(site, c.Peer) {
			return placement.Choice{Worker: c.Peer, URLs: 1, Why: "the last download was slow: one URL by another candidate, to check whether the server is slow"}, true
		}
	}
	return placement.Choice{}, false
}

// enoughEstimators must have had a turn before a server's coordinate counts, or all candidates that
// have a coordinate. A coordinate has one unknown less than that, height included; the additional
// estimator excludes the mirror image of the position. A single one, such as the owner of a small
// host, can reduce the error to near zero, and determines only the distance of the server.
const enoughEstimators = Dimensions + 2

// fewEstimators reports whether more candidates should have a turn before the coordinate counts.
func (s *Strategy) fewEstimators(site netip.Addr, who []placement.Candidate) bool {
	waiting, had := 0, 0
	for _, c := range who {
		if _, ok := s.peers.Of(c.Peer); !ok {
			continue
		}
		if s.servers.turns(site, c.Peer) > 0 {
			had++
		} else {
			waiting++
		}
	}
	return waiting > 0 && had < enoughEstimators
}

// worthATurn in ms: smaller differences between an estimator's downloads and the coordinate are not
// worth a turn.
const worthATurn = 10

// contradicted reports whether the candidate nearest in the space took clearly longer than another
// with known downloads. The error of a coordinate does not show this: a server whose whole distance
// is in its height fits all estimators well enough and is nearest to the wrong one.
func (s *Strategy) contradicted(site netip.Addr, at *Coordinate, who []placement.Candidate) bool {
	nearest, least, best := 0.0, math.Inf(1), math.Inf(1)
	for _, c := range who {
		p, ok := s.peers.Of(c.Peer)
		if !ok {
			continue
		}
		took, measured := s.servers.usual(site, c.Peer)
		if measured {
			best = min(best, took)
		}
		if d := at.Distance(&p); d < least {
			if nearest, least = took, d; !measured {
				nearest = 0
			}
		}
	}
	return nearest > best*(1+s.cfg.Theta) && nearest-best > worthATurn
}

// turnToExplore reports whether this placement of a host uses a URL; the next one does not.
func (s *Strategy) turnToExplore(host string) bool {
	if s.explore[host] {
		delete(s.explore, host)
		return false
	}
	if s.cfg.Term == 0 || s.cfg.Explore == 0 || s.rnd.Float64() >= s.cfg.Explore {
		return false
	}
	if len(s.explore) >= s.cfg.MaxHosts {
		clear(s.explore)
	}
	s.explore[host] = true
	return true
}

// tiny places a host that has too few URLs left for estimation. Its coordinate decides if several
// estimators made it and do not contradict it; else the known worker of its range, else the owner.
func (s *Strategy) tiny(v *placement.View, who []placement.Candidate) placement.Choice {
	site := s.site(v)
	if at, ok := s.servers.At(v.Now, site); ok && !s.fewEstimators(site, who) && !s.contradicted(site, &at, who) {
		return s.choose(&at, who, s.servers.Updates(site))
	}
	for _, c := range who {
		if c.Peer == v.Known {
			return placement.Choice{Worker: v.Known, Unsure: true, Why: "few URLs: the known worker of the address range"}
		}
	}
	return placement.Choice{Worker: owner(who), Unsure: true, Why: "few URLs: not worth estimating, the owner keeps the host"}
}

// owner returns the owner of the host, or the first candidate if the owner is overloaded.
func owner(who []placement.Candidate) string {
	return who[max(0, slices.IndexFunc(who, func(c placement.Candidate) bool { return c.Self }))].Peer
}

// site returns the address of the host: the view's, or that of the last answer.
func (s *Strategy) site(v *placement.View) netip.Addr {
	if v.Site.IsValid() {
		return v.Site.Unmap()
	}
	return s.hosts[v.Host]
}

// estimate assigns one URL to a candidate with the fewest turns at the server.
func (s *Strategy) estimate(site netip.Addr, who []placement.Candidate, updates int, at *Coordinate, known bool) placement.Choice {
	best, least, ties := "", 0, 0
	for _, c := range who {
		if _, ok := s.peers.Of(c.Peer); !ok {
			continue
		}
		switch n := s.servers.turns(site, c.Peer); {
		case best == "" || n < least:
			best, least, ties = c.Peer, n, 1
		case n == least:
			if ties++; s.rnd.IntN(ties) == 0 {
				best = c.Peer
			}
		}
	}
	if best == "" {
		return placement.Choice{Worker: who[s.rnd.IntN(len(who))].Peer, URLs: 1, Why: "no candidate has a coordinate yet: one URL by a random candidate"}
	}
	why := "nothing is known of the server yet"
	if known {
		why = fmt.Sprintf("estimating: error of the server's coordinate %.2f after %d updates, target %.2f", at.Error, updates, s.cfg.Theta)
		switch {
		case at.Error >= s.cfg.Theta:
		case s.fewEstimators(site, who):
			why += " and more estimators"
		case s.contradicted(site, at, who):
			why += ", but the nearest in the space is not the quickest"
		}
	}
	return placement.Choice{Worker: best, URLs: 1, Why: why + ": one URL by an estimator"}
}

// choose returns the nearest candidate.
func (s *Strategy) choose(at *Coordinate, who []placement.Candidate, updates int) placement.Choice {
	best, least, compared := "", 0.0, 0
	for i := range who {
		p, ok := s.peers.Of(who[i].Peer)
		if !ok {
			continue
		}
		p.Queue = max(p.Queue, float64(who[i].Backlog)*s.cfg.PerURL)
		compared++
		if cost := at.Cost(&p); best == "" || cost < least {
			best, least = who[i].Peer, cost
		}
	}
	if best == "" {
		return placement.Choice{Worker: who[s.rnd.IntN(len(who))].Peer, URLs: s.cfg.Term, Why: "no candidate has a coordinate: random choice"}
	}
	return placement.Choice{
		Worker: best, URLs: s.cfg.Term,
		Why: fmt.Sprintf("nearest of %d by coordinates: %.0f ms a page expected, error %.2f after %d updates", compared, least, at.Error, updates),
	}
}

// Observe implements placement.Observer.
func (s *Strategy) Observe(f *placement.Fetch) {
	if !f.Site.IsValid() {
		return
	}
	site := f.Site.Unmap()
	s.note(f.Host, site)
	if f.Failed || f.Took <= 0 {
		s.servers.missed(f.At, site, f.Worker)
		return
	}
	if at, ok := s.peers.Of(f.Worker); ok {
		s.servers.Observe(f.At, site, f.Worker, &at, f.Took)
	}
}

// note stores the address of a host, and drops the oldest beyond the limit.
func (s *Strategy) note(host string, site netip.Addr) {
	if _, ok := s.hosts[host]; !ok {
		if len(s.names) < s.cfg.MaxHosts {
			s.names = append(s.names, host)
		} else {
			delete(s.hosts, s.names[s.turn])
			s.names[s.turn] = host
			s.turn = (s.turn + 1) % len(s.names)
		}
	}
	s.hosts[host] = site
}

// Expected returns the expected duration of a page's download from a site at a peer, false if
// unknown, for display.
func (s *Strategy) Expected(now time.Time, site netip.Addr, peer string) (time.Duration, float64, bool) {
	at, ok := s.servers.At(now, site.Unmap())
	if !ok {
		return 0, 0, false
	}
	p, ok := s.peers.Of(peer)
	if !ok {
		return 0, 0, false
	}
	return time.Duration(at.Distance(&p) * float64(time.Millisecond)), at.Error, true
}
