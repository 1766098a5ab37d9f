package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	code, err := withBinary(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withBinary(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "apoidea-cluster")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "apoidea")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "../../../cmd/apoidea")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released, and as other steps of the gate have built it already
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build: %w: %s", err, out)
	}
	return m.Run(), nil
}

// open makes a cluster whose peers are gone when the test ends.
func open(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := Open(dir, binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Down(ctx); err != nil {
			t.Errorf("down: %v", err)
		}
	})
	return c
}

// must fails the test where a step of a scene fails, with the words of the peers.
func must(t *testing.T, c *Cluster, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for i := 1; i <= c.Size(); i++ {
		t.Logf("peer %d: %s", i, c.process(i).lastWords())
	}
	t.Fatal(err)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// names are the peers that each number has, as they say themselves.
func names(t *testing.T, c *Cluster) map[int]string {
	t.Helper()
	out := make(map[int]string)
	for _, i := range c.Running() {
		cl := c.Client(i)
		s, err := cl.Status(within(t), false)
		cl.Close()
		must(t, c, err)
		out[i] = s.Peer
	}
	return out
}

// checkRing asks every running peer for the ring: each must see all of them and nobody else.
func checkRing(t *testing.T, c *Cluster, want []int) {
	t.Helper()
	if got := c.Running(); !slices.Equal(got, want) {
		t.Fatalf("peers %v run, want %v", got, want)
	}
	must(t, c, c.WaitClosed(within(t), len(want), nil))
	have := names(t, c)
	for _, i := range want {
		cl := c.Client(i)
		r, err := cl.Ring(within(t))
		cl.Close()
		must(t, c, err)
		if !r.Closed || len(r.Members) != len(want) {
			t.Errorf("peer %d sees %d members, closed %v (%s): want %d", i, len(r.Members), r.Closed, r.Error, len(want))
		}
		for _, m := range r.Members {
			if !slices.Contains(want, numberOf(have, m.Peer)) {
				t.Errorf("peer %d sees %s, which does not run", i, m.Peer)
			}
		}
	}
}

func numberOf(names map[int]string, peer string) int {
	for i, name := range names {
		if name == peer {
			return i
		}
	}
	return 0
}

var peerArgs = []string{"--network", "cluster-test", "--allow-private", "--delay=0"}

// Slow: starts, kills and restarts peers as processes.
func TestLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	var told []string
	must(t, c, c.Up(within(t), 3, peerArgs, func(text string) { told = append(told, text) }))
	checkRing(t, c, []int{1, 2, 3})
	first := names(t, c)
	keys := make(map[string]bool)
	for _, i := range c.Running() {
		cl := c.Client(i)
		key, err := cl.JobKey(within(t))
		cl.Close()
		must(t, c, err)
		keys[key.ID] = true
	}
	if len(keys) != 1 || keys[first[1]] {
		t.Errorf("job keys %v, want one of all that is no peer's", keys)
	}

	must(t, c, c.Kill(within(t), 2))
	checkRing(t, c, []int{1, 3})

	// Another command on the same directory, which did not start the peers: it sees them, and
	// starts the killed one with its old name.
	again := open(t, dir)
	must(t, again, again.Up(within(t), 0, nil, nil))
	checkRing(t, again, []int{1, 2, 3})
	if now := names(t, again); now[2] != first[2] || now[1] != first[1] {
		t.Errorf("peers %v, want those of before: %v", now, first)
	}
	if !slices.Equal(again.spec.Args, peerArgs) {
		t.Errorf("args %q, want those of the last time: %q", again.spec.Args, peerArgs)
	}

	added, err := again.Add(within(t), 2, nil)
	must(t, again, err)
	if !slices.Equal(added, []int{4, 5}) {
		t.Errorf("added %v, want 4 and 5", added)
	}
	checkRing(t, again, []int{1, 2, 3, 4, 5})

	must(t, again, again.Leave(within(t), 3))
	checkRing(t, again, []int{1, 2, 4, 5})

	must(t, again, again.Down(within(t)))
	if left := again.Running(); len(left) > 0 {
		t.Errorf("peers %v run after down", left)
	}
}

func TestNewPeersJoinTheRestarted(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir())
	must(t, c, c.Up(within(t), 2, peerArgs, nil))
	must(t, c, c.Down(within(t)))
	// Two that remember each other and two that remember nobody: one ring, not three.
	must(t, c, c.Up(within(t), 4, peerArgs, nil))
	checkRing(t, c, []int{1, 2, 3, 4})
}

// TestBrokenOffBefore: a peer that has data, and was in no ring but one of its own when it was
// killed, is taken in.
func TestBrokenOffBefore(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir())
	must(t, c, c.Up(within(t), 1, peerArgs, nil))
	c.spec.Peers = 2
	must(t, c, c.save())
	must(t, c, c.start(2, ""))
	_, err := c.ready(within(t), 2)
	must(t, c, err)
	for i := range 2 {
		must(t, c, c.Kill(within(t), i+1))
	}
	again := open(t, c.dir)
	must(t, again, again.Up(within(t), 0, nil, nil))
	checkRing(t, again, []int{1, 2})
}

