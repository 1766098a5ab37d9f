package node

import "testing"

// TestIdleConns: connections that wait take none of the files that a busy peer needs, and half of
// them are free for strangers.
func TestIdleConns(t *testing.T) {
	for _, c := range []struct {
		limit, busy uint64
		want        int
	}{{0, 500, 1024}, {8192, 500, 1024}, {2024, 500, 1024}, {1500, 500, 500}, {1024, 500, 64}, {256, 500, 64}} {
		if n := idleConns(c.limit, c.busy); n != c.want {
			t.Errorf("of %d files, %d in use: %d connections may wait, want %d", c.limit, c.busy, n, c.want)
		}
	}
}

// TestUnusedProxy checks which variables are warned about.
func TestUnusedProxy(t *testing.T) {
	for name, env := range map[string]map[string]string{"": {"http_proxy": "", "NO_PROXY": "x"}, "HTTPS_PROXY": {"HTTPS_PROXY": "http://127.0.0.1:1"}} {
		if got := unusedProxy(func(key string) (string, bool) { value, ok := env[key]; return value, ok }); got != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
}
