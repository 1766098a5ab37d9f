package node

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/control"
)

// TestListenOnChoosesOnce: all interfaces are listened on at the ports of the last run, unless that
// one was on loopback.
func TestListenOnChoosesOnce(t *testing.T) {
	inside := []string{"/ip4/127.0.0.1/tcp/1000", "/ip4/127.0.0.1/udp/1001/quic-v1"}
	outside := []string{"/ip4/0.0.0.0/tcp/2000", "/ip4/0.0.0.0/udp/2001/quic-v1"}
	anew, err := p2p.ListenOn("all")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name   string
		listen []string
		mdns   bool
		last   []string
		want   []string
		own    bool
	}{
		{"nothing said, first start", nil, false, nil, nil, true},
		{"nothing said", nil, false, outside, outside, true},
		{"all, first start", []string{"all"}, false, nil, anew, true},
		{"all, after loopback", []string{"all"}, false, inside, anew, true},
		{"all, as before", []string{"all"}, false, slices.Concat(inside, outside), outside, true},
		{"a port", []string{"all:4001"}, false, outside, nil, false},
		{"an address", inside[:1], true, outside, inside[:1], false},
		{"nearby, first start", nil, true, nil, anew, true},
		{"nearby, after loopback", nil, true, inside, anew, true},
		{"nearby, as before", nil, true, outside, outside, true},
	} {
		c := DefaultConfig(t.TempDir(), ProfileLab)
		c.Listen, c.MDNS = row.listen, row.mdns
		got, own := c.listenOn(row.last)
		if row.name == "a port" {
			if !slices.Contains(got, "/ip4/0.0.0.0/tcp/4001") || !slices.Contains(got, "/ip4/0.0.0.0/udp/4001/quic-v1") {
				t.Errorf("%s: %v", row.name, got)
			}
			row.want = got
		}
		if !slices.Equal(got, row.want) || own != row.own {
			t.Errorf("%s: %v, own choice %v; want %v, %v", row.name, got, own, row.want, row.own)
		}
	}
}

// TestCannotBeDialled: a peer that listens on loopback does not join one of another machine, which
// could not dial it.
func TestCannotBeDialled(t *testing.T) {
	const name = "/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
	inside, outside := []string{"/ip4/127.0.0.1/tcp/1" + name}, []string{"/ip4/192.0.2.1/tcp/1" + name}
	for _, row := range []struct {
		own, entries []string
		wrong        bool
	}{
		{inside, inside, false},
		{inside, nil, false},
		{inside, []string{"/dns4/peer.example/tcp/1" + name}, false},
		{inside, outside, true},
		{outside, outside, false},
	} {
		if err := cannotBeDialled(row.own, row.entries); (err != nil) != row.wrong {
			t.Errorf("at %v by %v: %v", row.own, row.entries, err)
		}
	}
	cfg := DefaultConfig(t.TempDir(), ProfileLab)
	cfg.Bootstrap = outside
	_, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "--listen all") || control.KindOf(err) != control.KindUsage {
		t.Errorf("a peer on loopback with an entry peer elsewhere: %v", err)
	}
}

// TestDialAddrs: what is to be copied to another machine is what that machine can dial, the best
// first.
func TestDialAddrs(t *testing.T) {
	own := []string{"/ip4/127.0.0.1/tcp/1", "/ip6/2001:db8::1/tcp/1", "/ip4/10.0.0.1/udp/1/quic-v1", "/ip4/10.0.0.1/tcp/1"}
	addrs, elsewhere := DialAddrs(own)
	if want := []string{own[3], own[1], own[2]}; !slices.Equal(addrs, want) || !elsewhere {
		t.Errorf("%v, elsewhere %v", addrs, elsewhere)
	}
	if addrs, elsewhere := DialAddrs(own[:1]); !slices.Equal(addrs, own[:1]) || elsewhere {
		t.Errorf("on loopback: %v, elsewhere %v", addrs, elsewhere)
	}
}
