package fresh

import (
	"fmt"
	"math"
	"testing"
)

func near(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}

// integrate is Simpson's rule over [from, to].
func integrate(f func(float64) float64, from, to float64, steps int) float64 {
	h, sum := (to-from)/float64(steps), f(from)+f(to)
	for i := 1; i < steps; i++ {
		sum += f(from+float64(i)*h) * float64(2+2*(i%2))
	}
	return sum * h / 3
}

// moments returns mean and variance of the rate by numeric integration over its logarithm.
func moments(r Rate, likelihood func(rate float64) float64) (mean, variance float64) {
	a, b := float64(r.A), float64(r.B)
	weighted := func(power float64) float64 {
		return integrate(func(log float64) float64 {
			rate := math.Exp(log)
			return math.Exp(a*log-b*rate) * math.Pow(rate, power) * likelihood(rate)
		}, math.Log(1e-24/b), math.Log(200*(a+1)/b), 20_000)
	}
	all := weighted(0)
	mean = weighted(1) / all
	return mean, weighted(2)/all - mean*mean
}

// TestPosteriorsHaveTheMomentsOfIntegration compares each update with the exact posterior.
func TestPosteriorsHaveTheMomentsOfIntegration(t *testing.T) {
	for _, r := range []Rate{{0.3, 9}, {1, 30}, {2.5, 4}, {40, 100}} {
		for _, interval := range []float64{0.01, 1, 30, 400} {
			for name, of := range map[string]struct {
				got        Rate
				likelihood func(float64) float64
			}{
				"unchanged":  {r.Unchanged(interval, r), func(rate float64) float64 { return math.Exp(-rate * interval) }},
				"changed":    {r.Changed(interval, r), func(rate float64) float64 { return -math.Expm1(-rate * interval) }},
				"changed at": {r.ChangedAt(interval/2, interval, r), func(rate float64) float64 { return rate * math.Exp(-rate*interval/2) }},
			} {
				mean, variance := moments(r, of.likelihood)
				name = fmt.Sprintf("%s, %v after %v days", name, r, interval)
				near(t, name+": mean", of.got.Mean(), mean, 1e-4)
				near(t, name+": variance", of.got.Mean()/float64(of.got.B), variance, 1e-3)
			}
		}
	}
}

func TestEvidenceIsForgotten(t *testing.T) {
	prior, r := NewPrior(0.1), Rate{20, 50}
	a, b := r.forgotten(365, prior)
	near(t, "a", a, 0.3+(20-0.3)/math.E, 1e-6)
	near(t, "b", b, 3+(50-3)/math.E, 1e-6)
	if got := r.Changed(1e9, prior); math.Abs(float64(got.A-prior.A)) > 0.02 {
		t.Errorf("after a million years: %v, want about the prior %v", got, prior)
	}
}

// TestValueIsItsIntegral compares the value with the integral of the density of a change.
func TestValueIsItsIntegral(t *testing.T) {
	for _, r := range []Rate{{0.3, 9}, {0.999999, 30}, {1, 30}, {1.000001, 30}, {2.5, 4}, {400, 100}} {
		a, b := float64(r.A), float64(r.B)
		for _, days := range []float64{1e-4, 0.01, 1, 30, 400} {
			want := integrate(func(s float64) float64 { return s * a / (b + s) * math.Pow(b/(b+s), a) }, 0, days, 100_000)
			near(t, fmt.Sprint(r, days), r.Value(2, days), 2*want, 1e-5)
		}
	}
	r := Rate{3, 10}
	if got := r.Value(1, 0); got != 0 {
		t.Errorf("value at once: %v", got)
	}
	near(t, "value after any time", r.Value(1, 1e5), 5, 1e-3)
}

func TestDueReachesTheThreshold(t *testing.T) {
	for _, r := range []Rate{{0.3, 9}, {1, 30}, {3, 90}} {
		for _, threshold := range []float64{1e-3, 0.1, 2} {
			near(t, fmt.Sprint(r, threshold), r.Value(1, r.Due(1, threshold)), threshold, 1e-6)
		}
		if early, late := r.Due(4, 1), r.Due(1, 1); early >= late {
			t.Errorf("%v: an important URL waits %v days, others %v", r, early, late)
		}
	}
	if got := (Rate{3, 10}).Due(1, 5.1); math.Abs(got-maxInterval) > 1 {
		t.Errorf("a value that is never reached: %v days", got)
	}
}

