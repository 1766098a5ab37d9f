package adaptive

import (
	"math"
	"slices"
	"time"
)

const (
	// paceHosts bounds the hosts by which a worker is judged: the most recent ones.
	paceHosts = 32
	// A host has half weight after paceHalf, and none after paceAge. An avoided worker gets no hosts,
	// so no measurement would show that it has recovered. As the weights decrease, one host tries it
	// before all do.
	paceHalf, paceAge = 3 * time.Minute, 20 * time.Minute
	// paceEvery is how often workers are compared without new data.
	paceEvery = 10 * time.Second
	// paceRate is the minimum weight of the last download of a host: a change shows after some four.
	paceRate = 0.25
	// latest bounds the lateness of a download, in milliseconds: a stalled one must not dominate.
	latest = 10_000
	// Workers are compared when there are paceLeast hosts more than workers, and differ when the
	// variance between them is paceRatio times that between hosts of one worker (the F of an analysis
	// of variance): servers differ too, independently of the worker.
	paceLeast, paceRatio = 6, 3.5
	// paceNoise is the minimum deviation between hosts in milliseconds.
	paceNoise = 5
)

// A worker that becomes slow is slow for all its hosts at once. So each host is compared with its
// usual value: this is faster than a comparison of workers, and works also if one worker has nearly
// all hosts.
const (
	// slowHosts hosts must have been fetched from within slowFresh, and have slowKnown earlier
	// downloads, for half of them to be decisive. Later, while the worker is avoided, any host that
	// tries it again is.
	slowHosts, slowKnown = 5, 8
	slowFresh            = time.Minute
	// slowShare of the usual value is the minimum by which downloads must be later, and slowLeast in
	// milliseconds.
	slowShare, slowLeast = 0.5, 20
	// usualRate is the minimum weight of a download in the usual value of a host: an average over
	// minutes.
	usualRate = 1.0 / 64
)

// pace is the recent lateness of a worker's downloads, by host.
type pace struct {
	hosts []hostPace // at most paceHosts
	// lag is the worker's apparent additional round trip, in milliseconds; less than 0 if it is faster
	// than others.
	lag float64
	// slow is by how many milliseconds downloads were later than usual at slowAt, 0 if they were not.
	slow   float64
	slowAt time.Time
}

// hostPace is the lateness of the downloads from one host: beyond what round trips explain, in
// milliseconds.
type hostPace struct {
	host string
	at   time.Time
	late float64
	n    float64
	// usual is the same over a longer time, known its number of downloads.
	usual, known float64
}

func (p *pace) add(host string, at time.Time, late float64) {
	oldest := 0
	for i := range p.hosts {
		h := &p.hosts[i]
		if h.host == host {
			if at.Sub(h.at) > paceHalf {
				h.n = 0
			}
			h.n++
			h.known++
			h.usual += max(1/h.known, usualRate) * (late - h.usual)
			h.at, h.late = at, h.late+max(1/h.n, paceRate)*(late-h.late)
			return
		}
		if h.at.Before(p.hosts[oldest].at) {
			oldest = i
		}
	}
	fresh := hostPace{host: host, at: at, late: late, n: 1, usual: late, known: 1}
	if len(p.hosts) < paceHosts {
		p.hosts = append(p.hosts, fresh)
	} else {
		p.hosts[oldest] = fresh
	}
}

// mean returns the mean over recent hosts, the sum of the squares around it, and their number, an
// older host being less than one.
func (p *pace) mean(now time.Time) (mean, squares, n float64) {
	for _, h := range p.hosts {
		if age := now.Sub(h.at); age <= paceAge {
			weight := min(math.Exp2(-age.Seconds()/paceHalf.Seconds()), 1)
			n += weight
			off := h.late - mean
			mean += off * weight / n
			squares += weight * off * (h.late - mean)
		}
	}
	return mean, squares, n
}

// slower returns by how many milliseconds of a download the worker is slower than before, over its
// hosts. The value decreases while no host uses it.
func (p *pace) slower(now time.Time) float64 {
	var off, usual []float64
	for _, h := range p.hosts {
		if h.known >= slowKnown && now.Sub(h.at) <= slowFresh {
			off, usual = append(off, h.late-h.usual), append(usual, h.usual)
		}
	}
	if len(off) >= slowHosts || len(off) > 0 && p.slow > 0 {
		slices.Sort(off)
		slices.Sort(usual)
		p.slow, p.slowAt = off[len(off)/2], now
		if p.slow < max(slowLeast, slowShare*usual[len(usual)/2]) {
			p.slow = 0
		}
	}
	return p.slow * min(math.Exp2(-now.Sub(p.slowAt).Seconds()/paceHalf.Seconds()), 1)
}

// Initial and final congestion window of a TCP connection (RFC 6928), in bytes.
const (
	window    = 10 * 1460
	maxWindow = 1 << 20
	// usualTrips is the approximate number of round trips of a page: 18 to 38 kB.
	usualTrips = 3.5
)

// trips returns the number of round trips of a download of that size: connect, request, and slow
// start.
func trips(bytes int64) float64 {
	n := 2.0
	for w := int64(window); bytes > w; w = min(2*w, maxWindow) {
		bytes -= w
		n++
	}
	return n
}

// compare detects slow workers in two ways. A worker's downloads are later than those of others, by
// more than the variance between hosts explains: the significant part of the difference counts
// (empirical Bayes), so two or three hosts have little effect and a dozen much. Or they are later
// than before.
func (s *Strategy) compare(now time.Time) {
	if !s.paceNews && now.Sub(s.compared).Abs() < paceEvery {
		return
	}
	s.paceNews, s.compared = false, now
	s.contrast(now)
	for _, c := range s.memories.peers() {
		c.pace.lag = max(c.pace.lag, c.pace.slower(now)/usualTrips)
	}
}

// contrast compares workers with each other: see compare.
func (s *Strategy) contrast(now time.Time) {
	workers, hosts, sum, within, weights := 0.0, 0.0, 0.0, 0.0, 0.0
	peers := s.memories.peers()
	for _, c := range peers {
		c.pace.lag = 0
		if mean, squares, n := c.pace.mean(now); n > 0 {
			workers += min(n, 1) // an old one counts in part
			hosts += n
			weights += n * n
			sum += n * mean
			within += squares
		}
	}
	if workers <= 1.5 || hosts < workers+paceLeast {
		return
	}
	variance := max(within/(hosts-workers), paceNoise*paceNoise)
	between := 0.0
	for _, c := range peers {
		if mean, _, n := c.pace.mean(now); n > 0 {
			between += n * (mean - sum/hosts) * (mean - sum/hosts) / (workers - 1)
		}
	}
	if between < paceRatio*variance {
		return
	}
	spread := (between - variance) * (workers - 1) / (hosts - weights/hosts)
	for _, c := range peers {
		if mean, _, n := c.pace.mean(now); n > 0 {
			c.pace.lag = (mean - sum/hosts) * spread / (spread + variance/n) / usualTrips
		}
	}
}
