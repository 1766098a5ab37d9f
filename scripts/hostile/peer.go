package main

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// peer is a running process of the product.
type peer struct{ *harness.Peer }

// caFile is the name of the file with the certificate that peers trust.
const caFile = "ca.pem"

// start runs `apoidea run` with the arguments, and returns as soon as it answers.
func start(ctx context.Context, o *options, name string, args ...string) (*peer, error) {
	h, err := harness.Start(ctx, o.work, name, []string{"SSL_CERT_FILE=" + filepath.Join(o.work, caFile), "SSL_CERT_DIR=/nonexistent", fmt.Sprintf("GOMAXPROCS=%d", processors)},
		append([]string{"--dashboard", "off", "--log-level", o.logLevel, "--quiet", "--listen", "/ip4/127.0.0.1/tcp/0"}, args...)...)
	if err != nil {
		return nil, err
	}
	if _, err := h.Ready(ctx, false); err != nil {
		h.Kill()
		return nil, err
	}
	return &peer{h}, nil
}

// secondAfter is when the second Ctrl-C follows: a peer ignores one that comes sooner.
const secondAfter = 400 * time.Millisecond

// interrupt is Ctrl-C; it returns how long the peer took to end, without the time it waited for a
// processor that others had. With twice set a second one follows, from which on time counts: after
// the first the peer hands its records over.
func (p *peer) interrupt(within time.Duration, twice bool) (time.Duration, error) {
	p.Signal(syscall.SIGINT)
	if twice {
		time.Sleep(secondAfter)
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
			waited = max(waited, p.queued()-queued)
		}
		if time.Since(begun) > within {
			return within, fmt.Errorf("the peer has not ended %v after Ctrl-C", within)
		}
	}
}

// queued is how long a thread of the process waited so far for a processor that others had, if
// all of GOMAXPROCS are at work.
func (p *peer) queued() time.Duration { return harness.Queued(p.Pid()) / processors }

// processors is GOMAXPROCS of the peers.
const processors = 2

// askFor bounds the wait for one answer of a peer.
const askFor = 30 * time.Second

// asks returns how long the peer takes to answer a status request.
func (p *peer) asks(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	begun := time.Now()
	_, err := p.Client.Status(ctx, false)
	return time.Since(begun), err
}
