package adaptive

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
)

// taught returns a strategy that has placed so many sites of a plane.
func taught(t *testing.T, p *plane, sites int, seed uint64) *Strategy {
	t.Helper()
	s := New(seed)
	for i := range sites {
		addr, ms := p.site()
		place(t, s, view(fmt.Sprint("taught", i), addr, len(p.peers)), ms)
	}
	return s
}

// TestFirstSitesAreMeasuredByAll: where peers know nothing of each other.
func TestFirstSitesAreMeasuredByAll(t *testing.T) {
	p, s := newPlane(1, 5, 10, true), New(0)
	for i := range newcomer {
		addr, ms := p.site()
		if _, n := place(t, s, view(fmt.Sprint("h", i), addr, 5), ms); n != 5 {
			t.Errorf("site %d was measured by %d of 5", i, n)
		}
	}
}

func TestEdges(t *testing.T) {
	p := newPlane(1, 5, 10, true)
	s := taught(t, p, 80, 0)
	addr, ms := p.site()
	t.Run("no candidates", func(t *testing.T) {
		if c := s.Next(&placement.View{}); c.Worker != "" || len(c.Probe) != 0 || c.Why == "" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("alone", func(t *testing.T) {
		if c, n := place(t, s, view("alone", addr, 1), ms); c.Worker != name(0) || n != 0 {
			t.Errorf("%+v after %d probes", c, n)
		}
	})
	t.Run("small hosts are not probed", func(t *testing.T) {
		v := view("small", addr, 5)
		v.URLs = 1
		if c, n := place(t, s, v, ms); c.Worker == "" || n != 0 {
			t.Errorf("%+v after %d probes", c, n)
		}
	})
	t.Run("small hosts stay where nothing is known", func(t *testing.T) {
		v := view("small", addr, 5)
		v.URLs = 1
		if c, n := place(t, New(0), v, ms); c.Worker != name(0) || n != 0 {
			t.Errorf("%+v after %d probes", c, n)
		}
	})
	t.Run("nobody reaches the site", func(t *testing.T) {
		if c, n := place(t, s, view("down", addr, 5), []float64{-1, -1, -1, -1, -1}); c.Worker != name(0) {
			t.Errorf("%+v after %d probes, want the owner", c, n)
		}
	})
	t.Run("who cannot reach it is out", func(t *testing.T) {
		first, _ := place(t, s, view("up", addr, 5), ms)
		without := slices.Clone(ms)
		without[index(first)] = -1
		v := view("half down", addr, 5)
		v.Measured[first.Worker] = placement.Measurement{Err: "refused"}
		if c, _ := place(t, s, v, without); c.Worker == first.Worker {
			t.Errorf("%+v", c)
		}
	})
	t.Run("an overloaded one is passed over", func(t *testing.T) {
		first, _ := place(t, s, view("idle", addr, 5), ms)
		v := view("busy", addr, 5)
		v.Candidates[index(first)].Capacity, v.Candidates[index(first)].Backlog = 100, 99
		if c, _ := place(t, s, v, ms); c.Worker == first.Worker {
			t.Errorf("%+v", c)
		}
	})
}

func TestTheSameSiteNeedsFewProbesAgain(t *testing.T) {
	p := newPlane(5, 12, 60, true)
	s := taught(t, p, 200, 0)
	probes := 0
	for i := range 20 {
		addr, ms := p.site()
		place(t, s, view(fmt.Sprint("first", i), addr, 12), ms)
		_, n := place(t, s, view(fmt.Sprint("again", i), addr, 12), ms)
		probes += n
	}
	if probes > 30 {
		t.Errorf("%d probes of 20 sites at addresses that were placed before", probes)
	}
}

// TestNewcomers: a peer that nobody has met is measured along with others, and wins what it is
// nearest to. One that left is not missed.
func TestNewcomers(t *testing.T) {
	p := newPlane(7, 6, 40, true)
	s := taught(t, p, 120, 0)
	near := func() (share float64) {
		for i := range 60 {
			addr, ms := p.site()
			least := 5
			for k := 1; k < 6; k++ {
				if ms[k] < ms[least] {
					least = k
				}
			}
			v := view(fmt.Sprint("new", i), addr, 6)
			v.Candidates = v.Candidates[1:] // peer00 left
			v.Candidates[4].Peer = "peer05 came"
			truth := slices.Clone(ms)
			c, _ := place(t, s, v, truth)
			if ms[index(c)] <= ms[least]+1 {
				share += 1.0 / 60
			}
		}
		return share
	}
	near()
	if share := near(); share < 0.8 {
		t.Errorf("%.2f at their nearest after a peer came and one left", share)
	}
}

func TestSamplesTeach(t *testing.T) {
	p := newPlane(9, 12, 40, true)
	teacher, student := New(0), New(1)
	for i := range 200 {
		addr, ms := p.site()
		place(t, teacher, view(fmt.Sprint("h", i), addr, 12), ms)
		for _, l := range teacher.Samples() {
			if l.Site != addr || l.Of != 12 || len(l.RTTs) != l.Asked {
				t.Fatalf("sample %+v", l)
			}
			student.Learn(at0, &l)
		}
	}
	if again := teacher.Samples(); len(again) != 0 {
		t.Errorf("%d samples are told twice", len(again))
	}
	right, probes := 0, 0
	for i := range 50 {
		addr, ms := p.site()
		c, n := place(t, student, view(fmt.Sprint("own", i), addr, 12), ms)
		probes += n
		if ms[index(c)] <= slices.Min(ms)+1 {
			right++
		}
	}
	if right < 43 || probes > 150 {
		t.Errorf("%d of 50 right with %d probes, though another had learnt", right, probes)
	}
	student.Learn(at0, &Sample{Host: "odd", RTTs: []PeerRTT{{"peer00", -1}, {"peer01", 0}, {"peer02", time.Hour}}})
	if m := student.memories.find("odd"); m != nil {
		t.Errorf("round trips that cannot be were believed: %+v", m)
	}
}

// TestSlowWorkersAreLeft is adaptation: downloads of one worker take five times as long, for all
// its hosts, and a minute later it gets no more.
func TestSlowWorkersAreLeft(t *testing.T) {
	p := newPlane(11, 6, 30, true)
	s := taught(t, p, 150, 0)
	now := time.Unix(5000, 0)
	fetch := func(host string, addr netip.Addr, worker string, ms, slow float64) {
		took := slow * (trips(20000)*ms + 50)
		s.Observe(&placement.Fetch{At: now, Host: host, Site: addr, Worker: worker, Took: time.Duration(took * float64(time.Millisecond)), Bytes: 20000})
	}
	given := func(minutes int, slow bool) (times int) {
		for i := range 60 * minutes {
			now = now.Add(time.Second)
			addr, ms := p.site()
			v := view(fmt.Sprint("h", now.Unix()), addr, 6)
			v.Now = now
			c, _ := place(t, s, v, ms)
			if c.Worker == name(2) && i >= 60*(minutes-1) {
				times++
			}
			factor := 1.0
			if slow && c.Worker == name(2) {
				factor = 5
			}
			for range 3 {
				fetch(v.Host, addr, c.Worker, ms[index(c)], factor)
			}
		}
		return times
	}
	before := given(2, false)
	if before == 0 {
		t.Fatal("the peer is nobody's nearest")
	}
	if during := given(2, true); during*4 > before {
		t.Errorf("%d hosts a minute when it was fast, %d when it was slow for a minute", before, during)
	}
	now = now.Add(paceAge)
	if after := given(2, false); after*2 < before {
		t.Errorf("%d hosts a minute before, %d when it had recovered", before, after)
	}
}

// TestSlowerSitesAreLookedAtAnew: where downloads have become slower the worker measures again, and
// what was remembered of the site does not stand in the way.
func TestSlowerSitesAreLookedAtAnew(t *testing.T) {
	p := newPlane(13, 6, 30, true)
	s := taught(t, p, 150, 0)
	moved, stayed := 0, 0
	const sites = 30
	for i := range sites {
		addr, ms := p.site()
		host := fmt.Sprint("h", i)
		first, _ := place(t, s, view(host, addr, 6), ms)
		v := view(host, addr, 6)
		v.Anew, v.Known = true, first.Worker
		if i%2 == 0 { // the way of the worker has got longer, and not that of others
			ms[index(first)] += 300
		}
		c, _ := place(t, s, v, ms)
		if _, asked := v.Measured[first.Worker]; !asked {
			t.Errorf("%s: the worker that became slow was not asked", host)
		}
		switch {
		case i%2 == 0 && c.Worker != first.Worker:
			moved++
		case i%2 == 1 && ms[index(c)] <= ms[index(first)]+1:
			stayed++
		}
	}
	if moved < sites/2 || stayed < sites/2-1 {
		t.Errorf("%d of %d that are far off now were moved, %d of %d stayed well off", moved, sites/2, stayed, sites/2)
	}
}

// TestSlower: a worker is compared with itself, host by host, whatever the differences between its
// hosts; stalls of a few do not count, and one host that finds it as before is enough to forget.
func TestSlower(t *testing.T) {
	begun := time.Unix(5000, 0)
	usual := func(h int) float64 { return 40 * math.Exp2(float64(h)) } // ms: from 40 to 5,000
	tests := map[string]struct {
		hosts  int
		factor func(host, round int) float64 // of the downloads in the last rounds
		slow   bool
	}{
		"as before":          {8, func(int, int) float64 { return 1 }, false},
		"five times as slow": {8, func(int, int) float64 { return 5 }, true},
		"too few hosts":      {4, func(int, int) float64 { return 5 }, false},
		"three of eight":     {8, func(h, _ int) float64 { return map[bool]float64{true: 9, false: 1}[h < 3] }, false},
		"one stall each":     {8, func(h, round int) float64 { return map[bool]float64{true: 20, false: 1}[h == round] }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var p pace
			now := begun
			fetch := func(rounds int, factor func(h, round int) float64) {
				for round := range rounds {
					now = now.Add(5 * time.Second)
					for h := range tt.hosts {
						p.add(fmt.Sprint(h), now, usual(h)*factor(h, round))
					}
				}
			}
			fetch(20, func(int, int) float64 { return 1 })
			if got := p.slower(now); got != 0 {
				t.Fatalf("%v ms later than usual before anything happened", got)
			}
			fetch(4, tt.factor)
			got := p.slower(now)
			if got > 0 != tt.slow {
				t.Errorf("%v ms later than usual", got)
			}
			if !tt.slow {
				return
			}
			if later := p.slower(now.Add(2 * paceHalf)); later < got/5 || later > got/3 {
				t.Errorf("%v ms when nobody has tried for a while, %v before", later, got)
			}
			now = now.Add(2 * paceHalf)
			p.add("3", now, usual(3)*5)
			if again := p.slower(now); again < usual(3)*2 {
				t.Errorf("%v ms when a host has tried it again", again)
			}
			p.add("3", now.Add(paceAge), usual(3))
			if recovered := p.slower(now.Add(paceAge)); recovered > 0 {
				t.Errorf("%v ms when a host found it as before", recovered)
			}
		})
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s := New(0)
	s.memories = newMemories(20, 8)
	s.belief.memories = s.memories
	for round := range 10 {
		p := newPlane(uint64(round), 6, 1000, true) // not negative
		for i := range 20 {
			addr, ms := p.site()
			v := view(fmt.Sprint(round, "h", i), addr, 6)
			for k := range v.Candidates {
				v.Candidates[k].Peer = fmt.Sprintf("peer%02d of round %d", k, round)
			}
			place(t, s, v, ms)
		}
	}
	if len(s.memories.all) > 20 || len(s.memories.index) > 20 || len(s.memories.columns) > 8 || len(s.asked) > 0 {
		t.Errorf("%d sites, %d keys, %d peers, %d unfinished", len(s.memories.all), len(s.memories.index), len(s.memories.columns), len(s.asked))
	}
	for i, m := range s.memories.all {
		if s.memories.index[m.key] != i {
			t.Errorf("memory %d lies at %d", i, s.memories.index[m.key])
		}
	}
	for range 2 * maxSamples {
		s.teach(&question{view: view("h", netip.Addr{}, 2)}, 0, true)
	}
	if n := len(s.Samples()); n != maxSamples {
		t.Errorf("%d samples wait", n)
	}
}

func TestTheSameSeedChoosesTheSame(t *testing.T) {
	run := func() (log []string) {
		p := newPlane(2, 8, 30, true)
		s := New(4)
		for i := range 80 {
			addr, ms := p.site()
			c, n := place(t, s, view(fmt.Sprint("h", i), addr, 8), ms)
			log = append(log, fmt.Sprint(c, n))
		}
		return log
	}
	if first, second := run(), run(); !slices.Equal(first, second) {
		t.Error("two runs differ")
	}
}

func TestHints(t *testing.T) {
	a, b, far, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8::1")
	shared := func(x, y netip.Addr) (kinds []hint) {
		h, g := hintsOf(x), hintsOf(y)
		for k := range h {
			if h[k] != 0 && h[k] == g[k] {
				kinds = append(kinds, hint(k))
			}
		}
		return kinds
	}
	for name, tt := range map[string]struct {
		x, y netip.Addr
		want []hint
	}{
		"one /24":          {a, b, []hint{sameSubnet, sameSite, sameBlock, sameRegistry, anywhere}},
		"nothing":          {a, far, []hint{anywhere}},
		"two families":     {a, six, []hint{anywhere}},
		"no address":       {a, netip.Addr{}, []hint{anywhere}},
		"mapped into IPv6": {a, netip.AddrFrom16(a.As16()), []hint{sameAddress, sameSubnet, sameSite, sameBlock, sameRegistry, anywhere}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := shared(tt.x, tt.y); !slices.Equal(got, tt.want) {
				t.Errorf("share %v, want %v", got, tt.want)
			}
		})
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, peers := range []int{12, 64} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			p := newPlane(1, peers, 5000, true)
			s := New(0)
			one := func(i int) {
				addr, ms := p.site()
				v := view(fmt.Sprint("h", i), addr, peers)
				for c := s.Next(v); c.Worker == ""; c = s.Next(v) {
					for _, w := range c.Probe {
						var k int
						fmt.Sscanf(w, "peer%d", &k)
						v.Measured[w] = placement.Measurement{RTT: time.Duration(ms[k] * float64(time.Millisecond))}
					}
				}
			}
			for i := range 2500 {
				one(i)
			}
			i := 2500
			for b.Loop() {
				one(i)
				i++
			}
		})
	}
}

