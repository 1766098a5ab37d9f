package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/jobs"
)

// process returns the process of peer i.
func (c *Cluster) process(i int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[i]
	if p == nil {
		p = &process{peer: i, dir: c.PeerDir(i)}
		c.processes[i] = p
	}
	return p
}

func (c *Cluster) runs(i int) bool { return c.process(i).runs() }

// Running lists the peers whose processes are alive.
func (c *Cluster) Running() []int {
	var list []int
	for i := 1; i <= c.spec.Peers; i++ {
		if c.runs(i) {
			list = append(list, i)
		}
	}
	return list
}

// start starts peer i unless it runs; entry is the address of a peer to join through, if any.
func (c *Cluster) start(i int, entry string) error {
	p := c.process(i)
	if p.runs() {
		return nil
	}
	args := []string{"run", "--data-dir", p.dir, "--name", filepath.Base(p.dir)}
	if from := c.fetchFrom(i); from.IsValid() {
		args = append(args, "--fetch-from", from.String())
	}
	if slices.ContainsFunc(c.spec.Args, func(a string) bool { return strings.HasPrefix(a, "--latency=") }) {
		args = append(args, "--latency-row", strconv.Itoa(i-1), "--latency-peers", strconv.Itoa(c.spec.LatencyPeers))
	}
	if !slices.ContainsFunc(c.spec.Args, func(a string) bool { return strings.HasPrefix(a, "--job-key=") }) {
		file := filepath.Join(c.dir, "job.key")
		if _, err := jobs.ReadKey(file); err != nil { // before concurrent peers create one each
			return fmt.Errorf("cluster: %w", err)
		}
		args = append(args, "--job-key", file)
	}
	if entry != "" {
		args = append(args, "--bootstrap", entry)
	}
	if c.held {
		args = append(args, "--held")
	}
	return p.start(c.binary, append(args, ofPeer(c.spec.Args, i)...), append(ownEnviron(), c.share()...), c.held)
}

// fetchFrom returns the source address of peer i's fetches; zero: chosen by the system.
func (c *Cluster) fetchFrom(i int) netip.Addr {
	from := c.spec.FetchFrom
	if !from.IsValid() {
		if runtime.GOOS != "linux" && runtime.GOOS != "windows" { // others have only 127.0.0.1
			return netip.Addr{}
		}
		from = netip.AddrFrom4([4]byte{127, 0, 1, 0})
	}
	for range i {
		from = from.Next()
	}
	return from
}

// ownEnviron returns the environment without the variables for flags. Shared flags are passed to
// peers on the command line; the others (a socket, a configuration file, --until-idle) are for the
// starting command.
func ownEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "APOIDEA_") })
}

// share limits a peer to its part of the processors, unless GOMAXPROCS is set: otherwise the
// schedulers of all peers spend a tenth of the time on searching for work.
func (c *Cluster) share() []string {
	if os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	const generous = 2 // peers are rarely all busy
	return []string{"GOMAXPROCS=" + strconv.Itoa(min(max(generous*runtime.NumCPU()/max(c.spec.Peers, 1), 1), runtime.NumCPU()))}
}

// Kill kills peer i as a crash would, and waits for the exit of its process.
func (c *Cluster) Kill(ctx context.Context, i int) error {
	if err := c.must(i); err != nil {
		return err
	}
	return c.process(i).kill(ctx)
}

// has rejects peers that the cluster does not have.
func (c *Cluster) has(i int) error {
	switch {
	case c.spec.Peers == 0:
		return control.Usage("no cluster in " + c.dir + ": start one with `apoidea cluster up`, or set its --dir")
	case i < 1 || i > c.spec.Peers:
		return control.Usage(fmt.Sprintf("peer %d: the cluster has peers 1 to %d", i, c.spec.Peers))
	}
	return nil
}

// must rejects peers that the cluster does not have or that do not run.
func (c *Cluster) must(i int) error {
	if err := c.has(i); err != nil {
		return err
	}
	if !c.runs(i) {
		return control.Usage(fmt.Sprintf("peer %d is not running; running: %v", i, c.Running()))
	}
	return nil
}
