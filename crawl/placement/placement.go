package placement

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Candidate is a peer that may crawl a host.
type Candidate struct {
	Peer string     // bytes of its ID
	Self bool       // it owns the host
	Addr netip.Addr // its address, zero if unknown
	// Backlog and Capacity are URLs, as last reported; Capacity 0 means no report yet.
	Backlog, Capacity uint32
}

// Measurement is a candidate's result.
type Measurement struct {
	RTT time.Duration // round trip, undefined with an Err
	Err string        // why there is no RTT
}

// View is the input for choosing a worker.
type View struct {
	Now  time.Time  // current time
	Host string     // host to be placed
	Site netip.Addr // address of the host, zero if unknown
	// Candidates in order of preference among equals, without those that declined; the owner is
	// among them.
	Candidates []Candidate
	// Measured are the measurements so far, by peer.
	Measured map[string]Measurement
	// URLs is the number of waiting URLs, 0 if unknown. Tiny reports that they are too few to be worth
	// probing, for strategies that probe every host alike.
	URLs int64
	Tiny bool // too few URLs to be worth probing
	// Anew reports that the host was placed before, and that downloads by Known have become slower
	// since. Earlier measurements are invalid and not in Measured.
	Anew bool
	// Known is the previous worker of the site's range, if it is a candidate.
	Known string
}

// Choice is a strategy's output.
type Choice struct {
	// Probe are the peers to measure before Next is called again; empty once Worker is final.
	Probe []string
	// Worker is the peer chosen.
	Worker string
	// URLs bounds the URLs of the host that the worker may fetch before the host is placed again; 0:
	// no limit. So several peers alternate at a host, and never two at once.
	URLs int
	// Unsure reports that the host should be placed again once it has grown.
	Unsure bool
	// Pace is the factor by which the host's delay should be increased, as its server is slow for all
	// workers; 1 or less: none.
	Pace float64
	// Why is a description of the reason.
	Why string
}

// Strategy chooses workers. Next is called with growing measurements until it returns a worker; a
// peer that it requested then has a measurement, possibly an error. Not safe for concurrent use.
type Strategy interface {
	Next(v *View) Choice // returns the peers to measure, or the worker
}

// Fetch is a download by a worker, from which a strategy learns.
type Fetch struct {
	At     time.Time     // when it was made
	Host   string        // of the URL
	Site   netip.Addr    // address that answered, zero if unknown
	Worker string        // peer that fetched
	Took   time.Duration // from the request to the last byte
	Bytes  int64         // of the page
	Failed bool          // no answer
}

// Observer is a strategy that learns from downloads.
type Observer interface {
	Strategy
	Observe(f *Fetch) // learns from one download
}

// Cache stores measurements by address range, so that a site near a measured one needs no probe. It
// is a bounded LRU. Not safe for concurrent use.
type Cache struct {
	maxAge time.Duration
	ranges *simplelru.LRU[netip.Prefix, *known]
}

// known has the measurements of a range.
type known struct {
	measured map[string]aged
	worker   string
}

type aged struct {
	Measurement
	when time.Time
}

// NewCache returns a cache of up to max ranges whose measurements are valid for maxAge.
func NewCache(maxRanges int, maxAge time.Duration) *Cache {
	ranges, _ := simplelru.NewLRU[netip.Prefix, *known](max(maxRanges, 1), nil) // a positive size has no error
	return &Cache{maxAge: maxAge, ranges: ranges}
}

// RangeOf returns the range of an address: /24 of IPv4, /48 of IPv6.
func RangeOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	p, err := addr.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Measured returns the valid measurements of an address's range, by peer.
func (c *Cache) Measured(now time.Time, addr netip.Addr) map[string]Measurement {
	out := make(map[string]Measurement)
	if k, ok := c.ranges.Get(RangeOf(addr)); ok {
		for peer, m := range k.measured {
			if now.Sub(m.when) <= c.maxAge {
				out[peer] = m.Measurement
			}
		}
	}
	return out
}

// Worker returns the last worker of the range, "" if there was none.
func (c *Cache) Worker(addr netip.Addr) string {
	if k, ok := c.ranges.Get(RangeOf(addr)); ok {
		return k.worker
	}
	return ""
}

// Add adds a measurement of a peer. Failures are not stored: they depend on the moment more than
// on the path.
func (c *Cache) Add(now time.Time, addr netip.Addr, peer string, m Measurement) {
	if m.Err == "" {
		c.of(addr).measured[peer] = aged{m, now}
	}
}

