package sim

import (
	"flag"
	"reflect"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/lab/internet"
)

func runCrawl(t *testing.T, cfg CrawlConfig) *CrawlReport {
	t.Helper()
	if raceEnabled {
		t.Skip("a simulation has one goroutine, and the detector makes it slow")
	}
	r, err := RunCrawl(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d born, %d died, %d returned; truth %d, found %d, lost %d, extra %d; %+v; %d lapsed, %d broken off; %d records moved; finished %v after %v",
		r.Born, r.Died, r.Returned, r.Truth, r.Found, r.Lost, r.Extra, r.SiteAudit, r.Lapsed, r.Broken, r.Moved, r.Finished, r.Took)
	for p := range Purposes {
		t.Logf("%s: %d calls, %.0f bytes a page", Word(p), r.Sent[p].Calls, float64(r.Sent[p].Bytes)/float64(max(r.Found, 1)))
	}
	return r
}

func TestEveryPageOnceWithoutChurn(t *testing.T) {
	r := runCrawl(t, CrawlConfig{Seed: 3, Peers: 12, Hosts: 12, PagesPerHost: 40, Delay: 2 * time.Second, For: 2 * time.Minute, Session: -1})
	if r.Lost != 0 || r.Extra != 0 || r.Refetched != 0 || r.Overlaps != 0 || r.Impolite != 0 || !r.Finished || r.Found < 12*30 {
		t.Errorf("%+v, lost %v", r.SiteAudit, r.LostURLs)
	}
}

func TestNothingLostUnderChurn(t *testing.T) {
	unraced(t)
	cfg := CrawlConfig{Seed: 5, Peers: 16, Hosts: 16, Delay: 4 * time.Second, For: 6 * time.Minute, Session: 10 * time.Minute}
	r := runCrawl(t, cfg)
	if r.Died < 3 || r.Born < 3 || r.Moved == 0 {
		t.Errorf("%d died, %d born, %d records moved: no churn", r.Died, r.Born, r.Moved)
	}
	if r.Lost != 0 || r.Extra != 0 || r.Overlaps != 0 || r.Impolite != 0 || !r.Finished || r.Refetched*50 > r.Requests {
		t.Errorf("%+v, lost %v", r.SiteAudit, r.LostURLs)
	}
	if again := runCrawl(t, cfg); !reflect.DeepEqual(r, again) {
		t.Error("the same seed gave another run")
	}
}

// The size of TestCrawlUnderChurn; docs/benchmarks.md has figures of 1,000 peers for two hours.
var (
	manyPeers = flag.Int("peers", 0, "peers of TestCrawlUnderChurn")
	manyHours = flag.Float64("hours", 2, "virtual hours of churn")
	manySeed  = flag.Uint64("seed", 1, "seed of all random draws")
)

// TestCrawlUnderChurn simulates -peers peers and logs the figures. A quarter of the dead peers
// returns with its disk. Two hours of 1,000 peers take about twenty minutes and 4 GiB.
func TestCrawlUnderChurn(t *testing.T) {
	if *manyPeers == 0 {
		t.Skip("-peers is not set")
	}
	r := runCrawl(t, CrawlConfig{Seed: *manySeed, Peers: *manyPeers, For: time.Duration(*manyHours * float64(time.Hour)), Return: 0.25})
	if r.Lost != 0 || r.Extra != 0 || r.Overlaps != 0 || !r.Finished {
		t.Errorf("%+v, lost %v", r.SiteAudit, r.LostURLs)
	}
}

// TestReturnAfterAbsence has every dead peer come back with its disk, which knows what was true
// when it died.
func TestReturnAfterAbsence(t *testing.T) {
	r := runCrawl(t, CrawlConfig{
		Seed: 6, Peers: 16, Hosts: 16, Delay: 4 * time.Second, For: 6 * time.Minute, Session: 8 * time.Minute, Return: 1, Absence: time.Minute,
	})
	if r.Returned < 3 {
		t.Errorf("%d returned", r.Returned)
	}
	if r.Lost != 0 || r.Extra != 0 || r.Overlaps != 0 || r.Impolite != 0 || !r.Finished || r.Refetched*50 > r.Requests {
		t.Errorf("%+v, lost %v", r.SiteAudit, r.LostURLs)
	}
}

