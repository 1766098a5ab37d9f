// Package cluster runs many peers on this machine as real processes of one binary, each with a data directory of its own.
//
// A cluster is a directory: DIR/peer<i> keeps the data of peer i (from 1), its log (peer.log) and its process ID (peer.pid), and
// DIR/cluster.json what the peers were started with, so that a later command can add one like the others. Nothing else is kept: whether a
// peer runs is asked of the peer. A peer that was killed is started again with its old data by the next Up.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
)

// MaxPeers bounds a cluster: peer i fetches from 127.0.1.i.
const MaxPeers = 250

// file is what cluster.json holds.
type file struct {
	Peers int      `json:"peers"`
	Args  []string `json:"args"`
}

// Cluster is one directory of peers.
type Cluster struct {
	dir    string
	binary string
	spec   file

	mu       sync.Mutex // guards children
	children map[int]*child
}

// child is a peer process that this process started and has to reap.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process was reaped
	err  error         // how it ended; valid once done is closed
}

// Open reads the cluster of dir, or prepares a new one where none is. binary is the program that peers run.
func Open(dir, binary string) (*Cluster, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{dir: abs, binary: binary, children: make(map[int]*child)}
	raw, err := os.ReadFile(filepath.Join(abs, "cluster.json"))
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if err := json.Unmarshal(raw, &c.spec); err != nil {
		return nil, fmt.Errorf("cluster: %s/cluster.json: %w", abs, err)
	}
	return c, nil
}

// Size is the number of peers that the directory knows, running or not.
func (c *Cluster) Size() int { return c.spec.Peers }

// PeerDir is the data directory of peer i.
func (c *Cluster) PeerDir(i int) string { return filepath.Join(c.dir, "peer"+strconv.Itoa(i)) }

// Client asks peer i.
func (c *Cluster) Client(i int) *control.Client {
	return control.NewClient(node.SocketPath(c.PeerDir(i)))
}

