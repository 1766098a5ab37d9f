//go:build unix

package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rawWords are libp2p's own, of which no answer has any.
var rawWords = []string{"all dials failed", "failed to dial", "failed to listen", "failed to negotiate", "gater ", "deadline exceeded", "call status of", "unknown version"}

func plainOnly(t *testing.T, what, text string) {
	t.Helper()
	for _, raw := range rawWords {
		if strings.Contains(text, raw) {
			t.Errorf("%s: %q is in %s", what, raw, text)
		}
	}
}

// TestFailuresAreSaidPlainly: through the real process, who cannot come in, cannot listen, or asks
// a ring of which a member was just killed, reads what is wrong and what helps.
//
// Slow: starts several processes one after another, and each retries before it fails.
func TestFailuresAreSaidPlainly(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	first, second := filepath.Join(base, "first"), filepath.Join(base, "second")
	peer(t, first, "--network", "one")
	addrs, _ := say(t, "peers", "--addrs", "--quiet", "--data-dir", first)
	addr, _, _ := strings.Cut(addrs, "\n")
	at, id, _ := strings.Cut(addr, "/p2p/")
	const another = "/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	for _, row := range []struct {
		name string
		args []string
		says string
	}{
		{"a dead port", []string{"--bootstrap", "/ip4/127.0.0.1/tcp/1" + another}, "connection refused"},
		{"another's ID", []string{"--bootstrap", at + another}, "another peer answers there, " + id},
		{"another network", []string{"--network", "two", "--bootstrap", at + "/p2p/" + id}, `network "one"`},
		{"no public address", []string{"--profile", "public", "--contact", "https://me.example/", "--bootstrap", at + "/p2p/" + id}, "--profile public"},
		{"a taken port", []string{"--found", "--listen", at}, "in use"},
		{"a taken API", []string{"--found", "--api", "tcp:" + other.Addr().String()}, "a peer or another program"},
		{"no DNS server", []string{"--dns-seed", "nowhere.invalid", "--dns-server", "127.0.0.1:1"}, "--dns-server"},
	} {
		args := append([]string{"run", "--data-dir", filepath.Join(base, row.name), "--network", "one", "--dashboard", "off"}, row.args...)
		out, code := say(t, args...)
		if code != exitFailed || !strings.Contains(out, row.says) {
			t.Errorf("%s, exit code %d: %s", row.name, code, out)
		}
		plainOnly(t, row.name, out)
	}

	cmd := command(t, "run", "--data-dir", second, "--network", "one", "--dashboard", "off", "--bootstrap", addr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ring := func() string {
		out, _ := say(t, "ring", "--data-dir", first)
		return out
	}
	await(t, new(spoken), func() bool { return strings.Contains(ring(), "2 members; the ring is consistent") })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		plainOnly(t, "ring", ring())
		out, _ := say(t, "status", "--ring", "--data-dir", first)
		plainOnly(t, "status --ring", out)
	}
}
