package member

import (
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
)

func TestFirstIP(t *testing.T) {
	for name, tt := range map[string]struct {
		addrs []string
		want  string
	}{
		"none":                {nil, "invalid IP"},
		"no address of IP":    {[]string{"/dns4/a.example/tcp/1", "rubbish"}, "invalid IP"},
		"a private one":       {[]string{"/ip4/127.0.2.3/tcp/1"}, "127.0.2.3"},
		"public before those": {[]string{"/ip4/10.0.0.1/tcp/1", "/ip4/8.8.8.8/tcp/1/p2p-circuit"}, "8.8.8.8"},
	} {
		if got := FirstIP(tt.addrs).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestIdentity(t *testing.T) {
	var seen []peer.ID
	key, err := GenerateIdentity(8, func(candidates []peer.ID) int {
		seen = candidates
		return 5
	})
	if err != nil || len(seen) != 8 {
		t.Fatalf("%d candidates, %v", len(seen), err)
	}
	stored, err := MarshalIdentity(key)
	if err != nil {
		t.Fatal(err)
	}
	back, err := UnmarshalIdentity(stored)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := peer.IDFromPrivateKey(back); err != nil || id != seen[5] {
		t.Errorf("came back as %s, %v, want the chosen %s", id, err, seen[5])
	}
	if _, err := UnmarshalIdentity(make([]byte, maxIdentity+1)); err == nil || !strings.Contains(err.Error(), "exceed") {
		t.Errorf("oversized: %v", err)
	}
	if _, err := UnmarshalIdentity([]byte("nonsense")); err == nil {
		t.Error("nonsense was read")
	}
}