// Placed sets the worker of a range.
func (c *Cache) Placed(addr netip.Addr, worker string) { c.of(addr).worker = worker }

// of returns the range of an address, a new one if it is unknown.
func (c *Cache) of(addr netip.Addr) *known {
	at := RangeOf(addr)
	k, ok := c.ranges.Get(at)
	if !ok {
		k = &known{measured: make(map[string]aged)}
		c.ranges.Add(at, k)
	}
	return k
}

// overloadedShare of its capacity makes a candidate overloaded. It is below one, since a peer's
// last report is some seconds old and windows of URLs may be in transit to it.
const overloadedShare = 0.9

// Overloaded reports whether the candidate holds about as much as it accepts. One without a report
// is not overloaded.
func (c *Candidate) Overloaded() bool { return c.Load() >= overloadedShare }

// Load returns the share of its capacity that the candidate uses.
func (c *Candidate) Load() float64 {
	if c.Capacity == 0 {
		return 0
	}
	return float64(c.Backlog) / float64(c.Capacity)
}

// Able returns the candidates that are not overloaded, in their order (design, section 5). If all
// are overloaded it returns all of them, as one has to crawl the host. The slice may be the view's
// own, and must not be modified.
func (v *View) Able() []Candidate {
	over := func(c Candidate) bool { return c.Overloaded() }
	if !slices.ContainsFunc(v.Candidates, over) {
		return v.Candidates
	}
	able := slices.DeleteFunc(slices.Clone(v.Candidates), over)
	if len(able) == 0 {
		return v.Candidates
	}
	return able
}

// Keeper returns the default worker of a host: the owner, or else the first of those to choose
// from; "" if there is none.
func Keeper(able []Candidate) string {
	for _, c := range able {
		if c.Self {
			return c.Peer
		}
	}
	if len(able) > 0 {
		return able[0].Peer
	}
	return ""
}

// unmeasured returns the peers without a measurement yet.
func (v *View) unmeasured(of []Candidate) []string {
	var out []string
	for _, c := range of {
		if _, ok := v.Measured[c.Peer]; !ok {
			out = append(out, c.Peer)
		}
	}
	return out
}

// RTT is the paper's delegation (Apoidea, 3.2): the owner and its leaf peers measure the round trip
// to the site, and the smallest wins.
//
// Beyond the paper: results within tieFloor of the best are ties, since they do not predict the
// faster download; of the tied ones the owner keeps the host, which costs no message, or else the
// peer with the smallest backlog gets it. A host with few URLs is not probed: the known worker of
// its address range gets it, or the owner (design, section 4). An overloaded candidate is neither
// probed nor chosen.
type RTT struct{}

// tieFloor is the scheduling noise of a round trip on a busy machine.
const tieFloor = time.Millisecond

// Next implements Strategy.
func (RTT) Next(v *View) Choice {
	able := v.Able()
	if v.Tiny {
		if v.Known != "" && slices.ContainsFunc(able, func(c Candidate) bool { return c.Peer == v.Known }) {
			return Choice{Worker: v.Known, Unsure: true, Why: "few URLs: the known worker of the address range"}
		}
		return Choice{Worker: Keeper(able), Unsure: true, Why: "few URLs: not worth probing, the owner keeps the host"}
	}
	if probe := v.unmeasured(able); len(probe) > 0 && len(able) > 1 {
		return Choice{Probe: probe}
	}
	return v.nearest(able)
}

// nearest chooses among the able candidates by the present measurements.
func (v *View) nearest(able []Candidate) Choice {
	best := time.Duration(-1)
	answered := 0
	for _, c := range able {
		m, ok := v.Measured[c.Peer]
		if !ok || m.Err != "" {
			continue
		}
		answered++
		if best < 0 || m.RTT < best {
			best = m.RTT
		}
	}
	if best < 0 {
		return Choice{Worker: Keeper(able), Why: "no candidate reached the site: the owner keeps the host"}
	}
	limit := best + tieFloor
	var winner *Candidate
	for i := range able {
		c := &able[i]
		if m, ok := v.Measured[c.Peer]; !ok || m.Err != "" || m.RTT > limit {
			continue
		}
		if winner == nil || !winner.Self && (c.Self || c.Load() < winner.Load()) {
			winner = c
		}
	}
	rtt := v.Measured[winner.Peer].RTT
	why := fmt.Sprintf("%v to the site, the smallest of %d that measured", rtt, answered)
	if rtt > best {
		why = fmt.Sprintf("%v to the site, a tie: the smallest of %d measurements is %v", rtt, answered, best)
	}
	return Choice{Worker: winner.Peer, Why: why}
}
