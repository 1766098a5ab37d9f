package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// peer is a running process of the product.
type peer struct {
	*harness.Peer
	web *http.Client // over its socket
}

func caFile(o *options) string { return filepath.Join(o.work, "ca.pem") }

// start runs `apoidea run` with the arguments, and returns as soon as it answers.
func start(ctx context.Context, o *options, name string, args ...string) (*peer, error) {
	h, err := harness.Start(ctx, o.work, name, []string{"SSL_CERT_FILE=" + caFile(o), "SSL_CERT_DIR=/nonexistent", "GOMAXPROCS=2"},
		append([]string{"--dashboard", "off", "--log-level", o.logLevel, "--quiet", "--listen", "/ip4/127.0.0.1/tcp/0"}, args...)...)
	if err != nil {
		return nil, err
	}
	if _, err := h.Ready(ctx, false); err != nil {
		h.Kill()
		return nil, err
	}
	return &peer{h, &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", harness.Socket(h.Dir))
	}}}}, nil
}

// echo is for how long a peer takes a second Ctrl-C for the first one, delivered twice.
const echo = 400 * time.Millisecond

// interrupt is Ctrl-C; it says how long the peer took to end, without what it waited for a
// processor that others had. With twice set there is a second one soon, from which on it counts:
// the first has a peer hand over what it keeps.
func (p *peer) interrupt(within time.Duration, twice bool) (time.Duration, error) {
	p.Signal(syscall.SIGINT)
	if twice {
		time.Sleep(echo)
		p.Signal(syscall.SIGINT)
	}
	begun, queued := time.Now(), p.queued()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	waited := time.Duration(0)
	for {
		select {
		case <-p.Done:
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

// askFor bounds the wait for one answer of a peer.
const askFor = 30 * time.Second

// asks says how long the peer takes to answer status.
func (p *peer) asks(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	begun := time.Now()
	_, err := p.Client.Status(ctx, false)
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

// startStill starts a peer that has nothing to do. Asked at the same moments as those of a trial,
// it tells how slow the machine is.
func startStill(ctx context.Context, o *options) (*peer, error) {
	return start(ctx, o, "still", "--network", "still")
}
