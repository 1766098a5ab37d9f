package bandwidth

import (
	"context"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/dht/dhtsim/clock"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
)

const (
	// bandwidthCap is L, the next two are the paper's k and sigma (Diligenti et al., 3);
	// bandwidthShown is the width of its figures.
	bandwidthCap   = 140_000
	bandwidthShown = 40 * time.Second

	// The paper does not give the rest: fetchers, line speed (bytes per second), servers and how
	// often they are visited, their rate (median and spread of a lognormal, bytes per second), its
	// variation (spread, and correlation in seconds), round trips and server times (seconds), and
	// document sizes. The median rate is that of the pages of Malet (2009, 5.12 and 5.8): 77.6 kB on
	// average, in 760.55 ms at the median. It is not fitted to the paper's use.
	bandwidthFetchers  = 64
	bandwidthLine      = 1_250_000
	bandwidthServers   = 300
	bandwidthZipf      = 0.7
	bandwidthRate      = 102_000
	bandwidthSpread    = 0.9
	bandwidthUnrest    = 0.25
	bandwidthMemory    = 10
	bandwidthRTT       = 0.03
	bandwidthRTTSpread = 0.6
	bandwidthThink     = 0.03
	bandwidthSize      = worlds.PageMean2003
	bandwidthSizes     = 0.5
	// firstWindow is the initial TCP window of a server of that time, in bytes: three segments. It
	// doubles each round trip.
	firstWindow = 3 * 1460
	// bandwidthHead is the size of a response header.
	bandwidthHead = 300

	// bandwidthStep is the time resolution; one-second windows start at each step.
	bandwidthStep = 10 * time.Millisecond
	stepsASecond  = int(time.Second / bandwidthStep)

	// daysPlayed is two weeks, the second of which is judged. hourPlayed is the simulated seconds
	// per hour: a server is visited nine times a day on average. workSwing and restSwing are the
	// daily variation of the logarithm of a server's rate on a working day (a factor of four
	// between best and worst hour) and on a holiday.
	daysPlayed = 14
	hourPlayed = 10
	workSwing  = 0.7
	restSwing  = 0.35
)

// bandwidthServer is a simulated web server.
type bandwidthServer struct {
	addr   netip.Addr
	rate   float64   // of a download, bytes a second
	unrest []float64 // a factor on it for each second
	rtt    float64   // seconds
}

// faster returns the world with servers of f times the rate.
func (w *bandwidthWorld) faster(f float64) *bandwidthWorld {
	other := *w
	other.servers = slices.Clone(w.servers)
	for i := range other.servers {
		other.servers[i].rate *= f
	}
	return &other
}

// bandwidthURL is an entry of the queue; the queue is in the order of scores.
type bandwidthURL struct {
	server int
	size   float64
	think  float64
}

// bandwidthWorld is the common input of all settings.
type bandwidthWorld struct {
	servers []bandwidthServer
	queue   []bandwidthURL
	seconds int
	hour    int // simulated seconds of each; 0 without hours of the day
}

// newBandwidthWorld draws a world. With an hour, rates depend on the hour of the day: each server
// has its own slowest hour, as if in any time zone, and another on holidays, half a day later.
func newBandwidthWorld(seed uint64, seconds, hour int) *bandwidthWorld {
	rnd := rand.New(rand.NewPCG(seed, 0x62616e64))
	w := &bandwidthWorld{seconds: seconds, hour: hour}
	keep := math.Exp(-1.0 / bandwidthMemory)
	weights := make([]float64, bandwidthServers)
	total := 0.0
	for i := range bandwidthServers {
		s := bandwidthServer{
			addr: netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}),
			rate: bandwidthRate * math.Exp(bandwidthSpread*rnd.NormFloat64()),
			rtt:  bandwidthRTT * math.Exp(bandwidthRTTSpread*rnd.NormFloat64()),
		}
		x := rnd.NormFloat64()
		for range seconds {
			s.unrest = append(s.unrest, math.Exp(bandwidthUnrest*x))
			x = keep*x + math.Sqrt(1-keep*keep)*rnd.NormFloat64()
		}
		if hour > 0 {
			slowest := 24 * rnd.Float64()
			for second := range s.unrest {
				h := second / hour
				swing := workSwing
				if day := clock.Epoch.AddDate(0, 0, h/24).Weekday(); day == time.Saturday || day == time.Sunday {
					swing = -restSwing
				}
				s.unrest[second] *= math.Exp(-swing * math.Cos(2*math.Pi*(float64(h%24)-slowest)/24))
			}
		}
		w.servers = append(w.servers, s)
		total += math.Pow(float64(i+1), -bandwidthZipf)
		weights[i] = total
	}
	// More than the limit permits, so that the queue never runs dry.
	for need := 1.5 * bandwidthCap * float64(seconds); need > 0; {
		server, _ := slices.BinarySearch(weights, rnd.Float64()*total)
		u := bandwidthURL{server: server, size: bandwidthHead + bandwidthSize*math.Exp(bandwidthSizes*rnd.NormFloat64()-bandwidthSizes*bandwidthSizes/2), think: bandwidthThink * rnd.ExpFloat64()}
		w.queue = append(w.queue, u)
		need -= u.size
	}
	return w
}

// download is a running fetch.
type download struct {
	url        int
	begun      int     // step
	wait       float64 // seconds until the first byte
	start      int     // its place in the run's starts
	left, got  float64
	demand     float64 // bytes that it would take in this step
	held       float64 // seconds lost to the limiter
	firstBytes int     // step of the first byte; -1
}

