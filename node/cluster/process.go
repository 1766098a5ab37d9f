package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
)

// child is a peer process that this process started and has to reap.
type child struct {
	cmd  *exec.Cmd
	from int64         // where its words begin in the log
	done chan struct{} // closed when the process was reaped
	err  error         // how it ended; valid once done is closed
}

// start starts peer i unless it runs; entry, if any, is the address of a peer to join by.
func (c *Cluster) start(i int, entry string) error {
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
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	args := []string{"run", "--data-dir", dir}
	if from := c.fetchFrom(i); from.IsValid() {
		args = append(args, "--fetch-from", from.String())
	}
	if slices.ContainsFunc(c.spec.Args, func(a string) bool { return strings.HasPrefix(a, "--latency=") }) {
		args = append(args, "--latency-row", strconv.Itoa(i-1), "--latency-peers", strconv.Itoa(c.spec.LatencyPeers))
	}
	if entry != "" {
		args = append(args, "--bootstrap", entry)
	}
	cmd := exec.Command(c.binary, append(args, ofPeer(c.spec.Args, i)...)...) //nolint:noctx // a peer outlives the command that starts it
	cmd.Env = append(ownEnviron(), c.share()...)
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cluster: peer %d: %w", i, err)
	}
	if err := os.WriteFile(c.pidFile(i), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o644); err != nil {
		return errors.Join(fmt.Errorf("cluster: peer %d: %w", i, err), cmd.Process.Kill(), cmd.Wait())
	}
	ch := &child{cmd: cmd, from: from, done: make(chan struct{})}
	c.mu.Lock()
	c.children[i] = ch
	c.mu.Unlock()
	go func() { // ends with the process it waits for
		ch.err = cmd.Wait()
		close(ch.done)
	}()
	return nil
}

// fetchFrom is the source address of peer i's fetches; the zero value leaves it to the system.
func (c *Cluster) fetchFrom(i int) netip.Addr {
	from := c.spec.FetchFrom
	if !from.IsValid() {
		if runtime.GOOS != "linux" && runtime.GOOS != "windows" { // elsewhere 127.0.0.1 is all there is of loopback
			return netip.Addr{}
		}
		from = netip.AddrFrom4([4]byte{127, 0, 1, 0})
	}
	for range i {
		from = from.Next()
	}
	return from
}

// ownEnviron is this process's environment without the variables that stand for flags: the flags that peers are to share are passed to them in
// words, and the others (a socket, a configuration file, --until-idle) are meant for the command that starts them.
func ownEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "APOIDEA_") })
}

// share tells a peer to use its part of the machine's processors, where GOMAXPROCS does not say another: peers that each think all of them their
// own spend a tenth of their time on looking for work.
func (c *Cluster) share() []string {
	if os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	const generous = 2 // rarely are all peers busy at once
	return []string{"GOMAXPROCS=" + strconv.Itoa(min(max(generous*runtime.NumCPU()/max(c.spec.Peers, 1), 1), runtime.NumCPU()))}
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

// lastWords is the end of a peer's log, of its present run if this process started it.
func (c *Cluster) lastWords(i int) string {
	f, err := os.Open(filepath.Join(c.PeerDir(i), "peer.log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	c.mu.Lock()
	from := int64(0)
	if ch := c.children[i]; ch != nil {
		from = ch.from
	}
	c.mu.Unlock()
	const tail = 2000
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	raw := make([]byte, min(tail, max(0, end-from)))
	n, _ := f.ReadAt(raw, end-int64(len(raw))) // what cannot be read is not said
	lines := strings.Split(strings.TrimSpace(string(raw[:n])), "\n")
	return strings.TrimPrefix(strings.Join(lines[max(0, len(lines)-3):], " | "), "apoidea: ")
}

// Kill ends peer i without warning, as a crash would, and returns when its process is gone.
func (c *Cluster) Kill(ctx context.Context, i int) error {
	if err := c.must(i); err != nil {
		return err
	}
	if err := c.signal(i, (*os.Process).Kill); err != nil {
		return err
	}
	return c.gone(ctx, i)
}

// signal tells the process of peer i something, if it has not ended. Without a process ID another command has ended it, and its end is yet to be heard of here.
func (c *Cluster) signal(i int, send func(*os.Process) error) error {
	pid := c.pid(i)
	if pid == 0 {
		return nil
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = send(p)
	}
	if err != nil && c.runs(i) {
		return fmt.Errorf("cluster: peer %d: %w", i, err)
	}
	return nil
}

// has refuses peers that the cluster does not have.
func (c *Cluster) has(i int) error {
	switch {
	case c.spec.Peers == 0:
		return control.Usage("no cluster in " + c.dir + ": begin with `apoidea cluster up`, or name its --dir")
	case i < 1 || i > c.spec.Peers:
		return control.Usage(fmt.Sprintf("peer %d: the cluster has peers 1 to %d", i, c.spec.Peers))
	}
	return nil
}

// must refuses peers that the cluster does not have or that do not run.
func (c *Cluster) must(i int) error {
	if err := c.has(i); err != nil {
		return err
	}
	if !c.runs(i) {
		return control.Usage(fmt.Sprintf("peer %d does not run; running: %v", i, c.Running()))
	}
	return nil
}

// gone waits until peer i has ended.
func (c *Cluster) gone(ctx context.Context, i int) error {
	for c.runs(i) {
		if err := loop.Sleep(ctx, 30*time.Millisecond); err != nil {
			return fmt.Errorf("cluster: peer %d has not ended: %w", i, err)
		}
	}
	_ = os.Remove(c.pidFile(i))
	return nil
}

func (c *Cluster) stop(ctx context.Context, i int) error {
	if err := c.signal(i, terminate); err != nil {
		return err
	}
	if c.gone(ctx, i) == nil {
		return nil
	}
	kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	if err := c.Kill(kill, i); err != nil && c.runs(i) {
		return err
	}
	return fmt.Errorf("cluster: peer %d did not stop in time and was killed: %s", i, c.lastWords(i))
}

// killTime is how long the system may take to end a process that was killed.
const killTime = 5 * time.Second
