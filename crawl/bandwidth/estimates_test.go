package bandwidth

import (
	"math"
	"net/netip"
	"testing"
	"time"
)

// monday is a working day in 2026, at midnight.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}) }

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-5*math.Abs(b) }

// TestEstimatesUpdate holds the paper's update (section 2): the first sample sets all 48, later
// ones those of their kind of day, less with the minutes between, around midnight as well.
func TestEstimatesUpdate(t *testing.T) {
	e := NewEstimates(EstimatesConfig{Location: time.UTC, Holidays: []string{"2026-03-04"}})
	server := addr(1)
	at := func(day, hour, minute int) time.Time {
		return monday.AddDate(0, 0, day).Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
	}
	rate := func(day, hour int) float64 {
		r, known := e.Rate(at(day, hour, 30), server)
		if !known {
			t.Fatal("the server is not known")
		}
		return r
	}
	if r, known := e.Rate(monday, server); known || r != 0 {
		t.Errorf("before all: %v, %v", r, known)
	}
	e.Learn(at(0, 12, 0), server, 1000)
	for _, day := range []int{0, 2, 5} {
		for h := range 24 {
			if r := rate(day, h); r != 1000 {
				t.Errorf("day %d, hour %d: %v after the first sample", day, h, r)
			}
		}
	}
	e.Learn(at(0, 23, 45), server, 2000)
	weight := func(y float64) float64 { return defaultK * math.Exp(-y*y/(defaultSigma*defaultSigma)) }
	for _, tt := range []struct {
		name string
		day  int
		hour int
		want float64
	}{
		{"the hour before", 0, 23, 1000 + 1000*weight(45)},
		{"across midnight", 0, 0, 1000 + 1000*weight(15)},
		{"another working day", 1, 22, 1000 + 1000*weight(105)},
		{"far off", 0, 12, 1000 + 1000*weight(705)},
		{"at the weekend", 5, 23, 1000},
		{"on a holiday", 2, 23, 1000},
	} {
		if got := rate(tt.day, tt.hour); !near(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for _, m := range []float64{0, -1, math.NaN(), math.Inf(1), 1e13} {
		e.Learn(at(0, 23, 45), server, m)
	}
	if got := rate(0, 0); !near(got, 1000+1000*weight(15)) {
		t.Errorf("after rates that are none: %v", got)
	}
}

// TestEstimatesBounded: a server that is not known has the median of those that are, and the table
// forgets the one used least recently.
func TestEstimatesBounded(t *testing.T) {
	e := NewEstimates(EstimatesConfig{Location: time.UTC, Servers: 10})
	for i := range 10 {
		e.Learn(monday.Add(time.Duration(i)*time.Second), addr(i), float64(100*(i+1)))
	}
	if r, known := e.Rate(monday, addr(99)); known || r < 400 || r > 700 {
		t.Errorf("an unknown server: %v, %v", r, known)
	}
	e.Rate(monday.Add(time.Minute), addr(0)) // used, so it stays
	for i := 10; i < 14; i++ {
		e.Learn(monday.Add(time.Hour), addr(i), 50)
	}
	for i := range 14 {
		_, known := e.Rate(monday.Add(time.Hour), addr(i))
		if want := i == 0 || i > 4; known != want || e.Len() != 10 {
			t.Errorf("server %d of %d: known %v, want %v", i, e.Len(), known, want)
		}
	}
}

// TestEstimatesEvict: the least recently used server is evicted.
func TestEstimatesEvict(t *testing.T) {
	e := NewEstimates(EstimatesConfig{Location: time.UTC, Servers: 20})
	for i := range 30 {
		e.Learn(monday, addr(i), float64(1000+i))
		e.learnFlow(addr(i), float64(2000+i), 0.25)
		e.Rate(monday, addr(0))
	}
	for i := range 30 {
		rate, known := e.Rate(monday, addr(i))
		flow, wait, _ := e.flow(addr(i))
		if known != (i == 0 || i > 10) || known && (rate != float64(1000+i) || flow != float64(2000+i) || wait != 0.25) {
			t.Errorf("server %d: %v %v %v, known %v", i, rate, flow, wait, known)
		}
	}
}

func BenchmarkLearn(b *testing.B) {
	e := NewEstimates(EstimatesConfig{})
	for i := range defaultServers {
		e.Learn(monday, addr(i), float64(1000+i))
	}
	for b.Loop() {
		e.Learn(monday, addr(5), 1000)
	}
}