// bandwidthRun is a running setting.
type bandwidthRun struct {
	world    *bandwidthWorld
	governor bandwidth.Governor
	limited  bool
	sameDay  bool  // of the week, for the estimates
	now      int   // step
	head     []int // of the queue: what was looked at and waits
	next     int   // behind it
	running  []*download

	came     []float64 // bytes in each step
	expected []float64 // at each step, bytes a second
	starts   []bandwidthStart
}

// bandwidthStart is one admission.
type bandwidthStart struct {
	step, depth  int
	known        bool
	rate, turned float64 // expected and actual rate
}

// time of a step. A run over days simulates one piece of each hour, at another minute each time.
func (r *bandwidthRun) time() time.Time {
	hour := r.world.hour * stepsASecond
	if hour == 0 {
		return clock.Epoch.Add(time.Duration(r.now) * bandwidthStep)
	}
	h := r.now / hour
	minute, day := h*37%59, h/24
	if r.sameDay {
		day *= 7
	}
	return clock.Epoch.AddDate(0, 0, day).Add(time.Duration(h%24)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(r.now%hour)*bandwidthStep)
}

// At implements bandwidth.Queue.
func (r *bandwidthRun) At(depth int) (bandwidth.Candidate, bool) {
	for len(r.head) <= depth && r.next < len(r.world.queue) {
		r.head = append(r.head, r.next)
		r.next++
	}
	if depth >= len(r.head) {
		return bandwidth.Candidate{}, false
	}
	i := r.head[depth]
	return bandwidth.Candidate{ID: uint64(i), Server: r.world.servers[r.world.queue[i].server].addr}, true
}

// run simulates the whole time.
func (r *bandwidthRun) run(ctx context.Context) error {
	every := int(r.governor.Every() / bandwidthStep)
	for r.now = 0; r.now < r.world.seconds*stepsASecond; r.now++ {
		if r.now%stepsASecond == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		ended := r.flow()
		tick := r.now%every == 0
		if tick {
			r.sample()
		}
		if ended || tick {
			r.admit()
		}
		r.expected = append(r.expected, r.governor.Expected(r.time()))
	}
	return nil
}

// flow transfers the bytes of one step and ends completed downloads.
func (r *bandwidthRun) flow() (ended bool) {
	const dt = 1.0 / float64(stepsASecond)
	total := 0.0
	for _, d := range r.running {
		d.demand = r.demand(d, dt)
		total += d.demand
	}
	room := bandwidthLine * dt
	if r.limited {
		room = bandwidth.Share * bandwidthCap * dt // as the limiter does
	}
	share := fairShare(r.running, room)
	came := 0.0
	for _, d := range r.running {
		b := min(d.demand, share)
		if b > 0 && d.firstBytes < 0 {
			d.firstBytes = r.now
		}
		if r.limited && b < d.demand {
			d.held += dt * (1 - b/d.demand)
		}
		d.got += b
		d.left -= b
		came += b
	}
	r.came = append(r.came, came)
	r.running = slices.DeleteFunc(r.running, func(d *download) bool {
		if d.left > 0 {
			return false
		}
		r.end(d)
		ended = true
		return true
	})
	return ended
}

// demand returns the bytes that a download can take in a step: its server's rate, or less during
// slow start.
func (r *bandwidthRun) demand(d *download, dt float64) float64 {
	age := float64(r.now-d.begun)*dt - d.wait
	if age < 0 {
		return 0
	}
	s := &r.world.servers[r.world.queue[d.url].server]
	rate := s.rate * s.unrest[r.now/stepsASecond]
	return min(d.left, dt*min(rate, firstWindow/s.rtt*math.Exp2(min(age/s.rtt, 30))))
}

// fairShare is the max-min fair share of a capacity.
func fairShare(all []*download, room float64) float64 {
	wants := make([]float64, 0, len(all))
	for _, d := range all {
		if d.demand > 0 {
			wants = append(wants, d.demand)
		}
	}
	slices.Sort(wants)
	for i, want := range wants {
		if share := room / float64(len(wants)-i); want > share {
			return share
		}
		room -= want
	}
	return math.Inf(1)
}

func (r *bandwidthRun) end(d *download) {
	took := time.Duration(r.now+1-d.begun) * bandwidthStep
	r.starts[d.start].turned = d.got / took.Seconds()
	r.governor.End(r.time(), uint64(d.url), bandwidth.Result{
		Bytes: int64(d.got), Took: took, Wait: time.Duration(d.firstBytes-d.begun) * bandwidthStep, Held: time.Duration(d.held * float64(time.Second)),
	})
}

func (r *bandwidthRun) sample() {
	for _, d := range r.running {
		left := int64(-1)
		if d.got > 0 {
			left = int64(math.Ceil(d.left))
		}
		r.governor.Sample(r.time(), uint64(d.url), bandwidth.Progress{
			Bytes: int64(d.got), Left: left, Held: time.Duration(d.held * float64(time.Second)),
		})
	}
}

// admit starts the fetches that the governor admits.
func (r *bandwidthRun) admit() {
	for len(r.running) < bandwidthFetchers {
		a, ok := r.governor.Admit(r.time(), r)
		if !ok {
			return
		}
		i := r.head[a.Depth]
		r.head = slices.Delete(r.head, a.Depth, a.Depth+1)
		u := &r.world.queue[i]
		s := &r.world.servers[u.server]
		// A round trip to connect, one for the request, and the server's time.
		r.running = append(r.running, &download{url: i, begun: r.now, start: len(r.starts), wait: 2*s.rtt + u.think, left: u.size, firstBytes: -1})
		r.starts = append(r.starts, bandwidthStart{step: r.now, depth: a.Depth, known: a.Known, rate: a.Rate})
	}
}