// at0 is the time of a view.
var at0 = time.Unix(1000, 0)

// met returns a strategy that knows where the peers of a plane are, and nothing else.
func met(p *plane, seed uint64) *Strategy {
	s := New(seed)
	for i, at := range p.peers {
		var rtts []PeerRTT
		for k, to := range p.peers {
			if k != i {
				rtts = append(rtts, PeerRTT{name(k), time.Duration((2 + math.Hypot(at[0]-to[0], at[1]-to[1])) * float64(time.Millisecond))})
			}
		}
		own := PeerSample(name(i), netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), rtts)
		s.Learn(at0, &own)
	}
	return s
}

// TestConnectionsTeach: whoever fetched from a site need not probe it, nor need the owners that are
// told; what its place says already is no news, but a shorter way is.
func TestConnectionsTeach(t *testing.T) {
	s, other := met(newPlane(5, 6, 10, true), 0), met(newPlane(5, 6, 10, true), 1)
	site, beside, far := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("203.0.113.8"), netip.MustParseAddr("198.51.100.1")
	news := func(host string, at netip.Addr, ms int) (told int) {
		s.Connected(at0, host, at, name(2), time.Duration(ms)*time.Millisecond)
		for _, l := range s.Samples() {
			if l.Of != 0 || len(l.RTTs) != 1 {
				t.Errorf("sample %+v", l)
			}
			other.Learn(at0, &l)
			told++
		}
		return told
	}
	for i, want := range []int{news("h", site, 30) - 1, news("h", site, 60), news("h", site, 30), news("beside", beside, 31), news("h", site, 12) - 1, news("far", far, 31) - 1, news("odd", far, -1)} {
		if want != 0 {
			t.Errorf("connection %d: %+d samples", i, want)
		}
	}
	for _, s := range []*Strategy{s, other} {
		v := view("h", site, 6)
		s.Next(v)
		if m, ok := v.Measured[name(2)]; !ok || m.RTT.Round(time.Millisecond) != 12*time.Millisecond {
			t.Errorf("what the worker met is %v, %v", m, ok)
		}
		v = view("h", site, 6)
		v.Anew = true
		if s.Next(v); len(v.Measured) > 0 {
			t.Error("where downloads became slower, what was met before counts")
		}
	}
	v := view("h", site, 6)
	v.Now = at0.Add(measuredAge + time.Second)
	if s.Next(v); len(v.Measured) > 0 {
		t.Error("what was met long ago counts as measured")
	}
	s.Connected(v.Now, "far", far, name(2), 90*time.Millisecond)
	if n := len(s.Samples()); n != 1 {
		t.Errorf("%d samples of a way that has got longer since", n)
	}
	if placed := s.placed; placed != 0 {
		t.Errorf("%v sites were placed, though connections alone were told", placed)
	}
}

