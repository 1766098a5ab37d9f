package adaptive

import (
	"math"
	"slices"
	"time"
)

const (
	// paceHosts bounds the hosts by which a worker is judged: those that it fetched from last.
	paceHosts = 32
	// A host counts half after paceHalf, and not at all after paceAge. A worker that is avoided
	// gets no hosts, so nothing else would say that it has recovered. As what is known fades, one
	// host tries it before all of them do.
	paceHalf, paceAge = 3 * time.Minute, 20 * time.Minute
	// paceEvery is how often workers are compared without anything new.
	paceEvery = 10 * time.Second
	// paceRate is the least weight of the last download in what is known of a host: after some four
	// a change shows.
	paceRate = 0.25
	// latest bounds by how much a download may be late, in milliseconds: a stalled one must not
	// outweigh all.
	latest = 10_000
	// Workers are compared when there are paceLeast hosts more than workers, and differ when the
	// variance between them is paceRatio times that between hosts of one worker (the F of an
	// analysis of variance): servers differ as well, and no worker is to blame for that.
	paceLeast, paceRatio = 6, 3.5
	// paceNoise is the least deviation between hosts in milliseconds.
	paceNoise = 5
)

// A worker that gets slow is slow for all its hosts at once. So each host is compared with what was
// usual of it: this shows sooner than a comparison of workers, and also where one worker has nearly
// all hosts.
const (
	// slowHosts must have been fetched from within slowFresh, and known for slowKnown downloads
	// before, for half of them to tell. Later, while the worker is avoided, whichever host tries it
	// again does.
	slowHosts, slowKnown = 5, 8
	slowFresh            = time.Minute
	// slowShare of what was usual is the least by which downloads must be later, and slowLeast in
	// milliseconds.
	slowShare, slowLeast = 0.5, 20
	// usualRate is the least weight of a download in what is usual of a host: some minutes make a
	// habit.
	usualRate = 1.0 / 64
)

// pace is how late the downloads of a worker were of late, by host.
type pace struct {
	hosts []hostPace // at most paceHosts
	// lag is what the worker seems to be farther off than it is, in milliseconds of round trip;
	// less than 0 if it is faster than others.
	lag float64
	// slow is by how many milliseconds downloads were later than usual at slowAt, 0 if they were
	// not.
	slow   float64
	slowAt time.Time
}

// hostPace is how late the downloads from one host were: beyond what round trips explain, in
// milliseconds.
type hostPace struct {
	host string
	at   time.Time
	late float64
	n    float64
	// usual is the same over a longer time, known that of that many downloads.
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

// mean of the hosts of late, the sum of the squares around it, and how many they are, a host of
// long ago being less than one.
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

// slower is by how many milliseconds of a download the worker is slower than it was, for its hosts
// together. What was found fades when nobody tries it any more.
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

// The window of a TCP connection that begins, and where it ends to grow (RFC 6928), in bytes.
const (
	window    = 10 * 1460
	maxWindow = 1 << 20
	// usualTrips is how many round trips a page takes, about: 18 to 38 kB.
	usualTrips = 3.5
)

// trips is how many round trips a download of that size takes: to connect, to ask, and to open the
// window.
func trips(bytes int64) float64 {
	n := 2.0
	for w := int64(window); bytes > w; w = min(2*w, maxWindow) {
		bytes -= w
		n++
	}
	return n
}

// compare finds out who is slow, in two ways. A worker's downloads are later than those of others,
// by more than chance between hosts explains: of the difference that share counts which is not
// chance (empirical Bayes), so two or three hosts say little and a dozen much. Or they are later
// than they used to be.
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
			workers += min(n, 1) // one of long ago is no more than its part
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