func TestPriorIsShrunkToTheJob(t *testing.T) {
	var host, job Means
	near(t, "without evidence", host.Prior(&job).Mean(), usualRate, 1e-6)
	for range 30 {
		job.Replace(Rate{}, Rate{1, 10}, true)
		host.Replace(Rate{}, Rate{2, 4}, true)
	}
	ofJob := (30*0.1 + 10*usualRate) / 40
	near(t, "with 30 pages", host.Prior(&job).Mean(), (30*0.5+10*ofJob)/40, 1e-6)
	job.Replace(Rate{1, 10}, Rate{2, 10}, false)
	near(t, "replaced", job.Sum, 30*0.1+0.1, 1e-6)
}

func TestPageVisits(t *testing.T) {
	var host, job Means
	p := Page{Rate: NewPrior(0.1), Weight: 1}
	seen := p.Visit(10, Unchanged, 0, &host, &job)
	if seen.Visits != 1 || seen.Last != 10 || host.Pages != 1 || job.Pages != 1 || seen.Rate.Mean() >= p.Rate.Mean() {
		t.Errorf("unchanged: %+v, %+v", seen, host)
	}
	if failed := seen.Visit(20, Failed, 0, &host, &job); failed != seen || failed.Due(20, Failed, 1) != 21 {
		t.Errorf("failed: %+v, due %v", failed, failed.Due(20, Failed, 1))
	}
	var waits []float64
	gone := seen
	for range 9 {
		gone = gone.Visit(20, Gone, 0, &host, &job)
		waits = append(waits, gone.Due(20, Gone, 1)-20)
	}
	if want := "[1 2 4 8 16 32 64 64 64]"; fmt.Sprint(waits) != want {
		t.Errorf("gone: waits %v, want %s", waits, want)
	}
	if gone.Rate != seen.Rate || gone.Last != 10 {
		t.Errorf("gone is evidence: %+v", gone)
	}
	back := gone.Visit(30, ChangedAt, 15, &host, &job)
	if back.Misses != 0 || back.Rate.Mean() <= seen.Rate.Mean() || host.Pages != 1 {
		t.Errorf("back: %+v", back)
	}
	near(t, "sum of a host with one URL", host.Sum, back.Rate.Mean(), 1e-6)
}

func TestNoPageIsForgotten(t *testing.T) {
	c := NewControl(10, 100)
	c.Log = 50
	p := Page{Rate: Rate{1, 1e5}, Last: 7, Weight: 1, Visits: 3}
	near(t, "page that never changes", c.Due(p, 7, Unchanged, 100), 7+4*10, 1e-9)
	near(t, "page that is gone", c.Due(Page{Misses: 4, Last: -500}, 7, Gone, 100), 7+8, 1e-9)
	c.Log = -50
	if due := c.Due(p, 7, Unchanged, 100); due > 7.1 {
		t.Errorf("low threshold: due on day %v", due)
	}
	for range 6 * 10 / 24 {
		if c.Spent() {
			t.Error("spent before six times the hour's share")
		}
		c.Hour++
	}
	if c.Hour++; !c.Spent() {
		t.Error("six times the hour's share is exceeded")
	}
}

// TestControlFindsTheThreshold lets the visits depend on the threshold, as the value of pages does.
func TestControlFindsTheThreshold(t *testing.T) {
	c := NewControl(2400, 1000)
	c.Log = 3
	hours, last := 24*60, 0
	for hour := range hours {
		c.Hour = int(100*math.Exp(-c.Log)) + hour%2 // 100 at a threshold of 1
		if hour >= hours/2 {
			last += c.Hour
		}
		c.Tick()
	}
	near(t, "visits of the second half", float64(last), 100*float64(hours/2), 0.02)
}

func TestFollow(t *testing.T) {
	for _, of := range []struct {
		neighbors []float64
		want      float64
	}{
		{nil, 1},
		{[]float64{1.2}, 1.1},
		{[]float64{1.2, 1.1, 0.9}, 1 + 0.2/6},
		{[]float64{math.NaN(), 1.2}, 1.05},
		{[]float64{math.Inf(1), 60, 0.9, 0.9}, 1.1},
		{[]float64{-60}, 0.75},
	} {
		c := Control{Log: 1}
		c.Follow(of.neighbors)
		near(t, fmt.Sprint(of.neighbors), c.Log, of.want, 1e-12)
	}
}

