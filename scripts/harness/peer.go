// Package harness is what the trials beside it have in common: real peers, the web that they crawl,
// what the kernel says of a process, and how a verdict is printed.
package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// Peer is a running process of the product.
type Peer struct {
	Dir    string // its data; beside it lie its log (.log), its output (.out) and its process ID (.pid)
	Client *control.Client
	Done   chan struct{} // closed when the process has ended
	Err    error         // valid from then on

	cmd *exec.Cmd
}

// Start runs `apoidea run` with its data in a directory of its own until ctx ends, and returns as
// soon as the process is there.
func Start(ctx context.Context, work, name string, env []string, args ...string) (*Peer, error) {
	p := &Peer{Dir: filepath.Join(work, name), Done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, "apoidea", append([]string{"run", "--data-dir", p.Dir}, args...)...)
	p.cmd.Env = append(os.Environ(), env...)
	for end, to := range map[string]*io.Writer{".log": &p.cmd.Stderr, ".out": &p.cmd.Stdout} {
		f, err := os.Create(p.Dir + end)
		if err != nil {
			return nil, err
		}
		defer f.Close() // the process has its own
		*to = f
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	NotePID(work, name, p.Pid())
	p.Client = control.NewClient(Socket(p.Dir))
	go func() {
		defer close(p.Done)
		p.Err = p.cmd.Wait()
	}()
	return p, nil
}

// NotePID tells the script of a process, should this program be killed.
func NotePID(work, name string, pid int) {
	_ = os.WriteFile(filepath.Join(work, name+".pid"), fmt.Appendln(nil, pid), 0o600)
}

// Socket is where a peer answers. It lies in its data directory as long as the path is short
// enough, which that of the trials is made to be.
func Socket(dir string) string { return filepath.Join(dir, "apoidea.sock") }

// Pid is the ID of its process.
func (p *Peer) Pid() int { return p.cmd.Process.Pid }

// Log is the file of what it says.
func (p *Peer) Log() string { return p.Dir + ".log" }

// Ready waits until the peer answers, for a minute at most; with joined set, until it is in its
// ring and tells where it listens.
func (p *Peer) Ready(ctx context.Context, joined bool) (*control.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		s, err := p.Client.Status(ctx, false)
		if err == nil && s.State != "" && (!joined || s.State != "joining" && len(s.Addrs) > 0) {
			return s, nil
		}
		select {
		case <-p.Done:
			return nil, p.Ended()
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is not ready: %w", filepath.Base(p.Dir), errors.Join(ctx.Err(), err))
		}
	}
}

// Ended says how a peer ended that should not have.
func (p *Peer) Ended() error {
	raw, _ := os.ReadFile(p.Log())
	return fmt.Errorf("%s ended: %w: %.200s", filepath.Base(p.Dir), p.Err, LastLine(raw))
}

// Addrs are the multiaddrs that a peer tells, as soon as it does.
func (p *Peer) Addrs(ctx context.Context) ([]string, error) {
	for range 600 {
		if raw, err := os.ReadFile(filepath.Join(p.Dir, "addrs")); err == nil && len(raw) > 0 {
			return strings.Fields(string(raw)), nil
		}
		if err := Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the peer tells no address")
}

// Signal sends a signal to the process.
func (p *Peer) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// Kill ends a peer as a crash would.
func (p *Peer) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.Done
	p.Client.Close()
	_ = os.Remove(p.Dir + ".pid")
}

// Leave has a peer hand over what it keeps, and waits for its end.
func (p *Peer) Leave() {
	p.Signal(syscall.SIGINT)
	select {
	case <-p.Done:
	case <-time.After(20 * time.Second):
	}
	p.Kill()
}

// Apoidea runs a command of the product to its end, and returns what it says, both ways.
func Apoidea(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "apoidea", args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("apoidea %s: %w: %s", strings.Join(args[:min(2, len(args))], " "), err, LastLine(out))
	}
	return string(out), err
}

// LastLine is the last line of what a process said.
func LastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// Sleep waits, unless ctx ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
