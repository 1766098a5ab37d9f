package cluster

import (
	"slices"
	"testing"
)

func TestOfPeer(t *testing.T) {
	for name, c := range map[string]struct {
		arg  string
		peer int
		want string
	}{
		"the first":         {"--dashboard=127.0.0.1:8000", 1, "--dashboard=127.0.0.1:8000"},
		"the third":         {"--dashboard=127.0.0.1:8000", 3, "--dashboard=127.0.0.1:8002"},
		"metrics over IPv6": {"--metrics=[::1]:9464", 2, "--metrics=[::1]:9465"},
		"every address":     {"--optout-listen=:8080", 2, "--optout-listen=:8081"},
		"the system's":      {"--dashboard=127.0.0.1:0", 3, "--dashboard=127.0.0.1:0"},
		"off":               {"--dashboard=off", 3, "--dashboard=off"},
		"of others":         {"--dns-server=127.0.0.1:53", 3, "--dns-server=127.0.0.1:53"},
		"no port":           {"--pprof=127.0.0.1:http", 3, "--pprof=127.0.0.1:http"},
	} {
		args := []string{"--delay=1s", c.arg}
		if got := ofPeer(args, c.peer); !slices.Equal(got, []string{"--delay=1s", c.want}) || args[1] != c.arg {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
