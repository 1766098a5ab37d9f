// Package cluster runs many peers on this machine as real processes of one binary, each with a data
// directory of its own.
//
// A cluster is a directory: DIR/peer<i> keeps the data of peer i (from 1), its log (peer.log) and
// its process ID (peer.pid), and DIR/cluster.json what the peers were started with, so that a later
// command can add one like the others. DIR/job.key is the job key of all of them. Nothing else is
// kept: whether a peer runs is asked of the peer. A peer that was killed is started again with its
// old data by the next Up.
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

// MaxPeers bounds a cluster: peer i fetches from 127.0.1.i.
const MaxPeers = 250

// file is what cluster.json holds.
type file struct {
	Peers int      `json:"peers"`
	Args  []string `json:"args"`
	// FetchFrom is the address that peers count on from, where it is not that of loopback.
	FetchFrom netip.Addr `json:"fetch_from,omitzero"`
	// LatencyPeers is how many rows of the matrix of emulated distances are peers'.
	LatencyPeers int `json:"latency_peers,omitempty"`
	// WebPort is where cluster up --web serves: the URLs of its crawl name it.
	WebPort int `json:"web_port,omitempty"`
	// Joined are the peers that have served in the ring, and so remember others to come back by.
	Joined []int `json:"joined,omitempty"`
}

// Cluster is one directory of peers.
type Cluster struct {
	dir    string
	binary string
	spec   file
	held   bool // peers that start wait for Release

	mu        sync.Mutex // guards processes
	processes map[int]*process
}

// Open reads the cluster of dir, or prepares a new one where none is. binary is the program that
// peers run.
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

// Size is the number of peers that the directory knows, running or not.
func (c *Cluster) Size() int { return c.spec.Peers }

// PeerDir is the data directory of peer i.
func (c *Cluster) PeerDir(i int) string { return filepath.Join(c.dir, "peer"+strconv.Itoa(i)) }

// Client asks peer i.
func (c *Cluster) Client(i int) *control.Client {
	return control.NewClient(node.SocketPath(c.PeerDir(i)))
}

// FetchFrom has peer i fetch from the i-th address behind base instead of from 127.0.1.i. It holds
// for peers started from now on, by this or a later command.
func (c *Cluster) FetchFrom(base netip.Addr) { c.spec.FetchFrom = base }

// Emulate has so many rows of the matrix of --latency be peers'. Peer i is at row i-1 as long as
// there is one: a later peer may stand where a site is.
func (c *Cluster) Emulate(peers int) { c.spec.LatencyPeers = peers }

// LatencyPeers is how many rows are peers', 0 if that was never said.
func (c *Cluster) LatencyPeers() int { return c.spec.LatencyPeers }

// WebPort is the port of the synthetic web that the cluster crawls, 0 if it has none yet.
func (c *Cluster) WebPort() int { return c.spec.WebPort }

// KeepWebPort has Up record the port of the synthetic web.
func (c *Cluster) KeepWebPort(port int) { c.spec.WebPort = port }

// Tied and Free are what `run --held` reads before it fetches: Tied has it end with its input.
const (
	Tied byte = 't'
	Free byte = 'f'
)

// Hold has peers that are started from now on wait with fetching for Release, and end if this
// process ends before.
func (c *Cluster) Hold() { c.held = true }

// Release lets held peers fetch; Tied ones end once this process does, however it ends.
func (c *Cluster) Release(how byte) {
	c.held = false
	for _, i := range c.Running() {
		if ch := c.process(i).own(); ch != nil && ch.in != nil {
			_, _ = ch.in.Write([]byte{how}) // a peer that ended just now needs none
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

// Up starts peers 1 to n that do not run yet, with args behind `run`, and returns when all of them
// serve in one closed ring; n of 0 is as many as the directory knows, and no args are those of the
// last time. Peers that were in the ring before start all at once and find each other by what they
// remember. Another one is given the address of a peer that serves, since it would found a ring of
// its own otherwise; where there is none, peer 1 founds the ring.
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

// complete is WaitClosed for a ring that is to be found again.
func (c *Cluster) complete(ctx context.Context, n int, progress func(string)) error {
	if err := c.WaitClosed(ctx, n, progress); err != nil {
		return err
	}
	return c.joined(c.Running()...)
}

// byAge parts peers 1 to n into those that run or were in the ring before and those that are new,
// or ended before they were in it.
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

// startFresh starts peers without data once there is one that serves, which is the first of them if
// no other runs.
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
	// In waves, each as large as the ring it joins: a newcomer splits the largest arc it finds, and
	// those that come at once find the same one.
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

// joined notes peers that are in the ring.
func (c *Cluster) joined(peers ...int) error {
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.spec.Joined, peers))))
	if len(all) == len(c.spec.Joined) {
		return nil
	}
	c.spec.Joined = all
	return c.save()
}

// Add starts k more peers like the others and returns their numbers when the ring has taken them
// in.
func (c *Cluster) Add(ctx context.Context, k int, progress func(string)) ([]int, error) {
	running := len(c.Running())
	if running == 0 {
		return nil, control.Usage("no cluster runs in " + c.dir + ": begin with `apoidea cluster up`")
	}
	first := c.spec.Peers + 1
	if k < 1 || first+k-1 > MaxPeers {
		return nil, control.Usage(fmt.Sprintf("add %d: must be at least 1, and a cluster has at most %d peers", k, MaxPeers))
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

// Start starts peer i again with the data it has, and does not wait for it. One without data would
// found a ring of its own: see Add.
func (c *Cluster) Start(i int) error {
	if err := c.has(i); err != nil {
		return err
	}
	if c.runs(i) {
		return control.Usage(fmt.Sprintf("peer %d runs already", i))
	}
	if _, err := os.Stat(filepath.Join(c.PeerDir(i), "db")); err != nil {
		return control.Usage(fmt.Sprintf("peer %d has no data to go on with: `apoidea cluster up` starts it", i))
	}
	return c.start(i, "")
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
			return nil, fmt.Errorf("cluster: peer %d ended: %s", i, c.process(i).lastWords())
		}
		if err := loop.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("cluster: peer %d did not become ready: %w", i, err)
		}
	}
}

// WaitClosed waits until every running peer serves and the ring is closed with n members.
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
		if now := fmt.Sprintf("%d of %d peers in the ring", members, n); progress != nil && now != text {
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

// members walks the ring from the first peer that answers.
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

// Leave asks peer i to leave in good order and waits until its process has ended.
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

// Down ends all peers in good order, all at once, keeping their data; those that have not ended
// when ctx does are killed.
func (c *Cluster) Down(ctx context.Context) error {
	var group errgroup.Group
	for _, i := range c.Running() {
		group.Go(func() error { return c.process(i).stop(ctx) })
	}
	return group.Wait()
}
