package p2p

import (
	"testing"

	ma "github.com/multiformats/go-multiaddr"
)

func TestReachedBy(t *testing.T) {
	addrs := func(texts ...string) (list []ma.Multiaddr) {
		for _, s := range texts {
			list = append(list, ma.StringCast(s))
		}
		return list
	}
	const relayed = "/ip4/5.0.0.11/tcp/4001/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA/p2p-circuit"
	home := addrs("/ip4/192.168.7.2/tcp/4001", "/ip4/127.0.0.1/tcp/4001")
	for _, row := range []struct {
		name               string
		dialled, own, told []ma.Multiaddr
		private            bool
		want               Reached
	}{
		{"nobody tried", nil, home, nil, false, ReachedUnknown},
		{"tried in vain", nil, home, nil, true, ReachedNot},
		{"at its own address", addrs("/ip4/5.0.0.9/tcp/4001"), addrs("/ip4/5.0.0.9/udp/1/quic-v1"), nil, false, ReachedDirect},
		{"one of two is its own", addrs("/ip4/5.0.0.8/tcp/4001", "/ip6/2a00::1/tcp/1"), addrs("/ip6/2a00::1/tcp/1"), nil, false, ReachedDirect},
		{"at its router's", addrs("/ip4/5.0.0.50/tcp/4001"), home, nil, false, ReachedMapped},
		{"at a relay's", nil, home, addrs(relayed), true, ReachedRelayed},
		{"at a relay's, before anybody tried its public address", nil, addrs("/ip4/5.0.0.9/tcp/4001"), addrs(relayed), false, ReachedUnknown},
		{"at a relay's, its public address tried in vain", nil, addrs("/ip4/5.0.0.9/tcp/4001"), addrs(relayed), true, ReachedRelayed},
		{"at a relay's, a home that was never tried", nil, home, addrs(relayed), false, ReachedRelayed},
		{"dialled, and still at a relay's", addrs("/ip4/5.0.0.50/tcp/4001"), home, addrs(relayed), false, ReachedMapped},
	} {
		if got := reachedBy(row.dialled, row.own, row.told, row.private); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestPreferTCP(t *testing.T) {
	tcp, quic := ma.StringCast("/ip4/5.0.0.9/tcp/1"), ma.StringCast("/ip4/5.0.0.9/udp/1/quic-v1")
	relayed := ma.StringCast("/ip4/5.0.0.11/tcp/4001/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA/p2p-circuit")
	ranked := preferTCP([]ma.Multiaddr{relayed, quic, tcp})
	if len(ranked) != 3 {
		t.Fatalf("%d addresses of 3", len(ranked))
	}
	for i, want := range []ma.Multiaddr{tcp, quic, relayed} {
		if !ranked[i].Addr.Equal(want) {
			t.Errorf("%d: %s, want %s", i, ranked[i].Addr, want)
		}
	}
	if !(ranked[0].Delay < ranked[1].Delay && ranked[1].Delay < ranked[2].Delay) {
		t.Errorf("delays %v", ranked)
	}
	if only := preferTCP([]ma.Multiaddr{relayed}); len(only) != 1 || only[0].Delay != 0 {
		t.Errorf("a relay alone: %v", only)
	}
}