// TestWithoutReplicasPagesAreLost shows that it is the replicas that keep what the dead knew, and
// that a loss is seen.
func TestWithoutReplicasPagesAreLost(t *testing.T) {
	r := runCrawl(t, CrawlConfig{Seed: 5, Peers: 16, Hosts: 16, Delay: 4 * time.Second, For: 4 * time.Minute, Session: 10 * time.Minute, Replicas: 1})
	if r.Lost == 0 || r.Refetched == 0 {
		t.Errorf("%d died, %d lost, %d fetched again", r.Died, r.Lost, r.Refetched)
	}
}

// TestLostPageIsReported takes a host away from its owner after the crawl.
func TestLostPageIsReported(t *testing.T) {
	r := runCrawl(t, CrawlConfig{
		Seed: 3, Peers: 4, Hosts: 4, PagesPerHost: 20, Delay: time.Second, For: time.Minute, Session: -1,
		plant: func(w *crawl) {
			key := ring.HostKey("h2." + crawlDomain)
			pos := ring.PosOf(key)
			o := w.byID[w.Truth(key).Peer.ID].owner
			o.Begin(w.Now())
			o.Remove(pos, ring.Pos(append(pos[:len(pos)-1:len(pos)-1], pos[len(pos)-1]+1)))
			if _, err := o.Commit(); err != nil {
				w.fail(err)
			}
		},
	})
	if r.Lost < 10 || r.Lost+r.Found != r.Truth || len(r.LostURLs) == 0 {
		t.Errorf("lost %d of %d", r.Lost, r.Truth)
	}
}

func TestServersNoticeWhatIsWrong(t *testing.T) {
	net := dhtsim.NewNetwork(new(dhtsim.Clock), internet.Synthetic(1), 1)
	one, two := net.NewHost(1), net.NewHost(2)
	one.Start()
	two.Start()
	const host, url = "h0.web.localhost", "http://h0.web.localhost/"
	late := func() time.Duration { return time.Hour }
	for name, c := range map[string]struct {
		crawl func(s *sites)
		want  SiteAudit
	}{
		"as it should be": {func(s *sites) {
			s.end(1*time.Second, host, s.begin(0, host, one, late))
			s.begin(11*time.Second, host, two, late)
		}, SiteAudit{}},
		"the same worker paces itself": {func(s *sites) {
			s.end(1*time.Second, host, s.begin(0, host, one, late))
			s.begin(2*time.Second, host, one, late)
		}, SiteAudit{}},
		"another one too soon": {func(s *sites) {
			s.end(1*time.Second, host, s.begin(0, host, one, late))
			s.begin(2*time.Second, host, two, late)
		}, SiteAudit{Impolite: 1}},
		"two at once": {func(s *sites) {
			s.begin(0, host, one, late)
			s.begin(20*time.Second, host, two, late)
		}, SiteAudit{Overlaps: 1}},
		"one that was broken off": {func(s *sites) {
			s.begin(0, host, one, func() time.Duration { return 5 * time.Second })
			s.begin(20*time.Second, host, two, late)
		}, SiteAudit{}},
		"fetched twice": {func(s *sites) {
			s.get(url)
			s.get(url)
		}, SiteAudit{Requests: 2, Refetched: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSites(webgen.Config{Seed: 1, Hosts: 2, PagesPerHost: 10, Links: 3, PageBytes: 300}, 10*time.Second)
			c.crawl(s)
			if s.audit != c.want {
				t.Errorf("%+v, want %+v", s.audit, c.want)
			}
		})
	}
}
