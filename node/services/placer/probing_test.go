package placer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/loop"
)

// fakeSites are sites at one address each, or all at shared if that is set, which take so long to
// answer.
type fakeSites struct {
	took            time.Duration
	fail            error
	status          int
	connects, heads atomic.Int64
	busy, most      atomic.Int64
}

// freely is the visit of an address where no worker is.
func freely(context.Context, netip.Addr) (leave func(), err error) { return func() {}, nil }

var siteAddr = netip.MustParseAddr("192.0.2.1")

func (s *fakeSites) Locate(_ context.Context, host, _ string) ([]netip.AddrPort, error) {
	var n uint16
	if _, err := fmt.Sscanf(host, "h%d.example", &n); err != nil {
		return nil, err
	}
	return []netip.AddrPort{netip.AddrPortFrom(siteAddr, 1000+n%1000)}, nil
}

func (s *fakeSites) wait(ctx context.Context) error {
	s.most.Store(max(s.most.Load(), s.busy.Add(1)))
	defer s.busy.Add(-1)
	return errors.Join(loop.Sleep(ctx, s.took), s.fail)
}

func (s *fakeSites) Probe(ctx context.Context, _, _ string) (time.Duration, netip.Addr, error) {
	s.connects.Add(1)
	return s.took, siteAddr, s.wait(ctx)
}

func (s *fakeSites) ProbeHead(ctx context.Context, _, _ string) (*fetch.Head, error) {
	s.heads.Add(1)
	return &fetch.Head{RTT: s.took, Addr: siteAddr, Status: s.status}, s.wait(ctx)
}

// TestProberSharesWhatItMeasures: a site sees one probe in half a minute, however many ask and
// whether they ask together or one after another.
func TestProberSharesWhatItMeasures(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		s := &fakeSites{took: 20 * time.Millisecond}
		p := newProber(s, freely)
		var group errgroup.Group
		for i := range 50 {
			group.Go(func() error { // h7 and h1007 are two names at one address and port
				rtt, addr, err := p.measure(t.Context(), fmt.Sprintf("h%d.example", 7+1000*(i%2)), "http", "connect")
				if rtt != s.took || addr != siteAddr {
					t.Errorf("%v at %v", rtt, addr)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil || s.connects.Load() != 2 {
			t.Errorf("%d connects for all of them, want the 2 of one probe (%v)", s.connects.Load(), err)
		}
		if _, _, err := p.measure(t.Context(), "h7.example", "http", ""); err != nil || s.connects.Load() != 2 {
			t.Errorf("a moment later %d connects (%v)", s.connects.Load(), err)
		}
		time.Sleep(siteRest)
		if _, _, err := p.measure(t.Context(), "h7.example", "http", "connect"); err != nil || s.connects.Load() != 4 {
			t.Errorf("after the site's rest %d connects (%v), want a new probe", s.connects.Load(), err)
		}
	})
}

// TestHeadWaitsForTheAddress: a request that measures takes its turn at the address, as the
// worker's requests do; a connect, which carries none, does not.
func TestHeadWaitsForTheAddress(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const turn = 300 * time.Millisecond
		s := &fakeSites{took: 20 * time.Millisecond}
		p := newProber(s, freely)
		entered, left := 0, 0
		p.visit = func(ctx context.Context, addr netip.Addr) (func(), error) {
			if addr != siteAddr {
				t.Errorf("a turn at %v", addr)
			}
			entered++
			return func() { left++ }, loop.Sleep(ctx, turn)
		}
		for _, row := range []struct {
			host, method string
			within, want time.Duration
			entered      int
			fails        bool
		}{
			{"h1.example", ProbeConnect, time.Minute, 2 * s.took, 0, false},
			{"h1.example", ProbeHead, time.Minute, turn + s.took, 1, false},
			{"h1.example", ProbeHead, time.Minute, 0, 1, false}, // what was measured a moment ago costs no turn
			{"h2.example", ProbeHead, turn / 2, turn / 2, 2, true},
			{"h2.example", ProbeHead, time.Minute, turn + s.took, 3, false},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), row.within)
			begun := time.Now()
			_, _, err := p.measure(ctx, row.host, "http", row.method)
			cancel()
			if got := time.Since(begun); got != row.want || entered != row.entered || (err != nil) != row.fails {
				t.Errorf("%s of %s takes %v with %d turns so far (%v), want %v and %d", row.method, row.host, got, entered, err, row.want, row.entered)
			}
		}
		if left != 2 || s.heads.Load() != 2 {
			t.Errorf("%d turns ended, %d requests, want 2 of each", left, s.heads.Load())
		}
	})
}

// noisy is a site whose round trips come in an order; behind them a failure.
type noisy struct {
	fakeSites
	rtts []time.Duration
}

func (s *noisy) Probe(context.Context, string, string) (time.Duration, netip.Addr, error) {
	n := int(s.connects.Add(1)) - 1
	if n >= len(s.rtts) {
		return 0, netip.Addr{}, errors.New("refused")
	}
	time.Sleep(s.rtts[n])
	return s.rtts[n], siteAddr, nil
}