// TestRingKeepsItsBudget has one peer of ten that has more to visit than its share.
func TestRingKeepsItsBudget(t *testing.T) {
	peers := make([]Control, 10)
	for i := range peers {
		peers[i] = NewControl(24, 1000)
	}
	visits, debt, logs := 0, make([]float64, len(peers)), make([]float64, len(peers))
	for hour := range 200 * 24 {
		for i := range peers {
			debt[i] += math.Exp(-peers[i].Log) * []float64{0.5, 5.5}[i/9]
			peers[i].Hour = int(debt[i])
			debt[i] -= float64(peers[i].Hour)
			if hour >= 100*24 {
				visits += peers[i].Hour
			}
			peers[i].Tick()
			logs[i] = peers[i].Log
		}
		for i := range peers {
			peers[i].Follow(logs)
		}
	}
	near(t, "visits of the second half", float64(visits), 100*240, 0.02)
	if busy := math.Abs(peers[0].Log - peers[9].Log); busy > 1.5 { // 2.4 if each kept its own share
		t.Errorf("thresholds differ by %v", busy)
	}
}

func FuzzRate(f *testing.F) {
	f.Add(float32(0.3), float32(9), 28.0, 3.0, 0.1, 0.2, uint8(1), 1.0)
	f.Add(float32(1), float32(30), 0.0, 0.0, 0.0, 1e300, uint8(2), 0.0)
	f.Add(float32(1e5), float32(1e-4), 1e300, math.Inf(1), 1.0, 2.0, uint8(0), math.NaN())
	f.Fuzz(func(t *testing.T, a, b float32, interval, since, low, high float64, what uint8, mean float64) {
		r := rateOf(float64(a), float64(b))
		for range 3 {
			switch prior := NewPrior(mean); what % 3 {
			case 0:
				r = r.Unchanged(interval, prior)
			case 1:
				r = r.Changed(interval, prior)
			default:
				r = r.ChangedAt(since, interval, prior)
			}
			if !(r.A >= minA && r.A <= maxA && r.B >= minB && r.B <= maxB) {
				t.Fatalf("out of bounds: %v", r)
			}
		}
		if v := r.Value(1, interval); math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			t.Fatalf("%v: value %v after %v", r, v, interval)
		}
		if low > high {
			low, high = high, low
		}
		early, late := r.Due(1, low), r.Due(1, high)
		if early > late || !(early > 0 && late <= maxInterval*1.001) {
			t.Fatalf("%v: due after %v and %v days at %v and %v", r, early, late, low, high)
		}
	})
}

// TestControlResized checks that a control whose pages and budget change has the threshold of a new
// one, whatever happened between, and that an unknown number of pages moves nothing.
func TestControlResized(t *testing.T) {
	c := NewControl(400, 1)
	for pages := range 200 {
		c.Resize(400, pages)
	}
	c.Log += 0.25 // what it learned
	c.Resize(100, 50)
	if want := NewControl(100, 50).Log + 0.25; math.Abs(c.Log-want) > 1e-9 || c.Budget != 100 {
		t.Errorf("log %v with budget %v, want %v", c.Log, c.Budget, want)
	}
	c = Control{Budget: 100, Log: 2}
	if c.Resize(400, 50); c.Log != 2 || c.Budget != 400 || c.Pages != 50 {
		t.Errorf("%+v", c)
	}
}

// TestAnUnusedBudgetIsForgotten lets nothing be visited for a month, as when delays forbid it.
func TestAnUnusedBudgetIsForgotten(t *testing.T) {
	c := NewControl(240, 100)
	usual := c.Log
	for range 30 * 24 {
		c.Tick()
	}
	days := make([]float64, 20)
	for hour := range 24 * len(days) {
		for c.Hour = 0; !c.Spent() && float64(c.Hour) < 10*math.Exp(usual-c.Log); c.Hour++ {
		}
		days[hour/24] += float64(c.Hour)
		c.Tick()
	}
	sum := 0.
	for day, visits := range days {
		if sum += visits; day >= 15 && math.Abs(visits-240) > 60 {
			t.Fatalf("visits by day %.0f, want about 240 from the 15th on", days)
		}
	}
	if sum > 1.5*240*float64(len(days)) {
		t.Errorf("visits by day %.0f: more than half of the budget beyond it", days)
	}
}
