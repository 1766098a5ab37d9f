package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/ringsvg"
	"github.com/apoidea/apoidea/node/ops/words"
)

// drawnRing makes a closed ring of n members at random places, some of them close together, with
// hosts and who crawls them.
func drawnRing(n int, seed uint64) (*control.Ring, []control.HostLine) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	positions := make([]uint64, n)
	for i := range positions {
		positions[i] = rnd.Uint64()
		if i%4 == 3 {
			positions[i] = positions[i-1] + rnd.Uint64N(1<<55) // a close neighbour
		}
	}
	slices.Sort(positions)
	r := &control.Ring{Closed: true}
	for i, p := range positions {
		m := control.Member{Delegated: map[string]int{}}
		m.Peer, m.Network, m.State = fmt.Sprintf("12D3Koo%08d", i), "main", "crawling"
		m.Position = fmt.Sprintf("%016x%048x", p, 0)
		m.ArcShare = float64(p-positions[(i+n-1)%n]) / (1 << 63) / 2
		if n == 1 {
			m.ArcShare = 1
		}
		m.Pages, m.HostsOwned = rnd.Int64N(5000), rnd.Int64N(40)
		for range 2 {
			m.Delegated[fmt.Sprintf("12D3Koo%08d", (i+rnd.IntN(8))%n)] = 1 + rnd.IntN(20)
		}
		r.Members = append(r.Members, m)
	}
	var hosts []control.HostLine
	for i := range 3 * n {
		h := control.HostLine{Host: fmt.Sprintf("h%d.example", i), Key: fmt.Sprintf("%016x", rnd.Uint64())}
		if i%3 > 0 {
			h.Worker = r.Members[rnd.IntN(n)].Peer
		}
		hosts = append(hosts, h)
	}
	return r, hosts
}

// elements counts the elements of a document and fails if it is not well formed.
func elements(t *testing.T, doc []byte) map[string]int {
	t.Helper()
	count := make(map[string]int)
	dec := xml.NewDecoder(bytes.NewReader(doc))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatalf("the picture is not well formed: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
}

func TestRingSVG(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 16, 40, 100, 300} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ring, hosts := drawnRing(n, uint64(n))
			picture := ringPicture(ring, hosts, false)
			count := elements(t, picture)
			if dots := strings.Count(string(picture), `<circle class="dot"`); dots != n+1 {
				t.Errorf("%d dots, want one a member and one in the legend: %d", dots, n+1)
			}
			if marks := strings.Count(string(picture), ".example,"); marks != len(hosts) {
				t.Errorf("%d marks of hosts, want %d", marks, len(hosts))
			}
			if n <= 16 && count["text"] != 2+n+5 {
				t.Errorf("%d texts, want two in the center, one a member, and the legend: %d", count["text"], 2+n+5)
			}
			if bytes.Contains(picture, []byte("NaN")) || bytes.Contains(picture, []byte("Inf")) {
				t.Error("the picture has a coordinate that is no number")
			}
			if !bytes.Equal(picture, ringPicture(ring, hosts, false)) {
				t.Error("the same ring gives another picture")
			}
		})
	}
}

func TestRingSVGOfHostileWords(t *testing.T) {
	r := &control.Ring{Members: []control.Member{{Status: control.Status{Peer: `<script>"&'`, Position: "zz", Network: "<b>"}, ArcShare: 0.5}}}
	count := elements(t, ringPicture(r, []control.HostLine{{Host: "<img>", Key: ""}}, false))
	if count["script"]+count["b"]+count["img"] > 0 {
		t.Errorf("words of strangers became elements: %v", count)
	}
	elements(t, ringPicture(&control.Ring{}, nil, false))
}

// TestLatencySVG: a host is green where nobody is nearer to it than its worker, and the redder the
// farther that one is; grey where it did not measure.
func TestLatencySVG(t *testing.T) {
	r, _ := drawnRing(3, 1)
	at := r.Members[0].Peer
	picture := string(ringPicture(r, []control.HostLine{
		{Host: "near.example", Key: "1", PlacedAt: at, RTTMs: 20.9, LeastRTTMs: 20},
		{Host: "off.example", Key: "2", PlacedAt: at, RTTMs: 30, LeastRTTMs: 20},
		{Host: "far.example", Key: "3", PlacedAt: at, RTTMs: 300, LeastRTTMs: 20},
		{Host: "unknown.example", Key: "4", PlacedAt: at, LeastRTTMs: 20},
		{Host: "new.example", Key: "5"},
	}, true))
	elements(t, []byte(picture))
	for host, want := range map[string]string{
		"near": ringsvg.FarLatency(0, 0), "off": ringsvg.FarLatency(10, 0), "far": ringsvg.FarLatency(100, 0), "unknown": `class="mark none"`, "new": `class="mark none"`,
	} {
		line := ""
		for l := range strings.Lines(picture) {
			if strings.Contains(l, host+".example") {
				line = l
			}
		}
		if !strings.Contains(line, want) {
			t.Errorf("%s is drawn as %s, want %s", host, line, want)
		}
	}
	if green, yellow, red := ringsvg.FarLatency(0.5, 0), ringsvg.FarLatency(2, 0), ringsvg.FarLatency(100, 0); green == yellow || yellow == red || red != ringsvg.FarLatency(1000, 0) {
		t.Errorf("colours %s, %s, %s", green, yellow, red)
	}
	if !strings.Contains(picture, "30.0 ms from "+words.Short(at)+"; minimum measured 20.0 ms") {
		t.Error("a host does not say how far it is")
	}
}