// TestProbesOnABusyMachine: the smallest round trip counts, once another says about the same, or
// enough were made.
func TestProbesOnABusyMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		ms    []int
		want  int
		made  int
		fails bool
	}{
		"quiet":                       {[]int{20, 20, 9}, 20, 2, false},
		"the first opened something":  {[]int{45, 20, 20, 9}, 20, 3, false},
		"two of three were late":      {[]int{49, 15, 65, 15, 9}, 15, 4, false},
		"never the same":              {[]int{90, 70, 50, 30, 110, 9}, 30, 5, false},
		"about the same far away":     {[]int{204, 200, 9}, 200, 2, false},
		"not the same nearby":         {[]int{4, 2, 2, 1}, 2, 3, false},
		"no time for more than these": {[]int{600, 450, 9}, 450, 2, false},
		"refused":                     {nil, 0, 1, true},
		"refused later":               {[]int{30}, 30, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				s := new(noisy)
				for _, ms := range tt.ms {
					s.rtts = append(s.rtts, time.Duration(ms)*time.Millisecond)
				}
				rtt, _, err := newProber(s, freely).measure(t.Context(), "h1.example", "http", "connect")
				if rtt != time.Duration(tt.want)*time.Millisecond || int(s.connects.Load()) != tt.made || (err != nil) != tt.fails {
					t.Errorf("%v after %d connects (%v), want %d ms after %d", rtt, s.connects.Load(), err, tt.want, tt.made)
				}
			})
		})
	}
}

// TestProberBounds: no more probes at once, and a minute, than said; a failure is an answer as any
// other, what was broken off is none.
func TestProberBounds(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		crawltest.Bubble(t, func(t *testing.T) {
			s := &fakeSites{took: time.Second}
			p := newProber(s, freely)
			var group errgroup.Group
			for i := range 3 * probesMost {
				group.Go(func() error {
					_, _, err := p.measure(t.Context(), fmt.Sprintf("h%d.example", i), "http", "head")
					return err
				})
			}
			if err := group.Wait(); err != nil || s.most.Load() != probesMost {
				t.Errorf("%d at once, want %d (%v)", s.most.Load(), probesMost, err)
			}
		})
	})
	t.Run("a minute", func(t *testing.T) {
		crawltest.Bubble(t, func(t *testing.T) {
			s := &fakeSites{}
			p := newProber(s, freely)
			p.budget.AllowN(time.Now(), probesPerMinute-1)
			if _, _, err := p.measure(t.Context(), "h1.example", "http", "connect"); err != nil {
				t.Error(err)
			}
			if _, _, err := p.measure(t.Context(), "h2.example", "http", "connect"); !errors.Is(err, errTooManyProbes) {
				t.Errorf("beyond the bound: %v", err)
			}
			time.Sleep(time.Minute)
			if _, _, err := p.measure(t.Context(), "h2.example", "http", "connect"); err != nil {
				t.Errorf("a minute later: %v", err)
			}
		})
	})
	t.Run("what is remembered", func(t *testing.T) {
		p := newProber(&fakeSites{}, freely)
		now := time.Now()
		for i := range 3 * sitesKept {
			key := probeKey{netip.AddrPortFrom(siteAddr, uint16(i)), "connect"} // far below 65,536
			k, mine, err := p.begin(key, now.Add(time.Duration(i)*time.Minute))
			if err != nil || !mine {
				t.Fatal(err)
			}
			p.end(key, k, now.Add(time.Duration(i)*time.Minute))
		}
		if p.known.Len() > sitesKept {
			t.Errorf("%d sites remembered, at most %d", p.known.Len(), sitesKept)
		}
	})
	t.Run("failures and broken-off probes", func(t *testing.T) {
		crawltest.Bubble(t, func(t *testing.T) {
			s := &fakeSites{took: time.Second, fail: errors.New("refused")}
			p := newProber(s, freely)
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, _, err := p.measure(short, "h1.example", "http", "connect"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			for range 2 {
				if _, _, err := p.measure(t.Context(), "h1.example", "http", "connect"); err == nil || err.Error() != "refused" {
					t.Error(err)
				}
			}
			if s.connects.Load() != 2 {
				t.Errorf("%d connects, want one that was broken off and one that failed", s.connects.Load())
			}
		})
	})
}