// TestTrials: a site with pages enough goes for one page each to those who may be nearer, and ends
// with the nearest; a small one is fetched by whoever has it, and nothing is tried for ever.
func TestTrials(t *testing.T) {
	p := newPlane(21, 8, 200, true)
	s := met(p, 0)
	right, trials := 0, 0
	const sites = 40
	for i := range sites {
		addr, ms := p.site()
		host := fmt.Sprint("h", i)
		for urls := int64(24); ; urls -= trial {
			v := view(host, addr, 8)
			v.URLs = urls
			s.price = [2]float64{1, 1} // no probe is worth it
			c, probes := place(t, s, v, ms)
			if probes > 0 || c.URLs != 0 && c.URLs != trial {
				t.Fatalf("%+v after %d probes", c, probes)
			}
			k := index(c)
			if _, measured := v.Measured[c.Worker]; c.URLs == 0 || measured {
				if c.URLs != 0 {
					t.Errorf("%s, who has measured, is tried", c.Worker)
				}
				if ms[k] <= slices.Min(ms)+1 {
					right++
				}
				break
			}
			if trials++; urls < 24-8*trial {
				t.Fatal("trials without end")
			}
			if i%8 == 0 {
				continue // it did not reach the site
			}
			s.Connected(at0, host, addr, c.Worker, time.Duration(ms[k]*float64(time.Millisecond)))
		}
		v := view(fmt.Sprint("small", i), addr, 8)
		v.URLs = 1
		s.price = [2]float64{1, 1}
		if c, n := place(t, s, v, ms); n > 0 || c.URLs != 0 {
			t.Errorf("a site of one page: %+v after %d probes", c, n)
		}
	}
	if right < sites*7/10 || trials == 0 || trials > 5*sites {
		t.Errorf("%d of %d sites at their nearest after %d trials", right, sites, trials)
	}
}

