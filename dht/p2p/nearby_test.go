package p2p

import (
	"slices"
	"strings"
	"testing"
)

// TestNearbyPeer: what somebody on the local network says is taken only if it names one peer of
// this network with addresses to dial.
func TestNearbyPeer(t *testing.T) {
	const one, two = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA", "12D3KooWGRUaqkGvcV1HHyEHQ3m1rhYXqHzXQWmqzXbqQHkJZDFq"
	addr := func(text, id string) string { return "dnsaddr=" + text + "/p2p/" + id }
	many := slices.Repeat([]string{addr("/ip4/10.0.0.1/tcp/1", one)}, 1000)
	for _, row := range []struct {
		name  string
		texts []string
		want  int
	}{
		{"a peer", []string{"network=main", addr("/ip4/10.0.0.1/tcp/4001", one), addr("/ip4/10.0.0.1/udp/4001/quic-v1", one)}, 2},
		{"another network", []string{"network=other", addr("/ip4/10.0.0.1/tcp/4001", one)}, 0},
		{"no network", []string{addr("/ip4/10.0.0.1/tcp/4001", one)}, 0},
		{"nothing", nil, 0},
		{"no address", []string{"network=main", "dnsaddr=/p2p/" + one}, 0},
		{"no peer", []string{"network=main", "dnsaddr=/ip4/10.0.0.1/tcp/4001"}, 0},
		{"two peers", []string{"network=main", addr("/ip4/10.0.0.1/tcp/1", one), addr("/ip4/10.0.0.2/tcp/1", two)}, 0},
		{"a name to resolve", []string{"network=main", addr("/dns4/victim.example/tcp/80", one)}, 0},
		{"a relay", []string{"network=main", addr("/ip4/10.0.0.1/tcp/1/p2p/"+two+"/p2p-circuit", one)}, 0},
		{"rubbish", []string{"network=main", "dnsaddr=" + strings.Repeat("/", 1000), "x", ""}, 0},
		{"a thousand addresses", append([]string{"network=main"}, many...), maxMetAddrs},
	} {
		info, err := nearbyPeer(row.texts, "main")
		if len(info.Addrs) > row.want || (err == nil) != (row.want > 0) {
			t.Errorf("%s: %v, %v; want %d addresses", row.name, info, err, row.want)
		}
	}
}

func TestListenOn(t *testing.T) {
	for text, want := range map[string]string{
		"/ip4/127.0.0.1/tcp/4001": "/ip4/127.0.0.1/tcp/4001",
		"all":                     "/ip4/0.0.0.0/tcp/0 /ip4/0.0.0.0/udp/0/quic-v1",
		"all:4001":                "/ip4/0.0.0.0/tcp/4001 /ip4/0.0.0.0/udp/4001/quic-v1",
		"all:":                    "error", "all:70000": "error", "all:-1": "error", "any": "error", "": "error", "0.0.0.0:4001": "error",
	} {
		addrs, err := ListenOn(text)
		got := strings.Join(slices.DeleteFunc(addrs, func(a string) bool { return strings.HasPrefix(a, "/ip6") }), " ")
		if err != nil {
			got = "error"
			if !strings.Contains(err.Error(), "all:PORT") {
				t.Errorf("%s: %v", text, err)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestElsewhere: loopback is told to others only where there is nothing else.
func TestElsewhere(t *testing.T) {
	all := []string{"/ip4/127.0.0.1/tcp/1", "/ip6/::1/tcp/1", "/ip6/fe80::1/tcp/1", "/ip4/10.0.0.7/tcp/1", "/ip4/10.0.0.7/udp/1/quic-v1"}
	if got := Elsewhere(all); !slices.Equal(got, all[3:]) {
		t.Errorf("%v", got)
	}
	if got := Elsewhere(all[:2]); len(got) != 0 {
		t.Errorf("of loopback: %v", got)
	}
	inside := newNetOf(t, Config{Network: "test", Listen: []string{"/ip4/127.0.0.1/tcp/0"}}, nil)
	if got := inside.Addrs(); len(got) != 1 || !strings.HasPrefix(got[0], "/ip4/127.0.0.1/") {
		t.Errorf("on loopback: %v", got)
	}
	outside := newNetOf(t, Config{Network: "test", Listen: everywhere(0)}, nil)
	own := outside.Addrs()
	if got := Elsewhere(own); len(got) > 0 && len(got) != len(own) {
		t.Errorf("announces %v", own)
	}
}
