package placement

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// TestToday checks the world: half the sites are behind caches near to most peers, half the peers
// are present, only these own sites or are candidates, and routes vary as specified.
func TestToday(t *testing.T) {
	trialtest.Unraced(t)
	const peers, sites = 24, 400
	net := internet.Synthetic(5)
	tree, err := ipmicra.Build(net.Hierarchy())
	if err != nil {
		t.Fatal(err)
	}
	setup := &placementSetup{peers: peers, sites: sites, pages: 10, span: todayHours * time.Hour, today: true}
	w, err := newPlacementWorld(net, tree, worlds.NewAddresses(&trial.Options{Seed: 5}, net), rand.New(rand.NewPCG(5, 5)), setup)
	if err != nil {
		t.Fatal(err)
	}
	cached, present, near, far := 0, 0, 0.0, 0.0
	for i := range w.sites {
		s := &w.sites[i]
		present += len(s.present)
		for _, k := range w.candidates(s, true) {
			if !w.here(k, s.found) {
				t.Errorf("%s: peer %d is a candidate and away", s.name, k)
			}
			if s.cached {
				near += s.rtt[k].Seconds()
			} else {
				far += s.rtt[k].Seconds()
			}
		}
		if !w.here(s.owner, s.found) {
			t.Errorf("%s: its owner is away", s.name)
		}
		if s.cached {
			cached++
			if p, ok := w.tree.Locate(s.addr); !ok || p.Organisation == "" {
				t.Errorf("%s at %v: registered as %+v", s.name, s.addr, p)
			}
		}
	}
	if share := float64(cached) / sites; math.Abs(share-cachedShare) > 0.1 {
		t.Errorf("%.2f of the sites are behind caches", share)
	}
	if mean := float64(present) / float64(len(w.sites)); mean < peers/4 || mean > peers*3/4 {
		t.Errorf("%.1f of %d peers are there in the mean", mean, peers)
	}
	if near > far/2 {
		t.Errorf("caches are as far as other sites: %.1f s of %.1f s in sum", near, far)
	}
	off, n := 0.0, 0
	for peer := range peers {
		for place := range 50 {
			for hour := range time.Duration(todayHours) {
				change := math.Abs(math.Log(w.today.drift(peer, place, hour*time.Hour)))
				if off, n = off+change, n+1; change > 1 {
					t.Errorf("a way differs by a factor of %.1f", math.Exp(change))
				}
			}
		}
	}
	if mean := off / float64(n); mean < 0.01 || mean > 0.06 {
		t.Errorf("ways differ by %.3f in the mean", mean)
	}
}

// TestTodayIsPlaced checks that every strategy crawls all sites, and that samples outlive their
// sender.
func TestTodayIsPlaced(t *testing.T) {
	trialtest.Unraced(t)
	table, _ := trialtest.Run(t, &Today, trial.Options{Seed: 2, Quick: true, Sites: 250, Hours: 8})
	for row, least := range map[string]float64{"rtt": 0.95, "adaptive": 0.75, "oracle": 1} {
		if got, ok := table.Find(row, "optimal"); !ok || got < least {
			t.Errorf("%s: %.2f optimal, want %.2f or more", row, got, least)
		}
	}
}
