package sim

import (
	"testing"
	"time"
)

func runCrawl(t *testing.T, cfg CrawlConfig) *CrawlReport {
	t.Helper()
	r, err := RunCrawl(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d born, %d died; truth %d, found %d, lost %d, extra %d; %+v; %d lapsed, %d broken off; %d records moved; finished %v after %v; %d events",
		r.Born, r.Died, r.Truth, r.Found, r.Lost, r.Extra, r.SiteAudit, r.Lapsed, r.Broken, r.Moved, r.Finished, r.Took, r.Events)
	for p := range Purposes {
		t.Logf("%s: %d calls, %.0f bytes a page", p, r.Sent[p].Calls, float64(r.Sent[p].Bytes)/float64(max(r.Found, 1)))
	}
	if len(r.LostURLs) > 0 {
		t.Logf("lost: %v", r.LostURLs)
	}
	return r
}

func TestEveryPageOnceWithoutChurn(t *testing.T) {
	r := runCrawl(t, CrawlConfig{Seed: 3, Peers: 12, Hosts: 12, PagesPerHost: 40, Delay: 2 * time.Second, For: 2 * time.Minute, Session: -1})
	if r.Lost != 0 || r.Extra != 0 || r.Refetched != 0 || r.Overlaps != 0 || r.Impolite != 0 || !r.Finished || r.Found == 0 {
		t.Errorf("%+v", r)
	}
}

func TestNothingLostUnderChurn(t *testing.T) {
	r := runCrawl(t, CrawlConfig{Seed: 5, Peers: 24, Hosts: 24, Delay: 4 * time.Second, For: 10 * time.Minute, Session: 15 * time.Minute})
	if r.Died < 3 || r.Born < 3 {
		t.Errorf("%d died, %d born: no churn", r.Died, r.Born)
	}
	if r.Lost != 0 || r.Extra != 0 || r.Overlaps != 0 || r.Impolite != 0 || !r.Finished || r.Refetched*50 > r.Requests {
		t.Errorf("%+v", r.SiteAudit)
	}
}