func (c *Cluster) save() error {
	raw, err := json.MarshalIndent(c.spec, "", "  ")
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	tmp := filepath.Join(c.dir, "cluster.json.new")
	if err := os.WriteFile(tmp, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(c.dir, "cluster.json")); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// Up starts peers 1 to n that do not run yet, with args behind `run`, and returns when all of them serve in one closed ring. The first
// start of a directory lets peer 1 found the ring; later all start at once and find each other by what they remember.
func (c *Cluster) Up(ctx context.Context, n int, args []string, progress func(string)) error {
	if n < 1 || n > MaxPeers {
		return control.Usage(fmt.Sprintf("n %d: must be between 1 and %d", n, MaxPeers))
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	known := c.spec.Peers
	c.spec = file{Peers: max(n, known), Args: args}
	if err := c.save(); err != nil {
		return err
	}
	if known == 0 {
		if err := c.start(1); err != nil {
			return err
		}
		if _, err := c.ready(ctx, 1); err != nil {
			return err
		}
	}
	for i := 1; i <= n; i++ {
		if err := c.start(i); err != nil {
			return err
		}
	}
	return c.Settle(ctx, n, progress)
}

// Add starts k more peers like the others and returns their numbers when the ring has taken them in.
func (c *Cluster) Add(ctx context.Context, k int, progress func(string)) ([]int, error) {
	if c.spec.Peers == 0 {
		return nil, control.Usage("no cluster in " + c.dir + ": begin with `apoidea cluster up`")
	}
	running := len(c.Running(ctx))
	first := c.spec.Peers + 1
	if k < 1 || first+k-1 > MaxPeers {
		return nil, control.Usage(fmt.Sprintf("add %d: a cluster has at most %d peers", k, MaxPeers))
	}
	c.spec.Peers += k
	if err := c.save(); err != nil {
		return nil, err
	}
	var added []int
	for i := first; i < first+k; i++ {
		if err := c.start(i); err != nil {
			return added, err
		}
		added = append(added, i)
	}
	return added, c.Settle(ctx, running+k, progress)
}

// start starts peer i unless it runs.
func (c *Cluster) start(i int) error {
	if c.runs(i) {
		return nil
	}
	dir := c.PeerDir(i)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "peer.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer log.Close() // the process has its own descriptor
	args := []string{"run", "--data-dir", dir, "--fetch-from", "127.0.1." + strconv.Itoa(i)}
	if entry := c.entry(i); entry != "" {
		args = append(args, "--bootstrap", entry)
	}
	cmd := exec.Command(c.binary, append(args, c.spec.Args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cluster: peer %d: %w", i, err)
	}
	if err := os.WriteFile(c.pidFile(i), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o644); err != nil {
		return errors.Join(fmt.Errorf("cluster: peer %d: %w", i, err), cmd.Process.Kill(), cmd.Wait())
	}
	ch := &child{cmd: cmd, done: make(chan struct{})}
	c.mu.Lock()
	c.children[i] = ch
	c.mu.Unlock()
	go func() { // ends with the process it waits for
		ch.err = cmd.Wait()
		close(ch.done)
	}()
	return nil
}

// entry is an address of a running peer other than i, as its data directory tells.
func (c *Cluster) entry(i int) string {
	for j := 1; j <= c.spec.Peers; j++ {
		if j == i {
			continue
		}
		if raw, err := os.ReadFile(filepath.Join(c.PeerDir(j), node.AddrFile)); err == nil {
			if addr, _, _ := strings.Cut(string(raw), "\n"); addr != "" {
				return addr
			}
		}
	}
	return ""
}

func (c *Cluster) pidFile(i int) string { return filepath.Join(c.PeerDir(i), "peer.pid") }

// pid is the process of peer i, 0 if none is known to run.
func (c *Cluster) pid(i int) int {
	raw, err := os.ReadFile(c.pidFile(i))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}

func (c *Cluster) runs(i int) bool {
	c.mu.Lock()
	ch := c.children[i]
	c.mu.Unlock()
	if ch != nil {
		select {
		case <-ch.done:
			return false
		default:
			return true
		}
	}
	pid := c.pid(i)
	return pid != 0 && alive(pid, c.PeerDir(i))
}

// ready waits until peer i answers and serves.
func (c *Cluster) ready(ctx context.Context, i int) (*control.Status, error) {
	cl := c.Client(i)
	defer cl.Close()
	for {
		s, err := cl.Status(ctx, false)
		if err == nil && s.State != "joining" {
			return s, nil
		}
		if !c.runs(i) {
			return nil, fmt.Errorf("cluster: peer %d ended: %s", i, c.lastWords(i))
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("cluster: peer %d did not become ready: %w", i, err)
		}
	}
}

// lastWords is the end of a peer's log.
func (c *Cluster) lastWords(i int) string {
	f, err := os.Open(filepath.Join(c.PeerDir(i), "peer.log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const tail = 2000
	if end, err := f.Seek(0, io.SeekEnd); err == nil && end > tail {
		_, _ = f.Seek(end-tail, io.SeekStart)
	}
	raw, _ := io.ReadAll(io.LimitReader(f, tail))
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// Settle waits until every running peer serves and the ring is closed with n members.
func (c *Cluster) Settle(ctx context.Context, n int, progress func(string)) error {
	group, gctx := errgroup.WithContext(ctx)
	for _, i := range c.Running(ctx) {
		group.Go(func() error {
			_, err := c.ready(gctx, i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	text := ""
	for {
		members, closed := c.members(ctx)
		if closed && members >= n {
			return nil
		}
		if now := fmt.Sprintf("%d of %d peers in the ring", members, n); progress != nil && now != text {
			text = now
			progress(text)
		}
		if running := len(c.Running(ctx)); running < n {
			return fmt.Errorf("cluster: only %d of %d peers run; see the peer.log files in %s", running, n, c.dir)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("cluster: %d of %d peers in the ring: %w", members, n, err)
		}
	}
}

// members walks the ring from the first peer that answers.
func (c *Cluster) members(ctx context.Context) (n int, closed bool) {
	for _, i := range c.Running(ctx) {
		cl := c.Client(i)
		r, err := cl.Ring(ctx)
		cl.Close()
		if err == nil {
			return len(r.Members), r.Closed
		}
	}
	return 0, false
}

// Running lists the peers whose processes are alive.
func (c *Cluster) Running(context.Context) []int {
	var list []int
	for i := 1; i <= c.spec.Peers; i++ {
		if c.runs(i) {
			list = append(list, i)
		}
	}
	return list
}

// Kill ends peer i without warning, as a crash would.
func (c *Cluster) Kill(i int) error { return c.signal(i, syscall.SIGKILL) }

func (c *Cluster) signal(i int, sig syscall.Signal) error {
	if i < 1 || i > c.spec.Peers {
		return control.Usage(fmt.Sprintf("peer %d: the cluster has peers 1 to %d", i, c.spec.Peers))
	}
	if !c.runs(i) {
		return control.Usage(fmt.Sprintf("peer %d does not run", i))
	}
	p, err := os.FindProcess(c.pid(i))
	if err != nil {
		return fmt.Errorf("cluster: peer %d: %w", i, err)
	}
	if err := p.Signal(sig); err != nil {
		return fmt.Errorf("cluster: peer %d: %w", i, err)
	}
	return nil
}

// Leave asks peer i to leave in good order and waits until its process has ended.
func (c *Cluster) Leave(ctx context.Context, i int) error {
	if i < 1 || i > c.spec.Peers || !c.runs(i) {
		return control.Usage(fmt.Sprintf("peer %d does not run", i))
	}
	cl := c.Client(i)
	defer cl.Close()
	if err := cl.Leave(ctx); err != nil {
		return fmt.Errorf("cluster: peer %d: %w", i, err)
	}
	return c.gone(ctx, i)
}

// gone waits until peer i has ended.
func (c *Cluster) gone(ctx context.Context, i int) error {
	for c.runs(i) {
		if err := pause(ctx, 30*time.Millisecond); err != nil {
			return fmt.Errorf("cluster: peer %d has not ended: %w", i, err)
		}
	}
	_ = os.Remove(c.pidFile(i))
	return nil
}

// Down ends all peers in good order, all at once, keeping their data; those that have not ended when ctx does are killed.
func (c *Cluster) Down(ctx context.Context) error {
	var group errgroup.Group
	for _, i := range c.Running(ctx) {
		group.Go(func() error {
			if err := c.signal(i, syscall.SIGTERM); err != nil && c.runs(i) {
				return err
			}
			if c.gone(ctx, i) == nil {
				return nil
			}
			if err := c.Kill(i); err != nil && c.runs(i) {
				return err
			}
			return fmt.Errorf("cluster: peer %d did not stop in time and was killed: %s", i, c.lastWords(i))
		})
	}
	return group.Wait()
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
