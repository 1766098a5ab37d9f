package dashboard

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRingCloses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Circle)
		peers  int
		state  string
		share  float64
		known  bool
	}{
		"alone":      {func(*Circle) {}, 1, "peer, ring closed", 0, true},
		"closed":     {func(*Circle) {}, 8, "peers, ring closed", 0, true},
		"a dead one": {func(c *Circle) { c.Others, c.Size = c.Others[1:], 7 }, 8, "peers, 12.5 % open", 0.125, true},
		"taken over": {func(c *Circle) {
			c.Others[1].ArcFrom = c.Others[0].ArcFrom
			c.Others, c.Size = c.Others[1:], 7
		}, 8, "peers, ring closed", 0, true},
		"one joins":     {func(c *Circle) { c.Others[3].Serves = false }, 8, "peers, 12.5 % open", 0.125, true},
		"one is silent": {func(c *Circle) { c.Others[3].Suspect = true }, 8, "peers, 1 silent", 0, true},
		"two claim":     {func(c *Circle) { c.Others[3].ArcFrom = 0.3 }, 8, "peers, ring closed", 0, true},
		"a large ring":  {func(c *Circle) { c.Size = 1000 }, 8, "peers, about", 0, false},
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

func TestLabelsStandApart(t *testing.T) {
	var side []label
	for i := range maxLabels {
		side = append(side, label{y: 100 + float64(i)/10})
	}
	apart(side)
	for i := 1; i < len(side); i++ {
		if side[i].at-side[i-1].at < labelGap-1e-9 {
			t.Errorf("labels %d and %d are %v apart", i-1, i, side[i].at-side[i-1].at)
		}
	}
	if last := side[len(side)-1].at; last > circleHeight/2 {
		t.Errorf("the last label is at %v, outside of the picture", last)
	}
}