// TestNearToAll: a site that is as near to everybody, as a network of caches is, is not probed, and
// goes to its owner, or to who has least in hand.
func TestNearToAll(t *testing.T) {
	p := newPlane(23, 5, 10, true)
	s := met(p, 0)
	near := func(i int) *placement.View {
		v := view(fmt.Sprint("cache", i), netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 5)
		for k := range v.Candidates {
			v.Candidates[k].Capacity, v.Candidates[k].Backlog = 100, uint32(10*(5-k)) // small
		}
		return v
	}
	ms := []float64{2, 2.1, 2.2, 2.1, 2}
	for i := range 40 {
		v := near(i)
		for k := range ms { // the first ones were measured by all
			v.Measured[name(k)] = placement.Measurement{RTT: time.Duration(ms[k] * float64(time.Millisecond))}
		}
		s.asked[v.Host] = len(ms)
		s.Next(v)
	}
	v := near(100)
	if c, n := place(t, s, v, ms); c.Worker != name(0) || n != 0 {
		t.Errorf("went to %s after %d probes, want its owner", c.Worker, n)
	}
	v = near(101)
	v.Candidates[0].Backlog = 95
	if c, n := place(t, s, v, ms); c.Worker != name(4) || n != 0 {
		t.Errorf("went to %s after %d probes, want who has least in hand", c.Worker, n)
	}
}

// TestPeersComeAndGo: half of the peers are candidates, others for each site, and what those who
// are there measure also says how far those are who are away.
func TestPeersComeAndGo(t *testing.T) {
	const peers, trained, judged = 24, 500, 300
	p, s := newPlane(7, peers, 40, true), New(7)
	right, late := 0, 0.0
	for i := range trained + judged {
		addr, ms := p.site()
		v := view(fmt.Sprint("h", i), addr, peers)
		p.rnd.Shuffle(peers, func(i, k int) { v.Candidates[i], v.Candidates[k] = v.Candidates[k], v.Candidates[i] })
		v.Candidates = v.Candidates[:peers/2]
		c, _ := place(t, s, v, ms)
		least := math.Inf(1)
		for _, c := range v.Candidates {
			var k int
			fmt.Sscanf(c.Peer, "peer%d", &k)
			least = min(least, ms[k])
		}
		if beyond := ms[index(c)] - least; i >= trained {
			late += beyond / judged
			if beyond < 1 {
				right++
			}
		}
	}
	t.Logf("%d of %d, %.2f ms", right, judged, late)
	if right < judged*8/10 || late > 2 {
		t.Errorf("%d of %d with the nearest that is there, %.2f ms beyond it in the mean", right, judged, late)
	}
}
