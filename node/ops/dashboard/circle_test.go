package dashboard

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
)

func TestRingCloses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Circle)
		peers  int
		state  string
		share  float64
		known  bool
	}{
		"alone":      {func(*Circle) {}, 1, "peer", 0, true},
		"closed":     {func(*Circle) {}, 8, "peers", 0, true},
		"a dead one": {func(c *Circle) { c.Others, c.Size = c.Others[1:], 7 }, 8, "peers", 0.125, true},
		"taken over": {func(c *Circle) {
			c.Others[1].ArcFrom = c.Others[0].ArcFrom
			c.Others, c.Size = c.Others[1:], 7
		}, 8, "peers", 0, true},
		"one joins":     {func(c *Circle) { c.Others[3].Serves = false }, 8, "peers", 0.125, true},
		"one is silent": {func(c *Circle) { c.Others[3].Suspect = true }, 8, "peers, 1 not responding", 0, true},
		"two claim":     {func(c *Circle) { c.Others[3].ArcFrom = 0.3 }, 8, "peers", 0, true},
		"a large ring":  {func(c *Circle) { c.Size = 1000 }, 8, "peers (estimate)", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			ring := circle(c.peers)
			c.change(ring)
			if share, known := ring.unserved(); share != c.share || known != c.known {
				t.Errorf("unserved %v, known %v, want %v, %v", share, known, c.share, c.known)
			}
			if got := ring.state(); got != c.state {
				t.Errorf("state %q, want %q", got, c.state)
			}
		})
	}
}

// TestServing: what a walk found fills what peers have not said here yet, and changes nothing else.
func TestServing(t *testing.T) {
	lines := []control.PeerLine{{Peer: name(4), ArcShare: 0.125}, {Peer: name(2), ArcShare: 0.9}, {Peer: "none", ArcShare: 1}}
	c := circle(8)
	c.serving(lines)
	if c.Others[1].share() != 0.125 {
		t.Errorf("a closed circle was changed: %+v", c.Others[1])
	}
	c.Others[3].Serves = false
	c.serving(lines[:1])
	if share, _ := c.unserved(); share != 0 || c.Others[3].ArcFrom != 0.375 {
		t.Errorf("%v are open: %+v", share, c.Others[3])
	}
}

// The picture is well-formed for any ring, with every peer in it once.
func TestRingPicture(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 60, 2000} {
		c := circle(n)
		c.Self.Side = sideSelf
		if n > 2 {
			c.Others[1].Suspect, c.Others[0].Crawls = true, 3
		}
		svg := string(c.svg([]Host{{Name: "a.example", At: 0.3}}))
		dec := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%d peers: %v", n, err)
			}
		}
		if dots := strings.Count(svg, `class="dot`); dots != min(n, maxDots+1) {
			t.Errorf("%d peers: %d dots", n, dots)
		}
		if strings.Contains(svg, "NaN") {
			t.Errorf("%d peers: a place is no number", n)
		}
	}
}

// TestDotsStandApart: peers whose positions are almost the same are still two dots, near where they
// are; this one's is larger.
func TestDotsStandApart(t *testing.T) {
	c := circle(8)
	for i, at := range []float64{0.3, 0.3001, 0.3002, 0.999, 0.0005, 0.5, 0.7} {
		c.Others[i].At = at
	}
	c.spread()
	all := append([]Place{c.Self}, c.Others...)
	for i := range all {
		if moved := math.Abs(all[i].drawn - all[i].At); moved > 2*dotGap {
			t.Errorf("%v is drawn at %v", all[i].At, all[i].drawn)
		}
		for j := range i {
			apart := math.Abs(math.Mod(all[i].drawn-all[j].drawn+1.5, 1) - 0.5)
			if apart < dotGap*0.99 {
				t.Errorf("%v and %v are drawn %v apart, want %v", all[i].At, all[j].At, apart, dotGap)
			}
		}
	}
}

// TestStateIsThisPeers: a peer whose hosts others crawl, or wait, does not say with a green light
// that it crawls.
func TestStateIsThisPeers(t *testing.T) {
	for want, c := range map[string]Crawled{
		"Crawling crawling": {Total: 3, Here: 1},
		"Others crawl idle": {Total: 3},
		"Waiting idle":      {},
	} {
		m := &model{status: &control.Status{State: "crawling", Counters: control.Counters{URLsPending: 5}}, crawled: &c}
		word, why, lamp := stateWords(m)
		if word+" "+lamp != want || why == "" {
			t.Errorf("%+v: %s %s, %s", c, word, lamp, why)
		}
	}
}
