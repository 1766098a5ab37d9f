package dashboard

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// The picture is well-formed for any ring, with every peer in it once, before and after a walk.
func TestRingPicture(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 60} {
		f := newFake()
		f.ofSize(n)
		f.ring.Members[0].Delegated = map[string]int{name(n - 1): 3}
		m := &model{status: &f.status, crawled: &f.crawled}
		for _, m.whole = range []*whole{nil, {at: time.Now(), ring: &f.ring}} {
			svg := string(m.circle())
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
			if dots := strings.Count(svg, `class="dot`); dots != n {
				t.Errorf("%d peers: %d dots", n, dots)
			}
			if strings.Contains(svg, "NaN") || !strings.Contains(svg, "this peer") {
				t.Errorf("%d peers: a place is no number, or this peer is not named", n)
			}
			if threads := strings.Count(svg, `class="thread`); threads != 0 && (m.whole == nil || n == 1) {
				t.Errorf("%d peers: %d threads", n, threads)
			}
		}
	}
}

// TestNeighbours: the table has the sides of the leaf set, and arcs and hosts as the walk found
// them.
func TestNeighbours(t *testing.T) {
	f := newFake()
	f.status.Ring.Predecessor, f.status.Ring.Successors = name(7), []string{name(1), name(2)}
	f.ring.Members[0].Delegated = map[string]int{name(2): 5}
	m := &model{status: &f.status, attached: []control.PeerLine{{Peer: name(9), Role: "worker"}}, whole: &whole{ring: &f.ring}}
	var p page
	p.neighbours(m)
	if n := p.Neighbours; len(n) != 8 || n[0].Word != "successor" || n[1].Word != "leaf" || n[1].Crawls != 5 || n[1].ArcShare != 0.125 || n[6].Word != "predecessor" || n[7].Word != "worker" || !p.Delegates {
		t.Errorf("%+v", n)
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
