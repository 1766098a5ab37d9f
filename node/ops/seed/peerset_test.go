package seed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/test"
	ma "github.com/multiformats/go-multiaddr"
)

var (
	began   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	errGone = errors.New("connection refused")
)

func ids(t testing.TB, n int) []peer.ID {
	t.Helper()
	list := make([]peer.ID, n)
	for i := range list {
		id, err := test.RandPeerID()
		if err != nil {
			t.Fatal(err)
		}
		list[i] = id
	}
	return list
}

func addr(t testing.TB, text string) ma.Multiaddr {
	t.Helper()
	a, err := ma.NewMultiaddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestRank: what a peer has to show to be given. Each letter is a visit: + answered, - not; what
// follows is the time between two of them.
func TestRank(t *testing.T) {
	for name, row := range map[string]struct {
		visits string
		every  time.Duration
		after  time.Duration // from the last visit on
		want   Rank
		why    string
	}{
		"never visited":                         {"", 0, 0, Out, "not visited yet"},
		"first answer":                          {"+", 0, 0, Spare, "too new after 1"},
		"three answers":                         {"+++", 5 * time.Minute, 0, Proven, "100% over 2h"},
		"first was missed":                      {"-+", 5 * time.Minute, 0, Spare, "too new"},
		"two were missed":                       {"--+", 5 * time.Minute, 0, Out, "unreliable: 1 of 3"},
		"the first were missed":                 {"--" + strings.Repeat("+", 8), 5 * time.Minute, 0, Proven, "2h"},
		"last was missed":                       {strings.Repeat("+", 100) + "-", 5 * time.Minute, 0, Out, "unreachable in 1"},
		"back at once":                          {strings.Repeat("+", 100) + "-+", 5 * time.Minute, 0, Proven, "2h"},
		"an hour away after a day":              {strings.Repeat("+", 288) + strings.Repeat("-", 12) + "+", 5 * time.Minute, 0, Proven, "8h"},
		"every second visit":                    {strings.Repeat("+-", 100) + "+", 5 * time.Minute, 0, Proven, "week"},
		"every third visit":                     {strings.Repeat("-+-", 100) + "+", 5 * time.Minute, 0, Out, "unreliable"},
		"visits are an hour apart":              {"++++", time.Hour, 0, Proven, "2h"},
		"visits are an hour apart, the third":   {"+++", time.Hour, 0, Spare, "too new"},
		"the seed was off for a day and longer": {"+++", 5 * time.Minute, 25 * time.Hour, Out, "no visit for a day"},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewPeerSet(Rules{Every: time.Minute, Most: 10})
			id, now := ids(t, 1)[0], began
			at := addr(t, "/ip4/127.0.0.1/tcp/4001")
			b.Announced(now, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{at}})
			for i, c := range row.visits {
				if i > 0 {
					now = now.Add(row.every)
				}
				if c == '+' {
					b.Visited(now, id, at, nil)
				} else {
					b.Visited(now, id, nil, errGone)
				}
			}
			rank, why := b.peers[id].Rank(now.Add(row.after))
			if rank != row.want || !strings.Contains(why, row.why) {
				t.Errorf("%v, %q; want %v, %q", rank, why, row.want, row.why)
			}
		})
	}
}

// TestClockGoesBack: a clock that is put back, as over a restart, leaves shares that are shares.
func TestClockGoesBack(t *testing.T) {
	b := NewPeerSet(Rules{Every: time.Minute, Most: 10})
	id, at := ids(t, 1)[0], addr(t, "/ip4/127.0.0.1/tcp/4001")
	b.Announced(began, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{at}})
	for i := range 10 {
		b.Visited(began.Add(-time.Duration(i*i)*24*time.Hour), id, at, []error{nil, errGone}[i%2])
	}
	for i, w := range b.peers[id].Windows {
		if !(w.Reliability >= 0 && w.Reliability <= 1 && w.Visits >= 1) {
			t.Errorf("window %d: %+v", i, w)
		}
	}
}

// BenchmarkBook is what a look at a full book takes: who is due, and who may be given.
func BenchmarkBook(b *testing.B) {
	book := NewPeerSet(Rules{Public: true, Every: 5 * time.Minute, Most: 10_000})
	list := ids(b, book.rules.Most)
	for i, id := range list {
		at := addr(b, fmt.Sprintf("/ip4/8.%d.%d.8/tcp/4001", i%250, i/250))
		book.Announced(began, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{at}})
		for k := range 3 * (i % 2) {
			book.Visited(began.Add(time.Duration(k)*time.Minute), id, at, nil)
		}
	}
	for b.Loop() {
		for _, due := range book.Due(began.Add(time.Hour), visitors) {
			book.Released(due.ID)
		}
		book.Pool(began.Add(time.Hour)).Draw(MostGiven, rand.IntN)
		book.Announced(began, peer.AddrInfo{ID: "somebody", Addrs: []ma.Multiaddr{addr(b, "/ip4/9.9.9.9/tcp/1")}})
	}
}

