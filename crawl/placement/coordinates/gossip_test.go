package coordinates

import (
	"slices"
	"testing"
	"time"
)

func TestGossipAsksOneNeighbourEachTenSeconds(t *testing.T) {
	g := NewGossip(DefaultGossipConfig(), 1)
	if _, ok := g.Tick(start); ok {
		t.Error("asks without neighbours")
	}
	g.Meet([]string{"a", "b", "c"})
	asked := make(map[string]int)
	for s := range 600 {
		now := start.Add(time.Duration(s) * time.Second)
		if id, ok := g.Tick(now); ok {
			asked[id]++
			g.Reply(id, 20*time.Millisecond, &Coordinate{Height: 5, Error: 0.3})
		}
	}
	if asked["a"]+asked["b"]+asked["c"] != 60 || min(asked["a"], asked["b"], asked["c"]) < 10 {
		t.Errorf("asked %v in ten minutes, want 60 spread over all", asked)
	}
	if at := g.At(); at.Error >= 1 {
		t.Errorf("error %v after 60 answers", at.Error)
	}
}

func TestGossipUpAndDown(t *testing.T) {
	cfg := DefaultGossipConfig()
	g := NewGossip(cfg, 1)
	g.Meet([]string{"a", "b"})
	at := Coordinate{Height: 5, Error: 0.3}
	g.Reply("a", time.Millisecond, &at)
	g.Reply("b", time.Millisecond, &at)
	g.Failed("b")
	if _, ok := g.Of("b"); ok || !slices.Equal(g.Up(), []string{"a"}) {
		t.Errorf("up are %v after b failed", g.Up())
	}
	downs := 0
	now := start
	for range 2000 {
		now = now.Add(cfg.Every)
		id, _ := g.Tick(now)
		if id == "b" {
			downs++
			g.Failed("b")
		} else {
			g.Reply("a", time.Millisecond, &at)
		}
	}
	if downs < 60 || downs > 150 {
		t.Errorf("the one that is down is asked %d times of 2000, want about 100", downs)
	}
	g.Reply("b", time.Millisecond, &at)
	if _, ok := g.Of("b"); !ok {
		t.Error("b answered and is not up")
	}
	for id, ok := g.Tick(now.Add(cfg.Every)); !ok; id, ok = g.Tick(now.Add(cfg.Every)) {
		t.Fatalf("nobody is asked (%q)", id)
	}
	g.Tick(now.Add(cfg.Every + cfg.Timeout))
	if len(g.Up()) != 1 {
		t.Errorf("up are %v after one did not answer in time", g.Up())
	}
	g.Meet([]string{"c"})
	if _, ok := g.Of("a"); ok || !slices.Equal(g.Up(), []string{"c"}) {
		t.Errorf("up are %v after others were met", g.Up())
	}
	g.Reply("stranger", time.Millisecond, &at)
	if _, ok := g.Of("stranger"); ok {
		t.Error("a stranger is believed")
	}
}

func TestGossipShowsItsQueueAsHeight(t *testing.T) {
	cfg := DefaultGossipConfig()
	cfg.PerURL = 0.5
	g := NewGossip(cfg, 1)
	g.SetBacklog(100)
	at := g.At()
	far := Coordinate{Height: 10}
	if at.Queue != 50 || at.Cost(&far)-at.Distance(&far) != 50 {
		t.Errorf("100 URLs add %v ms, want 50", at.Queue)
	}
}
