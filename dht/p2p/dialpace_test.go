package p2p

import (
	"fmt"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"
)

// TestDialPace: a burst is dialled at once, the others one after another and none too late; with
// time the burst is there again. Of a peer with many addresses some are dialled.
func TestDialPace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newDialPace()
	for i := range dialBurst + 100 {
		want := min(max(time.Duration(i+1-dialBurst)*dialEvery, 0), maxDialWait)
		if got := p.take(now).Round(time.Millisecond); got != want {
			t.Fatalf("dial %d is put off by %v, want %v", i, got, want)
		}
	}
	now = now.Add(maxDialWait + dialBurst*dialEvery)
	if got := p.take(now).Round(time.Millisecond); got != 0 {
		t.Errorf("after a while: %v", got)
	}
	var addrs []ma.Multiaddr
	for i := range 20 {
		addrs = append(addrs, ma.StringCast(fmt.Sprintf("/ip4/8.8.8.8/tcp/%d", 4000+i)))
	}
	if n := len(p.rank(addrs)); n != maxDialAddrs {
		t.Errorf("%d addresses of one peer are dialled", n)
	}
}
