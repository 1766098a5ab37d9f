package adaptive

import (
	"math"
	"slices"
	"time"
)

const (
	// paceFetches are how many downloads of a worker say how fast it is at present.
	paceFetches = 16
	// paceHosts is of how many hosts they have to be at least: one that is slow is not the worker's fault.
	paceHosts = 4
	// paceAge is how long they count: a worker that got slow gets no hosts, so nothing would ever say that it recovered.
	paceAge = 5 * time.Minute
	// paceSlow is how much slower than others a worker has to be to be called slow.
	paceSlow = 1.5
)

// pace is how fast a worker was of late.
type pace struct {
	fetches []paced // the last paceFetches
	next    int
}

type paced struct {
	at    time.Time
	host  string
	ratio float64 // logarithm of the time taken over the time expected
}

func (p *pace) add(f paced) {
	if len(p.fetches) < paceFetches {
		p.fetches = append(p.fetches, f)
		return
	}
	p.fetches[p.next] = f
	p.next = (p.next + 1) % paceFetches
}

// median of the logarithms; false if too few hosts were fetched of late to say.
func (p *pace) median(now time.Time) (float64, bool) {
	var ratios []float64
	var hosts []string
	for _, f := range p.fetches {
		if now.Sub(f.at) <= paceAge {
			ratios = append(ratios, f.ratio)
			if !slices.Contains(hosts, f.host) {
				hosts = append(hosts, f.host)
			}
		}
	}
	if len(hosts) < paceHosts {
		return 0, false
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], true
}

const (
	// segment, window and maxWindow are those of a TCP connection that begins (RFC 6928), in bytes.
	window    = 10 * 1460
	maxWindow = 1 << 20
	// serving is what a server needs to answer, at first; then it is learnt.
	serving = 50.0
)

// rounds of trips that a download of that size takes: to connect, to ask, and to open the window.
func rounds(bytes int64) float64 {
	n := 2.0
	for w := int64(window); bytes > w; w = min(2*w, maxWindow) {
		bytes -= w
		n++
	}
	return n
}

// stretch says how much slower than the usual worker one is: 1 if it is not slow, or nothing is known.
func (s *Strategy) stretch(c *column, now time.Time) float64 {
	own, ok := c.pace.median(now)
	if !ok {
		return 1
	}
	if slow := math.Exp(own - s.usual); slow > paceSlow {
		return slow
	}
	return 1
}
