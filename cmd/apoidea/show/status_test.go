package show

import (
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
)

// TestStatusKnowsWhatItDoesNotKnow: of a neighbour that was not asked status shows no zeros, and
// says who knows; what a peer said of itself is shown, also if it is zero.
func TestStatusKnowsWhatItDoesNotKnow(t *testing.T) {
	s := &control.Status{Peer: "self", Peers: []control.PeerLine{{Peer: "neighbour", Role: "ring", Position: "0123456789", Addr: "/ip4/127.0.0.1/tcp/1"}}}
	var b strings.Builder
	if err := Status(&b, s, false); err != nil {
		t.Fatal(err)
	}
	_, peers, _ := strings.Cut(b.String(), "PEER")
	_, line, _ := strings.Cut(peers, "\n")
	line, hint, _ := strings.Cut(line, "\n")
	if strings.Contains(line, "0.0 %") || strings.Contains(line, "0.00 ms") || strings.Count(line, " - ") != 7 || !strings.Contains(hint, "status --ring") {
		t.Errorf("of a neighbour that was not asked:\n%s", b.String())
	}
	b.Reset()
	s.Peers[0].State, s.Peers[0].ArcShare, s.Peers[0].RTTMs = "idle", 0.25, 0.5
	if err := Status(&b, s, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "25.0 %") || !strings.Contains(b.String(), "0.50 ms") || strings.Contains(b.String(), "status --ring") {
		t.Errorf("of a member that was asked:\n%s", b.String())
	}
}

// TestStatusHasOwnWork checks that a peer which crawls only for others shows what it fetched,
// before what is counted of its own hosts.
func TestStatusHasOwnWork(t *testing.T) {
	s := &control.Status{Peer: "self", OwnPages: 1, OwnBytes: 2048}
	var b strings.Builder
	if err := Status(&b, s, false); err != nil {
		t.Fatal(err)
	}
	own, counted := strings.Index(b.String(), "1 page, 2.0 KiB since start"), strings.Index(b.String(), "0 new, 0 duplicates")
	if own < 0 || counted < own || !strings.Contains(b.String(), "status --ring") {
		t.Errorf("status is\n%s", b.String())
	}
}

// TestRunning: the line of a peer that runs without an end counts one as one.
func TestRunning(t *testing.T) {
	s := &control.Status{State: "crawling", OwnPages: 1, OwnBytes: 2048, Ring: control.RingSummary{Members: 3}, Holding: "paused"}
	s.HostsOwned = 1
	if got, want := Running(s), "crawling, 1 page and 2.0 KiB fetched; 3 members; 1 host owned; paused"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
