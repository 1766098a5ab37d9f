package coordinates

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
)

// stands are peers whose coordinates are known.
type stands map[string]Coordinate

func (s stands) Of(id string) (Coordinate, bool) {
	c, ok := s[id]
	return c, ok
}

// TestNoChoiceByOneEstimator: the owner alone, which fetched a host while it was small, brings the
// error down, but not to a choice: every candidate that has a coordinate has a turn first, of many
// of them six. A candidate that is shut out has had its turn as well.
func TestNoChoiceByOneEstimator(t *testing.T) {
	now, site := time.Unix(1e9, 0), netip.MustParseAddr("192.0.2.1")
	for _, tt := range []struct {
		name               string
		placed, unknown    int    // candidates with and without a coordinate
		shut               string // who cannot download
		wantTurns, wantOwn int    // one-URL turns until the choice, of them the owner's
	}{
		{"two", 2, 0, "", 1, 0},
		{"four, and two that nobody knows", 4, 2, "", 3, 0},
		{"four, one shut out", 4, 0, "p2", 3, 0},
		{"twelve", 12, 0, "", enoughEstimators - 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := make(stands)
			v := &placement.View{Now: now, Host: "a.example", Site: site}
			for i := range tt.placed + tt.unknown {
				id := fmt.Sprint("p", i)
				v.Candidates = append(v.Candidates, placement.Candidate{Peer: id, Self: i == 0})
				if i < tt.placed {
					at[id] = Coordinate{Vec: [Dimensions]float64{float64(i)}, Height: 1, Error: 0.1}
				}
			}
			cfg := DefaultConfig()
			cfg.Theta, cfg.Term = 1, 0 // any error will do
			s := New(cfg, at, 1)
			fetch := func(by string) {
				s.Observe(&placement.Fetch{At: now, Host: v.Host, Site: site, Worker: by, Took: 40 * time.Millisecond, Failed: by == tt.shut})
			}
			for range 50 {
				fetch("p0")
			}
			turns := make(map[string]int)
			c := s.Next(v)
			for ; c.URLs == 1 && len(turns) <= tt.placed; c = s.Next(v) {
				turns[c.Worker]++
				fetch(c.Worker)
			}
			if len(turns) != tt.wantTurns || turns["p0"] != tt.wantOwn || c.URLs != 0 {
				t.Errorf("turns %v, then %+v; want %d others with one each", turns, c, tt.wantTurns)
			}
		})
	}
}

// TestNoChoiceAgainstTheDownloads: a server whose distance went into its height, as all downloads
// were the owner's, is nearest in the space to whoever is nearest to the middle. It is not placed
// there while another candidate is known to be quicker, and in the end it is placed at that one.
func TestNoChoiceAgainstTheDownloads(t *testing.T) {
	now, site := time.Unix(1e9, 0), netip.MustParseAddr("192.0.2.1")
	at := stands{
		"middle": {Vec: [Dimensions]float64{5}, Height: 1, Error: 0.1},
		"owner":  {Vec: [Dimensions]float64{100}, Height: 1, Error: 0.1},
		"far":    {Vec: [Dimensions]float64{-90, 60}, Height: 1, Error: 0.1},
	}
	takes := map[string]time.Duration{"middle": 160 * time.Millisecond, "owner": 80 * time.Millisecond, "far": 250 * time.Millisecond}
	v := &placement.View{Now: now, Host: "a.example", Site: site, Candidates: []placement.Candidate{{Peer: "owner", Self: true}, {Peer: "middle"}, {Peer: "far"}}}
	cfg := DefaultConfig()
	cfg.Term = 0
	s := New(cfg, at, 1)
	fetch := func(by string) {
		s.Observe(&placement.Fetch{At: now, Host: v.Host, Site: site, Worker: by, Took: takes[by]})
	}
	for range 9 {
		fetch("owner")
	}
	c, turns := s.Next(v), 0
	for ; c.URLs == 1 && turns < cfg.MaxUpdates; c = s.Next(v) {
		turns++
		fetch(c.Worker)
	}
	if c.Worker != "owner" || c.URLs != 0 || turns < 2 || turns > 100 {
		t.Errorf("after %d turns %+v; want the owner after some", turns, c)
	}
}
