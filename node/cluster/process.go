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

// process is that of one peer, whoever started it.
type process struct {
	peer int
	dir  string // where the peer keeps its data

	mu    sync.Mutex // guards child
	child *child     // nil if this process did not start it
}

// child is a peer process that this process started and has to reap.
type child struct {
	from int64          // where its words begin in the log
	in   io.WriteCloser // of one that was held, else nil
	done chan struct{}  // closed when the process was reaped
}

// start runs the program, which ends when the peer does. One that is held reads from this process.
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
	cmd := exec.Command(binary, args...) //nolint:noctx // a peer outlives the command that starts it
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
		_ = cmd.Wait() // the log says how it ended
		close(ch.done)
	}()
	return nil
}

func (p *process) log() string { return filepath.Join(p.dir, "peer.log") }

func (p *process) pidFile() string { return filepath.Join(p.dir, "peer.pid") }

// own is the process if this one started it, else nil.
func (p *process) own() *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

// pid is the ID of the process, 0 if none is known to run.
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

// lastWords is the end of the log, of the present run if this process started it.
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
	n, _ := f.ReadAt(raw, end-int64(len(raw))) // what cannot be read is not said
	lines := strings.Split(strings.TrimSpace(string(raw[:n])), "\n")
	return strings.TrimPrefix(strings.Join(lines[max(0, len(lines)-3):], " | "), "apoidea: ")
}

// signal tells the process something, if it has not ended. Without a process ID another command has
// ended it, and its end is yet to be heard of here.
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

// gone waits until the process has ended.
func (p *process) gone(ctx context.Context) error {
	for p.runs() {
		if err := loop.Sleep(ctx, 30*time.Millisecond); err != nil {
			return fmt.Errorf("cluster: peer %d has not ended: %w", p.peer, err)
		}
	}
	_ = os.Remove(p.pidFile())
	return nil
}

// kill ends the process without warning, and returns when it is gone.
func (p *process) kill(ctx context.Context) error {
	if err := p.signal((*os.Process).Kill); err != nil {
		return err
	}
	return p.gone(ctx)
}

// killTime is how long the system may take to end a process that was killed.
const killTime = 5 * time.Second

// stop ends the process in good order; one that has not ended when ctx does is killed.
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
