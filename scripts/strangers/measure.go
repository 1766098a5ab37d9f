package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	libpeer "github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/node/services/politeness"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/scripts/harness"
)

// Between two looks at the heap, between two calls of the honest peer, and how long it waits for an
// answer.
const (
	lookEvery = 200 * time.Millisecond
	callEvery = 25 * time.Millisecond
	callTime  = 5 * time.Second
)

// measure makes an attack and looks on, until a fresh peer has joined and the time of an attack is
// over.
func (s *scene) measure(ctx context.Context, a *attack) *report {
	r := &report{name: a.name}
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	if _, r.before, err = s.heaps(ctx); err != nil {
		r.Blame("%v", err)
	}
	stop := s.attack(during, a, r)
	var watchers sync.WaitGroup
	begun := time.Now()
	watchers.Go(func() { s.watch(during, r) })
	watchers.Go(func() { s.honest.call(during, r) })
	control := new(report)
	watchers.Go(func() { s.control.call(during, control) })
	var pulse harness.Pulse
	watchers.Go(func() { pulse.Run(during) })
	if a.asks {
		watchers.Go(func() { s.peers[0].walked(during) })
	}
	if a.judge != nil {
		if err := harness.Try(func() { a.judge(during, s, r) }); err != nil {
			r.Blame("%v", err)
		}
	}
	fresh := s.join(during, r)
	_ = harness.Sleep(ctx, s.lasts()-time.Since(begun))
	cancel()
	watchers.Wait()
	r.stood, r.control = milliseconds(pulse.Most()), control.p99
	stop()
	if fresh != nil {
		fresh.Leave()
	}
	return r
}

// attack starts the process that makes an attack. What is returned ends it.
func (s *scene) attack(ctx context.Context, a *attack, r *report) (stop func()) {
	if a.make == nil {
		return func() {}
	}
	cmd := exec.CommandContext(s.ctx, os.Args[0], "--as", a.name, "--target", s.peers[0].addr, "--job", s.job, "--port", strconv.Itoa(s.port), "--pages", strconv.Itoa(s.pages))
	log, err := os.Create(filepath.Join(s.work, a.name+".log"))
	if err == nil {
		defer log.Close() // the process has its own
		cmd.Stdout, cmd.Stderr = log, log
		err = cmd.Start()
	}
	if err != nil {
		r.Blame("the attack: %v", err)
		return func() {}
	}
	harness.NotePID(s.work, a.name, cmd.Process.Pid)
	_ = harness.Sleep(ctx, s.lasts()/5) // until it is under way
	return func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			raw, _ := os.ReadFile(log.Name())
			r.Blame("the attack could not be made: %v: %.300s", err, raw)
		}
	}
}

// watch notes the largest heap.
func (s *scene) watch(ctx context.Context, r *report) {
	for ctx.Err() == nil {
		if heap, err := s.heap(ctx, 0); err == nil {
			r.heap = max(r.heap, heap)
		}
		_ = harness.Sleep(ctx, lookEvery)
	}
}

// heaps reads the heap three times: a single reading may fall on a burst of the crawl.
func (s *scene) heaps(ctx context.Context) (least, largest int64, err error) {
	for i := range 3 {
		heap, err := s.heap(ctx, 0)
		if err != nil {
			return 0, 0, err
		}
		if largest = max(largest, heap); i == 0 || heap < least {
			least = heap
		}
		if err := harness.Sleep(ctx, lookEvery/2); err != nil {
			return 0, 0, err
		}
	}
	return least, largest, nil
}

// walked asks the peer for the archives of the whole ring, as a user does.
func (p *peer) walked(ctx context.Context) {
	for ctx.Err() == nil {
		_, _ = p.Client.Archives(ctx, true)
		_ = harness.Sleep(ctx, lookEvery)
	}
}

// join starts a fresh peer that knows of the attacked one only, and says how long it took.
func (s *scene) join(ctx context.Context, r *report) *peer {
	s.fresh++
	begun := time.Now()
	within, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	p, err := s.startPeer(within, s.ctx, fmt.Sprintf("f%d", s.fresh), "--bootstrap", s.peers[0].addr)
	r.join = time.Since(begun).Seconds()
	if err != nil {
		r.Blame("a fresh peer has not joined within %v: %v", joinTime, err)
	}
	return p
}

// honest is a peer that asks small things, 40 times a second.
type honest struct {
	net *p2p.Net
	of  libpeer.ID
	ask *wire.Permits
}

// question is what it asks: it is handled as all questions between peers are. Of an address that
// another keeps everybody is told so.
var question = rpc.Method[*wire.Permits, *wire.PermitsReply]{Service: politeness.ServicePermits}

func newHonest(ctx context.Context, of string) *honest {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	info := harness.Must(libpeer.AddrInfoFromString(of))
	h := &honest{net: harness.Must(newNet(p2p.Config{})), of: info.ID}
	harness.Check(h.net.Meet(ctx, *info))
	for i := range byte(255) { // of networks for trials: those of one /24 are all kept by one peer
		h.ask = &wire.Permits{Prefix: []byte{198, 18, i, 1, 32}}
		if _, err := question.Call(ctx, h.net, h.of, h.ask); calls.CodeOf(err) == calls.CodeMoved {
			return h
		}
	}
	harness.Check(errors.New("no address is another's"))
	return nil
}

// newNet returns a peer's network, with a new identity unless the configuration has one.
func newNet(cfg p2p.Config) (_ *p2p.Net, err error) {
	if cfg.Identity == nil {
		if cfg.Identity, err = member.GenerateIdentity(1, nil); err != nil {
			return nil, err
		}
	}
	cfg.Network = ringName
	return p2p.New(cfg, slog.New(slog.DiscardHandler))
}

func (h *honest) close() { _ = h.net.Close() }

// call asks until ctx ends, and notes how long answers took.
func (h *honest) call(ctx context.Context, r *report) {
	tick := time.NewTicker(callEvery)
	defer tick.Stop()
	var took []float64
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			slices.Sort(took)
			if n := len(took); n > 0 {
				r.calls, r.p99 = n, took[min(n*99/100, n-1)]
			}
			return
		}
		begun := time.Now()
		within, cancel := context.WithTimeout(ctx, callTime)
		_, err := question.Call(within, h.net, h.of, h.ask)
		cancel()
		if ctx.Err() != nil {
			continue
		}
		took = append(took, milliseconds(time.Since(begun)))
		switch calls.CodeOf(err) {
		case calls.CodeMoved: // another keeps the permits of that address
		case calls.CodeBusy:
			r.busy++
		default:
			if err != nil {
				r.busy++
				r.Say("%v", err)
			}
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
