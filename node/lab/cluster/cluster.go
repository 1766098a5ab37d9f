// Package cluster runs many peers on this machine as processes of one binary, each with its own
// data directory.
//
// A cluster is a directory. DIR/peer<i> contains the data of peer i (from 1), its log (peer.log)
// and its process ID (peer.pid). DIR/cluster.json stores the flags of the peers, so that a later
// command can add similar ones, and DIR/job.key their job key. The API of a peer shows whether it
// runs. Up restarts a killed peer with its data.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
)

// MaxPeers limits a cluster: peer i fetches from 127.0.1.i.
const MaxPeers = 250

// file is the content of cluster.json.
type file struct {
	Peers int      `json:"peers"`
	Args  []string `json:"args"`
	// FetchFrom is the base of the source addresses of fetches, if not loopback.
	FetchFrom netip.Addr `json:"fetch_from,omitzero"`
	// LatencyPeers is the number of rows for peers in the matrix of emulated latencies.
	LatencyPeers int `json:"latency_peers,omitempty"`
	// WebPort is the port of cluster up --web, which is part of the crawled URLs.
	WebPort int `json:"web_port,omitempty"`
	// Joined are the peers that have joined the ring, and so remember others to rejoin through.
	Joined []int `json:"joined,omitempty"`
}

// Cluster is one directory of peers.
type Cluster struct {
	dir    string
	binary string
	spec   file
	held   bool // started peers wait for Release

	mu        sync.Mutex // guards processes
	processes map[int]*process
}

// Open opens the cluster of dir, or prepares a new one. binary is the program of the peers.
func Open(dir, binary string) (*Cluster, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{dir: abs, binary: binary, processes: make(map[int]*process)}
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

// Size returns the number of peers, running or not.
func (c *Cluster) Size() int { return c.spec.Peers }

// PeerDir returns the data directory of peer i.
func (c *Cluster) PeerDir(i int) string { return filepath.Join(c.dir, "peer"+strconv.Itoa(i)) }

// Client returns a client of peer i.
func (c *Cluster) Client(i int) *control.Client {
	return control.NewClient(node.SocketPath(c.PeerDir(i)))
}

// FetchFrom makes peer i fetch from the i-th address after base instead of 127.0.1.i. It applies to
// peers started later, also by other commands.
func (c *Cluster) FetchFrom(base netip.Addr) { c.spec.FetchFrom = base }

// Emulate sets the number of rows for peers in the matrix of --latency. Peer i is at row i-1 if it
// exists; later peers share rows with sites.
func (c *Cluster) Emulate(peers int) { c.spec.LatencyPeers = peers }

// LatencyPeers returns the number of rows for peers, 0 if not set.
func (c *Cluster) LatencyPeers() int { return c.spec.LatencyPeers }

// WebPort returns the port of the synthetic web that the cluster crawls, 0 if none.
func (c *Cluster) WebPort() int { return c.spec.WebPort }

// KeepWebPort sets the port of the synthetic web, which Up stores.
func (c *Cluster) KeepWebPort(port int) { c.spec.WebPort = port }

// Tied and Free are the input of `run --held` before it fetches: Tied makes it exit at the end of
// its input.
const (
	Tied byte = 't'
	Free byte = 'f'
)

// Hold makes peers that are started later wait for Release before fetching, and exit if this
// process ends before.
func (c *Cluster) Hold() { c.held = true }

// Release lets held peers fetch; with Tied they exit when this process does, in any way.
func (c *Cluster) Release(how byte) {
	c.held = false
	for _, i := range c.Running() {
		if ch := c.process(i).own(); ch != nil && ch.in != nil {
			_, _ = ch.in.Write([]byte{how}) // the peer may have exited
		}
	}
}

func (c *Cluster) save() error {
	raw, err := json.MarshalIndent(c.spec, "", "  ")
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	tmp := filepath.Join(c.dir, "cluster.json.new")
	if err := os.WriteFile(tmp, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(c.dir, "cluster.json")); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// Up starts those of peers 1 to n that do not run, with args after `run`, and returns when all
// serve in one consistent ring. An n of 0 is the number of peers in the directory, and no args are
// those of the last time. Peers that were in the ring start concurrently and find each other by
// stored addresses. Other peers get the address of a member, because they would found a ring
// otherwise; without a member, peer 1 founds the ring.
func (c *Cluster) Up(ctx context.Context, n int, args []string, progress func(string)) error {
	if n == 0 {
		n = c.spec.Peers
	}
	if n < 1 || n > MaxPeers {
		return control.Usage(fmt.Sprintf("n %d: must be between 1 and %d", n, MaxPeers))
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if len(args) == 0 {
		args = c.spec.Args
	}
	c.spec.Peers, c.spec.Args = max(n, c.spec.Peers), args
	if err := c.save(); err != nil {
		return err
	}
	known, fresh := c.byAge(n)
	if err := c.startAll(known, ""); err != nil {
		return err
	}
	if len(fresh) > 0 {
		if err := c.startFresh(ctx, fresh); err != nil {
			return err
		}
	}
	return c.complete(ctx, n+len(slices.DeleteFunc(c.Running(), func(i int) bool { return i <= n })), progress)
}

// complete is WaitClosed for a ring that reforms.
func (c *Cluster) complete(ctx context.Context, n int, progress func(string)) error {
	if err := c.WaitClosed(ctx, n, progress); err != nil {
		return err
	}
	return c.joined(c.Running()...)
}

// byAge splits peers 1 to n into those that run or were in the ring before, and those that never
// joined.
func (c *Cluster) byAge(n int) (known, fresh []int) {
	for i := 1; i <= n; i++ {
		_, err := os.Stat(filepath.Join(c.PeerDir(i), "db"))
		if err == nil && slices.Contains(c.spec.Joined, i) || c.runs(i) {
			known = append(known, i)
		} else {
			fresh = append(fresh, i)
		}
	}
	return known, fresh
}

func (c *Cluster) startAll(peers []int, entry string) error {
	for _, i := range peers {
		if err := c.start(i, entry); err != nil {
			return err
		}
	}
	return nil
}

// startFresh starts peers without data after there is a member, which is the first of them if no
// other runs.
func (c *Cluster) startFresh(ctx context.Context, fresh []int) error {
	if len(c.Running()) == 0 {
		if err := c.start(fresh[0], ""); err != nil {
			return err
		}
		fresh = fresh[1:]
	}
	entry := c.Running()[0]
	s, err := c.ready(ctx, entry)
	if err != nil {
		return err
	}
	if err := c.joined(entry); err != nil {
		return err
	}
	if len(s.Addrs) == 0 {
		return fmt.Errorf("cluster: peer %d has no address for others to join by", entry)
	}
	// In waves, each as large as the ring: a joining peer splits the largest arc, and concurrent joins
	// choose the same one.
	for wave := len(c.Running()); len(fresh) > 0; wave *= 2 {
		n := min(wave, len(fresh))
		if err := c.startAll(fresh[:n], s.Addrs[0]); err != nil {
			return err
		}
		for _, i := range fresh[:n] {
			if _, err := c.ready(ctx, i); err != nil {
				return err
			}
		}
		fresh = fresh[n:]
	}
	return nil
}

// joined records peers that are in the ring.
func (c *Cluster) joined(peers ...int) error {
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.spec.Joined, peers))))
	if len(all) == len(c.spec.Joined) {
		return nil
	}
	c.spec.Joined = all
	return c.save()
}

