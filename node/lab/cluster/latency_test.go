package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestDistances: peers of a cluster with emulated distances stand where their rows are, which stays
// so when they start again and when one is added, and a question to another takes the round trip.
//
// Slow: peers measure their distances, a second apart.
func TestDistances(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("emulated distances need all of 127.0.0.0/8 as loopback")
	}
	const rows, apart = 12, 40.0 // ms
	matrix := filepath.Join(t.TempDir(), "rtt.csv")
	var csv strings.Builder
	for i := range rows {
		line := make([]string, rows)
		for j := range line {
			line[j] = fmt.Sprint(apart)
		}
		line[i] = "0"
		csv.WriteString(strings.Join(line, ",") + "\n")
	}
	if err := os.WriteFile(matrix, []byte(csv.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, t.TempDir())
	c.Emulate(2)
	must(t, c, c.Up(within(t), 2, append(slices.Clone(peerArgs), "--latency="+matrix), nil))
	first := stands(t, c)
	must(t, c, c.Down(within(t)))
	must(t, c, c.Up(within(t), 0, nil, nil))
	if again := stands(t, c); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("started again at %v, before at %v", again, first)
	}
	if _, err := c.Add(within(t), 1, nil); err != nil {
		must(t, c, err)
	}
	if len(stands(t, c)) != 3 || c.LatencyPeers() != 2 {
		t.Errorf("%v, %d rows for peers; want 3 peers, and the rows of sites where they were", stands(t, c), c.LatencyPeers())
	}
	cl := c.Client(1)
	defer cl.Close()
	l, err := cl.Lookup(within(t), "no.such.host.example")
	must(t, c, err)
	for _, hop := range l.Trace {
		if hop.Peer != names(t, c)[1] && hop.LatencyMs > 0 && hop.LatencyMs < apart {
			t.Errorf("%s answered after %.1f ms, which is nearer than it is", hop.Peer, hop.LatencyMs)
		}
	}
}

// stands are the addresses of the running peers, which have to be those of their rows.
func stands(t *testing.T, c *Cluster) (out []string) {
	t.Helper()
	for _, i := range c.Running() {
		cl := c.Client(i)
		s, err := cl.Status(within(t), false)
		cl.Close()
		must(t, c, err)
		if len(s.Addrs) != 1 || !strings.HasPrefix(s.Addrs[0], fmt.Sprintf("/ip4/127.0.2.%d/tcp/", i)) {
			t.Errorf("peer %d is at %v", i, s.Addrs)
		}
		out = append(out, s.Addrs...)
	}
	return out
}