// TestDue: who answers is visited at the pace of the rules and before the others, who does not less
// and less often, and nobody twice at a time.
func TestDue(t *testing.T) {
	b := NewPeerSet(Rules{Every: 5 * time.Minute, Most: 10})
	list := ids(t, 2)
	at := addr(t, "/ip4/127.0.0.1/tcp/4001")
	now := began
	for _, id := range list {
		b.Announced(now, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{at}})
	}
	if n := len(b.Due(now, 1)) + len(b.Due(now, 10)) + len(b.Due(now, 10)); n != 2 {
		t.Fatalf("%d visits are due of two peers", n)
	}
	good, bad := list[0], list[1]
	var times []time.Duration
	b.Visited(now, good, at, nil)
	b.Visited(now, bad, nil, errGone)
	for now.Sub(began) < 20*time.Hour {
		now = now.Add(time.Minute)
		due := b.Due(now, 10)
		for i, info := range due {
			if info.ID == good {
				if i != 0 {
					t.Errorf("who answers comes at place %d", i)
				}
				b.Visited(now, good, at, nil)
				continue
			}
			times = append(times, now.Sub(began))
			b.Visited(now, bad, nil, errGone)
		}
	}
	if got := b.peers[good].Visits; got != 241 {
		t.Errorf("%d visits of who answers in 20 hours", got)
	}
	if got := fmt.Sprint(times); got != "[5m0s 15m0s 35m0s 1h15m0s 2h35m0s 5h15m0s 10h35m0s]" {
		t.Errorf("who does not answer was visited after %v", got)
	}
	if b.peers[bad] != nil {
		t.Error("it is not forgotten")
	}
}

// TestAddressesOfStrangers: what may not be given is not taken, and nobody moves a peer that
// answers.
func TestAddressesOfStrangers(t *testing.T) {
	for text, want := range map[string][2]bool{ // in the lab, in public
		"/ip4/127.0.0.1/tcp/4001":                {true, false},
		"/ip4/192.168.1.7/tcp/4001":              {true, false},
		"/ip4/8.8.8.8/tcp/4001":                  {true, true},
		"/ip6/2a00:1450::1/udp/4001/quic-v1":     {true, true},
		"/ip6/fe80::1/tcp/4001":                  {true, false},
		"/ip4/8.8.8.8/udp/4001":                  {false, false},
		"/ip4/8.8.8.8/tcp/4001/ws":               {false, false},
		"/dns4/a.example/tcp/4001":               {false, false},
		"/ip4/8.8.8.8/tcp/4001/p2p-circuit":      {false, false},
		"/ip4/8.8.8.8/udp/1/quic-v1/p2p-circuit": {false, false},
	} {
		for i, public := range []bool{false, true} {
			if usable(addr(t, text), public) != want[i] {
				t.Errorf("%s, public %v: %v", text, public, !want[i])
			}
		}
	}
	b := NewPeerSet(Rules{Public: true, Every: time.Minute, Most: 10})
	id, good := ids(t, 1)[0], addr(t, "/ip4/8.8.8.8/tcp/4001")
	b.Announced(began, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{addr(t, "/ip4/10.0.0.1/tcp/1")}})
	if len(b.peers) != 0 {
		t.Error("a private address was taken")
	}
	b.Announced(began, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{good}})
	b.Visited(began, id, good, nil)
	var lies []ma.Multiaddr
	for i := range 20 {
		lies = append(lies, addr(t, fmt.Sprintf("/ip4/9.9.9.%d/tcp/4001", i)))
	}
	b.Announced(began, peer.AddrInfo{ID: id, Addrs: lies})
	if due := b.Due(began.Add(time.Minute), 1); len(due) != 1 || len(due[0].Addrs) != maxAddrs || !due[0].Addrs[0].Equal(good) {
		t.Errorf("visited at %v", due)
	}
}

