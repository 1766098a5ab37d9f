package show

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// TestCoordinatesAreShown: where a host's server stands, its estimators with the nearest first, and
// how far neighbours are.
func TestCoordinatesAreShown(t *testing.T) {
	h := &control.Host{
		Host: "a.example", Known: true, Owner: "peer-owner",
		Coordinate: &control.Coordinate{
			Addr: "192.0.2.1", VectorMs: []float64{1, -2.5, 0, 3}, HeightMs: 40.25, Error: 0.2, Theta: 0.25, Updates: 17,
			Estimators: []control.Estimator{
				{Peer: "peer-who-is-new", Samples: 1},
				{Peer: "peer-owner", Samples: 9, ExpectedMs: 120},
				{Peer: "peer-nearest", Samples: 7, ExpectedMs: 80.5, Chosen: true},
			},
		},
	}
	var b bytes.Buffer
	if err := Host(&b, h); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"(1.0 -2.5 0.0 3.0) height 40.2 ms, error 0.20 (target 0.25), 17 updates (192.0.2.1)", "estimator " + words.Short("peer-nearest") + "  7 downloads, 80.5 ms per page expected, chosen",
		"estimator " + words.Short("peer-owner") + "    9 downloads, 120.0 ms per page expected, the owner", "estimator " + words.Short("peer-who-is-new") + "      1 download",
	}
	at := 0
	for _, line := range want {
		i := strings.Index(b.String()[at:], line)
		if i < 0 {
			t.Fatalf("%q is not shown, or not in its place, in\n%s", line, b.String())
		}
		at += i
	}

	ms, relative := 12.345, 0.2
	b.Reset()
	if err := Peers(&b, []control.PeerLine{{Peer: "near", CoordinateMs: &ms, CoordinateError: &relative}, {Peer: "unknown"}}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "12.35 ms ±20 %") || strings.Count(text, "±") != 1 {
		t.Errorf("peers:\n%s", text)
	}
}