func TestProberStopsWhereTheSiteAsksForLess(t *testing.T) {
	for _, status := range []int{429, 503} {
		_, _, err := newProber(&fakeSites{status: status}, freely).measure(t.Context(), "h1.example", "http", "head")
		if err == nil || !strings.HasPrefix(err.Error(), siteRefuses) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	if _, _, err := newProber(&fakeSites{status: 405}, freely).measure(t.Context(), "h1.example", "http", "head"); err != nil {
		t.Errorf("a site that does not know HEAD answers all the same: %v", err)
	}
}

// TestRequestGap: a request that measures is made only where robots.txt is known, holds and allows
// it, and no more often than it wishes.
func TestRequestGap(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	of := func(home bool, delay time.Duration) robots.State {
		s := robots.FromFetch(robots.Answer{Status: 200}, now, nil)
		s.Home, s.Delay = home, delay
		return s
	}
	silent := of(true, 0)
	silent.NotBefore = now.Add(time.Minute)
	tests := map[string]struct {
		state robots.State
		after time.Duration
		want  time.Duration
	}{
		"allowed":              {of(true, 0), 0, 2 * time.Second},
		"there is none":        {robots.FromFetch(robots.Answer{Status: 404}, now, nil), 0, 2 * time.Second},
		"slower than ours":     {of(true, 7*time.Second), 0, 7 * time.Second},
		"faster than ours":     {of(true, time.Second), 0, 2 * time.Second},
		"forbidden":            {of(false, 0), 0, 0},
		"too old":              {of(true, 0), 300 * 24 * time.Hour, 0},
		"it cannot be reached": {robots.FromFetch(robots.Answer{Err: errors.New("refused")}, now, nil), 0, 0},
		"never fetched":        {robots.State{}, 0, 0},
		"a wish for silence":   {silent, 0, 0},
	}
	c := Config{Delay: 2 * time.Second}
	for name, tt := range tests {
		if got := c.requestGap(&tt.state, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// watching is a strategy that keeps what it is told.
type watching struct {
	placement.Owner
	seen []placement.Fetch
}

func (w *watching) Observe(f *placement.Fetch) { w.seen = append(w.seen, *f) }

func TestObserve(t *testing.T) {
	w := &watching{}
	pl := &Placer{strategy: w}
	at := time.UnixMilli(1_800_000_000_000)
	pl.Observe("h1.example", [][]byte{siteAddr.AsSlice()}, "worker", &wire.HostWork{Fetched: []*wire.Fetched{
		{FetchedMs: at.UnixMilli(), DurationMs: 70, Size: 4000, Outcome: uint32(link.OutcomeOK)},
		{Outcome: uint32(link.OutcomeRobotsDenied)},
		{FetchedMs: at.UnixMilli(), DurationMs: 900, Outcome: uint32(link.OutcomeTimeout)},
	}})
	want := []placement.Fetch{
		{At: at, Host: "h1.example", Site: siteAddr, Worker: "worker", Took: 70 * time.Millisecond, Bytes: 4000},
		{At: at, Host: "h1.example", Site: siteAddr, Worker: "worker", Took: 900 * time.Millisecond, Failed: true},
	}
	if fmt.Sprint(w.seen) != fmt.Sprint(want) {
		t.Errorf("observed %+v, want %+v", w.seen, want)
	}
}

func TestEveryPlacementCanBeMade(t *testing.T) {
	for _, name := range Names() {
		pl := &Placer{cfg: Config{Strategy: name}, deps: Deps{Self: "self"}}
		if err := pl.setUp(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s := pl.strategy
		if s == nil { // ipmicra asks the ring itself, see TestSubnetsOfRealPeers
			continue
		}
		v := &placement.View{Host: "h1.example", Candidates: []placement.Candidate{{Peer: "self", Self: true}}, Measured: make(map[string]placement.Measurement)}
		if c := s.Next(v); c.Worker != "self" {
			t.Errorf("%s: alone it chooses %+v", name, c)
		}
	}
	if err := (&Placer{cfg: Config{Strategy: "geo", GeoIP: "nowhere.mmdb"}}).setUp(); err == nil {
		t.Error("a database that is not there is opened")
	}
	if err := (&Placer{cfg: Config{Strategy: "nearest"}}).setUp(); err == nil || !strings.Contains(err.Error(), "owner, random, rtt") {
		t.Errorf("a strategy that is not there: %v", err)
	}
}

// TestRecall: what the record of a host and the range of its site tell is not asked for again while
// it is fresh; what does not hold any more is.
func TestRecall(t *testing.T) {
	now := time.Now()
	base := owner.Place{
		Host: "h1.example", MeasuredAt: now.Add(-time.Minute),
		Measured: []owner.Measurement{{Peer: "a", RTTUs: 5000}, {Peer: "b", RTTUs: 7000}, {Peer: "c", Error: "refused"}},
	}
	old, anew := base, base
	old.MeasuredAt = now.Add(-time.Hour)
	anew.Remeasure = true
	for name, tt := range map[string]struct {
		place owner.Place
		want  string
	}{
		"of the record, the range's being newer": {base, "map[a:{5ms } b:{9ms }]"},
		"a record of long ago":                   {old, "map[b:{9ms }]"},
		"fetches have become slower":             {anew, "map[]"},
	} {
		pl := &Placer{deps: Deps{Now: time.Now}, cache: placement.NewCache(8, time.Minute)}
		pl.cache.Add(now, siteAddr, "b", placement.Measurement{RTT: 9 * time.Millisecond})
		pl.cache.Placed(siteAddr, "b")
		v := &placement.View{Now: now, Site: siteAddr, Measured: make(map[string]placement.Measurement)}
		pl.recall(&tt.place, v)
		if got := fmt.Sprint(v.Measured); got != tt.want || v.Known != "b" {
			t.Errorf("%s: %s, known %q; want %s", name, got, v.Known, tt.want)
		}
	}
}