// Add starts k more peers with the same flags and returns their numbers when they are in the ring.
func (c *Cluster) Add(ctx context.Context, k int, progress func(string)) ([]int, error) {
	running := len(c.Running())
	if running == 0 {
		return nil, control.Usage("no cluster runs in " + c.dir + ": start one with `apoidea cluster up`")
	}
	first := c.spec.Peers + 1
	if k < 1 || first+k-1 > MaxPeers {
		return nil, control.Usage(fmt.Sprintf("add %d: must be at least 1, with at most %d peers in total", k, MaxPeers))
	}
	c.spec.Peers += k
	if err := c.save(); err != nil {
		return nil, err
	}
	var added []int
	for i := first; i < first+k; i++ {
		added = append(added, i)
	}
	if err := c.startFresh(ctx, added); err != nil {
		return nil, err
	}
	return added, c.complete(ctx, running+k, progress)
}

// Start restarts peer i with its data, and does not wait for it. A peer without data would found
// its own ring: see Add.
func (c *Cluster) Start(i int) error {
	if err := c.has(i); err != nil {
		return err
	}
	if c.runs(i) {
		return control.Usage(fmt.Sprintf("peer %d is running", i))
	}
	if _, err := os.Stat(filepath.Join(c.PeerDir(i), "db")); err != nil {
		return control.Usage(fmt.Sprintf("peer %d has no data: start it with `apoidea cluster up`", i))
	}
	return c.start(i, "")
}

// ready waits until peer i responds and serves.
func (c *Cluster) ready(ctx context.Context, i int) (*control.Status, error) {
	cl := c.Client(i)
	defer cl.Close()
	for {
		s, err := cl.Status(ctx, false)
		if err == nil && s.State != "joining" {
			return s, nil
		}
		if !c.runs(i) {
			return nil, fmt.Errorf("cluster: peer %d ended: %s", i, c.process(i).lastWords())
		}
		if err := loop.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("cluster: peer %d did not become ready: %w", i, err)
		}
	}
}

// WaitClosed waits until every running peer serves and the ring is consistent with n members.
func (c *Cluster) WaitClosed(ctx context.Context, n int, progress func(string)) error {
	group, gctx := errgroup.WithContext(ctx)
	for _, i := range c.Running() {
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
		if now := fmt.Sprintf("%d of %d peers in the ring", members, n); progress != nil && members < n && now != text {
			text = now
			progress(text)
		}
		if running := len(c.Running()); running < n {
			return fmt.Errorf("cluster: only %d of %d peers run; see the peer.log files in %s", running, n, c.dir)
		}
		if err := loop.Sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("cluster: %d of %d peers in the ring: %w", members, n, err)
		}
	}
}

// members walks the ring from the first peer that responds.
func (c *Cluster) members(ctx context.Context) (n int, closed bool) {
	for _, i := range c.Running() {
		cl := c.Client(i)
		r, err := cl.Ring(ctx)
		cl.Close()
		if err == nil {
			return len(r.Members), r.Closed
		}
	}
	return 0, false
}

// Leave makes peer i leave the ring and waits for the exit of its process.
func (c *Cluster) Leave(ctx context.Context, i int) error {
	if err := c.must(i); err != nil {
		return err
	}
	cl := c.Client(i)
	defer cl.Close()
	if err := cl.Leave(ctx); err != nil && control.KindOf(err) != control.KindAlone {
		return fmt.Errorf("cluster: peer %d: %w", i, err)
	}
	return c.process(i).gone(ctx)
}

// Down stops all peers concurrently and keeps their data; it kills those still running when ctx
// ends.
func (c *Cluster) Down(ctx context.Context) error {
	var group errgroup.Group
	for _, i := range c.Running() {
		group.Go(func() error { return c.process(i).stop(ctx) })
	}
	return group.Wait()
}
