package p2p

import "testing"

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