// TestBookIsBounded: however many peers a stranger makes up, there is an end, and who answers
// stays.
func TestBookIsBounded(t *testing.T) {
	b := NewPeerSet(Rules{Public: true, Every: time.Minute, Most: 50})
	list := ids(t, 300)
	at := func(i int) ma.Multiaddr { return addr(t, fmt.Sprintf("/ip4/8.%d.8.8/tcp/4001", i%250)) }
	hear := func(i int) { b.Announced(began, peer.AddrInfo{ID: list[i], Addrs: []ma.Multiaddr{at(i)}}) }
	for i := range 40 {
		hear(i)
		b.Visited(began, list[i], at(i), nil)
	}
	for i := 40; i < 300; i++ {
		hear(i)
		if i >= 200 { // and what was visited in vain makes room
			for _, due := range b.Due(began, 100) {
				b.Visited(began, due.ID, nil, errGone)
			}
		}
	}
	if len(b.peers) != 50 || b.Answering() != 40 {
		t.Errorf("%d peers, %d of which answer", len(b.peers), b.Answering())
	}
	if b.peers[list[299]] == nil {
		t.Error("there was no room for the last one")
	}
	crowded := NewPeerSet(Rules{Public: true, Every: time.Minute, Most: 1000})
	for _, id := range list {
		crowded.Announced(began, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{at(0)}})
	}
	if len(crowded.peers) != maxSilentPerAddress {
		t.Errorf("%d peers that nobody met at one address", len(crowded.peers))
	}
}

// TestRestore: a book read back gives the same peers, and takes nothing that it would not have
// taken itself.
func TestRestore(t *testing.T) {
	b := NewPeerSet(Rules{Public: true, Every: time.Minute, Most: 10})
	list, at := ids(t, 4), addr(t, "/ip4/8.8.8.8/tcp/4001")
	for i := range 3 {
		b.Announced(began, peer.AddrInfo{ID: list[0], Addrs: []ma.Multiaddr{at}})
		b.Visited(began.Add(time.Duration(i)*time.Minute), list[0], at, nil)
	}
	written := append(b.Peers(), Peer{ID: list[1], Address: "/ip4/127.0.0.1/tcp/1", Answers: 1}, Peer{ID: list[2]}, Peer{ID: "", Announced: []string{at.String()}}, Peer{ID: list[3], Answers: 3, Announced: []string{at.String()}})
	again := NewPeerSet(b.rules)
	written[0].FirstSeen = began.Add(1000 * time.Hour) // of a clock that was wrong
	again.Restore(began.Add(time.Hour), written)
	if got := again.peers[list[0]].FirstSeen; got != began.Add(time.Hour) {
		t.Errorf("heard of at %v", got)
	}
	if got := again.Pool(began.Add(time.Hour)).Draw(8, rand.IntN); len(again.peers) != 1 || len(got) != 1 || got[0] != full(list[0], at.String()) {
		t.Errorf("%d peers, %v are given", len(again.peers), got)
	}
}

// TestDraw: eight at most, no two of a network, the crowd of one network no more often than the
// single peer of another, new ones last.
func TestDraw(t *testing.T) {
	b := NewPeerSet(Rules{Public: true, Every: time.Minute, Most: 1000})
	add := func(text string, visits int) {
		id := ids(t, 1)[0]
		at := addr(t, text)
		b.Announced(began, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{at}})
		for i := range visits {
			b.Visited(began.Add(time.Duration(i)*time.Minute), id, at, nil)
		}
	}
	now := began.Add(5 * time.Minute)
	below := rand.New(rand.NewPCG(1, 2)).IntN
	for i := range 200 {
		add(fmt.Sprintf("/ip4/8.8.%d.8/tcp/4001", i), 3)
	}
	for i := range 5 {
		add(fmt.Sprintf("/ip4/9.%d.8.8/tcp/4001", i), 3)
	}
	add("/ip4/9.0.9.9/tcp/4001", 1) // new, and of a network that is there
	add("/ip4/11.0.9.9/tcp/4001", 1)
	if got := b.Pool(now).Draw(MostGiven, below); len(got) != 7 || !strings.HasPrefix(got[6], "/ip4/11.0.9.9/") {
		t.Fatalf("%d drawn: %v", len(got), got)
	}
	for i := range 20 {
		add(fmt.Sprintf("/ip6/2a00:%x::8/tcp/4001", i), 3)
	}
	proven, spare := b.Pool(now).Size()
	if proven != 225 || spare != 2 {
		t.Errorf("%d proven, %d spare", proven, spare)
	}
	const draws = 2000
	times := map[string]int{}
	for range draws {
		got := b.Pool(now).Draw(MostGiven, below)
		seen := map[string]bool{}
		for _, text := range got {
			name := networkOf(text, true)
			if seen[name] || strings.HasPrefix(text, "/ip4/11.") {
				t.Fatalf("drawn: %v", got)
			}
			seen[name] = true
			times[name]++
		}
		if len(got) != MostGiven {
			t.Fatalf("%d drawn", len(got))
		}
	}
	for name, n := range times { // 8 of 26 networks
		if share := float64(n) / draws; share < 0.26 || share > 0.36 {
			t.Errorf("%s is drawn in %.2f of the answers", name, share)
		}
	}
}
