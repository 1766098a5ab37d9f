package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

// peer is a running process of the product.
type peer struct {
	cmd    *exec.Cmd
	dir    string
	log    string // its standard error
	out    string // its standard output
	client *control.Client
	web    *http.Client // over the same socket
	done   chan struct{}
	err    error // valid once done is closed
}

func caFile(o *options) string { return filepath.Join(o.work, "ca.pem") }

// start runs `apoidea run` with the arguments, and returns as soon as the process is there.
func start(ctx context.Context, o *options, name string, args ...string) (*peer, error) {
	p := &peer{dir: filepath.Join(o.work, name), done: make(chan struct{})}
	p.log, p.out = p.dir+".log", p.dir+".out"
	p.cmd = exec.CommandContext(ctx, "apoidea", append([]string{"run", "--data-dir", p.dir, "--dashboard", "off", "--log-level", o.logLevel}, args...)...)
	p.cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+caFile(o), "SSL_CERT_DIR=/nonexistent", "GOMAXPROCS=2")
	for _, to := range []struct {
		file string
		w    *io.Writer
	}{{p.log, &p.cmd.Stderr}, {p.out, &p.cmd.Stdout}} {
		f, err := os.Create(to.file)
		if err != nil {
			return nil, err
		}
		defer f.Close() // the process has its own
		*to.w = f
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	_ = os.WriteFile(p.dir+".pid", fmt.Appendln(nil, p.cmd.Process.Pid), 0o600) // for the script, should this program be killed
	sock := filepath.Join(p.dir, "apoidea.sock")
	p.client = control.NewClient(sock)
	p.web = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sock)
	}}}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// ready waits until the peer answers.
func (p *peer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if s, err := p.client.Status(ctx, false); err == nil && s.State != "" {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("the peer ended: %w: %s", p.err, p.lastLine())
		case <-ctx.Done():
			return errors.New("the peer does not answer within a minute")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *peer) lastLine() string {
	raw, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return clip(lines[len(lines)-1])
}

func (p *peer) pid() int { return p.cmd.Process.Pid }

// echo is for how long a peer takes a second Ctrl-C for the first one, delivered twice.
const echo = 400 * time.Millisecond

// interrupt is Ctrl-C; it says how long the peer took to end, without what it waited for a
// processor that others had. With twice set there is a second one soon, from which on it counts:
// the first has a peer hand over what it keeps.
func (p *peer) interrupt(within time.Duration, twice bool) (time.Duration, error) {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	if twice {
		time.Sleep(echo)
		_ = p.cmd.Process.Signal(syscall.SIGINT)
	}
	begun, queued := time.Now(), p.queued()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	waited := time.Duration(0)
	for {
		select {
		case <-p.done:
			took := time.Since(begun)
			return took - min(took, waited), nil
		case <-tick.C:
			waited = max(waited, (p.queued()-queued)/processors)
		}
		if time.Since(begun) > within {
			return within, fmt.Errorf("the peer has not ended %v after Ctrl-C", within)
		}
	}
}

// kill ends a peer as a crash would.
func (p *peer) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	p.client.Close()
	p.web.CloseIdleConnections()
	_ = os.Remove(p.dir + ".pid")
}

// askFor bounds the wait for one answer of a peer.
const askFor = 30 * time.Second

// asks says how long the peer takes to answer status.
func (p *peer) asks(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	begun := time.Now()
	_, err := p.client.Status(ctx, false)
	return time.Since(begun), err
}

// goroutines asks the peer's metrics.
func (p *peer) goroutines(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://peer/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := p.web.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(raw) {
		if v, ok := bytes.CutPrefix(line, []byte("go_goroutines ")); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(string(v)), 64)
			return int(f), err
		}
	}
	return 0, errors.New("/metrics has no go_goroutines")
}

// addrs are the multiaddrs that a peer tells, as soon as it does.
func (p *peer) addrs(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if raw, err := os.ReadFile(filepath.Join(p.dir, "addrs")); err == nil && len(raw) > 0 {
			return strings.Fields(string(raw)), nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("the first peer tells no address")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// startStill starts a peer that has nothing to do. Asked at the same moments as those of a trial,
// it tells how slow the machine is.
func startStill(ctx context.Context, o *options) (*peer, error) {
	p, err := start(ctx, o, "still", "--quiet", "--network", "still", "--listen", "/ip4/127.0.0.1/tcp/0")
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}
