package bandwidth

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// defaultK and defaultSigma are the paper's: the part of an estimate that a new measurement
	// replaces at its own hour, and the minutes of the day over which that decreases (Diligenti et
	// al., 3).
	defaultK     = 0.3
	defaultSigma = 120.0
	// defaultServers bounds the known servers; at about 250 bytes each they cost a megabyte.
	defaultServers = 4096

	hours = 24
	// cells are the estimates of a server: one for each hour of a working day, and of a holiday.
	cells = 2 * hours
	// medianEvery is for how many downloads the median over all servers is reused: it moves slowly,
	// and sorting for each unknown server is slow.
	medianEvery = 64
	dayMinutes  = 24 * 60
)

// EstimatesConfig is the configuration of Estimates. The zero value of a field selects its default.
type EstimatesConfig struct {
	K, Sigma float64 // see defaultK and defaultSigma; Sigma is in minutes
	// Servers bounds the table; the least recently used server is evicted.
	Servers int
	// Holidays are days as YYYY-MM-DD that count as holidays beside Saturdays and Sundays.
	Holidays []string
	// Location is the time zone of days and hours. Nil: local time.
	Location *time.Location
}

// Estimates are the expected download rates of servers, by hour and kind of day (Diligenti et al.,
// 2). Not safe for concurrent use.
type Estimates struct {
	cfg      EstimatesConfig
	holidays map[string]bool
	servers  *simplelru.LRU[netip.Addr, *server]
	learnt   int
	medians  [cells]median
}

// server is the estimate of one server.
type server struct {
	rates [cells]float32 // bytes a second, from the request to the last byte
	// flow and wait are used by governor ours: bytes a second after the first byte, and seconds until
	// it.
	flow, wait float32
}

// median is a cached median, with the number of downloads when it was computed.
type median struct {
	rate float64
	at   int
}

// NewEstimates returns an empty table.
func NewEstimates(cfg EstimatesConfig) *Estimates {
	cfg.K = cmp.Or(cfg.K, defaultK)
	cfg.Sigma = cmp.Or(cfg.Sigma, defaultSigma)
	if cfg.Servers <= 0 {
		cfg.Servers = defaultServers
	}
	cfg.Location = cmp.Or(cfg.Location, time.Local)
	e := &Estimates{cfg: cfg, holidays: make(map[string]bool)}
	e.servers, _ = simplelru.NewLRU[netip.Addr, *server](cfg.Servers, nil) // positive
	for _, day := range cfg.Holidays {
		e.holidays[day] = true
	}
	return e
}

// Len returns the number of servers in the table.
func (e *Estimates) Len() int { return e.servers.Len() }

// Rate returns B(u): the expected rate of a download from a server that begins now, in bytes a
// second, and whether the server is known. For an unknown one it is the median of the known ones,
// and zero without any.
func (e *Estimates) Rate(now time.Time, addr netip.Addr) (rate float64, known bool) {
	cell, _ := e.cell(now)
	if s, ok := e.servers.Get(addr); ok {
		return float64(s.rates[cell]), true
	}
	return e.median(cell), false
}

// Learn adds M, the rate of a download that ended now: bytes over the time from the request to the
// last byte.
func (e *Estimates) Learn(now time.Time, addr netip.Addr, m float64) {
	if !addr.IsValid() || !(m > 0) || m > MaxRate {
		return
	}
	e.learnt++
	cell, minute := e.cell(now)
	s, ok := e.servers.Get(addr)
	if !ok {
		s = new(server)
		e.servers.Add(addr, s)
		for i := range s.rates {
			s.rates[i] = float32(m)
		}
	} else {
		first := cell / hours * hours
		for h := range hours {
			a := e.weight(minute - 60*float64(h))
			s.rates[first+h] = float32((1-a)*float64(s.rates[first+h]) + a*m)
		}
	}
}

// weight returns a(y): the weight of a measurement y minutes away. The paper prints the exponent
// without its minus. Days are circles: a quarter to midnight is near to a quarter past.
func (e *Estimates) weight(y float64) float64 {
	y = math.Abs(math.Mod(y, dayMinutes))
	y = min(y, dayMinutes-y)
	return e.cfg.K * math.Exp(-y*y/(e.cfg.Sigma*e.cfg.Sigma))
}

// cell returns the index of the estimate for a moment, and the minute of its day.
func (e *Estimates) cell(now time.Time) (cell int, minute float64) {
	t := now.In(e.cfg.Location)
	cell = t.Hour()
	if day := t.Weekday(); day != time.Saturday && day != time.Sunday && (len(e.holidays) == 0 || !e.holidays[t.Format(time.DateOnly)]) {
		cell += hours
	}
	return cell, float64(t.Hour()*60+t.Minute()) + float64(t.Second())/60
}

// median returns the median of the known servers; zero without any.
func (e *Estimates) median(cell int) float64 {
	m := &e.medians[cell]
	if e.servers.Len() == 0 {
		return 0
	}
	if m.rate > 0 && e.learnt-m.at < min(medianEvery, e.servers.Len()) {
		return m.rate
	}
	rates := make([]float32, 0, e.servers.Len())
	for _, s := range e.servers.Values() {
		rates = append(rates, s.rates[cell])
	}
	slices.Sort(rates)
	m.rate, m.at = float64(rates[len(rates)/2]), e.learnt
	return m.rate
}

// flow returns the rate of a server after the first byte, and the time until it; false if unknown.
func (e *Estimates) flow(addr netip.Addr) (rate, wait float64, known bool) {
	s, ok := e.servers.Peek(addr)
	if !ok || s.flow == 0 {
		return 0, 0, false
	}
	return float64(s.flow), float64(s.wait), true
}

// learnFlow adds a download of a known server.
func (e *Estimates) learnFlow(addr netip.Addr, rate, wait float64) {
	s, ok := e.servers.Peek(addr)
	if !ok || !(rate > 0) || rate > MaxRate || !(wait >= 0) {
		return
	}
	if s.flow == 0 {
		s.flow, s.wait = float32(rate), float32(wait)
	} else {
		s.flow += float32(e.cfg.K) * (float32(rate) - s.flow)
		s.wait += float32(e.cfg.K) * (float32(wait) - s.wait)
	}
}