// Slow: starts a ring of processes twice.
func TestAllKilledAtOnce(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir())
	must(t, c, c.Up(within(t), 3, peerArgs, nil))
	for i := range 3 {
		must(t, c, c.Kill(within(t), i+1))
	}
	must(t, c, c.Up(within(t), 3, nil, nil))
	checkRing(t, c, []int{1, 2, 3})
	for i := range 3 {
		must(t, c, c.Kill(within(t), i+1))
	}
	for _, i := range []int{3, 1, 2} {
		must(t, c, c.Start(i))
	}
	checkRing(t, c, []int{1, 2, 3})
}

// TestEndedByAnother: a peer that another command has ended, which this one has yet to hear of, is
// no error.
func TestEndedByAnother(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir())
	c.spec.Peers = 1
	ch := &child{done: make(chan struct{})}
	c.process(1).child = ch
	time.AfterFunc(50*time.Millisecond, func() { close(ch.done) })
	if err := c.Down(within(t)); err != nil || len(c.Running()) > 0 {
		t.Errorf("down: %v; %v run", err, c.Running())
	}
}

func TestFetchFrom(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux is sure to have the whole of 127.0.0.0/8")
	}
	for _, row := range []struct {
		name, base string
		peer       int
		want       string
	}{
		{"loopback", "", 3, "127.0.1.3"},
		{"another network", "10.9.8.0", 7, "10.9.8.7"},
		{"over the end of a byte", "10.9.8.250", 10, "10.9.9.4"},
		{"IPv6", "fd00::", 16, "fd00::10"},
	} {
		c := new(Cluster)
		if row.base != "" {
			c.FetchFrom(netip.MustParseAddr(row.base))
		}
		if got := c.fetchFrom(row.peer).String(); got != row.want {
			t.Errorf("%s: peer %d fetches from %s, want %s", row.name, row.peer, got, row.want)
		}
	}
}

func TestPeerThatCannotStart(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir())
	err := c.Up(within(t), 2, []string{"--placement", "nowhere"}, nil)
	if err == nil || !strings.Contains(err.Error(), "peer 1 ended") {
		t.Errorf("error %v, want the number of the peer and its words", err)
	}
	err = c.Up(within(t), 2, []string{"--fetchers", "-1"}, nil)
	if err == nil || !strings.Contains(err.Error(), "fetchers -1: must be between") {
		t.Errorf("error %v, want the words of the peer", err)
	}
}

func TestEnvironmentOfPeers(t *testing.T) {
	t.Setenv("APOIDEA_API", filepath.Join(t.TempDir(), "mine.sock")) // of the command; two peers cannot share it
	t.Setenv("APOIDEA_UNTIL_IDLE", "true")
	c := open(t, t.TempDir())
	must(t, c, c.Up(within(t), 2, peerArgs, nil))
	checkRing(t, c, []int{1, 2})
}

func TestWrongUsage(t *testing.T) {
	c := open(t, t.TempDir())
	ctx := within(t)
	if _, err := c.Add(ctx, 1, nil); control.KindOf(err) != control.KindUsage {
		t.Errorf("add to nothing: %v", err)
	}
	if err := c.Kill(ctx, 1); control.KindOf(err) != control.KindUsage {
		t.Errorf("kill of nothing: %v", err)
	}
	if err := c.Up(ctx, 0, nil, nil); control.KindOf(err) != control.KindUsage {
		t.Errorf("up of nothing: %v", err)
	}
	if err := c.Up(ctx, MaxPeers+1, nil, nil); control.KindOf(err) != control.KindUsage {
		t.Errorf("up of too many: %v", err)
	}
	if err := c.Down(ctx); err != nil {
		t.Errorf("down of nothing: %v", err)
	}
	must(t, c, c.Up(ctx, 1, peerArgs, nil))
	for name, err := range map[string]error{
		"kill of 0": c.Kill(ctx, 0), "kill of 2": c.Kill(ctx, 2), "leave of 2": c.Leave(ctx, 2), "add of too many": errOf(c.Add(ctx, MaxPeers, nil)),
		"start of one that runs": c.Start(1), "start of 2": c.Start(2),
	} {
		if control.KindOf(err) != control.KindUsage {
			t.Errorf("%s: %v, want an error of usage", name, err)
		}
	}
}

func errOf(_ []int, err error) error { return err }

func TestSettleSaysWhoIsMissing(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir())
	must(t, c, c.Up(within(t), 1, peerArgs, nil))
	if err := c.WaitClosed(within(t), 2, nil); err == nil || !strings.Contains(err.Error(), "only 1 of 2 peers run") {
		t.Errorf("error %v, want that one of two is missing", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.WaitClosed(ctx, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestOpenRefusesWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, binary); err == nil {
		t.Error("a broken cluster.json was taken")
	}
}

// A process of another directory is not this peer's, though a file left behind names its ID.
func TestProcessIDsAreUsedAgain(t *testing.T) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("no /proc here: a process ID is all there is")
	}
	c := open(t, t.TempDir())
	c.spec.Peers = 1
	if err := os.MkdirAll(c.PeerDir(1), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.process(1).pidFile(), fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	if c.runs(1) {
		t.Error("this test is taken for peer 1")
	}
}
