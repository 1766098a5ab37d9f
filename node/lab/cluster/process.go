package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/node/loop"
)

// process is the process of one peer, started by this or another command.
type process struct {
	peer int
	dir  string // data directory of the peer

	mu    sync.Mutex // guards child
	child *child     // nil if this process did not start it
}

// child is a peer process that this process started and has to reap.
type child struct {
	from int64          // start of its output in the log
	in   io.WriteCloser // of a held peer, else nil
	done chan struct{}  // closed when the process was reaped
}

// start starts the program. A held peer reads from this process.
func (p *process) start(binary string, args, environ []string, held bool) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer log.Close() // the process has its own descriptor
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	cmd := exec.Command(binary, args...) //nolint:noctx // a peer outlives this command
	cmd.Env = environ
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	ch := &child{from: from, done: make(chan struct{})}
	if held {
		if ch.in, err = cmd.StdinPipe(); err != nil {
			return fmt.Errorf("cluster: peer %d: %w", p.peer, err)
		}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cluster: peer %d: %w", p.peer, err)
	}
	if err := os.WriteFile(p.pidFile(), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		return errors.Join(fmt.Errorf("cluster: peer %d: %w", p.peer, err), cmd.Process.Kill(), cmd.Wait())
	}
	p.mu.Lock()
	p.child = ch
	p.mu.Unlock()
	go func() { // ends with the process it waits for
		_ = cmd.Wait() // the log contains the reason
		close(ch.done)
	}()
	return nil
}

func (p *process) log() string { return filepath.Join(p.dir, "peer.log") }

func (p *process) pidFile() string { return filepath.Join(p.dir, "peer.pid") }

// own returns the process if this command started it, else nil.
func (p *process) own() *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

// pid returns the ID of the process, 0 if it does not run.
func (p *process) pid() int {
	raw, err := os.ReadFile(p.pidFile())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}

func (p *process) runs() bool {
	if ch := p.own(); ch != nil {
		select {
		case <-ch.done:
			return false
		default:
			return true
		}
	}
	pid := p.pid()
	return pid != 0 && alive(pid, p.dir)
}

// lastWords returns the end of the log, of the current run if this command started it.
func (p *process) lastWords() string {
	f, err := os.Open(p.log())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	from := int64(0)
	if ch := p.own(); ch != nil {
		from = ch.from
	}
	const tail = 2000
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	raw := make([]byte, min(tail, max(0, end-from)))
	n, _ := f.ReadAt(raw, end-int64(len(raw))) // best effort
	lines := strings.Split(strings.TrimSpace(string(raw[:n])), "\n")
	return strings.TrimPrefix(strings.Join(lines[max(0, len(lines)-3):], " | "), "apoidea: ")
}

// signal sends a signal to the process if it runs. Without a process ID another command has stopped
// it, and its exit is not yet visible here.
func (p *process) signal(send func(*os.Process) error) error {
	pid := p.pid()
	if pid == 0 {
		return nil
	}
	found, err := os.FindProcess(pid)
	if err == nil {
		err = send(found)
	}
	if err != nil && p.runs() {
		return fmt.Errorf("cluster: peer %d: %w", p.peer, err)
	}
	return nil
}

// gone waits for the exit of the process.
func (p *process) gone(ctx context.Context) error {
	for p.runs() {
		if err := loop.Sleep(ctx, 30*time.Millisecond); err != nil {
			return fmt.Errorf("cluster: peer %d is still running: %w", p.peer, err)
		}
	}
	_ = os.Remove(p.pidFile())
	return nil
}

// kill kills the process and waits for its exit.
func (p *process) kill(ctx context.Context) error {
	if err := p.signal((*os.Process).Kill); err != nil {
		return err
	}
	return p.gone(ctx)
}

// killTime is the timeout for the exit of a killed process.
const killTime = 5 * time.Second

// stop terminates the process, and kills it if it still runs when ctx ends.
func (p *process) stop(ctx context.Context) error {
	if err := p.signal(terminate); err != nil {
		return err
	}
	if p.gone(ctx) == nil {
		return nil
	}
	kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	if err := p.kill(kill); err != nil && p.runs() {
		return err
	}
	return fmt.Errorf("cluster: peer %d did not stop in time and was killed: %s", p.peer, p.lastWords())
}
