package main

import "testing"

// TestCrawl checks that the job of a simulated owner ends without a forged page, that all liars are
// found, and that without checks all forged pages stay.
func TestCrawl(t *testing.T) {
	s := shape{rate: checkRate, workers: 8, liars: 2, lies: 0.5, pages: 400, hostPages: 20, parallel: 4, seed: 1}
	r, err := crawl(t.Context(), s)
	if err != nil || r.pages != 400 || r.forged != 0 || r.found != 2 || r.wrong != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	s.rate = 0
	if r, err = crawl(t.Context(), s); err != nil || r.forged < 20 || r.requests != 400 {
		t.Errorf("without checks: %+v, %v", r, err)
	}
}
